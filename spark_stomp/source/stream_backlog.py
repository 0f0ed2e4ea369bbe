"""The backlog of streams of RabbitMQ: the numbers in a stream's log are the broker's offsets.

The id of such a log is not changed by a restart. So a batch that an earlier run has planned can be read
again: the subscription begins where that batch does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from spark_stomp.errors import StompError
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.options.stream_positions import stream_name
from spark_stomp.receiver import Log, ReceiverStatus, StreamDeliveries, begin_of, stream_ends
from spark_stomp.source.backlog import Backlog
from spark_stomp.source.offsets import STREAM, LogEnd, Offset
from spark_stomp.source.planning import Available
from spark_stomp.transport.retry import Retry, may_recover

log = get_log(__name__)


class StreamBacklog(Backlog):
    """The messages of ``streams``, by destination, in memory. They are in the order of the receivers."""

    def __init__(self, options: SourceOptions, streams: Mapping[str, StreamDeliveries]) -> None:
        super().__init__(streams, tolerant=not options.fail_on_data_loss)
        self._options = options
        self._streams = {STREAM + stream_name(one): held for one, held in streams.items()}
        self._ends: dict[str, int] | None = None

    @property
    def logs(self) -> Mapping[str, Log]:
        return {name: held.log for name, held in self._streams.items()}

    def begin(self, start: Offset, planned: Offset) -> None:
        super().begin(start, planned)
        for destination, (name, held) in zip(self._options.destinations, self._streams.items(), strict=True):
            known = start.get(name)
            end = planned.get(name) or known
            if end is None:
                held.begin_at(begin_of(self._options, destination))
            else:
                resumed = known is not None and known.id == end.id
                low = known.next if known is not None and resumed else end.base
                held.begin_at(low, end.id, wanted=end.next)

    def bound(self, *, until_now: bool) -> None:
        if not until_now:
            self._ends = None
        elif self._ends is None:
            ends = self._find_ends()
            self._ends = {STREAM + stream_name(one): end for one, end in ends.items()}

    def _find_ends(self) -> dict[str, int]:
        """Where the streams end. A broken connection is tried again, as those of the receivers are."""
        retry = Retry(self._options.reconnect, time.monotonic())
        while True:
            try:
                return stream_ends(self._options, self._options.destinations)
            except StompError as error:
                delay = retry.next_delay(error, time.monotonic())
                # This is the first that connects, or about the first: a refused login is a mistake.
                if delay is None or not may_recover(error, let_in=False):
                    raise
                log.warning("%s; asking again where the streams end, in %.1f s", error, delay)
                time.sleep(delay)

    def base(self, name: str) -> int:
        return self._streams[name].base or 0

    def begin_of(self, name: str, start: Offset) -> int:
        """Behind a gap in the offsets, so that the first of these offsets is a message."""
        return self.logs[name].next_held(super().begin_of(name, start))

    def with_bases(self, start: Offset) -> Offset:
        """``start``, and the end that each stream had when a query with ``startingOffsets=latest`` began.

        A restart before the first message must begin there too.
        """
        found = {
            name: LogEnd(held.log.id, held.base, held.base)
            for name, held in self._streams.items()
            if held.begin == "latest" and held.base is not None and start.get(name) is None
        }
        return Offset({**start.ends, **found}) if found else start

    def available(self, start: Offset, statuses: Sequence[ReceiverStatus]) -> list[Available]:
        return [
            self._available(name, held, status, start)
            for (name, held), status in zip(self._streams.items(), statuses, strict=True)
        ]

    def _available(
        self, name: str, held: StreamDeliveries, status: ReceiverStatus, start: Offset
    ) -> Available:
        received, complete = held.next or 0, None
        if self._ends is not None:
            end = self._ends.get(name, 0)
            complete = received == end or (received > end and (held.end_is_known or held.begin == "latest"))
            # Nothing came from the time in startingOffsets on.
            complete = complete or (held.next is None and held.end_is_known and held.begin != "first")
            received = min(received, end)
        begin = self.begin_of(name, start)
        return Available(
            name,
            held.log,
            begin,
            max(begin, received),
            full=status.window_full,
            window_bytes=status.window_bytes,
            complete=complete,
        )

    def received(self) -> Offset:
        ends = {name: (held.log.id, held.next) for name, held in self._streams.items()}
        return Offset({name: LogEnd(one, end) for name, (one, end) in ends.items() if end is not None})

    def holds(self, end: Offset) -> bool:
        upto = {name: self.read_upto(name, end) or 0 for name in self._streams}
        return not any((held.next or 0) < upto[name] for name, held in self._streams.items())
