"""The sink and a broker that blocks its producers, or dies while it is written to."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from support.brokers import Broker
from support.brokers.activemq import ActiveMQ
from support.brokers.fixtures import BrokerPool, on_real_brokers
from support.brokers.rabbitmq import RabbitMQ
from support.options import sink_options, source_options
from support.receivers import running
from support.slices import encoded, slices
from support.waiting import pause, wait_until

from spark_stomp.errors import BrokerError
from spark_stomp.sink.sender import Sender
from spark_stomp.status.sink import TaskFigures

BODIES = [b"message %d" % number for number in range(2_000)]
_LIMIT = "vm_memory_monitor:set_vm_memory_high_watermark({absolute, %d})."


def sending_to(broker: Broker, queue: str, **options: Any) -> Future[TaskFigures]:
    """A task that sends all bodies, and counts a broker that is silent for a second as blocked."""
    given = sink_options(broker.url, **broker.credentials, receiptTimeout="1s", heartbeat="1s,1s", **options)

    def work() -> TaskFigures:
        with Sender(given) as sender:
            for part in slices(BODIES, 500, queue):
                sender.send(part)
            return sender.finish()

    return ThreadPoolExecutor(1).submit(work)


@pytest.mark.broker
@pytest.mark.rule("S.4")
@pytest.mark.parametrize("seconds", [1, pytest.param(20, marks=pytest.mark.soak)])
def test_the_memory_alarm_of_rabbitmq_is_waited_for(
    rabbitmq: RabbitMQ, seconds: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its bytes stay in the socket, and its heart-beats go on."""
    queue = rabbitmq.new_queue()
    rabbitmq.evaluate(_LIMIT % 1)
    try:
        wait_until(lambda: "memory" in rabbitmq.evaluate("rabbit_alarm:get_alarms()."), what="the alarm")
        sending = sending_to(rabbitmq, queue)
        wait_until(lambda: "counts as blocked" in caplog.text, what="the line of the log")
        pause(seconds - 1)
    finally:
        rabbitmq.evaluate(_LIMIT % (4 << 30))
    figures = sending.result()
    assert (figures.confirmed, figures.resent, figures.connections) == (2_000, 0, 1)
    assert seconds <= figures.blocked_seconds < seconds + 10
    rabbitmq.wait_for(queue, ready=2_000)


@pytest.mark.broker
@pytest.mark.rule("S.4")
def test_producer_flow_control_of_activemq_is_waited_for(
    broker_pool: BrokerPool, caplog: pytest.LogCaptureFixture
) -> None:
    """It reads on, and confirms nothing until a consumer has made room."""
    activemq = broker_pool.get("activemq")
    assert isinstance(activemq, ActiveMQ)
    queue = activemq.new_bounded_queue()
    sending = sending_to(activemq, queue, receiptWindow=500)
    wait_until(lambda: "counts as blocked" in caplog.text, what="the line of the log")
    assert activemq.depth(queue) < len(BODIES)
    with running(source_options(activemq.url, queue, **activemq.credentials)) as receiver:

        def all_taken() -> bool:
            taken = receiver.frames.received
            receiver.acknowledge(taken)
            return taken >= len(BODIES)

        wait_until(all_taken, what="the last message", every=0.01)
    figures = sending.result()
    assert (figures.confirmed, figures.resent, figures.connections) == (len(BODIES), 0, 1)
    assert figures.blocked_seconds >= 1
    assert activemq.depth(queue) == 0


@on_real_brokers
@pytest.mark.rule("S.3")
def test_a_broker_that_restarts_in_the_middle_costs_no_message(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    queue = broker.new_queue()
    options = sink_options(broker.url, **broker.credentials, receiptWindow=100)
    bodies = [b"message %d" % number for number in range(1_000)]
    with Sender(options) as sender:
        for number, part in enumerate(slices(bodies, 50, queue)):
            if number == 10:
                broker.restart()
            sender.send(part)
        figures = sender.finish()
    assert (figures.confirmed, figures.connections) == (1_000, 2)
    lost, again = caplog.messages
    assert "connection lost: " in lost
    assert "connected again after " in again
    standing = broker.standing(queue)
    assert 1_000 <= standing.ready + standing.unacked <= 1_000 + figures.resent


@pytest.mark.broker
@pytest.mark.rule("S.5")
def test_a_destination_that_rabbitmq_refuses_fails_the_task_at_once(rabbitmq: RabbitMQ) -> None:
    """It names no message."""
    options = sink_options(rabbitmq.url, **rabbitmq.credentials)
    with Sender(options) as sender, pytest.raises(BrokerError, match="nonsense"):
        sender.send(encoded([b"x"], "/nonsense/x"))
        sender.finish()
