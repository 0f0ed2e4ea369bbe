"""The plots of the pages: typed rows, throughput of real brokers, and memory and latency over a long run.

Each says in its title what it shows, and below when, with which versions and on what machine it was measured.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.results import Case, Results

SHOWN = "235 B"
"""The case of ``real`` that the first plot shows, for each broker."""
_BARS = {"bare socket": "#b9bec6", "receiver alone": "#7fa8d1", "default": "#2f6db0", "tuned": "#123b66"}
ROW = "us a row"
"""The unit of the cases of ``typed`` that its plot shows."""
_ROWS = {
    "Kafka + from_json": "#b9bec6",
    "typed source": "#2f6db0",
    "from_json": "#e0a878",
    "rescue_json": "#c4622d",
}
_LABELS = {
    "default": "Spark, default options",
    "tuned": "Spark, tuned options",
    "Kafka + from_json": "Spark's Kafka source, from_json",
    "typed source": "this source, typed rows",
    "from_json": "this source, from_json",
    "rescue_json": "this source, rescue_json",
}
_NAMES = {"rabbitmq": "RabbitMQ", "activemq": "ActiveMQ", "artemis": "Artemis"}
_LINES = {"driver Python": "#2f6db0", "worker": "#c4622d", "JVM": "#6b7079"}
_PROCESSES = {
    "driver Python": "receives (Python beside the driver)",
    "worker": "tasks (Python)",
    "JVM": "Spark (JVM, with a heap of up to 2 GiB)",
    "readers": "receives (Python beside the driver)",
    "workers": "tasks (Python)",
}
# MiB that a name beside a line takes.
_LINE_OF_TEXT = 50
# Of the batches of a minute, this part has a latency within the band.
_BAND = 0.8


def draw(results: Mapping[str, Results], folder: Path) -> list[Path]:
    """Draw what there are results for; the files that were written."""
    found = []
    if typed := [case for case in _cases(results, "typed") if case.unit == ROW]:
        typed = [case for case in typed if case.section == typed[0].section]
        found.append(_typed(typed, results["typed"].machine, folder / "typed.png"))
    real = [case for case in _cases(results, "real") if case.name == SHOWN and case.section in _NAMES]
    if real:
        found.append(_throughput(real, results["real"].machine, folder / "throughput.png"))
    memory = [case for case in _cases(results, "memory") if case.rounds and case.rounds[-1].series]
    if memory:
        longest = max(memory, key=_length).section
        memory = [case for case in memory if case.section == longest]
        found.append(_memory(memory, results["memory"].machine, folder / "memory.png"))
    return found


def _cases(results: Mapping[str, Results], benchmark: str) -> list[Case]:
    return results[benchmark].cases if benchmark in results else []


def _length(case: Case) -> float:
    """Million messages of the last round."""
    return max(points[-1][0] for points in case.rounds[-1].series.values())


def _figure(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharex=rows > 1, sharey=columns > 1, squeeze=False).ravel()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e4e6ea")
        axis.set_axisbelow(True)
    return figure, axes


def _measured(machine: Mapping[str, str], day: str) -> str:
    """When, with what and where."""
    versions = ", ".join(f"{name} {machine[name]}" for name in ("spark-stomp", "pyspark") if name in machine)
    return ", ".join(filter(None, (day, versions, machine.get("processor"))))


def _last_day(cases: Iterable[Case]) -> str:
    return max(one.at for case in cases for one in case.rounds)[:10]


def _throughput(cases: list[Case], machine: Mapping[str, str], file: Path) -> Path:
    """The medians as bars with their rates, and the slowest and the fastest round as lines."""
    figure, (axis,) = _figure(8, 4)
    bars = [name for name in _BARS if any(case.values(name) for case in cases)]
    width = 0.84 / len(bars)
    for place, name in enumerate(bars):
        found = [[value / 1_000 for value in case.values(name) or [0]] for case in cases]
        middles = [number + (place - (len(bars) - 1) / 2) * width for number in range(len(cases))]
        heights = [statistics.median(values) for values in found]
        axis.bar(middles, heights, width * 0.94, color=_BARS[name], label=_label(name))
        for middle, height, values in zip(middles, heights, found, strict=True):
            axis.vlines(middle, min(values), max(values), color="#333333", linewidth=1)
            text = f"{height:.0f}"
            axis.annotate(
                text, (middle, max(values)), (0, 2), textcoords="offset points", ha="center", size=8
            )
    axis.set_xticks(range(len(cases)), [_NAMES[case.section] for case in cases])
    axis.set_ylabel("thousand messages a second")
    rounds = max(len(case.rounds) for case in cases)
    axis.set_title(
        f"Reading messages of {SHOWN}: median of {rounds} rounds, line: slowest to fastest", fontsize=11
    )
    axis.set_xlabel(
        f"{_measured(machine, _last_day(cases))}, which the broker shares; not persistent", size=8
    )
    axis.margins(y=0.1)
    axis.legend(fontsize=8, frameon=False, ncols=len(bars), loc="upper center", bbox_to_anchor=(0.5, -0.17))
    figure.savefig(file)
    return file


def _typed(cases: list[Case], machine: Mapping[str, str], file: Path) -> Path:
    """What a row takes of the processor: a group of bars for each kind of bodies."""
    figure, (axis,) = _figure(8, 4)
    bars = [name for name in _ROWS if any(case.values(name) for case in cases)]
    width = 0.84 / len(bars)
    for place, name in enumerate(bars):
        there = [(number, case.values(name)) for number, case in enumerate(cases) if case.values(name)]
        middles = [number + (place - (len(bars) - 1) / 2) * width for number, _ in there]
        heights = [statistics.median(values) for _, values in there]
        drawn = axis.bar(middles, heights, width * 0.94, color=_ROWS[name], label=_label(name))
        axis.bar_label(drawn, [f"{height:.0f}" for height in heights], fontsize=8, padding=1)
    axis.set_xticks(range(len(cases)), [case.name for case in cases])
    axis.set_ylabel("microseconds of processor time a row")
    axis.set_title("From a queue to typed rows in a Parquet table: less is better", fontsize=11)
    axis.set_xlabel(_measured(machine, _last_day(cases)), fontsize=8)
    axis.margins(y=0.1)
    axis.legend(fontsize=8, frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.17))
    figure.savefig(file)
    return file


def _label(name: str) -> str:
    return _LABELS.get(name, name)


def _memory(cases: list[Case], machine: Mapping[str, str], file: Path) -> Path:
    figure, axes = _figure(4.6 * len(cases), 3.6, len(cases))
    for axis, case in zip(axes, cases, strict=True):
        above = float("inf")
        for name, points in sorted(case.rounds[-1].series.items(), key=lambda one: -one[1][-1][1]):
            axis.plot(*zip(*points, strict=True), color=_LINES.get(name), linewidth=1.6)
            end = points[-1][1]
            _name_line(axis, name, points[-1][0], end, below=above - end < _LINE_OF_TEXT)
            above = end
        axis.set_title(case.name, fontsize=10)
        axis.set_xlabel("million messages")
    # After both have their lines: they share the axis, and the uppermost name needs room.
    axes[0].set_ylim(0, axes[0].get_ylim()[1] * 1.08)
    axes[0].set_ylabel("resident memory, MiB")
    figure.suptitle("Memory levels off, however many messages are read", fontsize=11)
    figure.supxlabel(_measured(machine, _last_day(cases)), fontsize=8)
    figure.savefig(file)
    return file


def _name_line(axis: Any, name: str, x: float, y: float, *, below: bool) -> None:
    """At the end of a line, what it is: above it, or below."""
    axis.annotate(
        _PROCESSES.get(name, name),
        (x, y),
        (0, -32 if below else 5),
        textcoords="offset points",
        ha="right",
        size=8,
        color=_LINES.get(name, _LINES["JVM"]),
    )


def draw_endurance(
    recorded: Mapping[str, Any], batches: Sequence[Mapping[str, Any]], machine: Mapping[str, str], file: Path
) -> Path:
    """Memory of each kind of process, below it the latency, of a long run, with the moments of faults."""
    figure, (memory, latency) = _figure(8.5, 6, rows=2)
    begin, end = (recorded["samples"][place]["at"] for place in (0, -1))
    colours = {"JVM": _LINES["JVM"], "readers": _LINES["driver Python"], "workers": _LINES["worker"]}
    for kind, colour in colours.items():
        points = [
            ((one["at"] - begin) / 60, one[kind]["memory"]) for one in recorded["samples"] if kind in one
        ]
        memory.plot(*zip(*points, strict=True), color=colour, label=_PROCESSES.get(kind, kind), linewidth=1.4)
    memory.set(ylabel="memory of its own, MiB", ylim=(0, None))
    rows = [((one["at"] - begin) / 60, one["p50"]) for one in batches if one["rows"] and one["at"] >= begin]
    minutes, low, middle, high = zip(*_by_minute(rows), strict=True)
    band = f"{_BAND:.0%} of the batches of a minute"
    latency.fill_between(minutes, low, high, color="#bcd9bc", linewidth=0, label=band)
    latency.plot(minutes, middle, color="#2f7d2f", linewidth=1.4, label="their median")
    latency.set(xlabel="minutes", ylabel="seconds from sending to a row (log)", yscale="log")
    latency.yaxis.set_major_formatter("{x:g}")
    struck = [(at - begin) / 60 for at, _ in recorded["faults"]]
    for axis in (memory, latency):
        place = {"transform": axis.get_xaxis_transform(), "clip_on": False}
        axis.plot(struck, [0.0] * len(struck), "|", color="#b02020", markersize=9, label="a fault", **place)
        axis.legend(fontsize=8, frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    hours, faults = (end - begin) / 3600, len(struck)
    length = f"{hours:.1f} hours" if hours >= 2 else f"{hours * 60:.0f} minutes"
    title = (
        f"Python's memory stays: RabbitMQ and Artemis for {length}, {faults} faults (cuts, pauses, restarts)"
    )
    figure.suptitle(title, fontsize=11)
    day = datetime.fromtimestamp(begin, timezone.utc).date().isoformat()
    figure.supxlabel(_measured(machine, day), fontsize=8)
    figure.savefig(file)
    return file


def _by_minute(points: Iterable[tuple[float, float]]) -> list[tuple[float, float, float, float]]:
    """The middle of each minute, and of its values the lower and upper end of the band and the median."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for minute, value in points:
        found[int(minute)].append(value)
    least = (1 - _BAND) / 2
    return [
        (minute + 0.5, *(_quantile(found[minute], part) for part in (least, 0.5, 1 - least)))  # type: ignore[misc]
        for minute in sorted(found)
    ]


def _quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[round(part * (len(values) - 1))]
