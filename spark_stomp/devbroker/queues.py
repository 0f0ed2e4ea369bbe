"""Messages of the dev broker, its queues, and the subscriptions that take messages from them.

The headers of a message are kept as the bytes of a STOMP 1.2 frame. This takes a third of the memory of
strings, and a delivery by STOMP 1.2 is only a join of bytes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from copy import copy
from dataclasses import InitVar, dataclass, field
from itertools import takewhile
from typing import Protocol, cast

from spark_stomp.brokers.outgoing import DELIVERY
from spark_stomp.errors import FrameEncodeError
from spark_stomp.protocol import Frame, FrameDecoder, encode_frame, escape

# Headers of a SEND that are not delivered: they command the broker, or only the broker may set them.
_NOT_PASSED_ON = DELIVERY - {"persistent", "timestamp"} | {"browser", "delivery-count"}
_COMMAND = b"MESSAGE\n"

Headers = tuple[tuple[str, str], ...]


@dataclass(slots=True, eq=False)
class Message:
    """One message in one queue.

    Args:
        sequence: its place in the queue.
        message_id: its id, the same when it is redelivered.
        destination: where it was sent.
        headers: the producer's headers (see :func:`passed_on`).
        body: its body, as sent.
        raw: header lines that are delivered first and unchanged, to make messages that no client can send.
        expires: seconds since the epoch; from then on it is not delivered any more.

    Raises:
        FrameEncodeError: STOMP 1.2 cannot carry a header, such as an empty name or a NUL.
    """

    sequence: int
    message_id: str
    destination: InitVar[str]
    headers: InitVar[Headers]
    body: bytes
    raw: bytes = b""
    expires: float = math.inf
    head: bytes = field(init=False)
    deliveries: int = field(default=0, init=False)

    def __post_init__(self, destination: str, headers: Headers) -> None:
        all_headers = (("destination", destination), *headers, ("content-length", str(len(self.body))))
        self.head = _head(all_headers, self.body, "1.2")

    def copy(self) -> Message:
        """A copy for another subscriber, not delivered yet."""
        other = copy(self)
        other.deliveries = 0
        return other


def passed_on(headers: Headers) -> Headers:
    """The headers of a SEND that are delivered with its message, in order and with repeats."""
    return tuple([pair for pair in headers if pair[0] not in _NOT_PASSED_ON])


def delivered(message: Message, first: bytes, version: str) -> bytes:
    """The MESSAGE frame in ``version``; ``first`` are the encoded header lines of this delivery alone."""
    head = message.head if version == "1.2" or b"\\" not in message.head else _translated(message, version)
    message_id = f"message-id:{escape(message.message_id, version)}\n".encode()
    return b"".join((_COMMAND, first, message_id, message.raw, head, message.body, b"\0"))


def _head(headers: Headers, body: bytes, version: str) -> bytes:
    """The encoded header lines and the empty line after them."""
    encoded = encode_frame(Frame("MESSAGE", headers, body), version)
    return encoded[len(_COMMAND) : len(encoded) - len(body) - 1]


def _translated(message: Message, version: str) -> bytes:
    """The header lines in a version with fewer escapes.

    A header that this version cannot carry, such as a line feed in 1.0, is left out.
    """
    decoder = FrameDecoder("1.2")
    decoder.receive_data(b"".join((_COMMAND, message.head, message.body, b"\0")))
    # The decoder has one whole frame, so it returns a Frame.
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
    """A client as its subscriptions see it: it takes their messages."""

    version: str
    room: int
    """How many more bytes the client takes; negative if the last message was larger than the room for it."""

    def can_take(self, message: Message) -> bool:
        """Whether a message can be delivered. If not, the client and its subscriptions have left."""

    def deliver(self, data: bytes) -> None:
        """Take one encoded MESSAGE frame."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """The figures of a queue at one moment.

    ``depth`` counts the messages in it, ``unacked`` those of them that are delivered and un-acked. The other
    figures count from the start: ``delivered`` all deliveries, ``redelivered`` those that are not a message's
    first, ``expired`` the messages that were dropped because they had expired when their turn came.
    """

    depth: int
    unacked: int
    enqueued: int
    delivered: int
    redelivered: int
    acked: int
    expired: int = 0


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
    expired: int = 0

    def view(self) -> QueueView:
        """The figures now."""
        depth = len(self.ready) + self.unacked
        counts = (self.enqueued, self.delivered, self.redelivered, self.acked, self.expired)
        return QueueView(depth, self.unacked, *counts)

    def all_messages(self) -> list[Message]:
        """All messages in order: those to be delivered, and those that are un-acked."""
        held = [message for consumer in self.consumers for message in consumer.unacked.values()]
        return sorted([*held, *self.ready], key=_by_sequence)

    def put(self, message: Message) -> None:
        """Add a new message at the end."""
        self.enqueued += 1
        self.ready.append(message)

    def put_back(self, messages: Iterable[Message]) -> None:
        """Put un-acked messages back. All messages keep their order."""
        back = sorted(messages, key=_by_sequence)
        if not back:
            return
        self.unacked -= len(back)
        last = back[-1].sequence
        while self.ready and self.ready[0].sequence < last:
            back.append(self.ready.popleft())
        back.sort(key=_by_sequence, reverse=True)
        self.ready.extendleft(back)

    def dispatch(self, now: float) -> None:
        """Deliver as many messages as the subscriptions take, in turn. Expired ones are dropped."""
        ready, consumers = self.ready, self.consumers
        refused = 0
        while ready and refused < len(consumers):
            consumer = consumers[0]
            if ready[0].expires <= now:
                ready.popleft()
                self.expired += 1
                continue
            if len(consumer.unacked) < consumer.window and consumer.outlet.room > 0:
                if not consumer.outlet.can_take(ready[0]):
                    refused = 0
                    continue
                consumer.take(ready.popleft())
                refused = 0
            else:
                refused += 1
            consumers.rotate(-1)


@dataclass(slots=True, eq=False)
class Subscription:
    """One client's subscription to one queue.

    Args:
        name: its key within the client: the ``id``; in STOMP 1.0 it may be the destination.
        number: unique within the client; a part of the ack handles of STOMP 1.2.
        queue: the queue that it takes messages from.
        outlet: where its messages go.
        ack: "auto", "client" or "client-individual".
        window: how many un-acked messages it takes.
        named: whether deliveries have a ``subscription`` header; False if a 1.0 client gave no id.
        topic: the topic whose messages its queue collects, if the queue is for this subscription alone.
    """

    name: str
    number: int
    queue: Queue
    outlet: Outlet
    ack: str
    window: int
    named: bool
    topic: str | None
    unacked: dict[str, Message] = field(default_factory=dict)
    _handles: int = 0
    _head: bytes = b""

    def __post_init__(self) -> None:
        if self.named:
            self._head = f"subscription:{escape(self.name, self.outlet.version)}\n".encode()

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
        """The handles that an ACK or NACK of ``handle`` covers: with ``ack:client`` also all earlier ones."""
        if self.ack != "client" or handle not in self.unacked:
            return [handle]
        return [*takewhile(lambda held: held != handle, self.unacked), handle]

    def pop_unacked(self, handles: Iterable[str]) -> list[Message]:
        """Remove these handles from the un-acked messages; returns the messages that were there, in order."""
        unacked = self.unacked
        return [unacked.pop(handle) for handle in handles if handle in unacked]

    def _hold(self, message: Message) -> bytes:
        """Keep a message until its ACK; returns its ``ack`` header line, which only STOMP 1.2 has."""
        if self.outlet.version != "1.2":
            self.unacked[message.message_id] = message
            return b""
        self._handles += 1
        handle = f"{self.number}-{self._handles}"
        self.unacked[handle] = message
        return b"ack:%b\n" % handle.encode()


def _by_sequence(message: Message) -> int:
    return message.sequence
