"""A broker that dies and comes back in the middle of a stream, and what becomes of the batch in flight."""

from __future__ import annotations

import time

from support.brokers import Broker
from support.brokers.fixtures import on_real_brokers
from support.driven import Run, publish
from support.waiting import wait_until

from spark_stomp.brokers import dialect_named

pytestmark = on_real_brokers

BODIES = [b"message %d" % number for number in range(100)]


def again(query: Run) -> tuple[int, int]:
    """How many messages made a second row, and how many were known and still held."""
    (figures,) = query.counters()
    return figures["doubled"], figures["reattached"]


def test_a_killed_broker_costs_no_message_and_no_second_row_where_ids_are_stable(broker: Broker) -> None:
    queue = broker.new_queue()
    publish(broker.options(), queue, BODIES)
    with Run(broker.options(destination=queue)) as query:
        assert [row["body"] for row in query.gather(100)] == BODIES
        broker.restart()
        # The batch in flight stays readable, and is committed after its connection is gone.
        broker.wait_for(queue, ready=0, unacked=100)
        assert [row["body"] for row in query.read()] == BODIES
        # What was un-acked and offered, and nothing else, is doubled or re-attached. The broker counts what
        # it sent; what of it comes only after the commit would be neither.
        doubled, reattached = (100, 0) if dialect_named(broker.dialect).id_header is None else (0, 100)
        wait_until(lambda: again(query) == (doubled, reattached), what="all to have come again")
        query.commit()
        if doubled:
            assert [row["body"] for row in query.gather(100)] == BODIES
            query.commit()
        assert again(query) == (doubled, reattached)
        broker.wait_for(queue, ready=0, unacked=0)
        publish(broker.options(), queue, [b"afterwards"])
        assert [row["body"] for row in query.batch()] == [b"afterwards"]
        query.commit()
    broker.wait_for(queue, ready=0, unacked=0)


def test_a_batch_longer_than_three_heartbeats_behind_a_full_window(broker: Broker) -> None:
    queue = broker.new_queue()
    publish(broker.options(), queue, BODIES)
    with Run(broker.options(destination=queue, heartbeat="2s,2s", prefetch=20)) as query:
        rows = query.batch()
        over = time.monotonic() + 7.0
        wait_until(lambda: time.monotonic() >= over, what="the end of a long batch")
        query.commit()
        rows += query.take(len(BODIES) - len(rows))
        query.commit()
        broker.wait_for(queue, ready=0, unacked=0)
        (figures,) = query.counters()
    assert [row["body"] for row in rows] == BODIES
    assert figures["reconnects"] == 0
