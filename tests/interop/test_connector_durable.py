"""Durable and shared topic subscriptions, on every broker; differences only where the dialect declares them.

Each test ends with what the broker's own management says of the topic's subscriptions: empty, and nothing
un-acked.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_every_broker, on_every_rabbitmq, on_every_release
from support.brokers.rabbitmq import RabbitMQ
from support.driven import Run, bodies, publish
from support.proxy import FaultProxy
from support.session import subscribe
from support.waiting import PATIENCE

from spark_stomp.brokers import Dialect
from spark_stomp.errors import DestinationRefused, UnsupportedError
from spark_stomp.options import parse_source_options
from spark_stomp.transport import open_connection

BODIES = [b"message %d" % number for number in range(40)]


@pytest.fixture
def topic(broker: Broker) -> Iterator[str]:
    destination = broker.new_topic()
    yield destination
    broker.wait_for(destination, ready=0, unacked=0)


@pytest.fixture
def client() -> str:
    return f"client-{secrets.token_hex(4)}"


def run(broker: Broker, topic: str, client: str, *, name: str = "sub", **options: Any) -> Run:
    return Run(broker.options(destination=topic, durableName=name, clientId=client, **options))


def send(broker: Broker, topic: str, bodies: list[bytes], *headers: tuple[str, str]) -> None:
    assert publish(broker.options(), topic, bodies, *headers) == len(bodies)


def made(broker: Broker, topic: str, client: str, **options: Any) -> None:
    """Make the subscription, and leave it."""
    with run(broker, topic, client, **options) as query:
        query.idle()


@on_every_release
def test_a_query_finds_what_came_while_it_was_stopped(broker: Broker, topic: str, client: str) -> None:
    with run(broker, topic, client) as query:
        query.idle()
        send(broker, topic, BODIES[:10])
        assert bodies(query.gather(10)) == BODIES[:10]
        query.commit()
        send(broker, topic, BODIES[10:20])
        assert bodies(query.gather(10)) == BODIES[10:20]
    # The second batch was not committed, so it is redelivered.
    broker.wait_for(topic, ready=10, unacked=0)
    send(broker, topic, BODIES[20:])
    with run(broker, topic, client) as query:
        assert bodies(query.gather(30)) == BODIES[10:]
        query.commit()
        broker.wait_for(topic, ready=0, unacked=0)


@on_every_broker
def test_a_sink_may_have_the_options_of_a_source_with_a_client_id(
    broker: Broker, topic: str, client: str
) -> None:
    """On ActiveMQ and Artemis one connection at a time may have it."""
    queue = broker.new_queue()
    with run(broker, topic, client) as query:
        query.idle()
        assert publish(broker.options(clientId=client), queue, [b"x"]) == 1
        send(broker, topic, [b"y"])
        assert bodies(query.gather(1)) == [b"y"]
        query.commit()
        broker.wait_for(topic, ready=0, unacked=0)


class TestAnExchangeOfRabbitMQ:
    """Unlike /topic/, releases from 4.0 on would declare the queue as exclusive, so that it goes with its
    connection."""

    @on_every_rabbitmq
    def test_it_keeps_what_comes_while_the_query_is_cut_or_stopped(self, rabbitmq: RabbitMQ) -> None:
        exchange = f"/exchange/amq.topic/{secrets.token_hex(6)}"
        with FaultProxy(rabbitmq.port) as proxy:
            options = rabbitmq.options(url=proxy.url, destination=exchange, durableName="sub")
            with Run(options) as query:
                query.idle()
                proxy.refuse()
                proxy.cut()
                send(rabbitmq, exchange, BODIES[:20])
                proxy.heal()
                assert bodies(query.gather(20)) == BODIES[:20]
                query.commit()
            send(rabbitmq, exchange, BODIES[20:])
            with Run(options) as query:
                assert bodies(query.gather(20)) == BODIES[20:]
                query.commit()

    @pytest.mark.parametrize("rabbitmq", ["rabbitmq-3.10"], indirect=True)
    def test_one_that_was_declared_without_exclusive_goes_on(self, rabbitmq: RabbitMQ) -> None:
        exchange = f"/exchange/amq.topic/{secrets.token_hex(6)}"
        with open_connection(parse_source_options(rabbitmq.options(destination=exchange)).connection) as made:
            headers = (("durable", "true"), ("auto-delete", "false"))
            subscribe(made.session, f"sub@{exchange}", exchange, ack="client-individual", headers=headers)
            made.disconnect(PATIENCE)
        send(rabbitmq, exchange, BODIES)
        with Run(rabbitmq.options(destination=exchange, durableName="sub")) as query:
            assert bodies(query.gather(len(BODIES))) == BODIES
            query.commit()


@on_every_broker
def test_each_name_gets_every_message(broker: Broker, topic: str, client: str) -> None:
    for name in ("one", "two"):
        made(broker, topic, client, name=name)
    send(broker, topic, BODIES)
    for name in ("one", "two"):
        with run(broker, topic, client, name=name) as query:
            assert bodies(query.gather(len(BODIES))) == BODIES
            query.commit()


@on_every_release
def test_several_connections_share_it_or_are_refused(
    broker: Broker, topic: str, client: str, dialect: Dialect
) -> None:
    shared = dialect.durable_topics is not None and dialect.durable_topics.shared
    options = broker.options(destination=topic, durableName="sub", connections=2)
    if not shared:
        with Run(options) as query, pytest.raises(UnsupportedError, match="2 connections would subscribe"):
            query.idle()
        return
    shared_by_two(broker, topic, {**options, "clientId": client})


def shared_by_two(broker: Broker, topic: str, options: dict[str, str]) -> None:
    """Messages to the topic come over both connections of the query, each once."""
    with Run(options, ("body", "receiver")) as query:
        query.idle()
        send(broker, topic, BODIES)
        rows = query.gather(len(BODIES))
        assert sorted(bodies(rows)) == sorted(BODIES)
        assert len({row["receiver"] for row in rows}) == 2
        query.commit()
        broker.wait_for(options["destination"], ready=0, unacked=0)


@on_every_broker
def test_several_connections_share_a_virtual_topic(broker: Broker) -> None:
    if broker.dialect != "activemq":
        return  # which alone has them, in place of shared subscriptions
    topic = f"VirtualTopic.t{secrets.token_hex(6)}"
    options = broker.options(destination=f"/queue/Consumer.me.{topic}", connections=2)
    shared_by_two(broker, f"/topic/{topic}", options)


@on_every_release
def test_another_selector_starts_another_selection(
    broker: Broker, topic: str, client: str, dialect: Dialect
) -> None:
    if not dialect.selectors:
        return  # refused, as on queues
    for colour in ("red", "blue"):
        with run(broker, topic, client, selector=f"colour = '{colour}'") as query:
            query.idle()
            send(broker, topic, BODIES[:5], ("colour", colour))
            send(broker, topic, BODIES[5:10], ("colour", "green"))
            assert bodies(query.gather(5)) == BODIES[:5]
            query.commit()
            broker.wait_for(topic, ready=0, unacked=0)


@on_every_broker
def test_a_topic_without_a_name_is_refused(broker: Broker, topic: str) -> None:
    refused = pytest.raises(UnsupportedError, match=r"durableName.*allowLoss")
    with Run(broker.options(destination=topic)) as query, refused:
        query.idle()
    with Run(broker.options(destination=topic, allowLoss="true")) as query:
        query.idle()
        send(broker, topic, BODIES)
        assert bodies(query.gather(len(BODIES))) == BODIES
        query.commit()
        broker.wait_for(topic, ready=0, unacked=0)


@on_every_release
def test_a_temporary_queue_is_refused(broker: Broker) -> None:
    options = broker.options(destination="/temp-queue/a")
    with Run(options) as query, pytest.raises(UnsupportedError, match=r"temporary queue.*allowLoss"):
        query.idle()
    with Run(options, allowLoss="true") as query:
        # RabbitMQ has it only as reply-to.
        refused = pytest.raises(DestinationRefused, match="not a valid destination for 'SUBSCRIBE'")
        with refused if broker.dialect == "rabbitmq" else nullcontext():
            query.idle()
