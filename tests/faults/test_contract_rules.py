"""Each rule of the delivery contract, broken in one place, and the test that notices.

Every entry of :mod:`support.contract_rules` is applied to a copy of the package; its test must fail there. A
rule whose test passes on the broken copy is not guarded by anything. The same is done with the entries of
:mod:`support.model_mutants`, which the model of a query must notice.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from support.broken import PACKAGE, Broken, run
from support.contract_rules import RULES
from support.model_mutants import MUTANTS

JOBS = 2

each_rule = pytest.mark.parametrize("broken", [*RULES, *MUTANTS], ids=str)


@each_rule
def test_the_code_that_keeps_the_rule_is_there(broken: Broken) -> None:
    source = (PACKAGE / broken.module).read_text(encoding="utf-8")
    compile(broken.apply(source), broken.module, "exec")


Outcomes = dict[Broken, "Future[subprocess.CompletedProcess[str]]"]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    """What each selected rule's test comes to where the rule is broken; some run while others are awaited."""
    folder = tmp_path_factory.mktemp("broken")
    selected = [
        item.callspec.params["broken"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == test_breaking_the_rule_breaks_its_test.__name__
    ]
    with ThreadPoolExecutor(JOBS) as pool:
        yield {
            broken: pool.submit(run, [broken.test], folder / str(number), broken)
            for number, broken in enumerate(selected)
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.soak
@pytest.mark.timeout(300)
@each_rule
def test_breaking_the_rule_breaks_its_test(broken: Broken, outcomes: Outcomes) -> None:
    done = outcomes[broken].result()
    assert done.returncode == 1, f"{broken.test} does not notice:\n{done.stdout[-2000:]}"
    assert "1 failed" in done.stdout


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_all_tests_pass_on_the_unbroken_copy(tmp_path: Path) -> None:
    """Also where the modules are written again from their syntax trees, as those that are broken are."""
    done = run(sorted({broken.test for broken in RULES}), tmp_path / "unbroken", *_unchanged())
    assert done.returncode == 0, done.stdout[-4000:]


def _unchanged() -> list[Broken]:
    """One change for each module and none in effect: what stands there stays."""
    modules = {broken.module: broken for broken in RULES}
    return [replace(one, new=one.old) for one in modules.values()]
