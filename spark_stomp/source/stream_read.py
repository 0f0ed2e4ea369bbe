"""Reads a stream of RabbitMQ: from one offset to another for batch reads, and its newest messages."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from spark_stomp.brokers import Dialect
from spark_stomp.errors import StreamTruncated, SubscribeTimeout
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.options.stream_positions import StreamPositions
from spark_stomp.receiver import StreamCursor, StreamDeliveries, StreamReceiver, begin_of, stream_ends
from spark_stomp.source.browse import read_settings, show_notes, take

log = get_log(__name__)


def read_stream(options: SourceOptions, destination: str) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Yield the frames from ``startingOffsets`` to ``endingOffsets``; if ``maxMessages`` is given, so many.

    Raises StreamTruncated if some of these offsets are gone or not there yet, or logs that with
    ``failOnDataLoss=false``. Raises SubscribeTimeout if they have not all come by ``maxDrainTime``.
    """
    show_notes(options)
    begin, end = _bounds(options, destination)
    if (isinstance(begin, int) and begin >= end) or not end:
        return
    receiver, held, changed = _receiver(options, destination, begin)
    until = time.monotonic() + options.max_drain_time
    most = options.max_messages if options.capped else end

    def left(_: float) -> float | None:
        return None if _is_complete(held, end, most) else until - time.monotonic()

    count = 0
    for batch, dialect in take(receiver, held, changed, left):
        upto = min(batch.end, end, batch.first_number + most - count)
        if upto > batch.first_number:
            count += upto - batch.first_number
            yield batch.part(batch.first_number, upto), dialect
    if not _is_complete(held, end, most):
        raise SubscribeTimeout(
            f"the batch read of the stream {destination} did not reach offset {end} within maxDrainTime "
            f"({options.max_drain_time:g}s). The next offset is {held.next or 'its first one'}"
        )


def tail_stream(
    options: SourceOptions, destination: str, count: int, *, follows: bool
) -> Iterator[tuple[FrameBatch, Dialect]]:
    """Yield the newest frames, up to ``count``, and if it ``follows``, without an end what comes then.

    If it does not, it also ends after ``idleTimeout`` of silence: RabbitMQ may filter or delete the last one.

    Raises StreamTruncated if some are deleted that come after those that this has yielded, or logs that with
    ``failOnDataLoss=false``.
    """
    show_notes(options)
    options = replace(options, starting_offsets=StreamPositions("latest"))
    end = stream_ends(options, [destination]).get(destination, 0)
    begin = max(0, end - count)
    if begin == end and not follows:
        return
    # Not a number, which would be the first one wanted: retention may have deleted that.
    receiver, held, changed = _receiver(options, destination, f"offset={begin}")

    def left(since: float) -> float | None:
        status = receiver.status()
        if follows or not status.subscribed:
            return math.inf
        silent = max(since, status.last_active) + options.idle_timeout
        return None if _is_complete(held, end, count) else silent - time.monotonic()

    for batch, dialect in take(receiver, held, changed, left):
        upto = batch.end if follows else min(batch.end, end)
        if upto > batch.first_number:
            yield batch.part(batch.first_number, upto), dialect


def _receiver(
    options: SourceOptions, destination: str, begin: int | str
) -> tuple[StreamReceiver, StreamDeliveries, threading.Event]:
    """What :func:`take` runs for a read from ``begin`` on, which is as in ``begin_of``."""
    settings, changed = read_settings(options, (destination,)), threading.Event()
    held = StreamDeliveries(settings.max_buffered_bytes, settings.name)
    held.begin_at(begin)
    return StreamReceiver(settings, held, changed.set), held, changed


def _bounds(options: SourceOptions, destination: str) -> tuple[int | str, int]:
    """Where the read begins, as in ``begin_of``, and the offset before which it ends."""
    assert options.ending_offsets is not None
    end = stream_ends(options, [destination]).get(destination, 0)
    begin = begin_of(options, destination)
    if StreamCursor(options, destination, begin).check_end(end, started=False):
        begin = "first"
    wanted = options.ending_offsets.of(destination)
    if not isinstance(wanted, int):
        return begin, end
    if wanted > end:
        text = f"endingOffsets has {wanted} for the stream {destination}, which ends at offset {end}"
        if options.fail_on_data_loss:
            raise StreamTruncated(f"{text}. To read what is there, set failOnDataLoss = false")
        log.error("failOnDataLoss=false: %s", text)
    return begin, min(wanted, end)


def _is_complete(held: StreamDeliveries, end: int, most: int) -> bool:
    """Whether ``most`` messages came, or all below the offset ``end``."""
    # Nothing comes from a time that is after the last message.
    nothing = held.next is None and held.end_is_known and held.begin != "first"
    return nothing or (held.next or 0) >= end or held.inbox.received >= most
