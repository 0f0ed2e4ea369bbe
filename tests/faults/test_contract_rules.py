"""Each point of the delivery contract, broken in one function, and the tests that are marked with it.

Every entry of :mod:`support.mutants` is applied to a copy of the package. There one of the tests of its point
must fail, or the class of property/test_log.py that it names. What no test notices is not guarded.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from support.broken import PACKAGE, Mutant, run
from support.contract import marked
from support.mutants import CONTRACT, MODEL

JOBS = 2
EACH = [*CONTRACT, *MODEL]
each_mutant = pytest.mark.parametrize(("guard", "mutant"), EACH, ids=[f"{who} {how}" for who, how in EACH])


@each_mutant
def test_there_is_something_to_break(guard: str, mutant: Mutant) -> None:
    compile(mutant.apply((PACKAGE / mutant.module).read_text(encoding="utf-8")), mutant.module, "exec")


def guards_of(guard: str) -> list[str]:
    tests = [test for test, points in marked().items() if guard in points]
    return tests or [f"property/test_log.py::{guard}"]


Outcomes = dict[tuple[str, Mutant], "Future[subprocess.CompletedProcess[str]]"]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    """What the tests of each selected mutant come to; some run while others are awaited."""
    folder = tmp_path_factory.mktemp("broken")
    selected = [
        (item.callspec.params["guard"], item.callspec.params["mutant"])
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == test_a_test_notices_what_is_broken.__name__
    ]
    with ThreadPoolExecutor(JOBS) as pool:
        yield {
            (guard, mutant): pool.submit(run, guards_of(guard), folder / str(number), mutant)
            for number, (guard, mutant) in enumerate(selected)
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.soak
@pytest.mark.timeout(600)
@each_mutant
def test_a_test_notices_what_is_broken(guard: str, mutant: Mutant, outcomes: Outcomes) -> None:
    done = outcomes[guard, mutant].result()
    assert done.returncode == 1, f"nothing of {guard} notices:\n{done.stdout[-2000:]}"
    assert "1 failed" in done.stdout


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_all_tests_pass_on_the_unbroken_copy(tmp_path: Path) -> None:
    """Those below Spark and brokers, which are the first to notice."""
    tests = [test for test, points in marked().items() if points and test.startswith(("unit", "integration"))]
    done = run(tests, tmp_path / "unbroken")
    assert done.returncode == 0, done.stdout[-4000:]
