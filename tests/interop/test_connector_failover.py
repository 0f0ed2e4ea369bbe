"""A broker that dies in the middle of a stream, and comes back or leaves it to another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.brokers.fixtures import BrokerPool
from support.driven import publish
from support.spark import Recorder, Running, stomp_stream

pytestmark = pytest.mark.broker

BODIES = [b"message %d" % number for number in range(200)]


@pytest.mark.spark
def test_the_stream_moves_to_the_second_broker(
    broker_pool: BrokerPool, spark: SparkSession, tmp_path: Path
) -> None:
    first, second = broker_pool.get("activemq"), broker_pool.get("artemis")
    queue, seen = first.new_queue(), Recorder()
    publish(first.options(), queue, BODIES[:100])
    publish(second.options(), queue, BODIES[100:])
    options = first.options(url=f"{first.url},{second.url}", destination=queue)
    with Running(stomp_stream(spark, **options), tmp_path, seen) as running:
        running.wait(lambda: set(seen.bodies) == set(BODIES[:100]), what="the messages of the first")
        first.wait_for(queue, ready=0, unacked=0)
        first.kill()
        try:
            running.wait(lambda: set(seen.bodies) == set(BODIES), what="the messages of the second")
            second.wait_for(queue, ready=0, unacked=0)
        finally:
            first.start()
    assert seen.bodies == BODIES
    first.wait_for(queue, ready=0, unacked=0)
