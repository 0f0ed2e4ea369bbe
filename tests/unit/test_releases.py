"""``make matrix``: the page says of every environment what was seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import releases
from releases import ENVIRONMENTS, MODES, PAGE, Environment
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


def reported(folder: Path, mode: str, cases: str, name: str = "4.9.1 3.14.2") -> None:
    folder.mkdir(exist_ok=True)
    counts = f'tests="{cases.count("<testcase")}" skipped="{cases.count("<skipped")}"'
    counts += f' errors="0" failures="{cases.count("<failure")}"'
    (folder / f"{mode}.xml").write_text(f'<all><testsuite name="{name}" {counts}>{cases}</testsuite></all>')


def test_what_is_made_of_the_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "FOLDER", tmp_path)
    monkeypatch.setattr(releases, "ENVIRONMENTS", [Environment("4.9", "3.14"), Environment("5.0", "3.14")])
    skipped = "<testcase><skipped/></testcase>"
    reported(tmp_path / "4.9-3.14", "classic", "<testcase/>" * 3 + skipped)
    ways = '<testcase name="test_runs[one-a_b]"/><testcase name="test_runs[two-a_b]"><failure/></testcase>'
    reported(tmp_path / "4.9-3.14", "notebooks", ways)
    assert releases.table().splitlines()[2:] == ["| 4.9.1 | 3.14.2 | 3 passed, 1 skipped | - |"]
    assert releases.notebooks() == "Notebooks that ran: 1 of 2, not two (a b) on 4.9.1.\n"
