"""``python -m benchmarks.report`` writes RESULTS.md and the plots from the results of all benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.plots import draw
from benchmarks.results import FOLDER, Case, Goal, Results

__all__ = ["render"]

PAGE = Path(__file__).parent / "RESULTS.md"
PLOTS = Path(__file__).parent / "plots"

# In the order of the page: the benchmark, and what its section begins with.
_TITLES = {
    "real": "Real brokers",
    "latency": "Latency",
    "destinations": "Many destinations of one query",
    "memory": "Memory",
    "kafka": "Beside Spark's Kafka source",
    "costs": "Cost of messages, headers, receivers and un-acked messages",
    "sink": "The sink beside a bare socket",
    "codec": "The codec beside stomp.py",
    "encode": "The sink's encoder beside stomp.py",
}
_HEAD = """# Results of the benchmarks

Written by `python -m benchmarks.report` from the files in `results`. [README.md](README.md) says what was
measured and how to read it. A figure is the median of its rounds, with the smallest and the largest below it.
A ratio (`x`) is the median of the ratios within each round to the candidate that the table names.
"""


def main() -> None:
    found = {file.stem: Results.load(file) for file in sorted(FOLDER.glob("*.json"))}
    if not found:
        raise SystemExit(f"there are no results in {FOLDER}: run a benchmark first")
    PLOTS.mkdir(exist_ok=True)
    plots = draw(found, PLOTS)
    PAGE.write_text(render([found[name] for name in [*_TITLES, *found] if name in found], plots))
    print(f"{PAGE}, {', '.join(str(plot) for plot in plots)}")


def render(results: Iterable[Results], plots: Sequence[Path] = ()) -> str:
    """The page."""
    parts = [_HEAD, *(f"![{plot.stem}]({plot.parent.name}/{plot.name})\n" for plot in plots)]
    for one in dict.fromkeys(results):
        parts += [
            f"## {_TITLES.get(one.benchmark, one.benchmark)}\n",
            f"{_origin(one)}\n",
            *_goals(one.cases),
        ]
        for section in dict.fromkeys(case.section for case in one.cases):
            cases = [case for case in one.cases if case.section == section]
            parts += [f"### {section}\n", *_notes(cases), *_section(cases)]
    return "\n".join(parts)


def _origin(results: Results) -> str:
    rounds = sorted((one for case in results.cases for one in case.rounds), key=lambda one: one.at)
    span = f"{rounds[0].at[:16]} to {rounds[-1].at[:16]} UTC" if rounds else "no rounds"
    code = ", then ".join(dict.fromkeys(one.code for one in rounds))
    return (
        "; ".join([span, *(f"{name} {what}" for name, what in results.machine.items())]) + f"; code {code}."
    )


def _goals(cases: Sequence[Case]) -> list[str]:
    rows = [row for case in cases for goal in case.goals if (row := _goal(case, goal))]
    head = ["case", "what", "is", "goal", "rounds", "met"]
    return [_table(head, rows)] if rows else []


def _goal(case: Case, goal: Goal) -> list[str] | None:
    what = goal.candidate if goal.figure == "value" else f"{goal.figure}, {goal.candidate}"
    if goal.reference is None:
        found = case.values(goal.candidate, goal.figure)
    else:
        found = case.ratios(goal.candidate, goal.reference, goal.figure)
        what += f" by {goal.reference}"
    if not found:
        return None
    middle = statistics.median(found)
    shown = _number(middle) if goal.reference is None else f"{middle:.2f}"
    bound = f"at least {goal.at_least:g}" if goal.at_least is not None else f"at most {goal.at_most:g}"
    met = "yes" if goal.met(middle) else "**no**"
    return [f"{case.section}, {case.name}", what, shown, bound, str(len(found)), met]


def _notes(cases: Sequence[Case]) -> list[str]:
    return [f"{note}\n" for note in dict.fromkeys(case.note for case in cases) if note]


def _section(cases: Sequence[Case]) -> list[str]:
    """A table of the values, and one of the further figures if there are any."""
    candidates = list(dict.fromkeys(name for case in cases for name in case.candidates))
    (first, *others) = dict.fromkeys((case.unit, case.reference) for case in cases)
    assert not others, "the cases of one section have the same unit and reference"
    unit, reference = first
    head = [unit + (f" (x {reference})" if reference else ""), *candidates, "rounds"]
    rows = [
        [case.name, *(_value(case, name) for name in candidates), str(len(case.rounds))] for case in cases
    ]
    return [_table(head, rows), *_further(cases)]


def _value(case: Case, candidate: str) -> str:
    values = case.values(candidate)
    if not values:
        return "-"
    text = _number(statistics.median(values))
    ratios = case.ratios(candidate)
    if ratios and candidate != case.reference:
        text += f" ({statistics.median(ratios):.2f} x)"
    if len(values) > 1:
        text += f"<br>{_number(min(values))} to {_number(max(values))}"
    return text


def _further(cases: Sequence[Case]) -> list[str]:
    """Medians of the figures beside ``value``."""
    rows: list[tuple[str, str, dict[str, float]]] = []
    for case in cases:
        for candidate in case.candidates:
            names = dict.fromkeys(key for one in case.rounds for key in one.figures.get(candidate, {}))
            names.pop("value", None)
            medians = {name: statistics.median(case.values(candidate, name)) for name in names}
            if medians:
                rows.append((case.name, candidate, medians))
    columns = list(dict.fromkeys(name for *_, medians in rows for name in medians))
    cells = [
        [name, candidate, *(_number(medians[key]) if key in medians else "-" for key in columns)]
        for name, candidate, medians in rows
    ]
    return [_table(["case", "candidate", *columns], cells)] if rows else []


def _number(value: float) -> str:
    """Three significant digits or all digits before the point, whichever are more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    main()
