"""AMQP 0.9.1, by pika."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

import pika

from support.brokers.base import HOST
from support.producers.base import Target
from support.waiting import PATIENCE

TIME = dt.datetime(2026, 11, 18, 12, 26, 40, tzinfo=dt.timezone.utc)


class Published(NamedTuple):
    body: bytes
    properties: pika.BasicProperties


HEADERS: dict[str, Any] = {
    "string": "ü",
    "empty": "",
    "int": -7,
    "long": 3_000_000_000,
    "bool": True,
    "decimal": Decimal("1.5"),
    "timestamp": TIME,
    "void": None,
    "bytes": b"\x01\x02",
    "table": {"a": 1},
    "array": [1, "two"],
    "with-dash": "d",
}
MESSAGES: dict[str, Any] = {
    "bytes": Published(b"\x00\xff", pika.BasicProperties()),
    "empty": Published(b"", pika.BasicProperties()),
    "all but the body": Published(
        b"{}",
        pika.BasicProperties(
            content_type="application/json",
            content_encoding="identity",
            delivery_mode=2,
            priority=7,
            correlation_id="c-1",
            reply_to="replies",
            expiration="86400000",
            message_id="order-1",
            timestamp=int(TIME.timestamp()),
            type="type",
            user_id="guest",
            app_id="app",
        ),
    ),
    "transient": Published(b"{}", pika.BasicProperties(delivery_mode=1)),
    **{
        f"header: {name}": Published(b"{}", pika.BasicProperties(headers={name: value}))
        for name, value in HEADERS.items()
    },
}


def send(target: Target, messages: Iterable[Published]) -> None:
    with channel_to(target) as channel:
        for message in messages:
            channel.basic_publish("", target.name, message.body, message.properties, mandatory=True)


def received(target: Target, count: int) -> list[Published]:
    """What a consumer of the queue gets, which is ACKed."""
    found = []
    with channel_to(target) as channel:
        for method, properties, body in channel.consume(target.name, inactivity_timeout=PATIENCE):
            assert method is not None, "nothing came"
            channel.basic_ack(method.delivery_tag)
            found.append(Published(body, properties))
            if len(found) == count:
                break
        channel.cancel()
    return found


@contextmanager
def channel_to(target: Target) -> Iterator[Any]:
    """A channel that confirms what is published."""
    login = pika.PlainCredentials(str(target.broker.login), str(target.broker.password))
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, target.port, credentials=login))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        connection.close()
