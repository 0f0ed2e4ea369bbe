"""What the benchmarks found: one JSON file for each, to which every run adds rounds.

A case has candidates that were measured in turn, round by round: figures of one round were taken in the same
minute on the same machine, so ratios are made within a round. ``report.py`` makes the page and the plots.

    results = Results("real")
    case = Case("rabbitmq", "235 B, 1 receiver", "messages/s", reference="bare socket")
    results.add(case, {"bare socket": {"value": 26_000}, "default": {"value": 15_000, "broker s": 31.2}})
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import spark_stomp

FOLDER = Path(__file__).parent / "results"
_PACKAGES = ("spark-stomp", "pyspark", "pyarrow", "numpy", "stomp.py")

Figures = dict[str, float]
"""What one candidate did in one round: ``value`` in the unit of the case, and further figures by name."""

Series = dict[str, list[list[float]]]
"""Figures over time, by name: pairs of numbers."""


@dataclass(frozen=True)
class Goal:
    """A figure of ``candidate`` is at least or at most so much.

    With ``reference``, a candidate too, it is first divided by the same figure of that one.
    """

    candidate: str
    reference: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    figure: str = "value"

    def met(self, found: float) -> bool:
        low, high = self.at_least, self.at_most
        return (low is None or found >= low) and (high is None or found <= high)


@dataclass(frozen=True)
class Round:
    """Figures by candidate, taken one after another. ``at`` is when it ended, UTC; ``code`` is a digest of
    the package's files."""

    at: str
    code: str
    figures: dict[str, Figures]
    series: Series = field(default_factory=dict)


@dataclass
class Case:
    """One line of a table. ``section`` names the table, ``reference`` what the other candidates are compared
    with, in ``unit``. ``note`` says what else a reader has to know, once for the section."""

    section: str
    name: str
    unit: str
    reference: str | None = None
    goals: list[Goal] = field(default_factory=list)
    note: str = ""
    rounds: list[Round] = field(default_factory=list)

    @property
    def candidates(self) -> list[str]:
        """All that were measured, in the order of their first round."""
        return list(dict.fromkeys(name for one in self.rounds for name in one.figures))

    def values(self, candidate: str, figure: str = "value") -> list[float]:
        """This figure of the candidate in all rounds that have it."""
        found = (one.figures.get(candidate, {}).get(figure) for one in self.rounds)
        return [value for value in found if value is not None]

    def ratios(self, candidate: str, reference: str | None = None, figure: str = "value") -> list[float]:
        """Candidate by reference, in each round that has this figure of both."""
        other = reference or self.reference or ""
        pairs = ((one.figures.get(candidate, {}), one.figures.get(other, {})) for one in self.rounds)
        return [own[figure] / base[figure] for own, base in pairs if figure in own and figure in base]


class Results:
    """The file of one benchmark. Rounds of another machine or of other versions are not mixed in: the file
    begins anew then."""

    def __init__(
        self, benchmark: str, folder: Path = FOLDER, machine: Mapping[str, str] | None = None
    ) -> None:
        self.benchmark = benchmark
        self.machine = dict(describe_machine() if machine is None else machine)
        self._file = folder / f"{benchmark}.json"
        self.cases: list[Case] = []
        if self._file.exists():
            found = self.load(self._file)
            if found.machine == self.machine:
                self.cases = found.cases

    @classmethod
    def load(cls, file: Path) -> Results:
        """What the file says, whatever machine it is of."""
        text = json.loads(file.read_text())
        results = cls.__new__(cls)
        results.benchmark, results.machine, results._file = text["benchmark"], text["machine"], file
        results.cases = [_case(case) for case in text["cases"]]
        return results

    def forget(self, section: str, name: str) -> None:
        """Drop the rounds of a case, to begin anew."""
        self.cases = [case for case in self.cases if (case.section, case.name) != (section, name)]

    def measure(
        self,
        case: Case,
        arguments: argparse.Namespace,
        measure: Callable[[], tuple[dict[str, Figures], Series]],
        also: Mapping[str, Case] | None = None,
    ) -> None:
        """Measure, keep and print as many rounds as the arguments of :func:`add_arguments` say.

        ``also`` are cases that show another figure of the same rounds, by its name.
        """
        also = also or {}
        if arguments.fresh:
            for one in (case, *also.values()):
                self.forget(one.section, one.name)
        for _ in range(arguments.rounds):
            figures, series = measure()
            self.add(case, figures, series)
            for name, other in also.items():
                self.add(other, {key: {"value": one[name]} for key, one in figures.items() if name in one})
            print(describe_round(case, figures), flush=True)

    def add(self, case: Case, figures: dict[str, Figures], series: Series | None = None) -> Case:
        """Add a round to the case with this section and name, and write the file; returns that case."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        same = (one for one in self.cases if (one.section, one.name) == (case.section, case.name))
        known = next(same, None)
        if known is None:
            self.cases.append(known := replace(case, rounds=[]))
        else:
            known.unit, known.reference = case.unit, case.reference
            known.goals, known.note = case.goals, case.note
        known.rounds.append(Round(now, _code(), figures, series or {}))
        self._write()
        return known

    def _write(self) -> None:
        self._file.parent.mkdir(exist_ok=True)
        cases = [asdict(case) for case in self.cases]
        text = {"benchmark": self.benchmark, "machine": self.machine, "cases": cases}
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(text, indent=1) + "\n")
        new.replace(self._file)


def add_arguments(parser: argparse.ArgumentParser, rounds: int | None = 1) -> None:
    """What all benchmarks take. ``rounds`` is the default; None if it depends on the case."""
    parser.add_argument("--rounds", type=int, default=rounds, help="of each case")
    parser.add_argument("--fresh", action="store_true", help="forget earlier rounds of the same cases")


def describe_machine() -> dict[str, str]:
    """Processor, memory, system and versions."""
    described = {
        "processor": f"{os.cpu_count()} x {_processor()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
    }
    for package in _PACKAGES:
        try:
            described[package] = version(package)
        except PackageNotFoundError:
            continue
    return described


def describe_round(case: Case, figures: Mapping[str, Figures]) -> str:
    """What a round found, for a terminal."""
    lines = [f"{case.section}, {case.name}"]
    base = figures.get(case.reference or "", {}).get("value")
    for candidate, found in figures.items():
        value = found.get("value")
        main = "" if value is None else f"{value:,.6g} {case.unit}"
        ratio = f"{value / base:6.2f} x" if base and value is not None else ""
        more = ", ".join(f"{name} {value:,.6g}" for name, value in found.items() if name != "value")
        lines.append(f"  {candidate:24}{main:>25} {ratio}  {more}".rstrip())
    return "\n".join(lines)


@cache
def _code() -> str:
    files = sorted(Path(spark_stomp.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def _case(text: dict[str, Any]) -> Case:
    rounds = [Round(**one) for one in text.pop("rounds")]
    goals = [Goal(**one) for one in text.pop("goals")]
    return Case(**text, goals=goals, rounds=rounds)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
