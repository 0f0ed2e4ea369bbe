"""Receivers that pause on real brokers: prefetch times size is far beyond the bounds (contract 5)."""

from __future__ import annotations

import pytest
from support.brokers import Broker, Standing
from support.brokers.fixtures import on_real_brokers
from support.driven import Run, publish
from support.waiting import pause, wait_until

pytestmark = [pytest.mark.broker, on_real_brokers]

SIZE = 50_000
MANY = 400
BODIES = [b"%06d" % number + b"x" * SIZE for number in range(MANY)]
# The bound (maxBufferedBytes), the least that is read at once, and the message that was begun.
MOST = (2 << 20) + (64 << 10) + 2 * SIZE


def held(run: Run) -> int:
    (one,) = run.counters()
    return int(one["buffered_bytes"])


def is_full(run: Run) -> bool:
    """Whether no more comes: it is paused, or, on Artemis, the window in bytes is full."""
    return bool(run.status.document["totals"]["window_full"])


@pytest.mark.rule("5.7", "5.13")
def test_a_batch_over_several_heart_beats(broker: Broker) -> None:
    """All comes, and twice if a connection is lost whose ACKs were not read."""
    queue = broker.new_queue()
    assert publish(broker.options(), queue, BODIES) == MANY
    options = broker.options(destination=queue, maxBufferedBytes="2m")
    with Run(options, heartbeat="1s,1s", ackReceiptTimeout="2s") as run:
        bodies = [row["body"] for row in run.batch()]
        wait_until(lambda: is_full(run), what="a full receiver")
        pause(4.0)
        assert held(run) <= MOST
        run.commit()

        def is_empty() -> bool:
            run.end = run.reader.latestOffset(run.start, None)
            if run.end != run.start:
                bodies.extend(row["body"] for row in run.read())
                assert held(run) <= MOST
                run.commit()
            return broker.standing(queue) == Standing(ready=0, unacked=0)

        wait_until(is_empty, what="an empty queue")
        assert sorted(set(bodies)) == BODIES
        # RabbitMQ reads no heart-beats while it cannot write, and closes the connection, once.
        assert run.counters()[0]["reconnects"] <= (broker.dialect == "rabbitmq")
        assert broker.dialect == "rabbitmq" or len(bodies) == MANY
