"""Contract 2 and 4 under Spark: connections that end or fall silent cost no message, and no second row."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.spark import Recorder, Running, stomp_stream
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"
BODIES = [b"order %d" % number for number in range(3_000)]


def test_connections_that_break_at_random(spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
    chance = random.Random(1)
    devbroker.publish_many(QUEUE, BODIES[:1_000])
    seen = Recorder()
    frame = stomp_stream(spark, devbroker.url, QUEUE, connections=2, maxMessagesPerTrigger=200)
    with Running(frame, tmp_path, seen) as running:
        # A connection that breaks before the broker let it in is an error and not tried again.
        running.wait(lambda: devbroker.connections == 2, what="both connections")
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


INTERVAL = 1.0


@pytest.fixture
def beating() -> Iterator[DevBroker]:
    """A broker that drops a client whose heart-beat is an interval late."""
    milliseconds = int(1000 * INTERVAL)
    with DevBroker(heartbeat=(milliseconds, milliseconds)) as broker:
        yield broker


class Slow(Recorder):
    """Takes its time over the first batch."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        if not self.batches:
            over = time.monotonic() + self.seconds
            wait_until(lambda: time.monotonic() >= over, 2 * self.seconds, "the end of a long batch")
        super().__call__(batch, batch_id)


def test_a_batch_longer_than_three_intervals_with_a_full_window(
    spark: SparkSession, beating: DevBroker, tmp_path: Path
) -> None:
    beating.publish_many(QUEUE, BODIES[:60])
    seen = Slow(4 * INTERVAL)
    frame = stomp_stream(spark, beating.url, QUEUE, heartbeat="1s,1s", prefetch=20)
    with Running(frame, tmp_path, seen) as running:
        running.wait(lambda: beating.queue(QUEUE).acked == 60, what="the ACKs of everything")
        assert (beating.connects, beating.connections) == (1, 1)
    assert seen.bodies == BODIES[:60]
    assert len(seen.batches) >= 3
