"""Messages as the dev broker keeps them, queues, and the subscriptions that drain them.

A queue holds mostly headers, so they are kept as bytes of STOMP 1.2, not as many strings: this takes a third
of the memory, and a delivery in 1.2 is only a join.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol, cast

from spark_stomp.errors import FrameEncodeError
from spark_stomp.protocol import Frame, FrameDecoder, encode_frame, escape

# A SEND's headers that steer the broker, and those that only the broker may set on a MESSAGE.
_NOT_PASSED_ON = frozenset(
    {
        "ack",
        "browser",
        "content-length",
        "delivery-count",
        "destination",
        "message-id",
        "receipt",
        "redelivered",
        "subscription",
        "transaction",
    }
)
_COMMAND = b"MESSAGE\n"

Headers = tuple[tuple[str, str], ...]


class Message:
    """One message in one queue.

    Args:
        sequence: orders a queue.
        message_id: stays the same over redeliveries.
        destination: where it was sent to.
        headers: the producer's (see :func:`passed_on`).
        body: as sent.
        raw: header lines that go out first, as they are, to send what no client can.

    Raises:
        FrameEncodeError: a header that STOMP 1.2 cannot carry (an empty name, which 1.0 knows; NUL).
    """

    __slots__ = ("body", "deliveries", "head", "message_id", "raw", "sequence")

    def __init__(
        self,
        sequence: int,
        message_id: str,
        destination: str,
        headers: Headers,
        body: bytes,
        raw: bytes = b"",
    ) -> None:
        all_headers = (("destination", destination), *headers, ("content-length", str(len(body))))
        self.sequence = sequence
        self.message_id = message_id
        self.head = _head(all_headers, body, "1.2")
        self.body = body
        self.raw = raw
        self.deliveries = 0

    def copy(self) -> Message:
        """The same message for another subscriber, not delivered yet."""
        other = copy(self)
        other.deliveries = 0
        return other


def passed_on(headers: Headers) -> Headers:
    """The headers of a SEND that go out with its message, repeats and order kept."""
    return tuple([pair for pair in headers if pair[0] not in _NOT_PASSED_ON])


def delivered(message: Message, first: bytes, version: str) -> bytes:
    """The MESSAGE frame in ``version``; ``first``: this delivery's own header lines, encoded."""
    head = message.head if version == "1.2" or b"\\" not in message.head else _translated(message, version)
    message_id = f"message-id:{escape(message.message_id, version)}\n".encode()
    return b"".join((_COMMAND, first, message_id, message.raw, head, message.body, b"\0"))


def _head(headers: Headers, body: bytes, version: str) -> bytes:
    """The encoded header lines and the empty line after them."""
    encoded = encode_frame(Frame("MESSAGE", headers, body), version)
    return encoded[len(_COMMAND) : len(encoded) - len(body) - 1]


def _translated(message: Message, version: str) -> bytes:
    """The head in a version with fewer escapes.

    A header that this version cannot carry (a line feed in 1.0) stays behind.
    """
    decoder = FrameDecoder("1.2")
    decoder.receive_data(b"".join((_COMMAND, message.head, message.body, b"\0")))
    # What was encoded here is one whole frame.
    frame = cast(Frame, decoder.next_event())
    kept = tuple(pair for pair in frame.headers if _encodable(pair, version))
    return _head(kept, message.body, version)


def _encodable(pair: tuple[str, str], version: str) -> bool:
    if pair[0] == "content-length":
        return True
    try:
        encode_frame(Frame("MESSAGE", (pair,)), version)
    except FrameEncodeError:
        return False
    return True


# --- queues


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
