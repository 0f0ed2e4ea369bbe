"""How long the parts of ``make soak`` are, and what long runs write into pages."""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings

if TYPE_CHECKING:
    import pytest

# Environment variable without its SPARK_STOMP_SOAK_ -> what it is if nobody sets it. With these, everything
# takes about two hours on two cores. What is generated is new in every run, so that runs add up.
USUAL = {"SECONDS": 900, "ROUNDS": 20, "EXAMPLES": 4_000, "FUZZ_SECONDS": 300}
_LENGTHS = {name: int(os.environ.get(f"SPARK_STOMP_SOAK_{name}") or USUAL[name]) for name in USUAL}

SECONDS = _LENGTHS["SECONDS"]
"""Of each run of chaos: for its brokers together, without what starting and draining take."""
ROUNDS = _LENGTHS["ROUNDS"]
"""Kills of one driver."""
EXAMPLES = _LENGTHS["EXAMPLES"]
"""Of one property test."""
FUZZ_SECONDS = _LENGTHS["FUZZ_SECONDS"]
SEED = os.environ.get("SPARK_STOMP_SOAK_SEED") or secrets.token_hex(4)
"""Of the moments and faults that are chosen at random."""

README = Path(__file__).parents[1] / "faults" / "README.md"
_END = "<!-- end -->\n"


def long_property(usual: int, steps: int) -> settings:
    """For a model whose examples take long: ``usual`` of them, unless a profile asks for more.

    Each has up to ``steps`` steps.
    """
    few = settings.default is settings.get_profile("default")
    parent = settings(max_examples=usual) if few else settings.default
    return settings(parent, stateful_step_count=steps)


def found(name: str, page: Path = README) -> str:
    """What ``page`` has under this name, between its markers."""
    _, begin, rest = page.read_text().partition(f"<!-- begin: {name} -->\n")
    assert begin, f"{page} has no place for {name!r}"
    return rest.partition(_END)[0]


def put(name: str, text: str, page: Path = README) -> None:
    """Replace what ``page`` has under this name."""
    with page.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # against a run's other process
        begin = f"<!-- begin: {name} -->\n"
        whole = file.read().replace(begin + found(name, page), begin + text)
        file.seek(0)
        file.truncate()
        file.write(whole)


def show(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also while other tests run: pytest-xdist passes on nothing else of a process."""
    with capsys.disabled():
        sys.stderr.write(f"\n{text}\n")
