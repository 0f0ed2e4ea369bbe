"""The backlog of streams of RabbitMQ: Spark's offsets are those of the broker.

A position is an offset in a stream, and has an epoch that no restart changes. So a batch that an earlier run
has planned can be read again: the subscription begins where that batch does. Frames are held in memory like
those of queues, by the sequence numbers of this run. Tasks read them by these numbers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from spark_stomp.errors import RangeUnavailable, StompError
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.options.stream_positions import stream_name
from spark_stomp.receiver import ReceiverStatus, StreamDeliveries, begin_of, new_epoch, stream_ends
from spark_stomp.source.memory_backlog import MemoryBacklog
from spark_stomp.source.offsets import STREAM, Offset, Position, Range
from spark_stomp.source.planning import Available
from spark_stomp.transport.retry import Retry, may_recover

log = get_log(__name__)


class StreamBacklog(MemoryBacklog):
    """The frames of ``streams``, by destination, in memory. They are in the order of the receivers."""

    def __init__(self, options: SourceOptions, streams: Mapping[str, StreamDeliveries]) -> None:
        super().__init__(streams, tolerant=not options.fail_on_data_loss)
        self._options = options
        self._streams = {STREAM + stream_name(one): held for one, held in streams.items()}
        self._ends: dict[str, int] | None = None

    @property
    def epochs(self) -> frozenset[str]:
        return frozenset(held.stream_epoch for held in self._streams.values())

    def begin(self, start: Offset, planned: Offset) -> None:
        super().begin(start, planned)
        for destination, (name, held) in zip(self._options.destinations, self._streams.items(), strict=True):
            known = start.get(name)
            end = planned.get(name) or known
            if end is None:
                held.begin_at(new_epoch(), begin_of(self._options, destination))
            else:
                resumed = known is not None and known.epoch == end.epoch
                low = known.sequence if known is not None and resumed else end.base
                held.begin_at(end.epoch, low, wanted=end.sequence)

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

    def with_bases(self, start: Offset) -> Offset:
        """``start``, and the end that each stream had when a query with ``startingOffsets=latest`` began.

        A restart before the first message must begin there too.
        """
        found = {
            name: Position(held.stream_epoch, held.base, held.base)
            for name, held in self._streams.items()
            if held.begin == "latest" and held.base is not None and start.get(name) is None
        }
        return Offset({**start.positions, **found}) if found else start

    def available(self, start: Offset, statuses: Sequence[ReceiverStatus]) -> list[Available]:
        return [
            self._available(name, held, status, start.get(name))
            for (name, held), status in zip(self._streams.items(), statuses, strict=True)
        ]

    def _available(
        self, name: str, held: StreamDeliveries, status: ReceiverStatus, position: Position | None
    ) -> Available:
        if position is not None and position.epoch != held.stream_epoch:
            position = None
        base, received = held.base or 0, held.offset_after(status.received) or 0
        # Behind a gap in the offsets, so that the first of these offsets is a message.
        offered = base if position is None else position.sequence
        offered = max(offered, held.offset_of(held.sequence_of(offered)) or 0)
        complete = None
        if self._ends is not None:
            end = self._ends.get(name, 0)
            complete = received == end or (received > end and (held.end_is_known or held.begin == "latest"))
            # Nothing came from the time in startingOffsets on.
            complete = complete or (held.next is None and held.end_is_known and held.begin != "first")
            received = min(received, end)
        return Available(
            name,
            held.stream_epoch,
            offered,
            max(offered, received),
            full=status.window_full,
            base=base if position is None else 0,
            window_bytes=status.window_bytes,
            complete=complete,
        )

    def offer(self, end: Offset, seen: Sequence[Available]) -> bool:
        """Always True: frames of a stream are never discarded."""
        return True

    def received(self, statuses: Sequence[ReceiverStatus]) -> Offset:
        ends = {
            name: (held.stream_epoch, held.offset_after(status.received))
            for (name, held), status in zip(self._streams.items(), statuses, strict=True)
        }
        return Offset({name: Position(epoch, end) for name, (epoch, end) in ends.items() if end is not None})

    def holds(self, end: Offset) -> bool:
        return not any((held.next or 0) < at.sequence for held, at in self._in(end))

    def is_committed(self, end: Offset) -> bool:
        return all(held.frames.released >= held.sequence_of(at.sequence) for held, at in self._in(end))

    def commit(self, committed: Offset) -> bool:
        news = [held.commit(held.sequence_of(at.sequence)) for held, at in self._in(committed)]
        return any(news)

    def _in(self, offset: Offset) -> Iterator[tuple[StreamDeliveries, Position]]:
        """The positions of streams in ``offset`` whose epoch is held here."""
        for name, position in offset:
            held = self._streams.get(name)
            if held is not None and held.stream_epoch == position.epoch:
                yield held, position

    def readable(self, wanted: Range) -> list[Range]:
        """The frames of ``wanted``, by their sequence numbers; none if all of its messages are gone.

        Raises RangeUnavailable if some of it was committed and freed (contract 3).
        """
        held = self._streams[wanted.name]
        low, high = held.sequence_of(wanted.low), held.sequence_of(wanted.high)
        if low < held.frames.released:
            raise RangeUnavailable(
                f"Spark asks again for the offsets from {wanted.low} of "
                f"{wanted.name.removeprefix(STREAM)}, of which some were committed and freed"
            )
        return [Range(wanted.name, held.epoch, low, high)] if low < high else []

    def bytes_between(self, name: str, low: int, high: int) -> int:
        held = self._streams[name]
        return held.frames.bytes_between(held.sequence_of(low), held.sequence_of(high))

    def end_within(self, name: str, low: int, high: int, max_bytes: int) -> int:
        held = self._streams[name]
        first, last = held.sequence_of(low), held.sequence_of(high)
        end = held.frames.end_within(first, last, max_bytes)
        return high if end == last else max(low, held.offset_after(end) or 0)
