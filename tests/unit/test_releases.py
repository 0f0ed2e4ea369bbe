"""``make matrix``: the page says of every environment what was seen."""

from __future__ import annotations

import re

from releases import ENVIRONMENTS, MODES, PAGE
from support.soak import found


def test_the_page_shows_every_environment_without_a_failure() -> None:
    # `newest` has any number.
    shown = [
        line.strip("| ").split(" | ") for line in found("matrix", PAGE).splitlines() if line.startswith("| 4")
    ]
    for (spark, python, *results), environment in zip(shown, ENVIRONMENTS, strict=True):
        assert environment.spark == "newest" or spark.startswith(f"{environment.spark}.")
        assert python.startswith(f"{environment.python}.")
        assert len(results) == len(MODES)
        assert all(re.fullmatch(r"\d\d+ passed(, \d+ skipped)?", result) for result in results)


def test_the_page_shows_the_notebooks_on_every_release_of_spark() -> None:
    ran = re.findall(r"(\d+) of (\d+)(.*?) on ([\d.]+)[;.]", found("notebooks", PAGE))
    releases = {environment.spark for environment in ENVIRONMENTS} - {"newest"}
    assert len(ran) == len(releases) + 1
    assert {spark.rpartition(".")[0] for *_, spark in ran} >= releases
    assert all(passed == of and not failed for passed, of, failed, _ in ran)
