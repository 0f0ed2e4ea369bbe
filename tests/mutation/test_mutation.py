"""The mutator itself, and the run over a sample of mutants."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.soak import MUTANTS

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from mutator import mutants_of  # noqa: E402
from run import EXPLAINED, chosen  # noqa: E402
from targets import TARGETS  # noqa: E402

SOURCE = '''
"""A docstring."""
SIZE = 12

def check(value: int) -> bool:
    """Says nothing."""
    if value < 3 and not value == 7:
        raise ValueError("left alone")
    return True
'''


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "module.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_mutants_change_one_thing_each(module: Path) -> None:
    mutants = mutants_of(module, "m")
    identities = [mutant.identity for mutant in mutants]
    assert "m:check: value < 3 -> value <= 3" in identities
    assert "m:check: not value == 7 -> value == 7" in identities
    assert "m:check: 3 -> 4" in identities
    assert "m:check: return True -> return None" in identities
    assert len(set(identities)) == len(identities)
    sources = [mutant.source() for mutant in mutants]
    assert len(set(sources)) == len(sources)
    for source in sources:
        compile(source, "m", "exec")
        assert abs(source.count("\n") - sources[0].count("\n")) <= 1
        assert "SIZE = 12" in source
        assert "left alone" in source


def test_mutants_are_the_same_each_time(module: Path) -> None:
    assert mutants_of(module, "m") == mutants_of(module, "m")


@pytest.mark.parametrize("target", TARGETS)
def test_targets_exist(target: str) -> None:
    assert (HERE.parents[1] / "spark_stomp" / target).is_file()
    for tests in TARGETS[target]:
        assert (HERE.parent / tests.partition("::")[0]).is_file()


def test_what_is_explained_exists() -> None:
    assert EXPLAINED.keys() <= {mutant.identity for mutant in chosen(list(TARGETS), 0, 1)}


@pytest.mark.parametrize("seed", [1, 2])
def test_a_sample_is_part_of_every_larger_one(seed: int) -> None:
    small, large = (chosen(["protocol/grammar.py"], count, seed) for count in (10, 20))
    assert len(small) == 10
    assert small == large[:10]
    assert large != chosen(["protocol/grammar.py"], 20, seed + 1)


@pytest.mark.soak
def test_every_survivor_is_explained() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), "--count", str(MUTANTS), "--seed", "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=7000,
    )
    assert done.returncode == 0, done.stdout + done.stderr
