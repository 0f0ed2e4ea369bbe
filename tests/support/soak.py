"""How long the parts of ``make soak`` are, and what came of each."""

from __future__ import annotations

import os
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pytest import TestReport

# Environment variable without its SPARK_STOMP_SOAK_ -> what it is if nobody sets it. With these, everything
# takes about two hours on two cores. What is generated is new in every run, so that runs add up.
USUAL = {"SECONDS": 900, "ROUNDS": 20, "EXAMPLES": 4_000, "FUZZ_SECONDS": 300}


def _length(name: str) -> int:
    return int(os.environ.get(f"SPARK_STOMP_SOAK_{name}") or USUAL[name])


SECONDS = _length("SECONDS")
"""Of each run of chaos: for its brokers together, without what starting and draining take."""
ROUNDS = _length("ROUNDS")
"""Kills of one driver."""
EXAMPLES = _length("EXAMPLES")
"""Of one property test."""
FUZZ_SECONDS = _length("FUZZ_SECONDS")
SEED = os.environ.get("SPARK_STOMP_SOAK_SEED") or secrets.token_hex(4)
"""Of the moments and faults that are chosen at random."""


def outcomes(stats: Mapping[str, Iterable[Any]]) -> list[str]:
    """A line for each file with tests: whether it passed, how many did what, and the time of all together.

    ``stats`` are those of pytest's terminal reporter: category -> reports, with "" for what is not counted.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    seconds: defaultdict[str, float] = defaultdict(float)
    for category, reports in stats.items():
        for report in reports:
            if isinstance(report, TestReport):
                part = report.nodeid.partition("::")[0]
                seconds[part] += report.duration
                counts[part][category] += bool(category)
    return [_line(part, counts[part], round(seconds[part])) for part in sorted(counts)]


def _line(part: str, count: Counter[str], seconds: int) -> str:
    verdict = "FAILED" if count["failed"] or count["error"] else "passed" if count["passed"] else "skipped"
    told = ", ".join(f"{number} {category}" for category, number in sorted(count.items()) if number)
    return f"{verdict:8}{part}: {told}; {seconds // 60} min {seconds % 60} s"
