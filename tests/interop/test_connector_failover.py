"""A broker that dies in the middle of a stream, and comes back or leaves it to another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.brokers import Broker
from support.brokers.fixtures import BrokerPool, on_real_brokers
from support.driven import Run, publish
from support.spark import Recorder, Running, stomp_stream
from support.waiting import wait_until

from spark_stomp.brokers import dialect_named

pytestmark = pytest.mark.broker

BODIES = [b"message %d" % number for number in range(200)]


def again(query: Run) -> tuple[int, int]:
    """How many messages made a second row, and how many were known and still held."""
    (figures,) = query.counters()
    return figures["doubled"], figures["reattached"]


@on_real_brokers
def test_a_killed_broker_costs_no_message_and_no_second_row_where_ids_are_stable(broker: Broker) -> None:
    queue = broker.new_queue()
    publish(broker.options(), queue, BODIES[:100])
    with Run(broker.options(destination=queue)) as query:
        assert [row["body"] for row in query.gather(100)] == BODIES[:100]
        broker.restart()
        # The batch in flight stays readable, and is committed after its connection is gone.
        broker.wait_for(queue, ready=0, unacked=100)
        assert [row["body"] for row in query.read()] == BODIES[:100]
        # What was un-acked and offered, and nothing else, is doubled or re-attached. The broker counts what
        # it sent; what of it comes only after the commit would be neither.
        doubled, reattached = (100, 0) if dialect_named(broker.dialect).id_header is None else (0, 100)
        wait_until(lambda: again(query) == (doubled, reattached), what="all to have come again")
        query.commit()
        if doubled:
            assert [row["body"] for row in query.gather(100)] == BODIES[:100]
            query.commit()
        assert again(query) == (doubled, reattached)
        broker.wait_for(queue, ready=0, unacked=0)
        publish(broker.options(), queue, [b"afterwards"])
        assert [row["body"] for row in query.batch()] == [b"afterwards"]
        query.commit()
    broker.wait_for(queue, ready=0, unacked=0)


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
