"""The log of a stream of RabbitMQ: the numbers of its messages are the broker's offsets."""

from __future__ import annotations

import time
from collections.abc import Sequence

from spark_stomp.brokers.rabbitmq import STREAM_FILTERS, stream_name
from spark_stomp.errors import StompError
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.receiver import (
    LATEST,
    Log,
    ReceiverSettings,
    StreamDeliveries,
    ask_stream_ends,
    start_at,
    stream_start,
)
from spark_stomp.source.logs import Shares, Statuses, row_counts
from spark_stomp.source.offsets import STREAM, LogEnd
from spark_stomp.source.planning import Available
from spark_stomp.status.receivers import RowCounts
from spark_stomp.transport.retry import Retry, may_recover

log = get_log(__name__)


class StreamLog:
    """The messages of the only destination in ``settings``, a stream. ``deliveries`` has received them.

    ``until``: the offset where batches end; None if they end nowhere.
    """

    def __init__(self, settings: ReceiverSettings, deliveries: StreamDeliveries) -> None:
        (self.destination,) = settings.destinations
        self.name = STREAM + stream_name(self.destination)
        self._options = settings.options
        self._deliveries = deliveries
        self.until: int | None = None
        # RabbitMQ does not tell where what passes a filter ends.
        filtered = any(name in STREAM_FILTERS for name, _ in self._options.subscribe_headers)
        self._not_yet = None if filtered else False

    @property
    def id(self) -> str:
        return self._deliveries.log.id

    @property
    def base(self) -> int:
        return self._deliveries.stream.base or 0

    @property
    def frames(self) -> Log:
        return self._deliveries.log

    @property
    def received_end(self) -> int | None:
        return self._deliveries.stream.next

    @property
    def rows(self) -> RowCounts:
        return row_counts([self._deliveries])

    @property
    def end_to_name(self) -> LogEnd | None:
        """The end that the stream had when a query with ``startingOffsets=latest`` began."""
        begin, base = self._deliveries.stream.place, self._deliveries.stream.base
        return LogEnd(self.id, base, base) if begin == LATEST and base is not None else None

    def begin(self, known: LogEnd | None, planned: LogEnd | None) -> None:
        if (end := planned or known) is None:
            self._deliveries.begin_at(stream_start(self._options, self.destination))
        else:
            low = known.next if known is not None and known.id == end.id else end.base
            self._deliveries.begin_at(start_at(low), end.id, wanted=end.next)

    def stop_at(self, end: int | None) -> None:
        """Batches end at the offset ``end``, where the stream ended when the run began."""
        self.until = end

    def available(self, low: int, statuses: Statuses) -> list[Available]:
        stream, status = self._deliveries.stream, statuses[self._deliveries.inbox.name]
        # In this order, because more may come meanwhile: whether all is here, the end, the first message.
        complete = None
        if self.until is not None:
            complete = stream.has_all_below(self.until) or self._not_yet
        high = stream.next or 0
        if self.until is not None:
            high = min(high, self.until)
        low = self.frames.next_held(low)
        sizes, full, window_bytes = self.frames, status.window_full, status.window_bytes
        high = max(low, high)
        return [Available(status.name, sizes, low, high, full, window_bytes=window_bytes, complete=complete)]

    def take(self, low: int, shares: Shares) -> int:
        count = shares.get(self._deliveries.inbox.name, 0)
        return self.frames.next_held(low) + count if count else low

    def is_here(self, high: int) -> bool:
        return (self._deliveries.stream.next or 0) >= high

    def readable(self, low: int, high: int) -> list[tuple[int, int]]:
        return self.frames.readable(low, high)

    def commit(self, upto: int) -> bool:
        return self.frames.commit(upto)


def find_ends(options: SourceOptions, streams: Sequence[str]) -> dict[str, int]:
    """Where these streams end. A broken connection is tried again, as those of the receivers are."""
    retry = Retry(options.reconnect, time.monotonic())
    while True:
        try:
            return ask_stream_ends(options, streams)
        except StompError as error:
            delay = retry.next_delay(error, time.monotonic())
            # This is the first that connects, or about the first: a refused login is a mistake.
            if delay is None or not may_recover(error, login_accepted=False):
                raise
            log.warning("%s; asking again where the streams end, in %.1f s", error, delay)
            time.sleep(delay)
