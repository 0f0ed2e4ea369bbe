"""``python -m benchmarks.report`` writes RESULTS.md and the plots from the results of all benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.plots import draw
from benchmarks.results import FOLDER, Case, Goal, Results

PAGE = Path(__file__).parent / "RESULTS.md"
PLOTS = Path(__file__).parent / "plots"

# In the order of the page: the benchmark, and the heading of its section.
_TITLES = {
    "typed": "From a queue to typed rows in a table",
    "real": "Real brokers",
    "latency": "Latency",
    "destinations": "Many destinations of one query",
    "memory": "Memory",
    "costs": "Cost of messages, headers, receivers and un-acked messages",
    "sink": "The sink beside a bare socket",
    "codec": "The codec beside stomp.py",
    "encode": "The sink's encoder beside stomp.py",
}
# Whose tables of rates are on the page; of the others it has the goals alone.
_WITH_RATES = {"typed", "real", "latency"}
_HEAD = """# Results of the benchmarks

Written by `python -m benchmarks.report`. [README.md](README.md) says what was measured. A figure is the
median of its rounds, with the smallest and the largest below it. A ratio (`x`) is the median of the ratios
within each round to the candidate that the table names. Seconds by process, batches and all else that was
measured are in the files that `make bench` leaves in `results`.
"""


def main() -> None:
    found = {file.stem: Results.load(file) for file in sorted(FOLDER.glob("*.json"))}
    if not found:
        raise SystemExit(f"there are no results in {FOLDER}: run a benchmark first")
    PLOTS.mkdir(exist_ok=True)
    plots = draw(found, PLOTS)
    PAGE.write_text(
        render([found[name] for name in dict.fromkeys([*_TITLES, *found]) if name in found], plots)
    )
    print(f"{PAGE}, {', '.join(str(plot) for plot in plots)}")


def render(results: Sequence[Results], plots: Sequence[Path] = ()) -> str:
    """The page."""
    shown = [f"![{plot.stem}]({plot.parent.name}/{plot.name})\n" for plot in plots]
    parts = [_HEAD, _missed(results), *shown]
    for one in results:
        if one.benchmark in _WITH_RATES:
            goals = _goals(_rows_of_goals(one.cases))
            parts += [f"## {_TITLES[one.benchmark]}\n", f"{_origin(one)}\n", *goals]
            for section in dict.fromkeys(case.section for case in one.cases):
                cases = [case for case in one.cases if case.section == section]
                parts += [f"### {section}\n", _section(cases)]
    others = [one for one in results if one.benchmark not in _WITH_RATES]
    pairs = [(_TITLES.get(one.benchmark, one.benchmark), _rows_of_goals(one.cases)) for one in others]
    rows = [[f"{title}: {row[0]}", *row[1:]] for title, goals in pairs for row in goals]
    if rows:
        origins = dict.fromkeys(map(_origin, others))
        parts += ["## Other goals\n", *(f"{text}\n" for text in origins), *_goals(rows)]
    return "\n".join(parts)


def _missed(results: Iterable[Results]) -> str:
    """How many goals are missed, in all and of those for the rates of real brokers."""
    met = {one.benchmark: [row[-1] == "yes" for row in _rows_of_goals(one.cases)] for one in results}
    every = [one for found in met.values() for one in found]
    real = met.get("real", [])
    return (
        f"**Missed: {every.count(False)} of {len(every)} goals, of those for reading rates from real brokers "
        f"{real.count(False)} of {len(real)}.**\n"
    )


def _origin(results: Results) -> str:
    """The day, the machine and the code."""
    rounds = sorted((one for case in results.cases for one in case.rounds), key=lambda one: one.at)
    day = rounds[0].at[:10] if rounds else "no rounds"
    code = ", then ".join(dict.fromkeys(one.code for one in rounds))
    return "; ".join([day, *(f"{name} {what}" for name, what in results.machine.items()), f"code {code}."])


def _rows_of_goals(cases: Sequence[Case]) -> list[list[str]]:
    return [row for case in cases for goal in case.goals if (row := _goal(case, goal))]


def _goals(rows: Sequence[Sequence[str]]) -> list[str]:
    return [_table(["case", "what", "is", "goal", "rounds", "met"], rows)] if rows else []


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


def _section(cases: Sequence[Case]) -> str:
    """A table of the values."""
    candidates = list(dict.fromkeys(name for case in cases for name in case.candidates))
    (first, *others) = dict.fromkeys((case.unit, case.reference) for case in cases)
    assert not others, "the cases of one section have the same unit and reference"
    unit, reference = first
    head = [unit + (f" (x {reference})" if reference else ""), *candidates, "rounds"]
    rows = [
        [case.name, *(_value(case, name) for name in candidates), str(len(case.rounds))] for case in cases
    ]
    return _table(head, rows)


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


def _number(value: float) -> str:
    """Three significant digits or all digits before the point, whichever are more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    main()
