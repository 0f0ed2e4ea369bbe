"""Every fault at every moment in every mode loses nothing, and doubles nothing where it need not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from faults.engine import Engine
from faults.matrix import ACKED, FAULTS, JOURNAL_MOMENTS, MOMENTS, WINDOW, Cell, Outcome, run_cell
from support.brokers.fixtures import BrokerPool
from support.driven import MODES
from support.soak import found, put

from spark_stomp.brokers import dialect_named


def cells() -> list[Cell]:
    """The whole matrix."""
    everything = (Cell(*names) for names in itertools.product(FAULTS, MOMENTS, MODES))
    return [cell for cell in everything if cell.mode != "plain" or cell.moment not in JOURNAL_MOMENTS]


def pairs(*chosen: Cell) -> set[tuple[str, str]]:
    return {pair for cell in chosen for pair in itertools.combinations(cell, 2)}


def sample() -> list[Cell]:
    """A part in which every two of fault, moment and mode meet at least once."""
    chosen: list[Cell] = []
    while missing := pairs(*cells()) - pairs(*chosen):
        chosen.append(max(cells(), key=lambda cell: len(pairs(cell) & missing)))
    return chosen


def table(outcomes: Mapping[Cell, Outcome]) -> str:
    """The matrix as a Markdown table: lost / duplicates; a dash if a moment does not exist in a mode."""

    def line(*entries: str) -> str:
        return f"| {' | '.join(entries)} |\n"

    text = line("fault", "moment", *MODES) + line(*["---"] * (2 + len(MODES)))
    for row in itertools.product(FAULTS, MOMENTS):
        results = (outcomes.get(Cell(*row, mode)) for mode in MODES)
        text += line(*row, *(f"{one.lost} / {one.duplicates}" if one else "-" for one in results))
    return text


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[Cell, Outcome]]:
    """What came out; where that is the whole matrix, the README gets it."""
    results: dict[Cell, Outcome] = {}
    yield results
    if results.keys() == set(cells()):
        put("the matrix", table(results))


def check(cell: Cell, outcome: Outcome, *, stable_ids: bool = True) -> None:
    """Without stable ids a message that comes again is a second row; else only where nothing remembers it."""
    forgetful = not stable_ids and cell.fault == "broker lost"
    remembers = stable_ids and cell.mode != "plain"
    assert outcome.lost == 0
    assert outcome.duplicates <= (0 if remembers else ACKED if forgetful else WINDOW)


@pytest.mark.parametrize("cell", sample(), ids=str)
def test_a_sample(cell: Cell, broker_pool: BrokerPool, engine: Engine, tmp_path: Path) -> None:
    check(cell, run_cell(cell, broker_pool.get("devbroker"), engine, tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize("cell", cells(), ids=str)
def test_all(
    cell: Cell, broker_pool: BrokerPool, engine: Engine, tmp_path: Path, outcomes: dict[Cell, Outcome]
) -> None:
    outcome = run_cell(cell, broker_pool.get("devbroker"), engine, tmp_path)
    check(cell, outcome)
    outcomes[cell] = outcome


@pytest.mark.rule("7.7")
@pytest.mark.parametrize("mode", MODES)
def test_poison(mode: str, broker_pool: BrokerPool, engine: Engine, tmp_path: Path) -> None:
    """Malformed messages, as rows, are kept and known again like any other."""
    cell = Cell("everything killed", "after the sink wrote, before the commit log", mode)
    check(cell, run_cell(cell, broker_pool.get("devbroker"), engine, tmp_path, poison=True))


@pytest.mark.soak
@pytest.mark.broker
@pytest.mark.parametrize("name", ["activemq", "rabbitmq"])
@pytest.mark.parametrize("cell", sample(), ids=str)
def test_a_sample_on_a_real_broker(
    cell: Cell, name: str, broker_pool: BrokerPool, engine: Engine, tmp_path: Path
) -> None:
    stable_ids = dialect_named(name).id_header is not None
    check(cell, run_cell(cell, broker_pool.get(name), engine, tmp_path), stable_ids=stable_ids)


@pytest.mark.soak
@pytest.mark.broker
@pytest.mark.parametrize(
    "cell", [cell for cell in cells() if cell.mode != "plain" and cell.fault == "broker lost"], ids=str
)
def test_ids_of_the_producers_make_rabbitmq_exactly_once(
    cell: Cell, broker_pool: BrokerPool, engine: Engine, tmp_path: Path
) -> None:
    """Killed, it delivers again what it had confirmed as ACKed."""
    check(cell, run_cell(cell, broker_pool.get("rabbitmq"), engine, tmp_path, idHeader="x-id"))


def test_the_readme_has_the_matrix_that_is_declared() -> None:
    lines = [
        [entry.strip() for entry in line.strip("|").split("|")] for line in found("the matrix").splitlines()
    ]
    assert lines[0] == ["fault", "moment", *MODES]
    assert [line[:2] for line in lines[2:]] == [[fault, moment] for fault in FAULTS for moment in MOMENTS]
    results = {
        Cell(*line[:2], mode): result
        for line in lines[2:]
        for mode, result in zip(MODES, line[2:], strict=True)
    }
    assert {cell for cell, result in results.items() if result != "-"} == set(cells())
    for cell in cells():
        lost, duplicates = map(int, results[cell].split(" / "))
        check(cell, Outcome(lost, duplicates, 0))
