"""Messages of other protocols: the frames that brokers make of them, against tests/data/frames.

``SPARK_STOMP_WRITE_FRAMES=1 make test ARGS="-m soak -k every_message"`` writes the files again.
"""

from __future__ import annotations

import os

import pytest
from support.brokers import Broker
from support.brokers.fixtures import BrokerPool, on_real_brokers
from support.frames import Recorded, lines_of, row_of
from support.producers import PRODUCERS, Target
from support.producers.capture import Consumer, captured

WRITES = bool(os.environ.get("SPARK_STOMP_WRITE_FRAMES"))
# What does not need soak: these messages, and not of producers that take seconds to start.
QUICK = {
    "data",
    "value: string",
    "value: map",
    "bytes",
    "text",
    "map",
    "all but the body",
    "all properties",
    "QoS 1",
}
SLOW = {
    ("activemq", "JMS over AMQP"),
    ("activemq", "JMS over AMQP with transformer=jms"),
    ("artemis", "JMS over AMQP"),
    ("artemis", "JMS over OpenWire"),
    ("rabbitmq-3.10", "MQTT 3.1.1"),
}
PAIRS = [(broker, protocol) for broker, producers in PRODUCERS.items() for protocol in producers]


def check(pool: BrokerPool, broker: str, protocol: str, only: set[str] | None = None) -> None:
    producer, recorded = PRODUCERS[broker][protocol], Recorded(broker)
    names = [name for name in producer.messages if only is None or name in only]
    frames = captured(pool.get(broker), producer, names)
    seen = {f"{protocol}, {name}": frame for name, frame in zip(names, frames, strict=True)}
    if WRITES:
        gone = {name for name in recorded.messages if name.startswith(f"{protocol}, ")} - {*seen}
        recorded.write(seen, without=gone)
    known = {name: recorded.messages[name]["frame"] for name in seen}
    assert {name: lines_of(frame) for name, frame in seen.items()} == known


@pytest.mark.broker
@pytest.mark.parametrize(("broker", "protocol"), [pair for pair in PAIRS if pair not in SLOW])
def test_the_frames_of_some_messages(broker_pool: BrokerPool, broker: str, protocol: str) -> None:
    check(broker_pool, broker, protocol, QUICK)


@pytest.mark.broker
@pytest.mark.soak
@pytest.mark.parametrize(("broker", "protocol"), PAIRS)
def test_the_frames_of_every_message(broker_pool: BrokerPool, broker: str, protocol: str) -> None:
    check(broker_pool, broker, protocol)


@on_real_brokers
def test_topics_of_mqtt(broker: Broker) -> None:
    """A level behind a slash, and one with a dot in it."""
    topic = broker.new_topic()
    several = {"rabbitmq": "#", "artemis": "#", "activemq": ">"}[broker.dialect]
    producer = PRODUCERS[broker.name]["MQTT 3.1.1"]
    broker.listen(producer.listener)
    name, seen = topic.removeprefix("/topic/"), []
    for level in ("a", "b.c"):
        with Consumer(broker, f"{topic}.{several}") as consumer:
            target = Target(broker, broker.listeners[producer.listener], f"{name}/{level}")
            producer.send(target, [producer.messages["QoS 1"]])
            seen.append(row_of(consumer.take(), broker.dialect)["destination"])
    assert (
        seen
        == {
            "rabbitmq": [f"{topic}.a", f"{topic}.b.c"],
            "artemis": [f"{name}.a", f"{name}.b\\.c"],
            "activemq": [f"{topic}.a", f"{topic}.b/c"],
        }[broker.dialect]
    )
