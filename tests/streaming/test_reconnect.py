"""Contract 2 and 4 under Spark: a connection that breaks costs no message and gives no second row."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.spark import Recorder, Running, drains, stomp_stream

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"
BODIES = [b"order %d" % number for number in range(3_000)]


def test_connections_that_break_at_random(spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
    chance = random.Random(1)
    devbroker.publish_many(QUEUE, BODIES[:1_000])
    seen = Recorder()
    frame = stomp_stream(spark, devbroker.url, QUEUE, receivers=2, maxMessagesPerTrigger=200)
    with Running(frame, tmp_path, seen) as running:
        # A connection that breaks before the broker let it in is an error and not tried again.
        running.wait(lambda: devbroker.connections == 2, what="both receivers")
        running.wait(lambda: seen.bodies, what="the first batch")
        for begin in range(1_000, len(BODIES), 200):
            devbroker.publish_many(QUEUE, BODIES[begin : begin + 200])
            # At some point of what the broker is doing: deliveries and ACKs go on while this thread counts.
            moment = devbroker.queue(QUEUE).delivered + chance.randrange(1, 150)
            running.wait(lambda moment=moment: _reached(devbroker, moment), what="the moment to break")  # type: ignore[misc]
            devbroker.drop_connections()
        running.wait(lambda: devbroker.queue(QUEUE).acked == len(BODIES), what="the ACKs of everything")
    assert devbroker.queue(QUEUE).depth == 0
    assert devbroker.queue(QUEUE).redelivered > 0
    assert sorted(seen.bodies) == sorted(BODIES)


def _reached(broker: DevBroker, delivered: int) -> bool:
    view = broker.queue(QUEUE)
    return view.delivered >= delivered or view.depth == 0


@drains
def test_available_now_waits_for_the_next_connection(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish_many(QUEUE, BODIES[:50])
    seen = Recorder()

    def write(batch, batch_id: int) -> None:  # type: ignore[no-untyped-def]
        seen(batch, batch_id)
        devbroker.drop_connections()

    frame = stomp_stream(spark, devbroker.url, QUEUE, maxMessagesPerTrigger=20)
    with Running(frame, tmp_path, write, availableNow=True) as running:
        running.finish()
    assert sorted(seen.bodies) == sorted(BODIES[:50])
    assert devbroker.queue(QUEUE).depth == 0
