"""Heart-beats go on whatever Spark is doing, and a server that falls silent is noticed under Spark too."""

from __future__ import annotations

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
BODIES = [b"order %d" % number for number in range(60)]
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
    beating.publish_many(QUEUE, BODIES)
    seen = Slow(4 * INTERVAL)
    frame = stomp_stream(spark, beating.url, QUEUE, heartbeat="1s,1s", prefetch=20)
    with Running(frame, tmp_path, seen) as running:
        running.wait(lambda: beating.queue(QUEUE).acked == len(BODIES), what="the ACKs of everything")
        assert (beating.connects, beating.connections) == (1, 1)
    assert seen.bodies == BODIES
    assert len(seen.batches) >= 3


def test_a_server_that_falls_silent_is_left(
    spark: SparkSession, beating: DevBroker, devbroker: DevBroker, tmp_path: Path
) -> None:
    beating.publish_many(QUEUE, BODIES[:10])
    devbroker.publish_many(QUEUE, BODIES[10:])
    seen = Recorder()
    url = f"{beating.url},{devbroker.url}"
    frame = stomp_stream(spark, url, QUEUE, heartbeat="1s,1s", connectTimeout="1s")
    with Running(frame, tmp_path, seen) as running:
        running.wait(lambda: beating.queue(QUEUE).acked == 10, what="the ACKs of the first broker")
        beating.faults.answer_nothing = True
        begun = time.monotonic()
        # Two intervals until it counts as silent, and connectTimeout for the first address once more.
        running.wait(lambda: devbroker.connections == 1, what="the second broker")
        assert time.monotonic() - begun < 10
        running.wait(lambda: devbroker.queue(QUEUE).acked == 50, what="the ACKs of the second")
    assert seen.bodies == BODIES
