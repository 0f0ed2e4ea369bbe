"""Contract 2: reading a range again gives identical rows, each message once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from support.spark import Recorder, Running, stomp_stream

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"
BODIES = [b"order %03d" % number for number in range(200)]


@pytest.mark.rule("2.1")
def test_tasks_side_by_side_give_each_message_once_and_in_order(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    bodies = [
        b"%06d" % number + bytes(10_000) for number in range(2_000)
    ]  # 20 MB: a task for each of two cores
    devbroker.publish_many(QUEUE, bodies)
    partitions, seen = [], []

    @udf("string")
    def failing_once(body):  # type: ignore[no-untyped-def]  # Spark reads annotations as pandas types
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and bytes(body[:6]) == b"001999":
            raise RuntimeError("this task fails the first time")
        return bytes(body[:6]).decode()

    def sink(batch: DataFrame, batch_id: int) -> None:
        rows = batch.select("sequence", failing_once("body").alias("number"))
        found = [tuple(row) for row in rows.collect()]
        if found:  # the first batch may come before the messages
            assert [tuple(row) for row in rows.collect()] == found
            partitions.append(batch.rdd.getNumPartitions())
            seen.append(found)

    options = {"minMessagesPerTrigger": len(bodies), "maxTriggerDelay": "60s"}
    frame = stomp_stream(spark, devbroker.url, QUEUE, "body binary, sequence bigint", **options)
    with Running(frame, tmp_path, sink) as running:
        running.wait(lambda: seen, what="the batch")
        running.wait(lambda: devbroker.queue(QUEUE).depth == 0, what="its ACKs")
    assert partitions == [min(2, os.cpu_count() or 1)]
    assert seen == [[(number, f"{number:06d}") for number in range(len(bodies))]]


def test_one_stream_used_twice_in_a_query(spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    seen = Recorder()
    frame = stomp_stream(spark, devbroker.url, QUEUE).select("body")
    with Running(frame.union(frame), tmp_path, seen) as running:
        running.wait(lambda: len(seen.bodies) >= 2 * len(BODIES), what="both copies")
        running.wait(lambda: devbroker.queue(QUEUE).depth == 0, what="their ACKs")
    assert sorted(seen.bodies) == sorted(BODIES * 2)
