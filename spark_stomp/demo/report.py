"""What the demonstration prints: progress, the result, the proof."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spark_stomp.demo.flights import LATE, Expected
from spark_stomp.demo.queries import ALERTS, FLIGHTS
from spark_stomp.demo.results import Statistics, Totals
from spark_stomp.demo.watch import Sample

AIRPORTS: Final = ("EWR", "JFK", "LGA")


def progress_line(sample: Sample, before: Sample | None, rows: int) -> str:
    """One line about a running demonstration; the rate is that since the line ``before``."""
    elapsed = sample.seconds - (before.seconds if before else 0.0)
    rate = (sample.rows - (before.rows if before else 0)) / elapsed if elapsed > 0 else 0.0
    flights = sample.flights_queue
    parts = (
        f"{sample.seconds:6.1f} s",
        f"sent {flights.enqueued:>7,}",
        f"rows {sample.rows:>7,} ({sample.rows / rows:4.0%})",
        f"batches {sample.batches:>3}",
        f"un-acked {flights.unacked:>6,}",
        f"ACKed {flights.acked:>7,}",
        f"{rate:>7,.0f} rows/s",
        f"alerts {sample.alerts:>6,}",
        f"archived {sample.archived:>6,}",
    )
    return "   ".join(parts)


def result_table(totals: Totals, names: Mapping[str, str]) -> str:
    """Flights, mean delay per airport and share of late departures of each airline, the busiest first."""
    head = (
        f"{'airline':<30}{'flights':>9}" + "".join(f"{airport:>8}" for airport in AIRPORTS) + f"{'late':>10}"
    )
    note = f"{'':<39}{'mean delay in minutes':>24}{f'> {LATE} min':>10}"
    carriers = sorted(
        {carrier for carrier, _ in totals}, key=lambda carrier: -_all(totals, carrier)["flights"]
    )
    rows = (_row(totals, carrier, names.get(carrier, carrier)) for carrier in carriers)
    return "\n".join([head, note, "-" * len(head), *rows])


def _row(totals: Totals, carrier: str, name: str) -> str:
    whole = _all(totals, carrier)
    means = (_mean(totals.get((carrier, airport), Counter())) for airport in AIRPORTS)
    late = f"{whole['late'] / whole['departures']:.0%}" if whole["departures"] else "-"
    return f"{name:<30}{whole['flights']:>9,}" + "".join(f"{mean:>8}" for mean in means) + f"{late:>10}"


def _mean(counts: Mapping[str, int]) -> str:
    return f"{counts['minutes'] / counts['departures']:.1f}" if counts.get("departures") else "-"


def _all(totals: Totals, carrier: str) -> Counter[str]:
    return sum((counts for (code, _), counts in totals.items() if code == carrier), Counter())


@dataclass(frozen=True)
class Check:
    """One sentence of the proof, and whether it holds."""

    text: str
    holds: bool

    def __str__(self) -> str:
        return f"  [{'ok' if self.holds else 'FAILED'}] {self.text}"


def checks(end: Sample, results: Statistics, expected: Expected, archive: Iterable[bytes]) -> list[Check]:
    """The proof: what was sent, seen and acknowledged, compared with what the file says."""
    flights, alerts = end.flights_queue, end.alerts_queue
    archived = [json.loads(body)["id"] for body in archive]
    distinct = results.distinct_ids()
    return [
        Check(
            f"{FLIGHTS}: sent {flights.enqueued:,} = rows {results.rows:,} = ACKed {flights.acked:,}",
            expected.flights == flights.enqueued == results.rows == flights.acked,
        ),
        Check(f"nothing lost, nothing doubled: {distinct:,} different flights", distinct == expected.flights),
        Check("the statistics are those of the file", results.totals() == expected.totals),
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
