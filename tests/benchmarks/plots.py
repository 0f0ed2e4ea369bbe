"""The plots of the pages: typed rows, throughput of real brokers, and memory over a long run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
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
_LINES = {"driver Python": "#2f6db0", "worker": "#c4622d", "JVM": "#8a8f98"}


def draw(results: Mapping[str, Results], folder: Path) -> list[Path]:
    """Draw what there are results for; the files that were written."""
    found = []
    if typed := [case for case in _cases(results, "typed") if case.unit == ROW]:
        typed = [case for case in typed if case.section == typed[0].section]
        found.append(_typed(typed, results["typed"].machine, folder / "typed.png"))
    real = [case for case in _cases(results, "real") if case.name == SHOWN and case.section in _NAMES]
    if real:
        found.append(_throughput(real, folder / "throughput.png"))
    memory = [case for case in _cases(results, "memory") if case.rounds and case.rounds[-1].series]
    if memory:
        longest = max(memory, key=_length).section
        memory = [case for case in memory if case.section == longest]
        found.append(_memory(memory, folder / "memory.png"))
    return found


def _cases(results: Mapping[str, Results], benchmark: str) -> list[Case]:
    return results[benchmark].cases if benchmark in results else []


def _length(case: Case) -> float:
    """Million messages of the last round."""
    return max(points[-1][0] for points in case.rounds[-1].series.values())


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e4e6ea")
        axis.set_axisbelow(True)
    return figure, axes


def _throughput(cases: list[Case], file: Path) -> Path:
    figure, (axis,) = _figure(7, 3.4)
    bars = [name for name in _BARS if any(case.values(name) for case in cases)]
    width = 0.8 / len(bars)
    for place, name in enumerate(bars):
        heights = [statistics.median(case.values(name) or [0]) / 1_000 for case in cases]
        middles = [number + (place - (len(bars) - 1) / 2) * width for number in range(len(cases))]
        drawn = axis.bar(middles, heights, width * 0.94, color=_BARS[name], label=_label(name))
        ratios = [case.ratios(name) for case in cases]
        texts = [f"{statistics.median(found):.2f}" if found else "" for found in ratios]
        axis.bar_label(drawn, texts, fontsize=8, padding=1)
    axis.set_xticks(range(len(cases)), [_NAMES[case.section] for case in cases])
    axis.set_ylabel("thousand messages a second")
    title = f"Bodies of {SHOWN}, not persistent. On the bars: share of the bare socket's rate"
    axis.set_title(title, fontsize=10)
    axis.margins(y=0.12)
    axis.legend(fontsize=8, frameon=False, ncols=len(bars), loc="upper center", bbox_to_anchor=(0.5, -0.1))
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
    rounds = [one for case in cases for one in case.rounds]
    versions = ", ".join(f"{name} {machine[name]}" for name in ("spark-stomp", "pyspark") if name in machine)
    axis.set_xlabel(f"{max(one.at for one in rounds)[:10]}, {versions}, {machine['processor']}", fontsize=8)
    axis.margins(y=0.1)
    axis.legend(fontsize=8, frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.17))
    figure.savefig(file)
    return file


def _label(name: str) -> str:
    return _LABELS.get(name, name)


def _memory(cases: list[Case], file: Path) -> Path:
    figure, axes = _figure(3.6 * len(cases), 3.2, len(cases))
    for axis, case in zip(axes, cases, strict=True):
        for name, points in case.rounds[-1].series.items():
            axis.plot(*zip(*points, strict=True), color=_LINES.get(name), label=name, linewidth=1.5)
        axis.set_title(case.name, fontsize=10)
        axis.set_xlabel("million messages")
    axes[0].set_ylim(bottom=0)  # after both have their lines: they share the axis
    axes[0].set_ylabel("resident memory, MiB")
    axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(file)
    return file


def draw_endurance(told: Mapping[str, Any], batches: Sequence[Mapping[str, Any]], file: Path) -> Path:
    """Memory of each kind of process and the latency of a long run, with the moments of the faults."""
    figure, (axis,) = _figure(8, 4.2)
    begin = told["samples"][0]["at"]

    def minutes(at: float) -> float:
        return float(at - begin) / 60

    colours = {"readers": "#2f6db0", "workers": "#c4622d", "JVM": "#8a8f98"}
    for kind, colour in colours.items():
        points = [(minutes(one["at"]), one[kind]["memory"]) for one in told["samples"] if kind in one]
        axis.plot(*zip(*points, strict=True), color=colour, label=f"{kind}, MiB", linewidth=1.4)
    axis.set(xlabel="minutes", ylabel="memory (MiB)", ylim=(0, None))
    for at, _ in told["faults"]:
        axis.axvline(minutes(at), color="#e4e6ea", linewidth=0.8, zorder=0)
    other = axis.twinx()
    rows = [one for one in batches if one["rows"] and one["at"] >= begin]
    other.plot(
        [minutes(one["at"]) for one in rows],
        [one["p50"] for one in rows],
        ".",
        color="#5a9a5a",
        markersize=1.5,
    )
    other.set(ylabel="median latency of a batch (s, dots)", yscale="log")
    axis.legend(loc="upper left", frameon=False)
    figure.savefig(file)
    return file
