"""Queues and the subscriptions that drain them: windows, round robin, redelivery in order."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

from spark_stomp.devbroker.messages import Message, delivered
from spark_stomp.protocol import escape


class Outlet(Protocol):
    """Where a client's messages go."""

    version: str
    room: int
    """How many more bytes it takes; one message may bring it below 0."""

    def deliver(self, data: bytes) -> None:
        """Take one encoded MESSAGE frame."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue's figures at one moment.

    ``depth`` = ready + ``unacked``; the others count since the queue was made. ``delivered`` counts
    deliveries (one message may have several), ``redelivered`` those after a message's first.
    """

    depth: int
    unacked: int
    enqueued: int
    delivered: int
    redelivered: int
    acked: int


@dataclass(slots=True, eq=False)
class Queue:
    """Messages in order and the subscriptions that take them in turn."""

    ready: deque[Message] = field(default_factory=deque)
    consumers: deque[Subscription] = field(default_factory=deque)
    unacked: int = 0
    enqueued: int = 0
    delivered: int = 0
    redelivered: int = 0
    acked: int = 0

    def view(self) -> QueueView:
        """The figures now."""
        depth = len(self.ready) + self.unacked
        return QueueView(depth, self.unacked, self.enqueued, self.delivered, self.redelivered, self.acked)

    def standing(self) -> list[Message]:
        """All messages that are neither acknowledged nor gone, in order."""
        held = [message for consumer in self.consumers for message in consumer.unacked.values()]
        return sorted([*held, *self.ready], key=_by_sequence)

    def put(self, message: Message) -> None:
        """A new message, at the end."""
        self.enqueued += 1
        self.ready.append(message)

    def put_back(self, messages: Iterable[Message]) -> None:
        """Put un-acked messages back to the head; everything keeps its old order."""
        back = sorted(messages, key=_by_sequence)
        if not back:
            return
        self.unacked -= len(back)
        last = back[-1].sequence
        while self.ready and self.ready[0].sequence < last:
            back.append(self.ready.popleft())
        back.sort(key=_by_sequence, reverse=True)
        self.ready.extendleft(back)

    def dispatch(self) -> None:
        """Hand out as much as the subscriptions take, in turn."""
        ready, consumers = self.ready, self.consumers
        refused = 0
        while ready and refused < len(consumers):
            consumer = consumers[0]
            if len(consumer.unacked) < consumer.window and consumer.outlet.room > 0:
                consumer.take(ready.popleft())
                refused = 0
            else:
                refused += 1
            consumers.rotate(-1)


class Subscription:
    """One client's subscription to one queue.

    Args:
        name: the key within the client: its ``id``, in 1.0 possibly the destination.
        number: unique within the client; part of the ack handles of 1.2.
        named: deliveries carry a ``subscription`` header (not if a 1.0 client gave no id).
        ack: "auto", "client" or "client-individual".
        window: how many un-acked messages it takes; None = unlimited.
        topic: the topic whose messages this subscription's own queue collects.
    """

    def __init__(
        self,
        name: str,
        number: int,
        queue: Queue,
        outlet: Outlet,
        *,
        ack: str,
        window: int | None = None,
        named: bool = True,
        topic: str | None = None,
    ) -> None:
        self.name = name
        self.queue = queue
        self.outlet = outlet
        self.ack = ack
        self.window = sys.maxsize if window is None else window
        self.topic = topic
        self.unacked: dict[str, Message] = {}
        self._handles = 0
        self._prefix = f"{number}-"
        self._head = f"subscription:{escape(name, outlet.version)}\n".encode() if named else b""

    def take(self, message: Message) -> None:
        """Deliver this message."""
        queue, outlet = self.queue, self.outlet
        message.deliveries += 1
        queue.delivered += 1
        redelivered = b"redelivered:false\n"
        if message.deliveries > 1:
            queue.redelivered += 1
            redelivered = b"redelivered:true\ndelivery-count:%d\n" % message.deliveries
        if self.ack == "auto":
            queue.acked += 1
            ack_line = b""
        else:
            queue.unacked += 1
            ack_line = self._hold(message)
        first = b"".join((self._head, ack_line, redelivered))
        outlet.deliver(delivered(message, first, outlet.version))

    def covered(self, handle: str) -> list[str]:
        """The handles that an ACK or NACK of this one names: with ``ack:client`` all before it too."""
        if self.ack != "client" or handle not in self.unacked:
            return [handle]
        return [*takewhile(lambda held: held != handle, self.unacked), handle]

    def pop_unacked(self, handles: Iterable[str]) -> list[Message]:
        """Remove these from the un-acked ones; returns those that are there, in order."""
        unacked = self.unacked
        return [unacked.pop(handle) for handle in handles if handle in unacked]

    def _hold(self, message: Message) -> bytes:
        """Keep it until it is acknowledged; returns its ``ack`` header line, which only 1.2 has."""
        if self.outlet.version != "1.2":
            self.unacked[message.message_id] = message
            return b""
        self._handles += 1
        handle = self._prefix + str(self._handles)
        self.unacked[handle] = message
        return b"ack:%b\n" % handle.encode()


def _by_sequence(message: Message) -> int:
    return message.sequence
