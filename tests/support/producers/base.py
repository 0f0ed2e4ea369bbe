"""What a producer is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from support.brokers import Broker


class Target(NamedTuple):
    """Where messages go: a port of a broker, and the name of a queue or a topic."""

    broker: Broker
    port: int
    name: str


@dataclass(frozen=True)
class Producer:
    """Sends messages over one protocol.

    Attributes:
        listener: the key in :attr:`~support.brokers.Broker.listeners`.
        messages: what it can send, by name.
        send: sends some of these. It asks for the next one once it has sent the one before.
        topic: whether it can send to topics only.
    """

    listener: str
    messages: Mapping[str, Any]
    send: Callable[[Target, Iterable[Any]], None]
    topic: bool = False
