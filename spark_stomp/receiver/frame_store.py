"""The window: raw frames by sequence number, from the socket until their batch is committed.

Invariants (contract 2 and 3):

- Numbers are dense and start at 0. One names the same frame for as long as the window lives, unless its frame
  is truncated away, which only happens to frames that nobody outside was told of.
- ``[released, end)`` is readable, again and again, with the same bytes.
- What was released is gone for readers, and asking for it is an error, never "no rows". Its bytes stay a
  little longer, until it is freed: only by its content is a redelivered message known for sure.

With a journal the window is where frames wait to be written there. Once a block is durable, it lives in the
journal and leaves the memory; of it only sizes and its position in the journal are kept until it is freed.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from spark_stomp.errors import RangeUnavailable
from spark_stomp.framebatch import FrameBatch
from spark_stomp.receiver.spill import SpilledBytes, SpillFile

__all__ = ["FrameStore", "Stored"]

Stored = Callable[[int, int], Iterable["FrameBatch"]]
"""The frames of a journal between two positions of it."""


@dataclass(slots=True)
class _Block:
    """The frames of one read. ``data`` is None once they live in the journal, from ``position`` on there."""

    first: int
    data: bytes | SpilledBytes | None
    ends: Sequence[int]
    bytes_before: int
    received_at: int
    version: str
    dialect: str
    position: int | None = None

    @property
    def end(self) -> int:
        return self.first + len(self.ends)

    @property
    def size(self) -> int:
        return self.ends[-1]

    def whole(self, receiver: str) -> FrameBatch:
        assert self.data is not None
        data: bytes | memoryview = self.data if isinstance(self.data, bytes) else self.data.load()
        if len(data) > self.size:
            # Truncated: what lies behind is not ours any more.
            data = memoryview(data)[: self.size]
        return FrameBatch(data, self.ends, self.first, self.received_at, self.version, self.dialect, receiver)

    def stored(self, low: int, high: int, stored: Stored) -> list[FrameBatch]:
        """The frames of this block in [low, high), from the journal, under their numbers there."""
        assert self.position is not None
        shift = self.position - self.first
        return list(stored(max(low, self.first) + shift, min(high, self.end) + shift))


class FrameStore:
    """Frames received and not yet settled. All methods may be called from any thread.

    ``max_bytes`` bounds what is held in memory; blocks beyond it go to an unlinked temporary file. ``name``
    is the receiver's. ``stored`` reads the journal, where there is one.
    """

    def __init__(self, max_bytes: int, name: str = "", stored: Stored | None = None) -> None:
        self._max_bytes = max_bytes
        self._name = name
        self._stored = stored
        self._lock = threading.Lock()
        self._spill = SpillFile()
        self._blocks: list[_Block] = []
        self._end = 0
        self._released = 0
        self._total_bytes = 0
        self._memory_bytes = 0

    @property
    def end(self) -> int:
        """The sequence number that the next frame will get."""
        return self._end

    @property
    def released(self) -> int:
        """Frames below this number were committed and are gone."""
        return self._released

    @property
    def mean_bytes(self) -> float | None:
        """The mean size of all frames that ever came; None before the first."""
        with self._lock:
            return self._total_bytes / self._end if self._end else None

    @property
    def memory_bytes(self) -> int:
        """Bytes of raw frames held in memory."""
        return self._memory_bytes

    @property
    def spilled_bytes(self) -> int:
        """Bytes of raw frames held in the spill file."""
        return self._spill.in_use

    def append(
        self, data: bytes, ends: Sequence[int], *, received_at: int, version: str, dialect: str
    ) -> int:
        """Take the frames of one read; returns the sequence number of the first."""
        with self._lock:
            first = self._end
            fits = not self._blocks or self._memory_bytes + len(data) <= self._max_bytes
            held = data if fits else self._spill.put(data)
            block = _Block(first, held, ends, self._total_bytes, received_at, version, dialect)
            self._blocks.append(block)
            self._end += len(ends)
            self._total_bytes += block.size
            if fits:
                self._memory_bytes += len(data)
            return first

    def runs(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames [low, high), in order, as runs; spilled ones are read back one at a time.

        Raises RangeUnavailable where part of the range was released or has not been received.
        """
        with self._lock:
            self._require_held(low, high)
            blocks = self._overlapping(low, high)
        return self._load(blocks, low, high)

    def _load(self, blocks: list[_Block], low: int, high: int) -> Iterator[FrameBatch]:
        for block in blocks:
            with self._lock:
                self._require_held(max(low, block.first), high)
                run = block.whole(self._name)
            yield run.part(low, high)

    def _require_held(self, low: int, high: int) -> None:
        if low < self._released or high > self._end or low > high:
            raise RangeUnavailable(
                f"frames [{low}, {high}) were asked for, but only [{self._released}, {self._end}) are held: "
                "what lies below was committed and freed"
            )

    def retained(self, low: int, high: int) -> list[FrameBatch]:
        """The frames [low, high) whether or not they were released, as long as they were not freed.

        Those that the journal has bear their numbers there.
        """
        runs: list[FrameBatch] = []
        with self._lock:
            for block in self._overlapping(low, high):
                if block.data is not None:
                    runs.append(block.whole(self._name).part(low, high))
                elif self._stored is not None:
                    runs += block.stored(low, high, self._stored)
        return runs

    def next_blocks(self, low: int, max_bytes: int) -> list[FrameBatch]:
        """The blocks from frame ``low`` on, where a block begins, up to about ``max_bytes``; one at least."""
        runs: list[FrameBatch] = []
        with self._lock:
            for block in self._overlapping(low, self._end):
                if runs and (max_bytes := max_bytes - block.size) < 0:
                    break
                runs.append(block.whole(self._name))
        return runs

    def journaled(self, first: int, position: int) -> None:
        """The block of frame ``first`` is durable in the journal, from ``position`` on; memory lets it go."""
        with self._lock:
            block = self._blocks[bisect_right(self._blocks, first, key=lambda block: block.end)]
            self._free(block)
            block.data, block.position = None, position

    def recover(self, run: FrameBatch) -> int:
        """Take in frames that the journal has already; their number here is returned."""
        with self._lock:
            first, ends = self._end, array("q", run.ends)
            block = _Block(
                first, None, ends, self._total_bytes, int(run.received_at), run.version, run.dialect
            )
            block.position = run.first_sequence
            self._blocks.append(block)
            self._end += len(ends)
            self._total_bytes += block.size
            return first

    def below(self, position: int) -> int:
        """The number up to which all frames lie below ``position`` in the journal."""
        with self._lock:
            upto = self._blocks[0].first if self._blocks else self._end
            for block in self._blocks:
                if block.position is None or block.position >= position:
                    break
                upto = block.first + min(len(block.ends), position - block.position)
            return upto

    @property
    def oldest_position(self) -> int | None:
        """Where in the journal the oldest frame begins that was not freed; None where none is there."""
        with self._lock:
            return self._blocks[0].position if self._blocks else None

    def bytes_between(self, low: int, high: int) -> int:
        """The size of the frames [low, high) on the wire."""
        with self._lock:
            return self._position(high) - self._position(low)

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        """The largest number up to ``high`` so that [low, it) has at most ``max_bytes``; at least ``low``."""
        with self._lock:
            budget = self._position(low) + max_bytes
            best = low
            for block in self._overlapping(low, high):
                fitting = block.first + bisect_right(block.ends, budget - block.bytes_before)
                if fitting < block.end:
                    return max(best, min(fitting, high))
                best = min(block.end, high)
            return best

    def release(self, upto: int) -> None:
        """Frames below ``upto`` are committed: nobody may read them any more."""
        with self._lock:
            self._released = max(self._released, min(upto, self._end))

    def free(self, upto: int) -> None:
        """Frames below ``upto`` are not needed for anything any more. They must have been released."""
        with self._lock:
            upto = min(upto, self._released)
            freed = 0
            while freed < len(self._blocks) and self._blocks[freed].end <= upto:
                self._free(self._blocks[freed])
                freed += 1
            del self._blocks[:freed]

    def truncate(self, end: int) -> None:
        """Forget the frames from ``end`` on; their numbers will be given to other frames."""
        with self._lock:
            if end >= self._end:
                return
            self._total_bytes = self._position(end)
            self._end = end
            while self._blocks and self._blocks[-1].first >= end:
                self._free(self._blocks.pop())
            if self._blocks and self._blocks[-1].end > end:
                last = self._blocks[-1]
                last.ends = last.ends[: end - last.first]

    def close(self) -> None:
        """Give up the spill file."""
        with self._lock:
            self._spill.close()

    def _free(self, block: _Block) -> None:
        if isinstance(block.data, SpilledBytes):
            block.data.release()
        elif block.data is not None:
            self._memory_bytes -= len(block.data)

    def _overlapping(self, low: int, high: int) -> list[_Block]:
        if low >= high:
            return []
        first = bisect_right(self._blocks, low, key=lambda block: block.end)
        found = []
        for block in self._blocks[first:]:
            if block.first >= high:
                break
            found.append(block)
        return found

    def _position(self, sequence: int) -> int:
        """Bytes received before the frame ``sequence``; for a freed one, before the oldest that is held."""
        index = bisect_right(self._blocks, sequence, key=lambda block: block.end)
        if index == len(self._blocks):
            return self._total_bytes
        block = self._blocks[index]
        inside = sequence - block.first
        return block.bytes_before + (block.ends[inside - 1] if inside > 0 else 0)
