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

from benchmarks.usage import Processes, difference
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
    came in one batch.
    """

    seconds: float
    batches: list[int]
    spent: dict[str, float]
    counted: int

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
            **{f"{role} a million": round(s * 1e6 / self.counted, 2) for role, s in self.spent.items()},
        }


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
        start = 0, processes.seconds()
        with Running(stream.load(), folder / "checkpoint", count) as query:

            def done() -> bool:
                nonlocal start
                meanwhile(count)
                if not start[0] and _START * messages <= count.total < messages:
                    start = count.total, processes.seconds()
                return count.total >= messages

            query.wait(done, _PATIENCE, f"{messages} messages", every=0.1)
            spent = difference(processes.seconds(), start[1])
            query.wait(lambda: connected_since(status), what="the status file")
            seconds = count.ended - connected_since(status)
            return Streamed(seconds, count.batches, spent, count.total - start[0])


def connected_since(status: Path) -> float:
    """When the first receiver subscribed, seconds since 1970; 0 if that is not known yet."""
    if not status.exists():
        return 0.0
    receivers = read_status(str(status))["receivers"].values()
    since = [one["connected_since"] for one in receivers if one["connected_since"]]
    return min(datetime.fromisoformat(text).timestamp() for text in since) if since else 0.0


def rate(frame: DataFrame, messages: int, *, warm_up: bool = True) -> float:
    """Rows per second of a query over ``frame``, without its first batch if that is a warm-up."""
    seen: list[tuple[float, int]] = []

    def sink(batch: DataFrame, batch_id: int) -> None:
        begun = time.monotonic()
        count = batch.count()
        if count:
            seen.append((begun, count))

    with tempfile.TemporaryDirectory() as folder, Running(frame, Path(folder), sink) as query:
        query.wait(lambda: sum(count for _, count in seen) >= messages, _PATIENCE, "all rows", every=0.005)
        ended = time.monotonic()
    # The first batch pays for starting workers; it is left out where there are others.
    counted = (seen[1:] if warm_up else seen) or seen
    return sum(count for _, count in counted) / (ended - counted[0][0])
