"""The plot: what the first query found, and how the queue went down while it did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from spark_stomp.demo.report import AIRPORTS
from spark_stomp.demo.results import Totals
from spark_stomp.demo.watch import Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS: Final = ("#1b6ca8", "#e07a1f", "#3d8b53")


def save_plot(path: Path, totals: Totals, samples: Sequence[Sample]) -> None:
    """Write the PNG; its folder is made if it is missing."""
    figure = Figure(figsize=(13, 5.5), layout="constrained")
    FigureCanvasAgg(figure)  # draws without a display, whatever backend is configured
    delays, progress = figure.subplots(1, 2)
    _delays(delays, totals)
    _progress(progress, samples)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _delays(axes: Axes, totals: Totals) -> None:
    """Mean departure delay per carrier, one bar for each airport."""
    carriers = sorted({carrier for carrier, _ in totals})
    for place, (airport, colour) in enumerate(zip(AIRPORTS, _COLOURS, strict=True)):
        bars = [
            (number + 0.27 * (place - 1), counts["minutes"] / counts["departures"])
            for number, carrier in enumerate(carriers)
            if (counts := totals.get((carrier, airport))) and counts["departures"]
        ]
        axes.bar([x for x, _ in bars], [mean for _, mean in bars], width=0.27, color=colour, label=airport)
    axes.set_xticks(range(len(carriers)), carriers)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(title="Mean departure delay by airline and airport", ylabel="minutes", xlabel="airline")
    axes.margins(y=0.15)  # room for the legend above the bars
    axes.legend(frameon=False, loc="upper center", ncols=len(AIRPORTS))


def _progress(axes: Axes, samples: Sequence[Sample]) -> None:
    """Messages sent, seen and acknowledged over time: the ACKs follow the commits."""
    seconds = [sample.seconds for sample in samples]
    lines = {
        "sent": [sample.flights_queue.enqueued for sample in samples],
        "rows": [sample.rows for sample in samples],
        "ACKed": [sample.flights_queue.acked for sample in samples],
    }
    for (label, values), colour in zip(lines.items(), _COLOURS, strict=True):
        axes.step(seconds, values, where="post", color=colour, label=label)
    unacked = [sample.flights_queue.unacked for sample in samples]
    axes.fill_between(seconds, unacked, step="post", color="#999999", alpha=0.5, label="un-acked")
    axes.set(title="Messages through the queue", xlabel="seconds", ylabel="messages", ylim=(0, None))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(frameon=False)
