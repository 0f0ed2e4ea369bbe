"""``spark.read.format("stomp")``: what is in the queues now, without consuming it.

Browses if the broker can; otherwise takes the messages un-acked and gives them back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_stomp.arrow import decode_frames
from spark_stomp.brokers import Dialect, dialect_for
from spark_stomp.errors import StompError
from spark_stomp.framebatch import FrameBatch
from spark_stomp.logs import get_log, show
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import (
    ErrorReceived,
    Event,
    Frame,
    FrameDecoder,
    MessageBlock,
    MessagesScanned,
)
from spark_stomp.protocol.versions import ack_modes
from spark_stomp.schema import Projection
from spark_stomp.source.tasks import RowSettings
from spark_stomp.transport import Connection, open_connection

log = get_log(__name__)

_SUBSCRIPTION = "0"
_DISCONNECT_TIMEOUT = 5.0


class DestinationPartition(InputPartition):
    """One destination to browse."""

    def __init__(self, destination: str) -> None:
        self.destination = destination


class StompBatchReader(DataSourceReader):
    """One task for each destination; each browses with a connection of its own."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._options = options
        self._rows = RowSettings(projection, options.id_header, options.body_decode_errors)

    def partitions(self) -> Sequence[InputPartition]:
        return [DestinationPartition(destination) for destination in self._options.destinations]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, DestinationPartition)
        for block, dialect in browse(self._options, partition.destination):
            yield decode_frames(block, self._rows.projection, self._rows.rules(dialect))


def browse(options: SourceOptions, destination: str) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Up to ``maxMessages`` raw frames that are in ``destination``, or until ``idleTimeout`` of silence.

    Nothing is ACKed. If the broker cannot browse, the messages are taken and given back at the end, which
    costs each of them one delivery; the log says so, and says if the read was cut off.
    """
    show(options.connection.log_level)
    with open_connection(options.connection, scan=True) as connection:
        session = connection.session
        dialect = dialect_for(session.server, options.connection.broker)
        early = _subscribe(connection, options, dialect, destination)
        taken, limit = 0, None
        for block in _blocks(connection, options, early):
            if block is None:
                limit = f"maxDrainTime ({options.max_drain_time:g}s)"
                break
            there, ended = _messages_in(block, session.version or "1.0", dialect)
            shown = min(there, options.max_messages - taken)
            if shown:
                yield _batch(block, shown, session.version or "1.0", destination, taken), dialect
            taken += shown
            if shown < there or (taken >= options.max_messages and not ended):
                limit = f"maxMessages ({options.max_messages})"
            if ended or limit:
                break
        _warn(dialect, destination, taken, limit)
        _disconnect(connection, dialect)


def _subscribe(
    connection: Connection, options: SourceOptions, dialect: Dialect, destination: str
) -> list[Event]:
    connection.require_open()
    session = connection.session
    selector = () if options.selector is None else (("selector", options.selector),)
    further = selector + options.subscribe_headers
    dialect.check_selector(further)
    # Never `auto`, not even to browse: a broker that ignores the browse header would count all as consumed.
    individual = "client-individual" in ack_modes(session.version or "1.0")
    receipt = session.new_receipt()
    session.subscribe(
        _SUBSCRIPTION,
        destination,
        ack="client-individual" if individual else "client",
        headers=_bounds(options, dialect, destination) + further,
        receipt=receipt,
    )
    return connection.await_receipt(
        receipt, options.connection.connect_timeout, f"SUBSCRIBE to {destination}"
    )


def _bounds(options: SourceOptions, dialect: Dialect, destination: str) -> tuple[tuple[str, str], ...]:
    """Headers that browse if the broker can, and let it send as many messages as are read."""
    # Nothing is ACKed, so nothing makes room for the end mark of a browse.
    end_mark = 0 if dialect.browse_headers is None else 1
    most = options.max_messages + end_mark
    bound = dialect.subscribe_headers(destination, most, max_bytes=options.max_buffered_bytes)
    return (dialect.browse_headers or ()) + bound


def _blocks(
    connection: Connection, options: SourceOptions, early: list[Event]
) -> Iterator[MessageBlock | None]:
    """The blocks of messages as they come, until ``idleTimeout`` of silence.

    None is the last item if ``maxDrainTime`` was over before that.
    """
    events = early
    silent_since = time.monotonic()
    deadline = silent_since + options.max_drain_time
    while True:
        for event in events:
            if isinstance(event, ErrorReceived):
                raise connection.error_of(event)
            if isinstance(event, MessagesScanned):
                yield event.block
                silent_since = time.monotonic()
        silent_until = silent_since + options.idle_timeout
        remaining = min(silent_until, deadline) - time.monotonic()
        if remaining <= 0:
            if deadline < silent_until:
                yield None
            return
        events = connection.poll(remaining)


def _messages_in(block: MessageBlock, version: str, dialect: Dialect) -> tuple[int, bool]:
    """How many frames of ``block`` are messages, and whether the next one is the end mark of a browse."""
    if dialect.browse_headers is None or b"browser:end" not in block.data:
        return len(block.ends), False
    decoder = FrameDecoder(version)
    decoder.receive_data(block.data)
    for index in range(len(block.ends)):
        frame = _next_frame(decoder)
        if dialect.end_of_browse(frame.get("browser")):
            return index, True
    return len(block.ends), False


def _next_frame(decoder: FrameDecoder) -> Frame:
    while True:
        event = decoder.next_event()
        if isinstance(event, Frame):
            return event


def _batch(block: MessageBlock, count: int, version: str, destination: str, first: int) -> FrameBatch:
    return FrameBatch(
        data=block.data[: block.ends[count - 1]],
        ends=np.asarray(block.ends[:count], dtype=np.int64),
        version=version,
        received_at=time.time_ns() // 1_000,
        receiver=f"{destination}#look",
        first_sequence=first,
    )


def _warn(dialect: Dialect, destination: str, taken: int, limit: str | None) -> None:
    if dialect.browse_headers is None:
        cost = "" if dialect.unsubscribe_returns else ", so it cost each of them one delivery"
        log.warning(
            "the batch read of %s took %d message(s) and gives them back un-acked: this broker cannot "
            "browse%s",
            destination,
            taken,
            cost,
        )
    if limit is not None:
        log.warning("the batch read of %s was cut off after %s: there may be more", destination, limit)


def _disconnect(connection: Connection, dialect: Dialect) -> None:
    try:
        if dialect.unsubscribe_returns:
            connection.session.unsubscribe(_SUBSCRIPTION)
        connection.disconnect(_DISCONNECT_TIMEOUT)
    except StompError as error:
        # The rows are complete, and a broker that misses DISCONNECT gives the messages back all the same.
        log.info("the batch read did not end with an orderly DISCONNECT: %s", error)
