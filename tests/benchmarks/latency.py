"""Milliseconds from publishing a message to its row collected in ``foreachBatch``, on ``local[2]``.

Default trigger, default options; the publisher is a process with a bare socket, and the time is in the body.
The reference is a micro-batch of Spark's rate source at as many rows a second in the same session, its rows
collected as well.

    python -m benchmarks.latency [--brokers rabbitmq,artemis] [--rates 20,1000,10000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from support.spark import Running, spark_session, stomp_stream

from benchmarks.bare import sent_at
from benchmarks.brokers import BenchmarkBroker, each_broker, new_queue
from benchmarks.programs import program
from benchmarks.results import Case, Figures, Goal, Results, Series, add_arguments
from spark_stomp import register

BROKERS = "rabbitmq"
RATES = "20,1000,10000"
BODY = 235
WARM_UP = 5.0
MICRO_BATCH = "micro-batch of the rate source"
GOALS = {"p50": 1.7, "p99": 4.0}
GOAL_RATES = (20, 1_000)
_PATIENCE = 300.0


class Latencies:
    """A foreachBatch function that collects rows, and notes for each message when it was sent and how long
    it took, both in seconds."""

    def __init__(self) -> None:
        self.found: list[tuple[float, float]] = []

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        rows = batch.select("body").collect()
        now = time.time()
        self.found += [(sent, now - sent) for sent in (sent_at(bytes(row.body)) for row in rows)]

    def after(self, seconds: float) -> list[float]:
        """Milliseconds of all messages but those of the first so many seconds, in order of size."""
        begin = min(sent for sent, _ in self.found) + seconds
        return sorted(1_000 * took for sent, took in self.found if sent >= begin)


class Durations:
    """A foreachBatch function that collects rows; ``batches`` counts those that had any."""

    batches = 0

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self.batches += bool(batch.collect())


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that is not below so many percent of them."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def measure(
    spark: SparkSession, broker: BenchmarkBroker, rate: int, seconds: float
) -> tuple[dict[str, Figures], Series]:
    """The figures of a round, in milliseconds."""
    reference = micro_batch(spark, rate)
    took = latencies(spark, broker, rate, seconds).after(WARM_UP)
    figures: dict[str, Figures] = {
        MICRO_BATCH: {"value": reference},
        "p50": {"value": percentile(took, 50), "messages": len(took)},
        "p99": {"value": percentile(took, 99), "largest": took[-1]},
    }
    return figures, {}


def latencies(spark: SparkSession, broker: BenchmarkBroker, rate: int, seconds: float) -> Latencies:
    """What a query sees of so many seconds at this rate, and of a warm-up before."""
    queue, sink = new_queue(), Latencies()
    messages = max(10, int(rate * (seconds + WARM_UP)))
    options = broker.options(queue)
    with tempfile.TemporaryDirectory() as folder:
        stream = stomp_stream(spark, options.pop("url"), options.pop("destination"), **options)
        with Running(stream, Path(folder), sink) as query:
            load = broker.program("publish", queue, messages=messages, body=BODY, rate=rate)
            with program("bare", load) as publisher:
                publisher.line()
                query.wait(lambda: len(sink.found) >= messages, _PATIENCE, f"{messages} messages", every=0.05)
    return sink


def micro_batch(spark: SparkSession, rate: int, batches: int = 12) -> float:
    """Milliseconds of a trigger of the rate source that has rows: the median, without the first ones."""
    sink = Durations()
    stream = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
    with tempfile.TemporaryDirectory() as folder, Running(stream, Path(folder), sink) as query:
        query.wait(lambda: sink.batches >= batches, _PATIENCE, f"{batches} batches", every=0.05)
        progress = [one for one in query.query.recentProgress if one["numInputRows"]]
    return float(statistics.median(one["durationMs"]["triggerExecution"] for one in progress[2:]))


def as_case(broker: str, rate: int) -> Case:
    """The case of the results file."""
    goals = [Goal(name, MICRO_BATCH, at_most=most) for name, most in GOALS.items() if rate in GOAL_RATES]
    return Case(broker, f"{rate:,} messages a second", "ms", MICRO_BATCH, goals)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.latency")
    parser.add_argument("--brokers", default=BROKERS)
    parser.add_argument("--rates", default=RATES, help="messages a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each, after a warm-up")
    add_arguments(parser, rounds=3)
    arguments = parser.parse_args()
    spark, results = spark_session("local[2]"), Results("latency")
    register(spark)
    for broker in each_broker(arguments.brokers):
        latencies(spark, broker, 100, 0)  # pays for starting workers
        for rate in map(int, arguments.rates.split(",")):
            measured = partial(measure, spark, broker, rate, arguments.seconds)
            results.measure(as_case(broker.name, rate), arguments, measured)
    spark.stop()


if __name__ == "__main__":
    main()
