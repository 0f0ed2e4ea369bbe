"""How long a trigger takes with this source and with Spark's own Kafka source, at equal batches.

Both on Spark 4.0.0, on ``local[2]`` with the brokers on the same machine; ten headers, bodies of 235 octets,
rows counted in ``foreachBatch``. Kafka's messages lie in a topic of two partitions, so that both cores have
a task (one partition is slower); ours come from the broker at wire speed. Each round runs all candidates, one
after another; a run is the median of its triggers without the first ones.

``python -m benchmarks.kafka [--rounds N] [--triggers N] [--batches 10000,50000]``
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from support.brokers import Unavailable
from support.release import spark_release
from support.spark import spark_session
from support.waiting import wait_until

from benchmarks.kafka_broker import SPARK, kafka_broker, kafka_source, pyspark
from benchmarks.ready_made import ReadyMade
from benchmarks.results import Case, Figures, Goal, Results, Series, add_arguments
from benchmarks.wire_broker import wire_broker
from spark_stomp import register

READY, READY_NARROW = "ready-made", "ready-made, two columns"
NARROW = "body binary, stable_id string"
GOALS = {
    10_000: [Goal("all columns", "Kafka", 0.9)],
    50_000: [Goal("all columns", "Kafka", 1.0), Goal("two columns", "Kafka", 1.3)],
}
NOTE = """Rows divided by the time that Spark says a trigger took, on `local[2]`; further figures are its
parts in milliseconds. "two columns" asks for `body binary, stable_id string`. "ready-made" are record
batches with these columns from a Python source without any broker: what is left is Spark."""
WARM_UP = 3
PARTITIONS = 2
# What Spark says of a trigger: all of it, and its parts. ``latestOffset`` includes the wait for messages.
WHOLE = "triggerExecution"
PARTS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
_PATIENCE = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.kafka")
    add_arguments(parser, rounds=3)
    parser.add_argument("--triggers", type=int, default=15, help="of each run")
    parser.add_argument("--batches", default="10000,50000", help="messages a trigger")
    arguments = parser.parse_args()
    batches = [int(size) for size in arguments.batches.split(",")]
    try:
        if spark_release() != (4, 0):
            raise SystemExit(_again(pyspark()))
        results = Results("kafka")
        with _session() as (spark, address):
            for batch in batches:
                fill(spark, address, _topic(batch), batch * arguments.triggers)
                case = Case(
                    f"Spark {SPARK}", f"{batch:,} a trigger", "rows/s", "Kafka", GOALS.get(batch, []), NOTE
                )
                messages = batch * arguments.triggers
                with wire_broker(messages, 2 * batch) as port:
                    results.measure(case, arguments, partial(compare, spark, address, port, batch, messages))
    except Unavailable as why:
        print(f"skipped: no Kafka to compare with: {why}")


def _again(release: Path) -> int:
    """Run this program once more, on another PySpark; returns its status."""
    path = [str(release), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    environment.pop("SPARK_HOME", None)
    return subprocess.call([sys.executable, "-m", "benchmarks.kafka", *sys.argv[1:]], env=environment)


@contextmanager
def _session() -> Iterator[tuple[SparkSession, str]]:
    """A session with both sources, and the address of a broker."""
    libraries = kafka_source()
    with tempfile.TemporaryDirectory() as folder, kafka_broker(Path(folder), PARTITIONS) as address:
        spark = spark_session("local[2]", **{"spark.jars": libraries})
        if find_spec("pyspark_stomp") is None:  # Spark 4.0 refuses what it has found by itself
            register(spark)
        spark.dataSource.register(ReadyMade)
        yield spark, address
        spark.stop()


def fill(spark: SparkSession, address: str, topic: str, messages: int) -> None:
    """Send as many messages to a topic, like those of the broker at wire speed."""
    number = f.format_string("%010d", f.col("id"))
    names = ("message-id", "destination", "persistent", "priority", "expires", "timestamp", "redelivered")
    values: tuple[Column | str, ...] = (number, "/queue/a", "true", "4", "0", "1700000000000", "false")
    more = [(f"header-{count}", f"value of header {count}") for count in range(10 - len(names))]
    given = [*zip(names, values, strict=True), *more]
    headers = [_header(name, value) for name, value in given]
    rows = spark.range(messages, numPartitions=2).select(
        f.col("id").cast("string").alias("key"),
        f.lit("x" * 235).alias("value"),
        f.array(*headers).alias("headers"),
        (f.col("id") % PARTITIONS).cast("int").alias("partition"),
    )
    to = rows.write.format("kafka").option("kafka.bootstrap.servers", address)
    to.option("topic", topic).save()


def _topic(batch: int) -> str:
    # One for each size of a batch: a query that is stopped with messages left fails with a long trace.
    return f"messages-{batch}"


def _header(name: str, value: Column | str) -> Column:
    text = f.lit(value) if isinstance(value, str) else value
    return f.struct(f.lit(name).alias("key"), text.cast("binary").alias("value"))


def compare(
    spark: SparkSession, address: str, port: int, batch: int, messages: int
) -> tuple[dict[str, Figures], Series]:
    """The figures of a round."""
    found = {
        "Kafka": figures(_kafka(spark, address, batch), batch, messages),
        "all columns": figures(_ours(spark, port, batch), batch, messages),
        "two columns": figures(_ours(spark, port, batch, NARROW), batch, messages),
        READY: figures(_ready_made(spark, batch, messages), batch, messages),
        READY_NARROW: figures(_ready_made(spark, batch, messages, NARROW), batch, messages),
    }
    return found, {}


def _kafka(spark: SparkSession, address: str, batch: int) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
    reader = reader.option("subscribe", _topic(batch)).option("startingOffsets", "earliest")
    return reader.option("includeHeaders", "true").option("maxOffsetsPerTrigger", batch).load()


def _ours(spark: SparkSession, port: int, batch: int, schema: str = "") -> DataFrame:
    reader = spark.readStream.format("stomp").option("url", f"stomp://127.0.0.1:{port}")
    reader = reader.option("maxMessagesPerTrigger", batch).option("prefetch", 2 * batch)
    return (reader.schema(schema) if schema else reader).load("/queue/a")


def _ready_made(spark: SparkSession, batch: int, messages: int, schema: str = "") -> DataFrame:
    reader = spark.readStream.format("ready-made").options(messages=messages, batch=batch, tasks=PARTITIONS)
    return (reader.schema(schema) if schema else reader).load()


def figures(frame: DataFrame, batch: int, messages: int) -> Figures:
    """The medians over the triggers of a query that brings so many messages, ``batch`` in each.

    Without the first triggers, and without the last one, which may be small.
    """
    rows = 0

    def count(frame: DataFrame, batch_id: int) -> None:
        nonlocal rows
        rows += frame.count()

    with tempfile.TemporaryDirectory() as folder:
        query = frame.writeStream.foreachBatch(count).option("checkpointLocation", folder).start()
        wait_until(lambda: query.exception() or rows >= messages, _PATIENCE, "the last batch")
        failure, progress = query.exception(), query.recentProgress
        query.stop()
    if failure is not None:
        raise failure
    spent = [one["durationMs"] for one in progress if one["numInputRows"]][WARM_UP:-1]
    medians = {part: statistics.median(one.get(part, 0) for one in spent) for part in (WHOLE, *PARTS)}
    return {"value": batch / medians[WHOLE] * 1000, **medians}


if __name__ == "__main__":
    main()
