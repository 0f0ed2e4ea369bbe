"""Resident memory of the Spark processes, from a broker at wire speed, on ``local[2]``.

``plain`` and ``journal``: over three million messages, without and with a journal on the local disk.
``large``: 1,000 messages of 4 MiB before a slow sink, which the broker would send all at once.

    python -m benchmarks.memory [--parts plain,journal,large] [--messages 3000000] [--large 1000]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from support.spark import spark_session

from benchmarks.results import Case, Figures, Results, Series, add_arguments
from benchmarks.streams import Count, run
from benchmarks.usage import READER, Processes
from benchmarks.wire_broker import Frames, wire_broker
from spark_stomp import register

BATCH = 50_000
WINDOW = 4 * BATCH
LARGE_BODY = 4 << 20
SLOW = 1.0
SHOWN = (READER, "worker", "JVM")
POINTS = 150

Measured = tuple[dict[str, Figures], Series]


class Samples:
    """Memory over time: what is taken about once a second while a query runs."""

    def __init__(self) -> None:
        self._processes = Processes()
        self._next = 0.0
        self.taken: list[tuple[int, dict[str, float]]] = []

    def __call__(self, sink: Count) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 1.0
            found = self._processes.resident()
            self.taken.append((sink.total, found))

    def between(self, role: str, low: float, high: float) -> list[float]:
        """MiB while this part of all messages came."""
        total = self.taken[-1][0]
        return [found.get(role, 0.0) for count, found in self.taken if low * total <= count <= high * total]

    def figures(self, role: str) -> Figures:
        """The last tenth (``value``), the second tenth, and the largest; MiB."""
        early = self.between(role, 0.1, 0.2) or self.between(role, 0.0, 1.0)
        return {
            "value": statistics.median(self.between(role, 0.9, 1.0)),
            "second tenth": statistics.median(early),
            "largest": max(self.between(role, 0.0, 1.0)),
        }

    def series(self, role: str) -> list[list[float]]:
        """Million messages and MiB, at most ``POINTS`` of them."""
        step = max(1, len(self.taken) // POINTS)
        return [[count / 1e6, round(found.get(role, 0.0), 1)] for count, found in self.taken[::step]]


def long_run(spark: SparkSession, messages: int, *, journal: bool) -> Measured:
    """So many small messages."""
    samples = Samples()
    with tempfile.TemporaryDirectory() as folder, wire_broker(messages, WINDOW) as port:
        options = {"prefetch": str(WINDOW), "maxMessagesPerTrigger": str(BATCH), **_where(port)}
        if journal:
            options |= {"journal": str(Path(folder) / "journal"), "idHeader": "message-id"}
        run(spark, options, messages, meanwhile=samples)
    return {role: samples.figures(role) for role in SHOWN}, {role: samples.series(role) for role in SHOWN}


def large_messages(spark: SparkSession, messages: int) -> Measured:
    """Large ones with default options, but for the size of a batch."""
    samples = Samples()
    with wire_broker(messages, messages, Frames(body=LARGE_BODY)) as port:
        options = {"maxBytesPerTrigger": "128m", **_where(port)}
        run(spark, options, messages, sink=Count(SLOW), meanwhile=samples)
    return {role: samples.figures(role) for role in SHOWN}, {}


def _where(port: int) -> dict[str, str]:
    return {"url": f"stomp://127.0.0.1:{port}", "destination": "/queue/a"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.memory")
    parser.add_argument("--parts", default="plain,journal,large")
    parser.add_argument("--messages", type=int, default=3_000_000)
    parser.add_argument("--large", type=int, default=1_000, help="messages of 4 MiB")
    add_arguments(parser)
    arguments = parser.parse_args()
    spark, results = spark_session("local[2]"), Results("memory")
    register(spark)
    section = f"{arguments.messages:,} messages, resident memory"
    behind = f"{arguments.large:,} messages of 4 MiB behind a slow sink"
    long = partial(long_run, spark, arguments.messages)
    parts: dict[str, tuple[Case, Callable[[], Measured]]] = {
        "plain": (Case(section, "without a journal", "MiB"), partial(long, journal=False)),
        "journal": (Case(section, "with a local journal", "MiB"), partial(long, journal=True)),
        "large": (Case(behind, "default options", "MiB"), partial(large_messages, spark, arguments.large)),
    }
    for part in arguments.parts.split(","):
        results.measure(parts[part][0], arguments, parts[part][1])
    spark.stop()


if __name__ == "__main__":
    main()
