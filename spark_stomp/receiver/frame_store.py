"""The frame store: raw frames by sequence number, from the socket until they are not needed any more.

Invariants (contract 2 and 3):

- Numbers are dense and start at 0. A number names the same frame for as long as the store lives, unless the
  frame is discarded, which only happens to frames that Spark was never told of.
- ``[released, received)`` is readable, again and again, with the same bytes.
- Reading a released frame is an error, never "no rows". Its bytes stay until it is freed, because a
  redelivered message is known for sure only by its content.

With a journal, frames wait here until they are written there. When a batch is durable, its data leaves the
memory; its ends and its position in the journal stay until it is freed.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from spark_stomp.errors import RangeUnavailable
from spark_stomp.framebatch import FrameBatch, FrameIndex, Ids, Piece, bytes_between, end_within
from spark_stomp.receiver.marks import Marks
from spark_stomp.receiver.spill import SpilledBytes, SpillFile

ReadJournal = Callable[[int, int], Iterable[FrameBatch]]
"""The frames of a journal between two of its positions."""


@dataclass(slots=True)
class _Held:
    """The frames of one read. Their data is in ``batch``, in the spill file, or in the journal.

    ``ids`` are their stable ids; None if the connection that brought them collected none.
    """

    batch: FrameBatch
    ids: Ids | None
    spilled: SpilledBytes | None = None
    position: int | None = None

    def load(self) -> FrameBatch:
        """The frames with their data, which the journal does not have yet."""
        data = self.batch.data if self.spilled is None else self.spilled.load()
        size = self.batch.ends[-1]
        # If a part of the batch was discarded, its bytes are still there.
        return replace(self.batch, data=data if len(data) == size else memoryview(data)[:size])

    def cut(self, count: int) -> None:
        """Keep the first ``count`` frames."""
        self.batch = replace(self.batch, ends=self.batch.ends[:count])
        self.ids = None if self.ids is None else self.ids[:count]


class FrameStore:
    """The frames of one receiver. Thread-safe. ``marks`` say how far they are received, released, freed.

    ``max_bytes`` bounds the bytes in memory; batches beyond it go to an unlinked temporary file. ``name`` is
    the receiver's. ``read_journal`` reads the journal if there is one.
    """

    def __init__(self, max_bytes: int, name: str = "", read_journal: ReadJournal | None = None) -> None:
        self.marks = Marks()
        self._max_bytes = max_bytes
        self.name = name
        self._read_journal = read_journal
        self._lock = threading.Lock()
        self._spill = SpillFile()
        self._index: FrameIndex[_Held] = FrameIndex(lambda held: held.batch.ends)
        self._memory_bytes = 0

    @property
    def received(self) -> int:
        """The sequence number that the next frame will get."""
        return self.marks.received

    @property
    def released(self) -> int:
        """Frames below this number were committed and may not be read any more."""
        return self.marks.released

    @property
    def mean_bytes(self) -> float | None:
        """The mean size of all frames that ever came; None before the first."""
        with self._lock:
            return self._index.total_bytes / self.marks.received if self.marks.received else None

    @property
    def memory_bytes(self) -> int:
        """Bytes of raw frames held in memory."""
        return self._memory_bytes

    @property
    def spilled_bytes(self) -> int:
        """Bytes of raw frames held in the spill file."""
        return self._spill.in_use

    # --- frames come

    def append(self, batch: FrameBatch, ids: Ids | None = None) -> int:
        """Take the frames of one read and their stable ids; returns the sequence number of the first."""
        size = len(batch.data)
        with self._lock:
            if not len(self._index) or self._memory_bytes + size <= self._max_bytes:
                self._memory_bytes += size
                return self._add(_Held(batch, ids))
            return self._add(_Held(replace(batch, data=b""), ids, self._spill.put(bytes(batch.data))))

    def recover(self, batch: FrameBatch, ids: Ids) -> int:
        """Take frames that the journal has already; returns the number of the first here."""
        ends = array("q", batch.ends)
        with self._lock:
            held = _Held(replace(batch, data=b"", ends=ends), ids, position=batch.first_sequence)
            return self._add(held)

    def _add(self, held: _Held) -> int:
        first, ends = self.marks.received, held.batch.ends
        if (held.batch.first_sequence, held.batch.receiver) != (first, self.name):
            held.batch = replace(held.batch, first_sequence=first, receiver=self.name)
        self._index.append(first, len(ends), int(ends[-1]), held)
        self.marks.advance(received=first + len(ends))
        return first

    # --- frames are read

    def batches(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames [low, high), in order; spilled ones are read back one batch at a time.

        Raises RangeUnavailable if part of the range was released or has not been received.
        """
        with self._lock:
            self._require_readable(low, high)
            pieces = self._index.overlapping(low, high)
        return self._load(pieces, low, high)

    def _load(self, pieces: list[Piece[_Held]], low: int, high: int) -> Iterator[FrameBatch]:
        for piece in pieces:
            with self._lock:
                self._require_readable(max(low, piece.first), high)
                batch = piece.item.load()
            yield batch.part(low, high)

    def _require_readable(self, low: int, high: int) -> None:
        released, received = self.marks.released, self.marks.received
        if low < released or high > received or low > high:
            raise RangeUnavailable(
                f"frames [{low}, {high}) were asked for, but only [{released}, {received}) are held: "
                "what lies below was committed and freed"
            )

    def unfreed(self, low: int, high: int) -> list[FrameBatch]:
        """The frames of [low, high) that were not freed, whether or not they were released.

        Frames that the journal has are numbered by their positions there.
        """
        found: list[FrameBatch] = []
        with self._lock:
            for piece in self._index.overlapping(low, high):
                position = piece.item.position
                if position is None:
                    found.append(piece.item.load().part(low, high))
                elif self._read_journal is not None:
                    shift = position - piece.first
                    found += self._read_journal(max(low, piece.first) + shift, min(high, piece.end) + shift)
        return found

    def ids(self, low: int, high: int) -> list[tuple[int, Ids]]:
        """The stable ids of the frames [low, high), each part with the number of its first frame.

        Frames that came without ids, and freed ones, are left out.
        """
        with self._lock:
            return [
                (max(low, piece.first), ids[max(low - piece.first, 0) : high - piece.first])
                for piece in self._index.overlapping(low, high)
                if (ids := piece.item.ids) is not None
            ]

    def bytes_between(self, low: int, high: int) -> int:
        """The size of the frames [low, high) on the wire; freed ones have none."""
        with self._lock:
            return bytes_between([self._index], low, high)

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        """The largest end up to ``high`` for which [low, end) has at most ``max_bytes``; at least ``low``."""
        with self._lock:
            return end_within([(self._index, high)], low, high, max_bytes)

    # --- frames go to the journal

    def next_batches(self, low: int, max_bytes: int) -> list[FrameBatch]:
        """The batches from frame ``low`` on, where one begins: about ``max_bytes``, but one at least."""
        found: list[FrameBatch] = []
        with self._lock:
            for piece in self._index.overlapping(low, self.marks.received):
                if found and (max_bytes := max_bytes - piece.size) < 0:
                    break
                found.append(piece.item.load())
        return found

    def journaled(self, first: int, position: int) -> None:
        """The batch of frame ``first`` is in the journal from ``position`` on, and leaves the memory."""
        with self._lock:
            held = self._index.overlapping(first, first + 1)[0].item
            self._drop_data(held)
            held.batch = replace(held.batch, data=b"")
            held.spilled, held.position = None, position

    def end_below(self, position: int) -> int:
        """The number up to which all frames lie below ``position`` in the journal."""
        with self._lock:
            oldest = self._index.oldest
            end = self.marks.received if oldest is None else oldest.first
            for piece in self._index:
                at = piece.item.position
                if at is None or at >= position:
                    break
                end = piece.first + min(piece.end - piece.first, position - at)
            return end

    @property
    def oldest_position(self) -> int | None:
        """The journal's position of the oldest frame that is not freed; None if it is not in the journal."""
        with self._lock:
            oldest = self._index.oldest
            return None if oldest is None else oldest.item.position

    # --- frames go

    def release(self, upto: int) -> None:
        """Frames below ``upto`` are committed: they may be ACKed, and may not be read any more."""
        with self._lock:
            upto = min(upto, self.marks.received)
            self.marks.advance(released=upto, committed=upto, kept=upto)

    def free(self, upto: int) -> None:
        """Free the released frames below ``upto``, in whole batches."""
        with self._lock:
            self.marks.advance(freed=min(upto, self.marks.released))
            for held in self._index.free(self.marks.freed):
                self._drop_data(held)

    def discard(self) -> None:
        """Forget the frames that need not be kept; their numbers will be given to others."""
        with self._lock:
            for held in self._index.discard(self.marks.kept, _Held.cut):
                self._drop_data(held)
            self.marks.discard()

    def close(self) -> None:
        """Give up the spill file and the ids."""
        with self._lock:
            self._spill.close()
            for piece in self._index:
                piece.item.ids = None

    def _drop_data(self, held: _Held) -> None:
        if held.spilled is not None:
            held.spilled.free()
        else:
            self._memory_bytes -= len(held.batch.data)
