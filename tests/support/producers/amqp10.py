"""AMQP 1.0, by Qpid Proton."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from proton import (
    Message,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)
from proton.utils import BlockingConnection

from support.brokers.base import HOST
from support.producers.base import Target
from support.waiting import PATIENCE

TIME = timestamp(1_795_000_000_123)
ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


class Sections(NamedTuple):
    """A message of encoded sections, which no other class can have more than one of."""

    encoded: bytes

    def send(self, sender: Any, tag: str | None = None) -> Any:
        delivery = sender.delivery(tag or sender.delivery_tag())
        sender.stream(self.encoded)
        sender.advance()
        return delivery


def data(body: bytes = b"{}", **fields: Any) -> Message:
    """A data section: octets as they are."""
    return Message(body, inferred=True, **fields)


_VALUES: dict[str, Any] = {
    "string": "ü 1",
    "long string": "x" * 300,
    "empty string": "",
    "binary": b"\x00\xff",
    "long binary": b"\x00\xff" * 150,
    "map": {"symbol": "ACME", "price": 12.5, "volume": 3_000_000_000},
    "empty map": {},
    "list": [1, "two", None],
}
_SCALARS: dict[str, Any] = {
    "int": int32(-7),
    "long": 3_000_000_000,
    "uint": uint(7),
    "ulong": ulong(2**63),
    "short": short(-7),
    "ushort": ushort(7),
    "byte": byte(-7),
    "ubyte": ubyte(7),
    "double": 12.5,
    "float": float32(0.5),
    "boolean": True,
    "timestamp": TIME,
    "uuid": ID,
    "symbol": symbol("ACME"),
    "char": char("ü"),
    "decimal32": decimal32(0x22500001),
    "decimal64": decimal64(0x2238000000000001),
    "decimal128": decimal128(bytes(16)),
}
_PROPERTIES: dict[str, Any] = {
    "string": "ü",
    "empty": "",
    "int": int32(-7),
    "long": 3_000_000_000,
    "uint": uint(7),
    "ulong": ulong(7),
    "short": short(7),
    "byte": byte(7),
    "ubyte": ubyte(7),
    "double": 1e10,
    "float": float32(0.5),
    "true": True,
    "null": None,
    "symbol": symbol("S"),
    "binary": b"\x01\x02",
    "with-dash": "d",
    "with space": "s",
}
MESSAGES: dict[str, Any] = {
    "data": data(b"\x00\xff"),
    "long data": data(b"\x00\xff" * 150),
    "empty data": data(b""),
    "two data": Sections(bytes.fromhex("005375a0026162 005375a0026364")),
    **{f"value: {name}": Message(value, inferred=False) for name, value in _VALUES.items()},
    "value: null": Sections(bytes.fromhex("00537740")),
    "sequence": Message([1, "two", None], inferred=True),
    "two sequences": Sections(bytes.fromhex("005376c0050254015402 005376c003015403")),
    "all but the body": data(
        user_id=b"guest",
        subject="subject",
        reply_to="replies",
        correlation_id="c-1",
        content_type=symbol("application/json"),
        content_encoding=symbol("identity"),
        creation_time=TIME / 1000,
        group_id="group",
        group_sequence=3,
        reply_to_group_id="group-2",
        durable=True,
        priority=7,
        ttl=86_400,
        first_acquirer=True,
        annotations={symbol("x-opt-own"): "annotation"},
        instructions={symbol("x-opt-hop"): "instruction"},
    ),
    "durable": data(durable=True),
    "expiry": data(expiry_time=4_102_444_800),
    **{f"property: {name}": data(properties={name: value}) for name, value in _PROPERTIES.items()},
}
SCALARS: dict[str, Any] = {
    f"value: {name}": Message(value, inferred=False) for name, value in _SCALARS.items()
}
IDS: dict[str, Any] = {
    f"id: {type(id).__name__}": data(id=id, correlation_id=id)
    for id in (ulong(77), ID, "order-1", b"\x01\x02")
}
FEW = (
    "data",
    "value: string",
    "value: binary",
    "value: map",
    "value: double",
    "durable",
    "id: ulong",
    "property: int",
)


def send(target: Target, messages: Iterable[Any]) -> None:
    with connected(target) as connection:
        sender = connection.create_sender(address(target))
        for message in messages:
            sender.send(message)


def received(target: Target, count: int) -> list[Message]:
    """What a consumer of the queue gets, which is accepted."""
    with connected(target) as connection:
        receiver = connection.create_receiver(address(target))
        messages = []
        for _ in range(count):
            messages.append(receiver.receive(timeout=PATIENCE))
            receiver.accept()
        return messages


@contextmanager
def connected(target: Target) -> Iterator[BlockingConnection]:
    connection = BlockingConnection(
        f"amqp://{HOST}:{target.port}",
        timeout=20,
        user=target.broker.login,
        password=target.broker.password,
        allowed_mechs="PLAIN",
    )
    try:
        yield connection
    finally:
        connection.close()


def address(target: Target) -> str:
    """How the broker wants the queue to be named."""
    before = {"rabbitmq": "/queues/", "rabbitmq-3.10": "/amq/queue/", "artemis": "/queue/"}
    return before.get(target.broker.name, "queue://") + target.name
