"""A look at a queue that consumes nothing: by browsing, or by reading and giving everything back."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import numpy as np

from spark_stomp.arrow import RawBlock
from spark_stomp.dialects import Dialect, dialect_for
from spark_stomp.errors import StompError
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import (
    ErrorReceived,
    Event,
    Frame,
    FrameDecoder,
    MessageBlock,
    MessagesScanned,
)
from spark_stomp.transport import Connection, open_connection
from spark_stomp.transport.refusals import broker_error

__all__ = ["look"]

log = logging.getLogger(__name__)

_SUBSCRIPTION = "0"
_GOODBYE = 5.0


def look(options: SourceOptions, destination: str) -> Iterator[tuple[RawBlock, Dialect]]:
    """Up to ``maxMessages`` raw frames that stand in ``destination``, or until ``idleTimeout`` of silence.

    Nothing is ACKed. Where the broker cannot browse, the messages are taken and given back at the end, which
    costs each of them one delivery; the log says so, and says when the look was cut off.
    """
    with open_connection(options.connection, scan=True) as connection:
        session = connection.session
        dialect = dialect_for(session.server, options.connection.broker)
        early = _subscribe(connection, options, dialect, destination)
        taken, cut_off = 0, False
        for block in _blocks(connection, options, early):
            there, ended = _there(block, session.version or "1.0", dialect)
            shown = min(there, options.max_messages - taken)
            if shown:
                yield _raw(block, shown, session.version or "1.0", destination, taken), dialect
            taken += shown
            cut_off = shown < there or (taken >= options.max_messages and not ended)
            if ended or cut_off:
                break
        _say(options, dialect, destination, taken, cut_off)
        _goodbye(connection, dialect)


def _subscribe(
    connection: Connection, options: SourceOptions, dialect: Dialect, destination: str
) -> list[Event]:
    connection.require_open()
    session = connection.session
    selector = () if options.selector is None else (("selector", options.selector),)
    further = selector + options.subscribe_headers
    dialect.check_selector(further)
    if dialect.browse_headers is not None:
        mode, headers = "auto", dialect.browse_headers
    else:
        mode = "client-individual"
        headers = dialect.subscribe_headers(
            destination, options.max_messages, max_bytes=options.max_buffered_bytes
        )
    receipt = session.new_receipt()
    session.subscribe(
        _SUBSCRIPTION,
        destination,
        ack=mode,
        headers=headers + further,
        receipt=receipt,
    )
    return connection.await_receipt(
        receipt, options.connection.connect_timeout, f"SUBSCRIBE to {destination}"
    )


def _blocks(connection: Connection, options: SourceOptions, early: list[Event]) -> Iterator[MessageBlock]:
    """The blocks of messages as they come, until ``idleTimeout`` of silence or for ``maxDrainTime``."""
    events = early
    silent_since = time.monotonic()
    deadline = silent_since + options.max_drain_time
    while True:
        for event in events:
            if isinstance(event, ErrorReceived):
                raise broker_error(event, connection.peer)
            if isinstance(event, MessagesScanned):
                yield event.block
                silent_since = time.monotonic()
        remaining = min(silent_since + options.idle_timeout, deadline) - time.monotonic()
        if remaining <= 0:
            return
        events = connection.poll(remaining)


def _there(block: MessageBlock, version: str, dialect: Dialect) -> tuple[int, bool]:
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


def _raw(block: MessageBlock, count: int, version: str, destination: str, first: int) -> RawBlock:
    return RawBlock(
        data=block.data[: block.ends[count - 1]],
        ends=np.asarray(block.ends[:count], dtype=np.int64),
        version=version,
        received_at=time.time_ns() // 1_000,
        receiver=f"{destination}#look",
        first_sequence=first,
    )


def _say(options: SourceOptions, dialect: Dialect, destination: str, taken: int, cut_off: bool) -> None:
    if dialect.browse_headers is None:
        cost = "" if dialect.unsubscribe_returns else ", so it cost each of them one delivery"
        log.warning(
            "the look at %s took %d message(s) and gives them back un-acked: this broker cannot browse%s",
            destination,
            taken,
            cost,
        )
    if cut_off:
        log.warning(
            "the look at %s was cut off after maxMessages (%d): there may be more", destination, taken
        )


def _goodbye(connection: Connection, dialect: Dialect) -> None:
    try:
        if dialect.unsubscribe_returns:
            connection.session.unsubscribe(_SUBSCRIPTION)
        connection.disconnect(_GOODBYE)
    except StompError as error:
        # The rows are complete, and a broker that misses DISCONNECT gives the messages back all the same.
        log.info("the look did not end with an orderly DISCONNECT: %s", error)
