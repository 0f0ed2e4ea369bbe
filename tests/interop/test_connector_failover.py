"""A broker that dies in the middle of a query, which goes on with another one."""

from __future__ import annotations

import pytest
from support.brokers.fixtures import BrokerPool
from support.driven import Run, publish

BODIES = [b"message %d" % number for number in range(200)]


@pytest.mark.broker
def test_the_query_moves_to_the_second_broker(broker_pool: BrokerPool) -> None:
    first, second = broker_pool.get("activemq"), broker_pool.get("artemis")
    queue = first.new_queue()
    publish(first.options(), queue, BODIES[:100])
    publish(second.options(), queue, BODIES[100:])
    with Run(first.options(url=f"{first.url},{second.url}", destination=queue)) as query:
        rows = query.gather(100)
        query.commit()
        first.wait_for(queue, ready=0, unacked=0)
        first.kill()
        try:
            rows += query.gather(100)
            query.commit()
            second.wait_for(queue, ready=0, unacked=0)
        finally:
            first.start()
    assert [row["body"] for row in rows] == BODIES
    first.wait_for(queue, ready=0, unacked=0)
