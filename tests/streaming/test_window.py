"""Contract 5: a window smaller than the backlog, limits of a batch, and AvailableNow's ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.spark import Recorder, Running, stomp_stream
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"


def bodies(count: int, size: int = 0) -> list[bytes]:
    return [b"%06d" % number + b"x" * size for number in range(count)]


@pytest.mark.core
def test_available_now_on_an_empty_queue_ends_after_the_idle_time(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    seen = Recorder()
    frame = stomp_stream(spark, devbroker.url, QUEUE, idleTimeout="1s")
    with Running(frame, tmp_path, seen, availableNow=True) as running:
        running.finish()
    assert not seen.bodies


@pytest.mark.core
@pytest.mark.rule("5.8")
@pytest.mark.parametrize(
    ("count", "prefetch"), [(500, 50), pytest.param(25_000, 10_000, marks=pytest.mark.soak)]
)
def test_a_drain_takes_a_backlog_of_many_windows_on_every_release(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path, count: int, prefetch: int
) -> None:
    devbroker.publish_many(QUEUE, bodies(count))
    seen = Recorder()
    journal = {"journal": tmp_path / "journal", "ackAfter": "journal", "drain": "true"}
    frame = stomp_stream(spark, devbroker.url, QUEUE, prefetch=prefetch, **journal)
    with Running(frame, tmp_path / "checkpoint", seen, availableNow=True) as running:
        running.finish()
    assert [len(batch) for batch in seen.batches.values()] == [count]
    assert seen.bodies == bodies(count)
    wait_until(lambda: devbroker.queue(QUEUE).depth == 0, what="all ACKs")
