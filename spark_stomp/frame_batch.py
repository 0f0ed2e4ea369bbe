"""Raw frames on their way from a receiver to a task, and an index of the pieces of a store that hold them.

A :class:`FrameBatch` is one value all the way: the receiver keeps it, the journal writes it, the frame server
sends it, and a task decodes it. A :class:`FrameIndex` finds the pieces (blocks, records) of a store that
hold a range of frames, and counts their bytes. A :class:`MessageKey` names a message over connections and
restarts.

Sequence numbers count the frames of one receiver's epoch, positions those of one journal; both start at 0,
have no gaps, and are called numbers here. A range ``[low, high)`` includes ``low``, not ``high``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

_JOINED_BYTES = 1 << 20

T = TypeVar("T")
Ends = Sequence[int] | npt.NDArray[np.int64]
Ids = Sequence[bytes | None]
"""The stable ids of consecutive frames as on the wire; None for a frame without one."""


ID_TIME = b"@"
"""Stands in a stable id between the broker's number and its time (``Dialect.id_time_header``)."""


NO_TIME = (b"", b"0")
"""A message without a time has one of these."""


class MessageKey(NamedTuple):
    """What identifies a message on every connection (contract 4.2).

    Its destination header, its stable id as on the wire, and a digest of its body: the same id with another
    body is another message. So is the same message by another ``entry`` of the option ``destination``: two
    queues may hold a copy each.
    """

    destination: str
    id: bytes
    body: bytes
    entry: str = ""


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """Consecutive complete MESSAGE frames of one receiver, less than 2 GiB of them.

    Attributes:
        data: the frames' bytes as they came from the socket, with the EOLs between them.
        ends: for each frame the offset in ``data`` just after its NUL. Frame i is
            ``data[ends[i - 1]:ends[i]]``, and may begin with EOLs.
        first_sequence: the number of the first frame; the others follow without a gap.
        received_at: when they were read, in microseconds since the epoch (UTC): one time for all, or an array
            with one for each.
        version: the STOMP version of the connection that delivered them.
        dialect: the name of the broker's dialect; empty if it is not needed.
        receiver: the name of the receiver.
        malformed: why all of these frames are malformed; None if all are good.
    """

    data: bytes | memoryview
    ends: Ends
    first_sequence: int
    received_at: int | npt.NDArray[np.int64]
    version: str
    dialect: str = ""
    receiver: str = ""
    malformed: str | None = None

    @property
    def end(self) -> int:
        """The number after the last frame's."""
        return self.first_sequence + len(self.ends)

    @property
    def entry(self) -> str:
        """The entry of the option ``destination`` that the receiver reads: its name without its number."""
        return self.receiver.rpartition("#")[0]

    @property
    def origin(self) -> tuple[str, ...]:
        """Which receiver read the frames and how to decode them; only batches of one origin can be joined.

        The last part, why they are malformed, is there only if they are.
        """
        reason = () if self.malformed is None else (self.malformed,)
        return (self.receiver, self.version, self.dialect, *reason)

    def part(self, low: int, high: int) -> FrameBatch:
        """The frames whose numbers are in [low, high), at least one; nothing is copied."""
        if low <= self.first_sequence and high >= self.end:
            return self
        start, stop = max(low - self.first_sequence, 0), min(high, self.end) - self.first_sequence
        begin = int(self.ends[start - 1]) if start else 0
        ends = [int(end) - begin for end in self.ends[start:stop]]
        view = memoryview(self.data)[begin : begin + ends[-1]]
        time = self.received_at if isinstance(self.received_at, int) else self.received_at[start:stop]
        return replace(
            self, data=view, ends=ends, received_at=time, first_sequence=self.first_sequence + start
        )

    @staticmethod
    def join(batches: Sequence[FrameBatch]) -> FrameBatch:
        """Join consecutive batches of one origin, each with a single time; each frame keeps its time. A batch
        that is alone stays as it is."""
        first = batches[0]
        if len(batches) == 1:
            return first
        counts = [len(batch.ends) for batch in batches]
        offsets = np.cumsum([0, *(len(batch.data) for batch in batches[:-1])])
        ends = [np.asarray(one.ends, np.int64) + offset for one, offset in zip(batches, offsets, strict=True)]
        return replace(
            first,
            data=b"".join(batch.data for batch in batches),
            ends=np.concatenate(ends),
            received_at=np.repeat(np.array([batch.received_at for batch in batches], np.int64), counts),
        )


def joined(batches: Iterable[FrameBatch]) -> Iterator[FrameBatch]:
    """Consecutive batches of one origin as larger ones, of a MiB at most if they are not larger themselves.

    A batch is what one read of the socket brought, maybe a single message, and to send or decode a batch has
    its cost.
    """
    group: list[FrameBatch] = []
    size = 0
    for batch in batches:
        if group and (size + len(batch.data) > _JOINED_BYTES or not _follows(batch, group[-1])):
            yield FrameBatch.join(group)
            group, size = [], 0
        group.append(batch)
        size += len(batch.data)
        if size >= _JOINED_BYTES:
            # At once: the next one may have to be read from disk.
            yield FrameBatch.join(group)
            group, size = [], 0
    if group:
        yield FrameBatch.join(group)


def _follows(batch: FrameBatch, other: FrameBatch) -> bool:
    """Whether both can be joined: of a journal that has lost messages, a range may have several parts."""
    return batch.origin == other.origin and batch.first_sequence == other.end


@dataclass(frozen=True, slots=True)
class Piece(Generic[T]):
    """The frames [first, end) and the ``item`` that holds them; ``bytes_before`` counts all before them."""

    first: int
    end: int
    bytes_before: int
    size: int
    item: T


class FrameIndex(Generic[T]):
    """The pieces of a store by the numbers of their frames; each frame is in at most one piece.

    ``ends_of`` returns where the frames of an item end in it, like :attr:`FrameBatch.ends`. ``join`` makes
    one item of two that follow each other, or returns None if they are to stay two. Not thread-safe, except
    that any thread may read while one appends.
    """

    def __init__(
        self, ends_of: Callable[[T], Ends], join: Callable[[T, T], T | None] = lambda one, other: None
    ) -> None:
        self._ends_of = ends_of
        self._join = join
        self._pieces: list[Piece[T]] = []
        self.total_bytes = 0

    def __iter__(self) -> Iterator[Piece[T]]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def oldest(self) -> Piece[T] | None:
        """The first piece; None if there is none."""
        return self._pieces[0] if self._pieces else None

    def append(self, first: int, count: int, size: int, item: T) -> None:
        """``item`` holds ``count`` frames from ``first`` on, ``size`` bytes of them."""
        last = self._pieces[-1] if self._pieces else None
        both = self._join(last.item, item) if last is not None and last.end == first else None
        if last is None or both is None:
            self._pieces.append(Piece(first, first + count, self.total_bytes, size, item))
        else:
            # A thread that reads has the one piece or the other.
            self._pieces[-1] = Piece(last.first, first + count, last.bytes_before, last.size + size, both)
        self.total_bytes += size

    def join_before(self, number: int) -> None:
        """Join the piece that holds the frame ``number`` with the one before it, if that may be."""
        pieces = self._pieces
        index = bisect_right(pieces, number, key=lambda piece: piece.end)
        if 0 < index < len(pieces) and pieces[index - 1].end == pieces[index].first:
            one, other = pieces[index - 1 : index + 1]
            both = self._join(one.item, other.item)
            if both is not None:
                size = one.size + other.size
                pieces[index - 1 : index + 1] = [Piece(one.first, other.end, one.bytes_before, size, both)]

    def at(self, number: int) -> Piece[T] | None:
        """The piece that holds the frame ``number``, or the next one behind it; None if there is none."""
        index = bisect_right(self._pieces, number, key=lambda piece: piece.end)
        return self._pieces[index] if index < len(self._pieces) else None

    def overlapping(self, low: int, high: int) -> list[Piece[T]]:
        """The pieces that hold any frame of [low, high), in order."""
        if low >= high:
            return []
        pieces = self._pieces
        begin = bisect_right(pieces, low, key=lambda piece: piece.end)
        found = []
        # No slice: there may be many pieces behind the range.
        for piece in map(pieces.__getitem__, range(begin, len(pieces))):
            if piece.first >= high:
                break
            if piece.end > piece.first:
                found.append(piece)
        return found

    def bytes_before(self, number: int) -> int:
        """Bytes of all frames before the frame ``number``, or before the oldest if ``number`` is gone."""
        pieces = self._pieces
        index = bisect_right(pieces, number, key=lambda piece: piece.end)
        if index == len(pieces):
            # Not total_bytes: it may already count a piece that was appended meanwhile.
            return pieces[index - 1].bytes_before + pieces[index - 1].size if index else self.total_bytes
        piece = pieces[index]
        inside = number - piece.first
        return piece.bytes_before + (int(self._ends_of(piece.item)[inside - 1]) if inside > 0 else 0)

    def number_within(self, max_bytes: int, high: int) -> int:
        """The largest number up to ``high`` with at most ``max_bytes`` of frames before it.

        Frames that are gone have no bytes.
        """
        pieces = self._pieces
        index = bisect_right(pieces, max_bytes, key=lambda piece: piece.bytes_before) - 1
        if index < 0:
            return min(pieces[0].first, high) if pieces else high
        piece = pieces[index]
        if piece.first >= high or (index == len(pieces) - 1 and piece.bytes_before + piece.size <= max_bytes):
            return high
        ends = self._ends_of(piece.item)
        return min(piece.first + bisect_right(ends, max_bytes - piece.bytes_before), high)

    def free(self, upto: int) -> list[T]:
        """Remove the pieces that lie whole below ``upto``; returns their items."""
        count = 0
        while count < len(self._pieces) and self._pieces[count].end <= upto:
            count += 1
        gone = [piece.item for piece in self._pieces[:count]]
        del self._pieces[:count]
        return gone

    def discard(self, low: int, cut: Callable[[T, int], None]) -> list[T]:
        """Remove the frames from ``low`` on; returns the items of the pieces that go as a whole.

        If only a part of a piece goes, ``cut`` shortens its item to so many frames.
        """
        self.total_bytes = self.bytes_before(low)
        gone = []
        while self._pieces and self._pieces[-1].first >= low:
            gone.append(self._pieces.pop().item)
        if self._pieces and self._pieces[-1].end > low:
            last = self._pieces[-1]
            cut(last.item, low - last.first)
            self._pieces[-1] = replace(last, end=low, size=self.total_bytes - last.bytes_before)
        return gone


def bytes_between(indexes: Iterable[FrameIndex[T]], low: int, high: int) -> int:
    """The size on the wire of the frames [low, high), which lie in ``indexes``."""
    return sum(index.bytes_before(high) - index.bytes_before(low) for index in indexes)


def end_within(indexes: Iterable[tuple[FrameIndex[T], int]], low: int, high: int, max_bytes: int) -> int:
    """The largest end up to ``high`` for which [low, end) has at most ``max_bytes``; at least ``low``.

    ``indexes`` are all that hold frames of [low, high), in order. Each comes with the number after its last
    frame, even if that frame is gone.
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
    """``ranges`` in order; those that touch each other are merged."""
    merged: list[tuple[int, int]] = []
    for low, high in ranges:
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged
