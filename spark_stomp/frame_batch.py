"""Raw frames on their way from a receiver to a task, and an index of where a store holds them.

- A :class:`FrameBatch` is one value all the way: the receiver keeps it, the journal writes it, the frame
  server sends it, and a task decodes it.
- A :class:`FrameIndex` says where a store (blocks in memory, an object of a journal) holds which frames, and
  counts their bytes.
- A :class:`MessageKey` identifies a message across connections and restarts.

Frames have the numbers of their log. A range ``[low, high)`` includes ``low`` and excludes ``high``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

# Bytes up to which small batches are joined on their way to a task. Measured in November 2026 with 1 MiB on
# RabbitMQ, with 1,000 messages a second and one message a read: latency p50 was 350 to 387 ms before, and 223
# to 273 ms after this and one other change. 2 MiB halves what a batch costs a task in itself (1.6 ms with
# bodies of 10 KB); it was not compared on a broker.
_JOINED_BYTES = 2 << 20

T = TypeVar("T")
Ends = Sequence[int] | npt.NDArray[np.int64]
Ids = Sequence[bytes | None]
"""The stable ids of consecutive frames, as bytes from the wire; None for a frame without an id."""


ID_TIME = b"@"
"""Separates the broker's number and the time of the message in a stable id (``Dialect.id_time_header``)."""


NO_TIME = (b"", b"0")
"""The values of the time header that mean that a message has no time."""


class MessageKey(NamedTuple):
    """What identifies a message on every connection (contract 4.2).

    Attributes:
        destination: the value of its header ``destination``.
        id: its stable id, as bytes from the wire.
        body: a digest of its body, 16 bytes. Two messages with one id and different bodies are different.
        subscription: its header ``subscription``, which says by which entry of the option ``destination`` it
            came. Two queues may hold a copy of one message each; these are two messages. Empty if the
            destination alone tells them apart.
    """

    destination: str
    id: bytes
    body: bytes
    subscription: str = ""


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """Consecutive complete MESSAGE frames of one receiver, less than 2 GiB in all.

    Attributes:
        data: the bytes of the frames as they came from the socket, with the EOLs between them.
        ends: for each frame, the offset in ``data`` just after its NUL. Frame i is
            ``data[ends[i - 1]:ends[i]]``, and may begin with EOLs.
        first_number: the number of the first frame; the others follow without a gap.
        received_at: when the frames were read, in microseconds since 1970 (UTC): one time for all frames, or
            an array with a time for each.
        version: the STOMP version of the connection that delivered them.
        dialect: the name of the broker's dialect; empty if it is not needed.
        receiver: the name of the receiver.
        malformed: why all of these frames are malformed; None if all are well-formed.
    """

    data: bytes | memoryview
    ends: Ends
    first_number: int
    received_at: int | npt.NDArray[np.int64]
    version: str
    dialect: str = ""
    receiver: str = ""
    malformed: str | None = None

    @property
    def end(self) -> int:
        """The number after that of the last frame."""
        return self.first_number + len(self.ends)

    @property
    def origin(self) -> tuple[str, ...]:
        """Receiver, STOMP version and dialect; for malformed frames also the reason.

        Only batches with equal origins can be joined.
        """
        reason = () if self.malformed is None else (self.malformed,)
        return (self.receiver, self.version, self.dialect, *reason)

    def part(self, low: int, high: int) -> FrameBatch:
        """The frames of this batch in [low, high), without copying; there must be at least one."""
        if low <= self.first_number and high >= self.end:
            return self
        start, stop = max(low - self.first_number, 0), min(high, self.end) - self.first_number
        begin = int(self.ends[start - 1]) if start else 0
        ends = [int(end) - begin for end in self.ends[start:stop]]
        view = memoryview(self.data)[begin : begin + ends[-1]]
        time = self.received_at if isinstance(self.received_at, int) else self.received_at[start:stop]
        return replace(self, data=view, ends=ends, received_at=time, first_number=self.first_number + start)

    @staticmethod
    def join(batches: Sequence[FrameBatch], data: bytes | None = None) -> FrameBatch:
        """Join consecutive batches of one origin; a single batch is returned unchanged.

        Each batch must have one time for all of its frames. In the result each frame has its own time. Its
        frames are not copied if there is other ``data``.
        """
        first = batches[0]
        if len(batches) == 1:
            return first
        counts = [len(batch.ends) for batch in batches]
        offsets = np.cumsum([0, *(len(batch.data) for batch in batches[:-1])])
        ends = [np.asarray(one.ends, np.int64) + offset for one, offset in zip(batches, offsets, strict=True)]
        return replace(
            first,
            data=b"".join(batch.data for batch in batches) if data is None else data,
            ends=np.concatenate(ends),
            received_at=np.repeat(np.array([batch.received_at for batch in batches], np.int64), counts),
        )


def joined(batches: Iterable[FrameBatch]) -> Iterator[FrameBatch]:
    """Join consecutive batches of one origin as :func:`grouped` groups them."""
    return map(FrameBatch.join, grouped(batches))


def grouped(batches: Iterable[FrameBatch]) -> Iterator[list[FrameBatch]]:
    """Consecutive batches of one origin that have up to 2 MiB together.

    A batch that is larger already is alone. A batch holds what one read of the socket brought, maybe a single
    message, and each batch that is sent and decoded has a fixed cost.
    """
    group: list[FrameBatch] = []
    size = 0
    for batch in batches:
        if group and (size + len(batch.data) > _JOINED_BYTES or not _follows(batch, group[-1])):
            yield group
            group, size = [], 0
        group.append(batch)
        size += len(batch.data)
        if size >= _JOINED_BYTES:
            # Yield before asking for the next batch: that one may have to be read from disk.
            yield group
            group, size = [], 0
    if group:
        yield group


def _follows(batch: FrameBatch, other: FrameBatch) -> bool:
    """Whether ``batch`` can be joined to ``other``, the batch before it.

    Between two batches numbers may be missing, because a journal can have lost messages.
    """
    return batch.origin == other.origin and batch.first_number == other.end


@dataclass(frozen=True, slots=True)
class Extent(Generic[T]):
    """The frames [first, end) and the ``item`` that holds them.

    ``size`` is how many bytes these frames have, and ``bytes_before`` how many all earlier frames had.
    """

    first: int
    end: int
    bytes_before: int
    size: int
    item: T


class FrameIndex(Generic[T]):
    """Where a store holds which frames, as extents; each frame is in at most one extent.

    ``ends_of`` returns the end of each frame within an item, like :attr:`FrameBatch.ends`. ``join`` makes one
    item of two that follow each other, or returns None if they must stay two. Any thread may read while one
    thread appends; other calls need a lock.
    """

    def __init__(
        self, ends_of: Callable[[T], Ends], join: Callable[[T, T], T | None] = lambda one, other: None
    ) -> None:
        self._ends_of = ends_of
        self._join = join
        self._extents: list[Extent[T]] = []
        self.total_bytes = 0

    def __iter__(self) -> Iterator[Extent[T]]:
        return iter(self._extents)

    def __len__(self) -> int:
        return len(self._extents)

    @property
    def oldest(self) -> Extent[T] | None:
        """The first extent; None if the index is empty."""
        return self._extents[0] if self._extents else None

    def append(self, first: int, count: int, size: int, item: T) -> None:
        """Add ``item`` behind all others: ``count`` frames from ``first`` on, with ``size`` bytes."""
        last = self._extents[-1] if self._extents else None
        assert last is None or last.end <= first, "extents are added in the order of their numbers"
        both = self._join(last.item, item) if last is not None and last.end == first else None
        if last is None or both is None:
            self._extents.append(Extent(first, first + count, self.total_bytes, size, item))
        else:
            # One assignment: a thread that reads sees either the old extent or the new one.
            self._extents[-1] = Extent(last.first, first + count, last.bytes_before, last.size + size, both)
        self.total_bytes += size

    def at(self, number: int) -> Extent[T] | None:
        """The extent that holds the frame ``number``, or else the next extent; None if there is neither."""
        index = self._index(number)
        return self._extents[index] if index < len(self._extents) else None

    def overlapping(self, low: int, high: int) -> list[Extent[T]]:
        """The extents that hold at least one frame of [low, high), in order."""
        if low >= high:
            return []
        extents = self._extents
        begin = self._index(low)
        found = []
        # No slice, because it would copy all extents behind the range.
        for extent in map(extents.__getitem__, range(begin, len(extents))):
            if extent.first >= high:
                break
            if extent.end > extent.first:
                found.append(extent)
        return found

    def bytes_before(self, number: int) -> int:
        """How many bytes all frames below ``number`` have, removed ones included.

        If the frame ``number`` itself is removed: all frames below the oldest that is left.
        """
        extents = self._extents
        index = self._index(number)
        if index == len(extents):
            # Not total_bytes: another thread may have appended an extent that it already counts.
            return extents[index - 1].bytes_before + extents[index - 1].size if index else self.total_bytes
        extent = extents[index]
        inside = number - extent.first
        return extent.bytes_before + (int(self._ends_of(extent.item)[inside - 1]) if inside > 0 else 0)

    def number_within(self, max_bytes: int, high: int) -> int:
        """The largest number up to ``high`` for which :meth:`bytes_before` is at most ``max_bytes``.

        If even the oldest frame is beyond that, its number is returned.
        """
        extents = self._extents
        index = bisect_right(extents, max_bytes, key=lambda extent: extent.bytes_before) - 1
        if index < 0:
            return min(extents[0].first, high) if extents else high
        extent = extents[index]
        last = index == len(extents) - 1
        if extent.first >= high or (last and extent.bytes_before + extent.size <= max_bytes):
            return high
        ends = self._ends_of(extent.item)
        return min(extent.first + bisect_right(ends, max_bytes - extent.bytes_before), high)

    def remove(self, number: int) -> None:
        """Remove the extent that holds the frame ``number``."""
        del self._extents[self._index(number)]

    def _index(self, number: int) -> int:
        """The index of the extent that holds the frame ``number``, or else of the next extent."""
        return bisect_right(self._extents, number, key=lambda extent: extent.end)


def bytes_between(indexes: Iterable[FrameIndex[T]], low: int, high: int) -> int:
    """How many bytes the frames [low, high) had on the wire; ``indexes`` hold these frames."""
    return sum(index.bytes_before(high) - index.bytes_before(low) for index in indexes)


def end_within(indexes: Iterable[tuple[FrameIndex[T], int]], low: int, high: int, max_bytes: int) -> int:
    """The largest end up to ``high`` for which the frames [low, end) have at most ``max_bytes``.

    It is at least ``low``. ``indexes`` hold the frames of [low, high), in order; each comes with its end, the
    number after its last frame. An index does not know its end if its last frame was removed.
    """
    best = low
    for index, end in indexes:
        before = index.bytes_before(low)
        best = max(best, index.number_within(before + max_bytes, min(end, high)))
        max_bytes -= index.bytes_before(high) - before
        if max_bytes < 0:
            break
    return best


def merged_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge those of the ascending ``ranges`` that touch."""
    merged: list[tuple[int, int]] = []
    for low, high in ranges:
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged
