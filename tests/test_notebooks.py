"""The notebooks run from beginning to end, and show what their text says; they are kept with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from run_notebooks import NOTEBOOKS, Shown, execute, read, run_as_script, shown
from support.pages import README

# What each prints, among other things, on every run.
PRINTS = {
    "01_quickstart.ipynb": [
        *(f"|{number:4}|{number / 4:5}|   NULL|" for number in range(9)),
        "|NULL| NULL|order 9|",
        "every sale is a row: True",
        "every message is acknowledged: True",
        "3 seen, 3 still there",
        "[STOMP_OPTIONS_INVALID]",
        "did you mean idleTimeout?",
    ],
    "02_exactly_once.ipynb": [
        "killed in the middle of batch 3: True",
        "orders that are not acknowledged: True",
        "Delta has batch 3 already: left out",
        "6000 rows, 6000 different orders, at most 1 of each",
        "redelivered by the broker: True",
    ],
    "03_event_time.ipynb": [
        "published while the query was away, and kept: True",
        "kept after the second run: 0",
        "all movements that came in time are counted: True",
        "some of those that came too late are left out: True",
    ],
    "04_rail_feed.ipynb": [
        "topics: 3 - connections: 1",
        "the client 'ada@example.com' is already connected",
        "kept for the subscription at 06:37: 35",
        "expired among them, which nobody gets: 23",
        *(f"|      {operator}|2026-03-02 06:24:00|2026-03-02 06:33:00|" for operator in ("XA", "XB", "XC")),
        "sent, but not expired, and received: True",
        "|2026-03-02 06:00:00|      90|    0.97|",
    ],
}
# Of a file, so that it is shown at once.
MOST_BYTES = 300_000

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)


def test_each_has_its_lines() -> None:
    assert sorted(PRINTS) == [path.name for path in NOTEBOOKS]


def jupyter(path: Path, folder: Path, request: pytest.FixtureRequest) -> Shown:
    return shown(execute(path, folder, {}))


def jupyter_over_connect(path: Path, folder: Path, request: pytest.FixtureRequest) -> Shown:
    return shown(execute(path, folder, request.getfixturevalue("connect_server").client))


def script_over_connect(path: Path, folder: Path, request: pytest.FixtureRequest) -> Shown:
    return run_as_script(path, folder, request.getfixturevalue("connect_server").client)


# One notebook in one way: as on a cluster. All in every way are for soak, and `make matrix`.
CASES = [
    pytest.param(
        path,
        way,
        id=f"{path.name}-{way.__name__}",
        marks=[] if (number, way) == (1, script_over_connect) else [pytest.mark.soak],
    )
    for number, path in enumerate(NOTEBOOKS)
    for way in (jupyter, jupyter_over_connect, script_over_connect)
]


@pytest.mark.spark
@pytest.mark.timeout(420)
@pytest.mark.parametrize(("path", "way"), CASES)
def test_runs(
    path: Path,
    way: Callable[[Path, Path, pytest.FixtureRequest], Shown],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    printed, pictures = way(path, tmp_path, request)
    assert [line for line in PRINTS[path.name] if line not in printed] == []
    assert pictures
    # Nothing is left where a reader keeps the notebook.
    assert list(tmp_path.iterdir()) == []


@each_notebook
def test_runs_where_it_is_opened(path: Path) -> None:
    # What works in this Jupyter alone, and what ends or replaces a session that belongs to others.
    cells = read(path).cells
    assert cells[0].source.startswith("# ")
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    assert re.findall(r"spark\.stop\(|display_id|\.master\(|sparkContext|^[%!]", code, re.MULTILINE) == []


@each_notebook
def test_is_kept_as_it_ran(path: Path) -> None:
    # `python tools/run_notebooks.py` runs them and writes what they show.
    notebook = read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert [output for cell in code for output in cell.outputs if output.output_type == "error"] == []
    printed, pictures = shown(notebook)
    assert [line for line in PRINTS[path.name] if line not in printed] == []
    assert pictures


@each_notebook
def test_is_small_and_says_nothing_of_the_machine(path: Path) -> None:
    assert path.stat().st_size < MOST_BYTES
    lines = shown(read(path)).printed.splitlines()
    assert [line for line in lines if re.search(r"/(tmp|root|home|Users)/", line)] == []


def test_the_first_one_has_the_quickstart_of_the_readme() -> None:
    # From the first rows on: the broker of the notebook is reached from other machines too.
    section = README.read_text(encoding="utf-8").split("## Quickstart\n", 1)[1]
    found = re.search(r"```python\n.*?(# Rows become messages\..*?)```", section, re.DOTALL)
    assert found
    assert found[1].rstrip() in [cell.source for cell in read(NOTEBOOKS[0]).cells]
