"""What brokers tell of a queue when they are asked, and what their own management says."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from support.brokers import Broker
from support.brokers.fixtures import BrokerPool
from support.brokers.telling import ManagedRabbitMQ
from support.driven import Run, publish
from support.waiting import wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.brokers.standing import Standing
from spark_stomp.errors import DestinationRefused, ReceiptTimeout, UnsupportedError
from spark_stomp.options import parse_sink_options
from spark_stomp.transport.standing import ask_standing, send_trial

pytestmark = pytest.mark.broker


def ask(broker: Broker, queue: str) -> Standing:
    connection = parse_sink_options(broker.options()).connection
    peer = connection.endpoints[0].address
    return ask_standing(connection, dialect_named(broker.dialect), queue, peer)


def test_it_is_what_the_management_says(telling: Broker) -> None:
    queue = telling.new_queue()
    publish(telling.options(), queue, [b"x"] * 7)
    with Run(telling.options(destination=queue, prefetch=20)) as run:
        run.gather(7)
        telling.wait_for(queue, 0, unacked=7)
        wait_until(lambda: ask(telling, queue) == Standing(True, 0, 7, 1), what="the figures of a consumer")
    telling.wait_returned(queue, 7)
    wait_until(lambda: ask(telling, queue) == Standing(True, 7, 0, 0), what="the figures of a queue")
    assert telling.standing(queue) == (7, 0)


def test_a_query_that_has_nothing_says_who_has_it(telling: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another consumer has all messages, so the query gets none of them."""
    monkeypatch.setattr("spark_stomp.source.standings._PERIOD", 0.5)
    monkeypatch.setattr("spark_stomp.source.waiting._SETTLED", 1.0)
    queue = telling.new_queue()
    publish(telling.options(), queue, [b"x"] * 7)
    with Run(telling.options(destination=queue, prefetch=20)) as other:
        other.gather(7)
        with Run(telling.options(destination=queue)) as run:
            run.idle()
            waits = "the broker: nothing un-acked and nothing new (0 wait there, 1 other consumer)"
            wait_until(lambda: run.status.document["waiting_for"] == waits, what="the figures")
            shown = run.status.document["queues"]
            assert {key: shown[queue][key] for key in ("ready", "unacked", "consumers", "alarm")} == {
                "ready": 0,
                "unacked": 7,
                "consumers": 2,
                "alarm": None,
            }
            assert not run.status.failure


def test_a_queue_that_is_not_there(telling: Broker) -> None:
    """Asking does not make it, and a query that requires it is refused before it makes it."""
    queue = telling.new_queue()
    for _ in range(2):
        assert ask(telling, queue) == Standing(is_there=False)
        with (
            Run(telling.options(destination=queue, failOnMissingQueue=True)) as run,
            pytest.raises(DestinationRefused, match=f"{queue} is not there, and failOnMissingQueue"),
        ):
            run.batch()
    publish(telling.options(), queue, [b"x"])
    with Run(telling.options(destination=queue, failOnMissingQueue=True)) as run:
        run.gather(1)


def test_why_nobody_can_send(telling: Broker) -> None:
    queue = telling.new_queue()
    if isinstance(telling, ManagedRabbitMQ):
        publish(telling.options(), queue, [b"x"])
        connection = parse_sink_options(telling.options()).connection
        peer = connection.endpoints[0].address
        rabbitmq = dialect_named("rabbitmq")
        assert send_trial(connection, rabbitmq, peer) and ask(telling, queue).alarm is None
        telling.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.00001).")
        try:
            wait_until(lambda: ask(telling, queue).alarm is not None, what="the alarm")
            assert ask(telling, queue).alarm == "RabbitMQ has an alarm for memory"
            assert not send_trial(connection, rabbitmq, peer)
        finally:
            telling.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.6).")
        return
    folder, words = {
        "activemq": ("bounded", "the queue has reached its memoryLimit (producer flow control)"),
        "artemis": ("full.drop", "the address is full (address-full-policy DROP)"),
    }[telling.name]
    queue = queue.replace("/queue/", f"/queue/{folder}.")
    publish(telling.options(), queue, [b"x" * 1_000])
    assert ask(telling, queue).alarm is None
    with suppress(ReceiptTimeout):
        publish(telling.options(receiptTimeout="1s", blockedTimeout="1s"), queue, [b"x" * 1_000] * 1_000)
    assert ask(telling, queue).alarm == words


def test_a_broker_that_does_not_tell(broker_pool: BrokerPool, tmp_path: Path) -> None:
    artemis = broker_pool.get("artemis")
    with pytest.raises(UnsupportedError, match="only to a login with the right manage"):
        ask(artemis, artemis.new_queue())
    with (
        Run(artemis.options(destination=artemis.new_queue(), failOnMissingQueue=True)) as run,
        pytest.raises(UnsupportedError, match=r"whether .* cannot be known: .* the right manage"),
    ):
        run.batch()
