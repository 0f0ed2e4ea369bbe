"""MQTT, by paho."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from paho.mqtt.client import CallbackAPIVersion, Client, MQTTMessage
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from support.brokers.base import HOST
from support.producers.base import Target
from support.waiting import PATIENCE


class Published(NamedTuple):
    body: bytes
    qos: int = 1
    properties: Properties | None = None


def properties(**fields: Any) -> Properties:
    """Of MQTT 5."""
    made = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    for name, value in fields.items():
        setattr(made, name, value)
    return made


MESSAGES: dict[str, Any] = {
    "QoS 0": Published(b"\x00\xff", 0),
    "QoS 1": Published(b"\x00\xff"),
    "empty": Published(b""),
}
MESSAGES_5: dict[str, Any] = {
    "text": Published(b"text", 1, properties(PayloadFormatIndicator=1, ContentType="text/plain")),
    "all properties": Published(
        b"{}",
        1,
        properties(
            PayloadFormatIndicator=1,
            MessageExpiryInterval=86_400,
            ContentType="application/json",
            ResponseTopic="replies/level",
            CorrelationData=b"c-1",
            UserProperty=[("own", "1"), ("own", "2"), ("with-dash", "ü")],
        ),
    ),
    "binary correlation": Published(b"{}", 1, properties(CorrelationData=b"\xfe\xff")),
}


def sender(version: MQTTProtocolVersion) -> Callable[[Target, Iterable[Published]], None]:
    def send(target: Target, messages: Iterable[Published]) -> None:
        with connected(target, version) as client:
            for message in messages:
                sent = client.publish(target.name, message.body, message.qos, properties=message.properties)
                sent.wait_for_publish(PATIENCE)

    return send


@contextmanager
def connected(target: Target, version: MQTTProtocolVersion) -> Iterator[Client]:
    client = Client(CallbackAPIVersion.VERSION2, protocol=version)
    client.username_pw_set(target.broker.login, target.broker.password)
    ready = threading.Event()
    client.on_connect = lambda *_: ready.set()
    client.connect(HOST, target.port)
    client.loop_start()
    try:
        assert ready.wait(PATIENCE)
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


@contextmanager
def subscribed(target: Target, version: MQTTProtocolVersion) -> Iterator[list[MQTTMessage]]:
    """What comes to the topic, while this lasts."""
    messages: list[MQTTMessage] = []
    ready = threading.Event()
    with connected(target, version) as client:
        client.on_message = lambda _, __, message: messages.append(message)
        client.on_subscribe = lambda *_: ready.set()
        client.subscribe(target.name, 1)
        assert ready.wait(PATIENCE)
        yield messages
