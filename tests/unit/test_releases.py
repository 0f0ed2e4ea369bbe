"""``make matrix``: what its table says of runs, of skips, and of environments that cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import releases
from support.findings import found
from support.releases import ENVIRONMENTS, MODES, PAGE, Environment, Result, table

OLD = Environment("4.0", "3.10")
REPORT = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"><failure message="no"/></testcase>
<testcase name="c"><skipped message="not here"/></testcase><testcase name="d"><error message="no"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(releases, "FOLDER", tmp_path)
    return tmp_path


def test_a_report_is_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "run", lambda *command: "4.0.5 3.10.13\n")
    report = folder / "report.xml"
    report.write_text(REPORT, encoding="utf-8")
    result = releases.result_of(report, OLD, "classic", 9)
    assert result == Result("4.0.5", "3.10.13", "classic", 1, 2, 9, {"not here": 1})
    lines = table([result]).splitlines()
    assert "| 4.0.5 | 3.10.13 | classic | 1 | 1 | 2 | 9 |" in lines
    assert lines[-1] == "- not here: 1 on 4.0.5 classic"


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
