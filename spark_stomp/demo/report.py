"""The output of the demonstration: progress lines, the result, the proof, the plot."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from spark_stomp.demo.flights import LATE, Expected, Totals
from spark_stomp.demo.queries import ALERTS, FLIGHTS, Statistics
from spark_stomp.devbroker import QueueView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AIRPORTS: Final = ("EWR", "JFK", "LGA")
_COLOURS: Final = ("#1b6ca8", "#e07a1f", "#3d8b53")


@dataclass(frozen=True)
class Sample:
    """The state of the queries and queues, ``seconds`` after the start."""

    seconds: float
    rows: int
    batches: int
    flights: QueueView
    alerts: QueueView
    archived: int

    def same_state(self, other: Sample) -> bool:
        """Whether nothing has changed between the two samples."""
        return replace(self, seconds=0.0) == replace(other, seconds=0.0)

    def complete(self, expected: Expected) -> bool:
        """Whether all flights and alerts have arrived and are acknowledged."""
        due = len(expected.alerts)
        return (
            self.flights.acked == self.rows == expected.flights and self.alerts.acked == self.archived == due
        )


@dataclass(frozen=True)
class Check:
    """One sentence of the proof, and whether it holds."""

    text: str
    holds: bool

    def __str__(self) -> str:
        return f"  [{'ok' if self.holds else 'FAILED'}] {self.text}"


def progress_line(sample: Sample, before: Sample, rows: int) -> str:
    """A line on the progress of the demonstration. The rate is measured since the sample ``before``."""
    elapsed = sample.seconds - before.seconds
    rate = (sample.rows - before.rows) / elapsed if elapsed > 0 else 0.0
    return (
        f"{sample.seconds:6.1f} s   batches {sample.batches:>3}   rows {sample.rows:>7,} "
        f"({sample.rows / rows:4.0%})   {rate:>7,.0f} rows/s   un-acked {sample.flights.unacked:>6,}   "
        f"ACKed {sample.flights.acked:>7,}   alerts archived {sample.archived:>6,}"
    )


def checks(end: Sample, results: Statistics, expected: Expected, archive: Iterable[bytes]) -> list[Check]:
    """The proof: the messages sent, read and acknowledged, compared with the file."""
    flights, alerts = end.flights, end.alerts
    archived = [json.loads(body)["id"] for body in archive]
    distinct = results.distinct_ids()
    return [
        Check(
            f"{FLIGHTS}: sent {flights.enqueued:,} = rows {results.rows:,} = ACKed {flights.acked:,}",
            expected.flights == flights.enqueued == results.rows == flights.acked,
        ),
        Check(f"nothing lost, nothing doubled: {distinct:,} different flights", distinct == expected.flights),
        Check("the statistics agree with the file", results.totals() == expected.totals),
        Check(
            f"{ALERTS}: due {len(expected.alerts):,} = sent {alerts.enqueued:,} = ACKed {alerts.acked:,}",
            len(expected.alerts) == alerts.enqueued == alerts.acked,
        ),
        Check(
            f"the archive is complete: {len(archived):,} alerts, {len(set(archived)):,} different",
            len(archived) == len(expected.alerts) and set(archived) == expected.alerts,
        ),
        Check(
            f"both queues are empty, un-acked {flights.unacked + alerts.unacked}",
            flights.depth == alerts.depth == flights.unacked == alerts.unacked == 0,
        ),
    ]


def result_table(totals: Totals, names: Mapping[str, str]) -> str:
    """The result as a table: for each airline its flights, mean delays and late departures, busiest first."""
    head = f"{'airline':<30}{'flights':>9}" + "".join(f"{one:>8}" for one in AIRPORTS) + f"{'late':>10}"
    note = f"{'':<39}{'mean delay in minutes':>24}{f'> {LATE} min':>10}"
    whole: dict[str, Counter[str]] = {}
    for (carrier, _), counts in totals.items():
        whole.setdefault(carrier, Counter()).update(counts)
    rows = []
    for carrier, counts in sorted(whole.items(), key=lambda item: -item[1]["flights"]):
        means = "".join(f"{_mean(totals.get((carrier, one), Counter())):>8}" for one in AIRPORTS)
        late = f"{counts['late'] / counts['departures']:.0%}" if counts["departures"] else "-"
        rows.append(f"{names.get(carrier, carrier):<30}{counts['flights']:>9,}{means}{late:>10}")
    return "\n".join([head, note, "-" * len(head), *rows])


def _mean(counts: Mapping[str, int]) -> str:
    return f"{counts['minutes'] / counts['departures']:.1f}" if counts.get("departures") else "-"


def save_plot(path: Path, totals: Totals, samples: Sequence[Sample]) -> None:
    """Write the plot as PNG. Its folder is made if it does not exist."""
    figure = Figure(figsize=(13, 5.5), layout="constrained")
    FigureCanvasAgg(figure)  # draws without a display, whatever backend is configured
    delays, progress = figure.subplots(1, 2)
    _draw_delays(delays, totals)
    _draw_progress(progress, samples)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _draw_delays(axes: Axes, totals: Totals) -> None:
    """Draw the mean departure delay of each carrier, a bar for each airport."""
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


def _draw_progress(axes: Axes, samples: Sequence[Sample]) -> None:
    """Draw the messages sent, read and acknowledged over time. The ACKs follow the commits."""
    seconds = [sample.seconds for sample in samples]
    lines = {
        "sent": [sample.flights.enqueued for sample in samples],
        "rows": [sample.rows for sample in samples],
        "ACKed": [sample.flights.acked for sample in samples],
    }
    for (label, values), colour in zip(lines.items(), _COLOURS, strict=True):
        axes.step(seconds, values, where="post", color=colour, label=label)
    unacked = [sample.flights.unacked for sample in samples]
    axes.fill_between(seconds, unacked, step="post", color="#999999", alpha=0.5, label="un-acked")
    axes.set(title="Messages through the queue", xlabel="seconds", ylabel="messages", ylim=(0, None))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(frameon=False)
