"""The frames of one read, as a receiver holds them: in memory, in a temporary file, or in the journal."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_stomp.framebatch import FrameBatch, Ids, MessageKey
from spark_stomp.receiver.dedup import frame_keys
from spark_stomp.receiver.spill import SpilledBytes

Keys = list[MessageKey | None]

# Frames of several reads that are held together, if the journal has them.
_JOINED = 256


@dataclass(slots=True)
class Held:
    """The frames of one read. Their data is in ``batch``, in the spill file, or in the journal.

    ``ids`` are their stable ids; None if the connection that brought them collected none. ``made`` are their
    keys, which are made before their data leaves the memory.
    """

    batch: FrameBatch
    ids: Ids | None
    spilled: SpilledBytes | None = None
    position: int | None = None
    made: Keys | None = None

    def load(self) -> FrameBatch:
        """The frames with their data, which the journal does not have yet; reads what was spilled."""
        data = self.batch.data if self.spilled is None else self.spilled.load()
        size = self.batch.ends[-1]
        # If a part of the batch was discarded, its bytes are still there.
        return replace(self.batch, data=data if len(data) == size else memoryview(data)[:size])

    def keys(self, start: int, stop: int) -> Keys:
        """The keys of the frames [start, stop) of this batch, which has ids; nothing is read for them."""
        assert self.ids is not None
        if self.made is not None:
            return self.made[start:stop]
        first = self.batch.first_sequence
        return frame_keys(self.batch.part(first + start, first + stop), self.ids[start:stop])

    def joined(self, other: Held) -> Held | None:
        """This with the frames of ``other``, which follow, if the journal has both: where messages trickle, a
        Held for each read would be most of what they cost."""
        ends, keys = self.batch.ends, self.made
        if keys is None or other.made is None or self.ids is None or other.ids is None:
            return None
        if self.position is None or other.position != self.position + len(ends) or len(ends) >= _JOINED:
            return None
        together = ends[:] if isinstance(ends, array) else array("q", ends)
        together.extend([int(end) + int(ends[-1]) for end in other.batch.ends])
        batch = replace(self.batch, ends=together)
        return Held(batch, [*self.ids, *other.ids], None, self.position, [*keys, *other.made])

    def cut(self, count: int) -> None:
        """Keep the first ``count`` frames."""
        self.batch = replace(self.batch, ends=self.batch.ends[:count])
        self.ids = None if self.ids is None else self.ids[:count]

    def select(self, indices: Sequence[int]) -> None:
        """Keep the frames at ``indices``."""
        data, old = self.batch.data, self.batch.ends
        stretches = [(int(old[index - 1]) if index else 0, int(old[index])) for index in indices]
        ends, size = [], 0
        for begin, end in stretches:
            size += end - begin
            ends.append(size)
        if self.spilled is None:
            data = b"".join(data[begin:end] for begin, end in stretches)
        else:
            self.spilled.select(stretches)
        self.batch = replace(self.batch, data=data, ends=ends)
        self.ids = None if self.ids is None else [self.ids[index] for index in indices]
        self.made = None if self.made is None else [self.made[index] for index in indices]
