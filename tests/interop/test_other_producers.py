"""Messages of other protocols: the frames that brokers make of them, against tests/data/frames.

``SPARK_STOMP_WRITE_FRAMES=1 make test ARGS="-m soak -k every_message"`` writes the files again.
"""

from __future__ import annotations

import os

import pytest
from support.brokers.fixtures import BrokerPool
from support.frames import Recorded, lines_of
from support.producers import PRODUCERS
from support.producers.capture import captured

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
