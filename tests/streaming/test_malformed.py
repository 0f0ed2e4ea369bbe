"""Malformed messages under Spark, and the recipe of docs/reading.md, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pages import READING, programs
from support.spark import Recorder, Running, drains, stomp_stream
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"
DEAD = "/queue/orders.dead"
NUL = b"x:a\0b\n"
GOOD = [b"good %d" % number for number in range(40)]
RECIPE = programs(READING, "Malformed messages")


def poisoned(broker: DevBroker) -> None:
    broker.publish_many(QUEUE, GOOD)
    broker.publish(QUEUE, b"bad", raw=NUL)


@pytest.mark.rule("7.6")
@pytest.mark.parametrize("available_now", [False, pytest.param(True, marks=drains)])
def test_the_query_ends_with_the_message_named_after_all_that_came_before(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path, available_now: bool
) -> None:
    poisoned(devbroker)
    recorder = Recorder()
    trigger = {"availableNow": True} if available_now else {}
    frame = stomp_stream(spark, devbroker.url, QUEUE, minMessagesPerTrigger=1000, maxTriggerDelay="1h")
    with Running(frame, tmp_path, recorder, **trigger) as running:
        text = running.failure()
    assert "[STOMP_MESSAGE_MALFORMED]" in text and QUEUE in text and "'ID:" in text
    assert recorder.bodies == GOOD
    wait_until(lambda: devbroker.connections == 0, what="the end of the receiver")
    assert devbroker.bodies(QUEUE) == [b"bad"]


@pytest.mark.rule("7.7")
def test_the_recipe_routes_them_to_a_dead_letter_queue(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    poisoned(devbroker)
    names: dict[str, Any] = {"spark": spark}
    for block in RECIPE:
        own = block.replace("stomp://broker:61613", devbroker.url).replace("/data/", f"{tmp_path}/")
        exec(compile(own, "docs/reading.md", "exec"), names)
    query = names["query"]
    try:
        wait_until(lambda: devbroker.queue(DEAD).depth == 1 or query.exception(), what="the dead letter")
    finally:
        query.stop()
    assert query.exception() is None
    written = spark.read.parquet(f"{tmp_path}/orders")
    assert sorted(bytes(row.body) for row in written.collect()) == sorted(GOOD)
    reader = spark.read.format("stomp").option("url", devbroker.url).option("idleTimeout", "300ms")
    (dead,) = reader.load(DEAD).collect()
    assert bytes(dead.body).endswith(b"\n\nbad\0") and NUL in bytes(dead.body)
    assert dead.headers["x-from"] == QUEUE and dead.headers["x-message-id"].startswith("ID:")
    assert dead.headers["x-reason"].startswith("[STOMP_FRAME_MALFORMED] a NUL")
