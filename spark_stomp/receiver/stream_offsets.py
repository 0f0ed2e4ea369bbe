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
- To the second subscription to a stream on one connection it may deliver before it has noted the
  subscription. Then it ends the connection.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Final, Literal

from spark_stomp.brokers import Dialect
from spark_stomp.brokers.rabbitmq import OFFSET, without_filters
from spark_stomp.deadline import Deadline
from spark_stomp.errors import ConnectionLost, RemoteProtocolError, StompError, UnsupportedError
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import (
    ErrorReceived,
    Event,
    MalformedMessage,
    MessageBlock,
    ack_handles,
)
from spark_stomp.transport import Connection, open_connection
from spark_stomp.transport.connect import at_peer

_LINE: Final = re.compile(rb"\nx-stream-offset:(\d{1,18})\r?\n")

# Seconds of silence after which the last chunk of a stream has come.
_QUIET = 1.0
# Seconds after which a stream that sends nothing counts as empty.
_EMPTY = 2.0
# Un-acked messages that RabbitMQ may send of the last chunk. Elsewhere the first message is enough.
_WINDOW = 1_000
# Streams whose ends are looked for at a time, each with two connections.
_AT_A_TIME = 4
# Seconds for which one of the two is waited for before the other one is asked.
_TURN = 0.1
_ID: Final = "0"


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
    """The header area, with the LF of its last line; the whole frame if that area has no end."""
    frame = frame.lstrip(b"\r\n")  # heart-beats may precede it
    ends = [at for at in (frame.find(b"\n\n"), frame.find(b"\n\r\n")) if at >= 0]
    return frame[: min(ends) + 1] if ends else frame


def has_offset(frame: bytes) -> bool:
    """Whether a MESSAGE has the header that every message of a stream has."""
    return _LINE.search(_headers(frame)) is not None


def _offset(frame: bytes, peer: str) -> int:
    found = _LINE.search(_headers(frame))
    if found is None:
        raise RemoteProtocolError(f"{peer} sent a MESSAGE of a stream without a header {OFFSET}")
    return int(found[1])


def frame_range(block: MessageBlock, begin: int, end: int) -> MessageBlock:
    """The frames [begin, end) of ``block``, without handles, ids and subscriptions."""
    start = block.ends[begin - 1] if begin else 0
    data, ends = block.data, block.ends
    if begin or end < len(ends):
        data, ends = data[start : ends[end - 1]], [one - start for one in ends[begin:end]]
    return MessageBlock(data, ends, [], [], malformed=block.malformed)


def ask_stream_ends(
    options: SourceOptions, destinations: Sequence[str], peer: str = "", patience: float = _EMPTY
) -> dict[str, int]:
    """The offset after the last message of each stream, as of now. Streams that send nothing are left out.

    A stream that has sent nothing is left out once nothing came for ``patience`` seconds: it is new, or
    retention has deleted all of its messages. ``peer`` is the broker to ask; if it is empty, any of ``url``.
    """
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        ends = pool.map(lambda one: _end_of(options, one, peer, patience), destinations)
        return {one: end for one, end in zip(destinations, ends, strict=True) if end is not None}


def _end_of(options: SourceOptions, stream: str, peer: str, patience: float) -> int | None:
    """Where one stream ends; None if it sends nothing.

    Two subscriptions find it. The one from ``next`` gets the first message that is published from now on, if
    any is: its offset is the end. The one from ``last`` gets the last chunk: if nothing more comes, the end
    is behind it. Each has its own connection, for the last fact above.
    """
    with _looking(options, stream, peer, "next") as new, _looking(options, stream, peer, "last") as last:
        while new.first is None:
            silence = time.monotonic() - last.connection.last_frame_byte
            seconds_left = (patience if last.first is None else _QUIET) - silence
            if seconds_left <= 0:
                return None if last.latest is None else last.latest + 1
            last.poll(min(seconds_left, _TURN))
            new.poll(0.0)
        return new.first


def ask_first_offset(options: SourceOptions, destination: str, peer: str) -> int:
    """The offset of the first message. Raises ConnectionLost if none comes within ``connectTimeout``."""
    timeout = options.connection.connect_timeout
    with _looking(options, destination, peer, "first") as look:
        deadline = Deadline.after(timeout)
        while look.first is None:
            if deadline.passed:
                raise ConnectionLost(
                    f"{peer} sent no first message of the stream {destination} within connectTimeout "
                    f"({timeout:g}s)"
                )
            look.poll(deadline.left())
        return look.first


@contextmanager
def _looking(
    options: SourceOptions, stream: str, peer: str, where: Literal["first", "last", "next"]
) -> Iterator[_Look]:
    """A subscription on a connection of its own to ``peer``, whose messages are only looked at."""
    with open_connection(at_peer(options.connection, peer), scan=True) as connection:
        connection.require_open()
        session = connection.session
        dialect = connection.dialect
        require_streams(dialect)
        session.collect(id_header=None, ack_header=dialect.ack_header)
        look, receipt = _Look(connection), session.new_receipt()
        prefetch = ("prefetch-count", str(_WINDOW if where == "last" else 1))
        # Filtered, it would end where the last message that passes is.
        asked = without_filters(options.subscribe_headers)
        own = (("id", _ID), ("destination", stream), ("ack", "client"))
        connection.request("SUBSCRIBE", (*own, *asked, prefetch, (OFFSET, where)), receipt=receipt)
        timeout = options.connection.connect_timeout
        connection.await_receipts({receipt: f"SUBSCRIBE to {stream}"}, timeout, look.take)
        yield look
        with suppress(StompError):
            # The look is done. Many large messages may come before the receipt of DISCONNECT.
            connection.disconnect(_QUIET)


class _Look:
    """What a subscription has shown.

    Attributes:
        connection: its connection.
        first, latest: the first and the latest offset that came; None before.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.first: int | None = None
        self.latest: int | None = None

    def poll(self, timeout: float) -> None:
        """Wait for messages."""
        self.take(self.connection.poll(timeout))

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, ErrorReceived):
                raise self.connection.error_of(event)
            if isinstance(event, MessageBlock):
                self._take_block(event)
            elif isinstance(event, MalformedMessage):
                self._take_block(MessageBlock.of_malformed(event))

    def _take_block(self, block: MessageBlock) -> None:
        session, count = self.connection.session, len(block.ends)
        ends = [_offset(frame_range(block, at, at + 1).data, self.connection.peer) for at in (0, count - 1)]
        self.first = ends[0] if self.first is None else self.first
        self.latest = ends[1]
        if self.connection.ended:
            return
        # Cumulative: RabbitMQ then sends more.
        session.ack_raw(ack_handles(block.acks, block.subscriptions, session.version or "1.0", _ID)[-1:])
