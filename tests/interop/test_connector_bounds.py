"""Receivers that pause on real brokers: prefetch times size is far beyond the bounds (contract 5)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.brokers import Broker, Standing
from support.brokers.fixtures import on_real_brokers
from support.driven import Run, publish
from support.waiting import PATIENCE, pause, wait_until

from spark_stomp.source.planning import Mode

pytestmark = [pytest.mark.broker, on_real_brokers]

SIZE = 50_000
MANY = 400
BODIES = [b"%06d" % number + b"x" * SIZE for number in range(MANY)]
BOUNDS = {"maxBufferedBytes": "2m"}
# The bound, the least that is read at once, and the message that was begun.
MOST = (2 << 20) + (64 << 10) + 2 * SIZE


def filled(broker: Broker) -> str:
    queue = broker.new_queue()
    assert publish(broker.options(), queue, BODIES) == MANY
    return queue


def held(run: Run) -> int:
    (one,) = run.counters()
    return int(one["buffered_bytes"])


def is_full(run: Run) -> bool:
    """Whether no more comes: it is paused, or, on Artemis, the window in bytes is full."""
    return bool(run.status.document["totals"]["window_full"])


def read_behind_a_slow_sink(run: Run, seconds: float) -> list[bytes]:
    """All bodies, some of them twice if the connection broke; the first batch takes so long."""
    bodies = [row["body"] for row in run.batch()]
    wait_until(lambda: is_full(run), what="a full receiver")
    pause(seconds)
    deadline = time.monotonic() + PATIENCE
    while True:
        assert held(run) <= MOST
        run.commit()
        if len(set(bodies)) == MANY:
            return bodies
        assert time.monotonic() < deadline, f"{len(set(bodies))} came"
        bodies += [row["body"] for row in run.batch()]


def read_again(run: Run, broker: Broker, queue: str) -> list[bytes]:
    """What comes until the queue is empty: all of it, if a connection is lost whose ACKs were not read."""
    bodies: list[bytes] = []

    def is_empty() -> bool:
        run.end = run.reader.latestOffset(run.start, None)
        if run.end != run.start:
            bodies.extend(row["body"] for row in run.read())
            assert held(run) <= MOST
            run.commit()
        return broker.standing(queue) == Standing(ready=0, unacked=0)

    wait_until(is_empty, what="an empty queue")
    return bodies


def check_slow_sink(broker: Broker, seconds: float, **options: Any) -> None:
    queue = filled(broker)
    with Run(broker.options(destination=queue, **options), **BOUNDS) as run:
        bodies = read_behind_a_slow_sink(run, seconds) + read_again(run, broker, queue)
        assert sorted(set(bodies)) == BODIES
        # RabbitMQ reads no heart-beats while it cannot write, and closes the connection, once.
        assert run.counters()[0]["reconnects"] <= (broker.dialect == "rabbitmq")
        assert broker.dialect == "rabbitmq" or len(bodies) == MANY


@pytest.mark.rule("5.7", "5.13")
def test_a_batch_over_several_heart_beats(broker: Broker) -> None:
    check_slow_sink(broker, 4.0, heartbeat="1s,1s", ackReceiptTimeout="2s")


@pytest.mark.rule("5.5", "5.7")
def test_a_drain_reads_everything(broker: Broker) -> None:
    queue = filled(broker)
    bodies: list[bytes] = []
    with Run(broker.options(destination=queue), **BOUNDS) as run:
        run.reader._mode = Mode.DRAIN
        while (end := run.reader.latestOffset(run.start, None)) != run.start:
            run.end = end
            bodies += [row["body"] for row in run.read()]
            assert held(run) <= MOST
            run.commit()
    assert sorted(bodies) == BODIES
    broker.wait_for(queue, ready=0, unacked=0)
