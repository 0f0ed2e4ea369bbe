"""A broker that dies and comes back in the middle of a stream, and what becomes of the batch in flight."""

from __future__ import annotations

from support.brokers import Broker
from support.brokers.fixtures import on_real_brokers
from support.driven import Run, publish

from spark_stomp.dialects import dialect_named

pytestmark = on_real_brokers

BODIES = [b"message %d" % number for number in range(100)]


def test_a_killed_broker_costs_no_message_and_no_second_row_where_ids_are_stable(broker: Broker) -> None:
    queue = broker.new_queue()
    publish(broker.options(), queue, BODIES)
    with Run(broker.options(destination=queue)) as query:
        assert [row["body"] for row in query.gather(100)] == BODIES
        broker.restart()
        # The batch in flight stays readable, and is committed after its connection is gone.
        broker.wait_for(queue, ready=0, unacked=100, timeout=40)
        assert [row["body"] for row in query.read()] == BODIES
        query.commit()
        if dialect_named(broker.dialect).id_header is None:
            assert [row["body"] for row in query.gather(100)] == BODIES
            query.commit()
        broker.wait_for(queue, ready=0, unacked=0)
        publish(broker.options(), queue, [b"afterwards"])
        assert [row["body"] for row in query.batch()] == [b"afterwards"]
        query.commit()
    broker.wait_for(queue, ready=0, unacked=0)
