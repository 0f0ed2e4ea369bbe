"""``make matrix``: the table of what was seen has every environment."""

from __future__ import annotations

from support.releases import ENVIRONMENTS, MODES, PAGE
from support.soak import found


def test_the_page_shows_every_environment_without_a_failure() -> None:
    lines = [
        line.strip("| ").split(" | ") for line in found("matrix", PAGE).splitlines() if line.startswith("| 4")
    ]
    # The environments in their order, each with both modes; "newest" has any number.
    shown = [(spark, ".".join(python.split(".")[:2]), mode) for spark, python, mode, *_ in lines]
    assert [(python, mode) for _, python, mode in shown] == [
        (e.python, mode) for e in ENVIRONMENTS for mode in MODES
    ]
    for (spark, _, _), environment in zip(shown[:: len(MODES)], ENVIRONMENTS, strict=True):
        assert environment.spark == "newest" or spark.startswith(f"{environment.spark}.")
    assert {failed for *_, failed, _ in lines} <= {"0", "-"}
