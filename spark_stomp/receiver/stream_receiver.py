"""The receiver of one stream of RabbitMQ: a thread with a connection, which goes on behind the last message.

It differs from the receiver of queues in three ways. SUBSCRIBE says where to begin. An ACK stands for all
messages before it and only asks RabbitMQ for more, so it is sent as soon as the messages are in memory. And
offsets show whether a message is missing.

While half of the memory is in use, no ACK is sent. RabbitMQ then stops after ``prefetch`` messages, and the
connection is still read: its heart-beats come.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from spark_stomp.brokers import Subscription, dialect_of, plain_subscription
from spark_stomp.errors import ConnectionLost
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.receiver import Receiver
from spark_stomp.receiver.stream_cursor import StreamCursor
from spark_stomp.receiver.stream_deliveries import StreamDeliveries
from spark_stomp.receiver.stream_log import first_offset, require_streams, stream_ends
from spark_stomp.receiver.subscription import ReceiverSettings
from spark_stomp.transport import Connection


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
        dialect = dialect_of(connection.session.server, self._options.connection)
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
        return Subscription(plain_subscription(destination).id, headers)

    def _is_full(self) -> bool:
        return self._reader.paused_since is not None or bool(self._unasked and not self._has_room)

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
        for offset, part in self._cursor.take(block, connection.peer):
            self._stream.receive_from(
                offset,
                part,
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
            # Whatever has become of the messages, without any there is no planned batch.
            patience = self._options.connection.connect_timeout
            return stream_ends(self._options, [one], connection.peer, patience).get(one, 0)
        return stream_ends(self._options, [one], connection.peer).get(one)
