"""Reads a stream of RabbitMQ from one offset to another, for batch reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from spark_stomp.brokers import Dialect, dialect_of, plain_subscription
from spark_stomp.errors import StreamTruncated, SubscribeTimeout
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.logs import get_log, show
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import (
    ErrorReceived,
    Event,
    MalformedMessage,
    MessageBlock,
    MessagesScanned,
    ack_handles,
)
from spark_stomp.receiver import StreamCursor, begin_of, require_streams, stream_ends
from spark_stomp.source.browse import batch_of, disconnect
from spark_stomp.transport import Connection, Pump, open_connection

log = get_log(__name__)

# Un-acked messages that RabbitMQ may send: one ACK stands for all before it. A judgement, not measured.
_PREFETCH = 10_000


def read_stream(options: SourceOptions, destination: str) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Yield the frames from ``startingOffsets`` to ``endingOffsets``; if ``maxMessages`` is given, so many.

    Raises StreamTruncated if some of these offsets are gone or not there yet, or logs that with
    ``failOnDataLoss=false``. Raises SubscribeTimeout if they have not all come by ``maxDrainTime``.
    """
    show(options.connection.log_level)
    for note in options.notes:
        log.warning("%s", note)
    with open_connection(options.connection, scan=True) as connection:
        connection.require_open()
        dialect = dialect_of(connection.session.server, options.connection)
        require_streams(dialect)
        cursor = StreamCursor(options, destination, begin_of(options, destination))
        end = _end(options, cursor, connection.peer)
        if (cursor.next or 0) < end:
            connection.session.collect(id_header=None, ack_header=dialect.ack_header)
            for batch in _read(options, connection, cursor, end):
                yield batch, dialect
        disconnect(connection, dialect, [plain_subscription(destination).id] if cursor.came else [])


def _end(options: SourceOptions, cursor: StreamCursor, peer: str) -> int:
    """The offset before which the read ends."""
    assert options.ending_offsets is not None
    end = stream_ends(options, [cursor.destination], peer).get(cursor.destination, 0)
    cursor.check_end(end, started=False)
    wanted = options.ending_offsets.of(cursor.destination)
    if not isinstance(wanted, int):
        return end
    if wanted > end:
        text = f"endingOffsets has {wanted} for the stream {cursor.destination}, which ends at offset {end}"
        if options.fail_on_data_loss:
            raise StreamTruncated(f"{text}. To read what is there, set failOnDataLoss = false")
        log.error("failOnDataLoss=false: %s", text)
    return min(wanted, end)


def _read(
    options: SourceOptions, connection: Connection, cursor: StreamCursor, end: int
) -> Iterator[FrameBatch]:
    session, one, version = connection.session, cursor.destination, connection.session.version or "1.0"
    now = time.monotonic()
    until, idle_until = now + options.max_drain_time, now + options.idle_timeout
    subscription, receipt = plain_subscription(one).id, session.new_receipt()
    headers = (("prefetch-count", str(_PREFETCH)), *options.subscribe_headers, *cursor.header())
    session.subscribe(subscription, one, ack="client", headers=headers, receipt=receipt)
    events: list[Event] = []
    connection.await_receipts(
        {receipt: f"SUBSCRIBE to {one}"}, options.connection.connect_timeout, events.extend
    )
    # Held while the connection is used, because the pump's thread uses it too.
    lock, count = threading.Lock(), 0
    # The pump sends heart-beats while Spark works on a batch of rows.
    with Pump(connection, connection.beat, lock, "stomp-batch-read"):
        while True:
            for block in _blocks(options, connection, one, events):
                for offset, frames in cursor.take(block, connection.peer):
                    most = options.max_messages - count if options.capped else len(frames.ends)
                    wanted = min(len(frames.ends), end - offset, most)
                    if wanted > 0:
                        yield batch_of(frames, wanted, version, one, count)
                        count += wanted
                if (cursor.next or 0) >= end or (options.capped and count >= options.max_messages):
                    return
                handles = ack_handles(block.acks, block.subscriptions, version, subscription)
                with lock:
                    session.ack_raw(handles[-1:])
            now = time.monotonic()
            if cursor.next is None and cursor.begins_at_time and now >= idle_until:
                # The time is after the last message.
                return
            if now >= until:
                raise SubscribeTimeout(
                    f"the batch read of the stream {one} did not reach offset {end} within maxDrainTime "
                    f"({options.max_drain_time:g}s). The next offset is {cursor.next or 'its first one'}"
                )
            with lock:
                events = connection.poll((until if now >= idle_until else idle_until) - now)


def _blocks(
    options: SourceOptions, connection: Connection, destination: str, events: Sequence[Event]
) -> Iterator[MessageBlock]:
    for event in events:
        if isinstance(event, ErrorReceived):
            raise connection.error_of(event)
        if isinstance(event, MessagesScanned):
            yield event.block
        elif isinstance(event, MalformedMessage):
            if options.on_malformed == "fail":
                raise event.as_error(destination)
            yield MessageBlock.of_malformed(event)
