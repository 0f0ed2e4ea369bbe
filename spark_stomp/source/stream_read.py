"""Reads a stream of RabbitMQ from one offset to another, for batch reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from spark_stomp.brokers import Dialect
from spark_stomp.errors import StreamTruncated, SubscribeTimeout
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
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
    settings = read_settings(options, (destination,))
    held = StreamDeliveries(settings.max_buffered_bytes, settings.name)
    held.begin_at(begin)
    changed, until = threading.Event(), time.monotonic() + options.max_drain_time
    most = options.max_messages if options.capped else end

    def left(_: float) -> float | None:
        return None if _is_complete(held, end, most) else until - time.monotonic()

    count = 0
    for batch, dialect in take(StreamReceiver(settings, held, changed.set), held, changed, left):
        upto = min(batch.end, end, batch.first_number + most - count)
        if upto > batch.first_number:
            count += upto - batch.first_number
            yield batch.part(batch.first_number, upto), dialect
    if not _is_complete(held, end, most):
        raise SubscribeTimeout(
            f"the batch read of the stream {destination} did not reach offset {end} within maxDrainTime "
            f"({options.max_drain_time:g}s). The next offset is {held.next or 'its first one'}"
        )


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
