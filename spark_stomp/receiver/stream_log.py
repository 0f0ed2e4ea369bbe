"""RabbitMQ's streams: offsets in messages, and what only RabbitMQ knows of a stream.

A stream is a log: messages stay, each has an offset, and a subscription may begin anywhere. Retention deletes
the oldest ones, a segment at a time. Every MESSAGE has the header ``x-stream-offset``.

Facts about RabbitMQ, seen on 3.10 in November 2026:

- It refuses ``x-stream-offset`` in a SUBSCRIBE to a queue that is no stream. So a subscription that it
  accepts is to a stream, and no producer's header is taken for an offset.
- Some offsets are no messages: each segment but the first begins with a record of RabbitMQ's own.
- If retention deletes what a subscription has not read yet, RabbitMQ goes on behind the gap and does not say
  so.
- Retention may delete all messages: if its limit is less than a segment, at the end of each one. Until the
  next message the stream then sends nothing, like one that never had any.
- An offset beyond the end is accepted. RabbitMQ then leaves out all messages below it.
- ``first``, ``last`` and a time begin with a whole chunk: the messages that were written together.
- ACKs delete nothing. They only ask for more, and a cumulative one stands for all messages before it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Final, Literal

from spark_stomp.brokers import Dialect, dialect_for
from spark_stomp.errors import ConnectionLost, RemoteProtocolError, StompError, UnsupportedError
from spark_stomp.options import ConnectionOptions, SourceOptions
from spark_stomp.protocol import (
    ErrorReceived,
    Event,
    MalformedMessage,
    MessageBlock,
    MessagesScanned,
    ack_handles,
)
from spark_stomp.transport import Connection, open_connection

OFFSET: Final = "x-stream-offset"
_LINE: Final = re.compile(rb"\nx-stream-offset:(\d{1,18})\r?\n")

# Seconds. The last chunk of a stream has come if nothing more came for this long. A judgement, not measured.
_QUIET = 1.0
# Seconds after which a stream that sends nothing counts as empty. A judgement, not measured.
_EMPTY = 2.0
# Un-acked messages that RabbitMQ may send of the last chunk. Elsewhere the first message is enough. A
# judgement, not measured.
_WINDOW = 1_000


def require_streams(dialect: Dialect) -> None:
    """Raise UnsupportedError if a broker of this dialect has no streams."""
    if dialect.offset_header is None:
        raise UnsupportedError(
            f"startingOffsets is for streams of RabbitMQ, and this broker ({dialect.name}) has none. A queue "
            "begins with what is not acknowledged: leave startingOffsets out. If it is RabbitMQ and hides "
            "its name, set broker = rabbitmq"
        )


def offsets_in(block: MessageBlock, peer: str) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of consecutive offsets in ``block``: first frame, frame after the last, first offset."""
    bounds = [0, *block.ends]
    count = len(block.ends)
    first, last = (_offset(block.data[bounds[at] : bounds[at + 1]], peer) for at in (0, count - 1))
    if last - first == count - 1:
        # Offsets only ascend, so none is missing between these two.
        yield 0, count, first
        return
    begin, before = 0, first - 1
    for at, (start, end) in enumerate(pairwise(bounds)):
        offset = _offset(block.data[start:end], peer)
        if offset != before + 1:
            yield begin, at, first
            begin, first = at, offset
        before = offset
    yield begin, count, first


def _headers(frame: bytes) -> bytes:
    """The header area, with the LF of its last line; the whole frame if it has no end."""
    frame = frame.lstrip(b"\r\n")  # heart-beats may precede it
    ends = [at for at in (frame.find(b"\n\n"), frame.find(b"\n\r\n")) if at >= 0]
    return frame[: min(ends) + 1] if ends else frame


def _offset(frame: bytes, peer: str) -> int:
    found = _LINE.search(_headers(frame))
    if found is None:
        raise RemoteProtocolError(f"{peer} sent a MESSAGE of a stream without a header {OFFSET}")
    return int(found[1])


def part(block: MessageBlock, begin: int, end: int) -> MessageBlock:
    """The frames [begin, end) of ``block``, without handles, ids and subscriptions."""
    start = block.ends[begin - 1] if begin else 0
    data, ends = block.data, block.ends
    if begin or end < len(ends):
        data, ends = data[start : ends[end - 1]], [one - start for one in ends[begin:end]]
    return MessageBlock(data, ends, [], [], malformed=block.malformed)


def at_peer(options: ConnectionOptions, peer: str) -> ConnectionOptions:
    """The options for another connection to the broker that a connection has as its ``peer``."""
    here = tuple(one for one in options.endpoints if f"{one.host}:{one.port}" == peer)
    return replace(options, endpoints=here or options.endpoints)


def stream_ends(
    options: SourceOptions, destinations: Sequence[str], peer: str = "", patience: float = _EMPTY
) -> dict[str, int]:
    """The offset after the last message of each stream, as of now. Streams that send nothing are left out.

    Two subscriptions find it. The one from ``next`` gets the first message that is published from now on, if
    any is: its offset is the end. The one from ``last`` gets the last chunk: if nothing more comes, the end
    is behind it. A stream that has sent nothing is left out once nothing came for ``patience`` seconds: it is
    new, or retention has deleted all of its messages. ``peer`` is the broker to ask; if it is empty, any of
    ``url``.
    """
    with _looking(options, peer) as look:
        look.subscribe("next", destinations)
        look.subscribe("last", destinations)
        while missing := [one for one in destinations if one not in look.seen["next"]]:
            for one in set(destinations).difference(missing):
                # Its producers go on, and the others would never be quiet.
                look.unsubscribe(one)
            all_read = all(one in look.seen["last"] for one in missing)
            if (left := (_QUIET if all_read else patience) - look.silence) <= 0:
                break
            look.poll(left)
        read = {one: last + 1 for one, (_, last) in look.seen["last"].items()}
        published = {one: first for one, (first, _) in look.seen["next"].items()}
    return read | published


def first_offset(options: SourceOptions, destination: str, peer: str) -> int:
    """The offset of the first message. Raises ConnectionLost if none comes within ``connectTimeout``."""
    until = time.monotonic() + options.connection.connect_timeout
    with _looking(options, peer) as look:
        look.subscribe("first", [destination])
        while destination not in look.seen["first"] and (left := until - time.monotonic()) > 0:
            look.poll(left)
        found = look.seen["first"].get(destination)
    if found is None:
        raise ConnectionLost(
            f"{peer} sent no first message of the stream {destination} within connectTimeout "
            f"({options.connection.connect_timeout:g}s)"
        )
    return found[0]


_Where = Literal["first", "last", "next"]


@contextmanager
def _looking(options: SourceOptions, peer: str) -> Iterator[_Look]:
    """A connection to ``peer`` that only finds out where streams begin and end."""
    with open_connection(at_peer(options.connection, peer), scan=True) as connection:
        connection.require_open()
        dialect = dialect_for(connection.session.server, options.connection.broker)
        require_streams(dialect)
        connection.session.collect(id_header=None, ack_header=dialect.ack_header)
        yield _Look(options, connection)
        with suppress(StompError):
            # The answer is there. Many large messages may come before the receipt.
            connection.disconnect(_QUIET)


class _Look:
    """Subscriptions whose messages are only looked at.

    Attributes:
        seen: the first and the last offset of each stream, by the place where the subscription began.
    """

    def __init__(self, options: SourceOptions, connection: Connection) -> None:
        self._options = options
        self._connection = connection
        self._names: dict[str, tuple[_Where, str]] = {}
        self.seen: dict[_Where, dict[str, tuple[int, int]]] = {"first": {}, "last": {}, "next": {}}

    def subscribe(self, where: _Where, destinations: Sequence[str]) -> None:
        session, requests = self._connection.session, dict[str, str]()
        prefetch = ("prefetch-count", str(_WINDOW if where == "last" else 1))
        headers = (*self._options.subscribe_headers, prefetch, (OFFSET, where))
        for one in destinations:
            name = str(len(self._names))
            self._names[name] = where, one
            receipt = session.new_receipt()
            requests[receipt] = f"SUBSCRIBE to {one}"
            session.subscribe(name, one, ack="client", headers=headers, receipt=receipt)
        self._connection.await_receipts(requests, self._options.connection.connect_timeout, self._take)

    def unsubscribe(self, destination: str) -> None:
        """End the subscriptions to ``destination``. Messages of it that still come are left out."""
        for name in [name for name, (_, one) in self._names.items() if one == destination]:
            self._connection.session.unsubscribe(name)
            del self._names[name]

    @property
    def silence(self) -> float:
        """Seconds since the last byte of a frame came: a large message may take long."""
        return time.monotonic() - self._connection.last_frame_byte

    def poll(self, timeout: float) -> None:
        """Wait for messages."""
        self._take(self._connection.poll(timeout))

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, ErrorReceived):
                raise self._connection.error_of(event)
            if isinstance(event, MessagesScanned):
                self._take_block(event.block)
            elif isinstance(event, MalformedMessage):
                self._take_block(MessageBlock.of_malformed(event))

    def _take_block(self, block: MessageBlock) -> None:
        connection = self._connection
        version = connection.session.version or "1.0"
        handles = ack_handles(block.acks, block.subscriptions, version, "")
        last: list[bytes] = []
        for at, (name, handle) in enumerate(zip(block.subscriptions, handles, strict=True)):
            subscription = self._names.get((name or b"").decode())
            if subscription is None:
                continue  # unsubscribed, and an ACK would be an error
            where, destination = subscription
            offset = _offset(part(block, at, at + 1).data, connection.peer)
            first, _ = self.seen[where].get(destination, (offset, offset))
            self.seen[where][destination] = first, offset
            last = [handle]
        # Cumulative: RabbitMQ then sends more.
        connection.session.ack_raw(last)
