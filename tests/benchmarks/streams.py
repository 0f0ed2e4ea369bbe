"""A streaming query that a benchmark runs to its last message."""

from __future__ import annotations

import statistics
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from support.spark import Running

from benchmarks.usage import READER, Processes, difference
from spark_stomp.status import read_status

_PATIENCE = 1_800.0
# Until so large a part of the messages was read, the window fills for the first time, and workers start.
_START = 0.1


@dataclass
class Count:
    """A foreachBatch function that counts rows, and notes how many each batch had and when it was done."""

    slow: float = 0.0
    """Seconds that it sleeps in each batch."""
    batches: list[int] = field(default_factory=list)
    ended: float = 0.0
    total: int = 0

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        rows = batch.count()
        if rows:
            time.sleep(self.slow)
            self.ended = time.time()
            self.batches.append(rows)
            self.total += rows


@dataclass(frozen=True)
class Streamed:
    """From the first subscription to the end of the last batch.

    ``spent`` are processor seconds by role for the last ``counted`` messages: without the start, unless all
    came in one batch. ``received`` are those of the process that receives, for all messages: it is ahead of
    what is counted by up to a window.
    """

    seconds: float
    batches: list[int]
    spent: dict[str, float]
    counted: int
    received: float

    @property
    def steady(self) -> list[int]:
        """Sizes of the batches after a tenth of the messages, without the last; of all if none is left."""
        first = bisect_right(list(accumulate(self.batches)), _START * sum(self.batches))
        return self.batches[first + 1 : -1] or self.batches

    def figures(self) -> dict[str, float]:
        """What a results file says of the batches and of the processor."""
        sizes = self.steady
        return {
            "batches": len(self.batches),
            "smallest batch": min(sizes),
            "median batch": statistics.median(sizes),
            **a_million(self.spent, self.counted),
            **a_million({f"{READER} s": self.received}, sum(self.batches)),
        }


def a_million(spent: Mapping[str, float], messages: int) -> dict[str, float]:
    """Processor seconds by role for a million messages, of those for so many."""
    return {f"{role} a million": round(seconds * 1e6 / messages, 2) for role, seconds in spent.items()}


def run(
    spark: SparkSession,
    options: Mapping[str, str],
    messages: int,
    *,
    sink: Count | None = None,
    processes: Processes | None = None,
    meanwhile: Callable[[Count], object] = lambda sink: None,
) -> Streamed:
    """Run a query until so many rows were counted. ``meanwhile`` is called about ten times a second."""
    count, processes = sink or Count(), processes or Processes()
    # The status file may be written once more after the end of the query.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        status = folder / "status.json"
        stream = spark.readStream.format("stomp").options(**options).option("statusFile", str(status))
        start, readers = (0, processes.seconds()), list[tuple[float, float]]()
        with Running(stream.load(), folder / "checkpoint", count) as query:

            def done() -> bool:
                nonlocal start
                meanwhile(count)
                if not readers or not connected_since(status):
                    readers.append((time.time(), processes.seconds().get(f"{READER} s", 0.0)))
                if not start[0] and _START * messages <= count.total < messages:
                    start = count.total, processes.seconds()
                return count.total >= messages

            query.wait(done, _PATIENCE, f"{messages} messages", every=0.1)
            ended = processes.seconds()
            query.wait(lambda: connected_since(status), what="the status file")
            since = connected_since(status)
            # The last that was seen before the subscription.
            before = max((one for one in readers if one[0] <= since), default=readers[0])[1]
            return Streamed(
                count.ended - since,
                count.batches,
                difference(ended, start[1]),
                count.total - start[0],
                ended.get(f"{READER} s", 0.0) - before,
            )


def connected_since(status: Path) -> float:
    """When the first receiver subscribed, seconds since 1970; 0 if that is not known yet."""
    if not status.exists():
        return 0.0
    receivers = read_status(str(status))["receivers"].values()
    since = [one["connected_since"] for one in receivers if one["connected_since"]]
    return min(datetime.fromisoformat(text).timestamp() for text in since) if since else 0.0


def rate(frame: DataFrame, messages: int, processes: Processes) -> tuple[float, dict[str, float]]:
    """Rows per second over ``frame``; and processor seconds for a million, without the first batch."""
    seen: list[tuple[float, int]] = []
    spent: list[dict[str, float]] = []

    def sink(batch: DataFrame, batch_id: int) -> None:
        begun = time.monotonic()
        count = batch.count()
        if count:
            seen.append((begun, count))
            spent.append(processes.seconds())

    with tempfile.TemporaryDirectory() as folder, Running(frame, Path(folder), sink) as query:
        query.wait(lambda: sum(count for _, count in seen) >= messages, _PATIENCE, "all rows", every=0.005)
        ended = time.monotonic()
    every, later = (sum(count for _, count in batches) for batches in (seen, seen[1:]))
    used = a_million(difference(spent[-1], spent[0]), later) if later else {}
    return every / (ended - seen[0][0]), used
