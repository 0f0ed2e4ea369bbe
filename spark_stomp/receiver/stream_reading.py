"""What a receiver of one stream of RabbitMQ holds, and what it does over a connection.

Messages of a stream stay on the broker, and a subscription begins where it is told to. So there are no
duplicates to recognise, and nothing is discarded when a connection breaks. The broker's offsets are the
numbers in the log, and show whether a message is missing. ACKs do not wait for commits: one stands for all
messages before it and only asks RabbitMQ for more, so it is sent as soon as the messages are in memory.

While half of the memory is in use, no ACK is sent. RabbitMQ then stops after ``prefetch`` messages, and the
connection is still read: its heart-beats come.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from spark_stomp.brokers import Subscription, subscription_id
from spark_stomp.errors import ConnectionLost, StompError, StreamTruncated
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import MessageBlock
from spark_stomp.quoting import counted
from spark_stomp.receiver.dedup import DedupIndex
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.log import Log
from spark_stomp.receiver.reading import Reading
from spark_stomp.receiver.stream import FIRST, LATEST, StreamProgress, StreamStart
from spark_stomp.receiver.stream_offsets import (
    ask_first_offset,
    ask_stream_ends,
    frame_range,
    offsets_in,
    require_streams,
)
from spark_stomp.transport import Connection

log = get_log(__name__)

_ENDLESS: Final = 1 << 62


def _lost(options: SourceOptions, text: str, otherwise: str) -> None:
    """Raise StreamTruncated; with ``failOnDataLoss=false`` log ``text``, and do ``otherwise``."""
    if options.fail_on_data_loss:
        raise StreamTruncated(f"{text}. To {otherwise}, set failOnDataLoss = false")
    log.error("failOnDataLoss=false: %s", text)


def began_anew(
    options: SourceOptions, destination: str, stream: StreamProgress, end: int, *, started: bool = False
) -> bool:
    """Raise StreamTruncated if the stream, which ends at ``end``, ends before what is to be read.

    With ``failOnDataLoss=false`` this is only logged, and the answer is True: then read the stream from its
    first offset. If the run has ``started``, it has read messages, whose offsets would come twice: then it is
    an error in any case.
    """
    behind = stream.why_too_early(end)
    if behind is None:
        return False
    text = (
        f"the stream {destination} ended at offset {end}, and {behind}: it was deleted and declared "
        "again, or startingOffsets is beyond its end, or the replica of this node is behind, and no other "
        "address of url has more"
    )
    if started:
        raise StreamTruncated(f"{text}. This run has already read messages of it. Start the query again")
    _lost(options, text, "read it from its first offset")
    return True


class StreamDeliveries(Deliveries):
    """All that the receiver of one stream holds. Thread-safe.

    ``stream`` says how far it was read.
    """

    def __init__(self, max_bytes: int, name: str) -> None:
        super().__init__(max_bytes, Log(DedupIndex()), name)
        self.begin_at(FIRST)

    def begin_at(self, place: StreamStart, known_id: str = "", wanted: int = 0) -> None:
        """The run begins at ``place``, with the log of that id, or with a new one.

        A batch up to the offset ``wanted`` is planned already. Call this before anything is received.
        """
        with self.lock:
            self.stream = StreamProgress(place, wanted)
            self.log = Log(self._index, known_id, place.offset or 0)

    def locate(self, offset: int) -> None:
        """The first message will have ``offset``, or a higher one."""
        with self.lock:
            self.log.begin_at(offset)
            self.stream.locate(offset)

    def receive_from(
        self, offset: int, block: MessageBlock, *, received_at: int, version: str, dialect: str
    ) -> None:
        """Take messages with consecutive offsets, the first of which is ``offset``."""
        with self.lock:
            if self.stream.next is None:
                self.locate(offset)
            self.receive(block, received_at=received_at, version=version, dialect=dialect)
            while self.inbox.pending:
                self.log.add(self.inbox.take(), offset)
            self.stream.read_up_to(self.log.end)

    def disconnected(self, *, redelivers: bool, but: Collection[str] = (), forgotten: bool = False) -> None:
        """The connection ended. Nothing is discarded: the next one begins behind the last message."""
        super().disconnected(redelivers=False)

    def room(self) -> int:
        """How many more bytes may be held. A planned batch is always received whole, to be readable."""
        return _ENDLESS if self.stream.awaits_planned else super().room()


class StreamReading(Reading):
    """One connection of the receiver of a stream. Its deliveries are ``StreamDeliveries``."""

    _deliveries: StreamDeliveries
    _handle_to_ack: Sequence[bytes] = ()  # the last handle, if no ACK was sent for it
    _look_after = 0.0  # seconds of silence after which to find out where the stream ends

    @property
    def _destination(self) -> str:
        (one,) = self._settings.destinations
        return one

    def subscribe(self, connection: Connection) -> None:
        connection.require_open()
        require_streams(connection.dialect)
        stream = self._deliveries.stream
        if stream.place == LATEST and stream.next is None:
            self._deliveries.locate(self._end_at(connection) or 0)
        if stream.awaits_planned and not self._deliveries.inbox.received:
            # Before anything is read: a new stream may have some of these offsets, and the others never come.
            self._judge_end(self._end_at(connection), connection)
        self._look_after = self._options.idle_timeout
        super().subscribe(connection)

    def _subscription(self, destination: str) -> Subscription:
        headers = self._options.subscribe_headers + self._deliveries.stream.subscribe()
        return Subscription(subscription_id(destination), headers, "client")

    def _id_header(self) -> None:
        """No offset comes twice."""

    @property
    def _limits_unacked(self) -> bool:
        return False

    def is_full(self) -> bool:
        return self._reader.paused_since is not None or bool(self._handle_to_ack and not self._has_room)

    @property
    def achieved(self) -> int:
        return int(self._deliveries.stream.came)

    @property
    def _has_room(self) -> bool:
        """Whether RabbitMQ may send more."""
        half = self._settings.max_buffered_bytes // 2
        return self._deliveries.inbox.memory_bytes <= half or self._deliveries.stream.awaits_planned

    def _take_new(self, connection: Connection, block: MessageBlock, version: str) -> None:
        if self._deliveries.stream.was_empty:  # then it ended at the first offset that it has now
            self._judge_end(self._first_offset(connection), connection)
            self._require_place()
        self._handle_to_ack = block.acks[-1:]
        stream, earliest = self._deliveries.stream, None
        for begin, end, first in offsets_in(block, connection.peer):
            if stream.lacks(first):
                if earliest is None:  # a filter makes many gaps
                    earliest = self._first_offset(connection)
                self._check_gap(first, earliest)
            known = stream.brought(first, end - begin)
            if known < end - begin:
                self._deliveries.receive_from(
                    first + known,
                    frame_range(block, begin + known, end),
                    received_at=time.time_ns() // 1_000,
                    version=version,
                    dialect=self.dialect.name,
                )
        # Last: as long as there is no next offset, it would mean that nothing comes.
        stream.note_end_known()

    def _check_gap(self, found: int, earliest: int) -> None:
        """The offset ``found`` came, and not the next one; the stream begins at ``earliest`` now.

        If that is behind the next one, there were messages between: raise StreamTruncated, or log that.
        Otherwise these were records of RabbitMQ, or did not pass a filter.
        """
        expected = self._deliveries.stream.next or 0
        if earliest > expected:
            _lost(
                self._options,
                f"offsets {expected} to {found - 1} of the stream {self._destination} are gone, up to "
                f"{counted(found - expected, 'message')}: it begins at offset {earliest} now. Its "
                "retention (x-max-age, x-max-length-bytes) deleted them before they were read",
                "go on behind them",
            )

    def _send_acks(self, connection: Connection) -> bool:
        """Ask RabbitMQ for more, if there is room."""
        if self._handle_to_ack and self._has_room and not connection.ended:
            connection.session.ack_raw(self._handle_to_ack)
            self._handle_to_ack = ()
        elif self._state.connections.connected and not self.achieved and self._quiet() >= self._look_after:
            self._check_end(connection)
        return False

    def _check_end(self, connection: Connection) -> None:
        """Nothing came since the subscription began. Find out whether the stream ends before that place."""
        self._look_after = float("inf")
        # No stream ends before 0. Without a next offset, nothing has come since the time in startingOffsets.
        if self._deliveries.stream.next:
            self._judge_end(self._end_at(connection), connection)
            self._require_place()
            if self._deliveries.stream.was_empty:
                # Retention has deleted all messages, or the stream was declared anew: the next one will say.
                self._look_after = 2 * self._quiet()
        self._deliveries.stream.note_end_known()
        self._state.notify()

    def _judge_end(self, end: int | None, connection: Connection) -> None:
        """The stream ends at ``end``, as this node says; None if it has no messages.

        If that is too early, the replica of this node is behind, or the stream was declared anew. Then raise
        ConnectionLost for the first, and for the second StreamTruncated, or begin anew.
        """
        stream, started = self._deliveries.stream, self._deliveries.inbox.received > 0
        if not stream.note_end(end) or end is None:
            return
        self._require_in_sync(end, connection)
        if began_anew(self._options, self._destination, stream, end, started=started):
            self._deliveries.begin_at(FIRST)  # its offsets begin again, and a planned batch is lost

    def _require_in_sync(self, end: int, connection: Connection) -> None:
        """Raise ConnectionLost if another node has more of the stream, and has not begun anew.

        They are asked now, and not again later: a new stream may grow beyond the old offset meanwhile.
        """
        stream, one = self._deliveries.stream, self._destination
        for endpoint in self._options.connection.endpoints:
            if endpoint.address == connection.peer:
                continue
            other = connection.beat_while(partial(self._end_elsewhere, endpoint.address))
            if other is not None and stream.why_too_early(other) is None:
                behind = ConnectionLost(
                    f"the replica of the stream {one} at {connection.peer} is behind: it ends at offset "
                    f"{end}, and at offset {other} at {endpoint.address}"
                )
                behind.verdict = "passes"
                raise behind

    def _end_elsewhere(self, peer: str) -> int | None:
        """Where the stream ends by the node at ``peer``; None if it has no messages there or cannot say."""
        with suppress(StompError):
            return ask_stream_ends(self._options, [self._destination], peer).get(self._destination)
        return None

    def _require_place(self) -> None:
        """Raise ConnectionLost if the subscription has to begin elsewhere."""
        if self._deliveries.stream.next is None:
            raise ConnectionLost(f"reading {self._destination} again from its first offset")

    def _first_offset(self, connection: Connection) -> int:
        ask = partial(ask_first_offset, self._options, self._destination, connection.peer)
        return connection.beat_while(ask)

    def _end_at(self, connection: Connection) -> int | None:
        """Where the stream ends; None if it has no messages."""
        one = self._destination
        ask = partial(ask_stream_ends, self._options, [one], connection.peer)
        if self._deliveries.stream.awaits_planned:
            # If no message comes within connectTimeout, the planned batch is gone: the stream ends at 0.
            patience = self._options.connection.connect_timeout
            return connection.beat_while(partial(ask, patience)).get(one, 0)
        return connection.beat_while(ask).get(one)
