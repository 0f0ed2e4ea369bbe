"""The receiver of one stream of RabbitMQ: where reading begins, what is held, and the thread.

Messages of a stream stay on the broker, and a subscription begins where it is told to. So there are no
duplicates to recognise, and nothing is discarded when a connection breaks. The broker's offsets are the
numbers in the log, and show whether a message is missing. ACKs do not wait for commits: one stands for all
messages before it and only asks RabbitMQ for more, so it is sent as soon as the messages are in memory.

While half of the memory is in use, no ACK is sent. RabbitMQ then stops after ``prefetch`` messages, and the
connection is still read: its heart-beats come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Final

from spark_stomp.brokers import Subscription, subscription_id
from spark_stomp.errors import ConnectionLost, StreamTruncated
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.options.kinds import Moment
from spark_stomp.protocol import MessageBlock
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.receiver.dedup import DedupIndex
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.log import Log
from spark_stomp.receiver.receiver import Receiver
from spark_stomp.receiver.stream_log import (
    OFFSET,
    first_offset,
    frame_range,
    offsets_in,
    require_streams,
    stream_ends,
)
from spark_stomp.receiver.subscription import ReceiverSettings
from spark_stomp.transport import Connection

log = get_log(__name__)

_TIME: Final = "timestamp="
_ENDLESS: Final = 1 << 62


class StreamCursor:
    """How far one stream was received. Used by one thread.

    Attributes:
        next: the offset of the next message; None before it is known.
        came: whether the present subscription has brought a message.
    """

    def __init__(self, options: SourceOptions, destination: str, begin: int | str) -> None:
        self.destination = destination
        self._options = options
        self.came = False
        self.begin_at(begin)

    def begin_at(self, begin: int | str) -> None:
        """Begin at an offset, or at another value of the header ``x-stream-offset``."""
        self._begin = begin
        self.next = begin if isinstance(begin, int) else None

    @property
    def begins_at_time(self) -> bool:
        """Whether reading begins at a time, so that ``next`` is not known before the first message."""
        return isinstance(self._begin, str) and self._begin.startswith(_TIME)

    def header(self) -> HeaderPairs:
        """The header of a new SUBSCRIBE, which says where it begins."""
        self.came = False
        value = self._begin if self.next is None else f"offset={self.next}"
        return ((OFFSET, str(value)),)

    def locate(self, peer: str) -> None:
        """If reading begins at the end of the stream, find out which offset that is."""
        if self._begin == "latest":
            self.begin_at(stream_ends(self._options, [self.destination], peer).get(self.destination, 0))

    def take(self, block: MessageBlock, peer: str) -> Iterator[tuple[int, MessageBlock]]:
        """Yield the new frames of ``block``, in parts with consecutive offsets. Each has its first offset.

        Raises StreamTruncated if offsets are gone that were not received, or logs that. Raises ConnectionLost
        if RabbitMQ cannot be asked whether a gap had messages.
        """
        for begin, end, first in offsets_in(block, peer):
            if self.next is not None and first > self.next:
                self._check_gap(self.next, first, peer)
            self.came = True
            skipped = 0 if self.next is None else min(max(0, self.next - first), end - begin)
            if skipped < end - begin:
                self.next = first + end - begin
                yield first + skipped, frame_range(block, begin + skipped, end)

    def _check_gap(self, expected: int, found: int, peer: str) -> None:
        """The offsets from ``expected`` to ``found - 1`` did not come. Find out whether they were messages.

        They were messages if the stream begins behind ``expected`` now. Otherwise they are records of
        RabbitMQ. One offset that is missing after the first message is such a record, with which the next
        segment begins: a subscription reads a segment to its end, even if that is deleted meanwhile.
        """
        if self.came and found == expected + 1:
            return
        earliest = first_offset(self._options, self.destination, peer)
        if earliest > expected:
            self._lost(
                f"offsets {expected} to {found - 1} of the stream {self.destination} are gone: it begins at "
                f"offset {earliest} now. Its retention (x-max-age, x-max-length-bytes) deleted them before "
                "they were read",
                "go on behind them",
            )

    def check_end(self, end: int, *, started: bool, planned: int = 0) -> bool:
        """Raise StreamTruncated if the stream, which ends at ``end``, ends before the next offset to be read.

        Or before ``planned``, up to which an earlier run has planned a batch.

        With ``failOnDataLoss=false`` this is only logged, reading begins at the first offset, and the answer
        is True. If the run has ``started``, it has read messages, whose offsets would come twice: then it is
        an error in any case.
        """
        if self.next is None or end >= max(self.next, planned):
            return False
        behind = f"the next one to be read is {self.next}"
        if end >= self.next:
            behind = f"an earlier run planned a batch up to {planned}"
        text = (
            f"the stream {self.destination} ended at offset {end}, and {behind}: it was deleted and declared "
            "again, or startingOffsets is beyond its end"
        )
        if started:
            raise StreamTruncated(f"{text}. This run has already read messages of it. Start the query again")
        self._lost(text, "read it from its first offset")
        self.begin_at("first")
        return True

    def _lost(self, text: str, otherwise: str) -> None:
        """Raise StreamTruncated; with ``failOnDataLoss=false`` log ``text``, and do ``otherwise``."""
        if self._options.fail_on_data_loss:
            raise StreamTruncated(f"{text}. To {otherwise}, set failOnDataLoss = false")
        log.error("failOnDataLoss=false: %s", text)


def begin_of(options: SourceOptions, destination: str) -> int | str:
    """Where reading begins if the checkpoint has nothing: an offset, ``latest``, or a value of the header."""
    assert options.starting_offsets is not None
    begin = options.starting_offsets.of(destination)
    if isinstance(begin, Moment):
        return f"{_TIME}{begin.seconds}"
    return "first" if begin == "earliest" or begin is None else begin


class StreamDeliveries(Deliveries):
    """All that the receiver of one stream holds. Thread-safe.

    Attributes:
        begin: where the run begins: an offset, or a value of the header ``x-stream-offset``.
        base: the offset where the run begins; None before it is known.
        wanted: the end of the batch that is planned already; 0 if none is.
        end_is_known: whether the stream is known not to end before the offset that comes next.
    """

    def __init__(self, max_bytes: int, name: str) -> None:
        super().__init__(max_bytes, Log(DedupIndex()), name)
        self.end_is_known = False
        self.begin_at(0)

    def begin_at(self, begin: int | str, name: str = "", wanted: int = 0) -> None:
        """The run begins at ``begin``, with a log called ``name``, or with a new one.

        A batch up to the offset ``wanted`` is planned already. Call this before anything is received.
        """
        with self.lock:
            self.begin, self.wanted = begin, wanted
            self.log = Log(self._index, name)
            self.base: int | None = None
            if isinstance(begin, int):
                self.locate(begin)

    def locate(self, base: int) -> None:
        """The first message will have the offset ``base``, or a higher one."""
        self.base = base
        self.log.begin_at(base)

    @property
    def next(self) -> int | None:
        """The offset after the last message; None before it is known."""
        return None if self.base is None else self.log.end

    def receive_from(
        self, offset: int, block: MessageBlock, *, received_at: int, version: str, dialect: str
    ) -> None:
        """Take messages with consecutive offsets, the first of which is ``offset``."""
        with self.lock:
            if self.base is None:
                self.locate(offset)
            self.receive(block, received_at=received_at, version=version, dialect=dialect)
            while self.inbox.pending:
                self.log.add(self.inbox.take(), offset)

    def disconnected(self, *, redelivers: bool, but: Collection[str] = ()) -> None:
        """The connection ended. Nothing is discarded: the next one begins behind the last message."""
        super().disconnected(redelivers=False)

    @property
    def awaits_planned(self) -> bool:
        """Whether some of the planned batch has not come yet."""
        return (self.next or 0) < self.wanted

    def room(self) -> int:
        """How many more bytes may be held. A planned batch is always received whole, to be readable."""
        return _ENDLESS if self.awaits_planned else super().room()


class StreamReceiver(Receiver):
    """The receiver of the only destination in ``settings``, a stream. It fills ``deliveries``."""

    individual = False
    keyed = False

    def __init__(
        self,
        settings: ReceiverSettings,
        deliveries: StreamDeliveries,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(settings, deliveries, on_news)
        self._stream = deliveries
        self._cursor: StreamCursor | None = None
        self._unasked: list[bytes] = []  # the last handle, if no ACK was sent for it
        self._look_after = 0.0  # seconds of silence after which to find out where the stream ends
        self._was_empty = False  # and nothing has come since

    def _subscribe(self, connection: Connection) -> None:
        connection.require_open()
        dialect = self._options.connection.dialect(connection.session.server)
        require_streams(dialect)
        destination = self._settings.destinations[0]
        if self._cursor is None:
            self._cursor = StreamCursor(self._options, destination, self._stream.begin)
        self._cursor.locate(connection.peer)
        if self._stream.awaits_planned and not self._stream.inbox.received:
            # Before anything is read: a new stream may have some of these offsets, and the others never come.
            self._compare_end(connection, self._cursor)
        if self._cursor.next is not None and not self._stream.inbox.received:
            self._stream.locate(self._cursor.next)
        self._unasked, self._stream.end_is_known = [], False
        self._look_after = self._options.idle_timeout
        super()._subscribe(connection)

    def _subscription(self, destination: str) -> Subscription:
        assert self._cursor is not None
        headers = self._options.subscribe_headers + self._cursor.header()
        return Subscription(subscription_id(destination), headers)

    def _is_full(self) -> bool:
        return self._reader.paused_since is not None or bool(self._unasked and not self._has_room)

    @property
    def _achieved(self) -> int:
        return int(self._cursor is not None and self._cursor.came)

    @property
    def _has_room(self) -> bool:
        """Whether RabbitMQ may send more."""
        held = self._stream.inbox.memory_bytes
        return held <= self._settings.max_buffered_bytes // 2 or self._stream.awaits_planned

    @property
    def _awaits_first(self) -> bool:
        """Whether the subscription is open and has brought nothing."""
        return self._connections.connected and self._cursor is not None and not self._cursor.came

    def _take_new(self, connection: Connection, block: MessageBlock, version: str) -> None:
        assert self._cursor is not None
        if self._was_empty:
            self._check_beginning(connection, self._cursor)
        self._unasked = block.acks[-1:]
        for offset, frames in self._cursor.take(block, connection.peer):
            self._stream.receive_from(
                offset,
                frames,
                received_at=time.time_ns() // 1_000,
                version=version,
                dialect=self._dialect.name,
            )
        # Last: as long as there is no next offset, it would mean that nothing comes.
        self._stream.end_is_known = True

    def _send_acks(self, connection: Connection) -> bool:
        """Ask RabbitMQ for more, if there is room."""
        if self._unasked and self._has_room and not connection.ended:
            connection.session.ack_raw(self._unasked)
            self._unasked = []
        elif self._awaits_first and self._quiet() >= self._look_after:
            self._check_end(connection)
        return False

    def _check_end(self, connection: Connection) -> None:
        """Nothing came since the subscription began. Find out whether the stream ends before that place."""
        cursor = self._cursor
        assert cursor is not None
        self._look_after = float("inf")
        # No stream ends before 0. Without a next offset, nothing has come since the time in startingOffsets.
        if cursor.next:
            self._was_empty = self._compare_end(connection, cursor) is None
            self._require_place(cursor)
            if self._was_empty:
                # Retention has deleted all messages, or the stream was declared anew: the next one will say.
                self._look_after = 2 * self._quiet()
        self._stream.end_is_known = True
        self._notify()

    def _check_beginning(self, connection: Connection, cursor: StreamCursor) -> None:
        """A message came of a stream that was empty: it ended at the first offset that it has now."""
        self._conclude(cursor, first_offset(self._options, cursor.destination, connection.peer))
        self._was_empty = False
        self._require_place(cursor)

    def _require_place(self, cursor: StreamCursor) -> None:
        """Raise ConnectionLost if the subscription has to begin elsewhere."""
        if cursor.next is None:
            raise ConnectionLost(f"reading {cursor.destination} again from its first offset")

    def _compare_end(self, connection: Connection, cursor: StreamCursor) -> int | None:
        """Find out where the stream ends; None if it has no messages.

        Raises StreamTruncated if that is too early, or prepares to read the stream from its beginning.
        """
        # One look only. A replica of a node that was away may still catch up, but so may a new stream: at the
        # second look it could be longer than the old offset.
        end = self._end_at(connection, cursor)
        if end is not None:
            self._conclude(cursor, end)
        return end

    def _conclude(self, cursor: StreamCursor, end: int) -> None:
        started = self._stream.inbox.received > 0
        if cursor.check_end(end, started=started, planned=self._stream.wanted):
            self._stream.begin_at("first")  # its offsets begin again, and a planned batch is lost

    def _end_at(self, connection: Connection, cursor: StreamCursor) -> int | None:
        connection.beat()
        one = cursor.destination
        if self._stream.awaits_planned:
            # If no message comes within connectTimeout, the planned batch is gone: the stream ends at 0.
            patience = self._options.connection.connect_timeout
            return stream_ends(self._options, [one], connection.peer, patience).get(one, 0)
        return stream_ends(self._options, [one], connection.peer).get(one)
