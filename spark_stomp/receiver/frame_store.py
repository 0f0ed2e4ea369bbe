"""The frame store: the raw frames of one receiver by sequence number, until they are not needed any more.

Invariants (contract 2 and 3):

- Sequence numbers start at 0 and have no gaps. A number names the same frame as long as the store lives,
  unless the frame is discarded. Only frames that Spark was never told about are discarded.
- The frames [released, received) can be read any number of times, with the same bytes.
- Reading a released frame is an error, never "no rows". Its bytes stay until it is freed or its
  message key is made of them: only the key recognises a redelivery with certainty.

With a journal, frames wait here until they are written there. When a batch is durable, its data is removed
from memory. Its ends, its message keys and its position in the journal stay until it is freed.

The bound ``max_bytes`` is enforced by the receiver: it reads only as much as there is ``room`` for, but
always at least one frame, however large that is.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import NamedTuple

from spark_stomp.brokers import dialect_named
from spark_stomp.errors import RangeUnavailable
from spark_stomp.frame_batch import (
    FrameBatch,
    FrameIndex,
    Ids,
    MessageKey,
    Piece,
    bytes_between,
    end_within,
)
from spark_stomp.protocol import frame_content
from spark_stomp.receiver.ack_queue import AckQueue
from spark_stomp.receiver.marks import Marks

Keys = list[MessageKey | None]

# Consecutive batches that the journal has are joined while the first has fewer frames than this. A judgement,
# not measured.
_JOIN_BELOW = 256

# A delivery that waits until its message may be ACKed: the queue of its connection, the key, and the handle.
_Waiting = tuple[AckQueue, MessageKey, bytes]


@dataclass(slots=True, eq=False)
class Held:
    """The frames of one read; with a journal, of several reads.

    Attributes:
        batch: the frames. Their data is removed once the journal has them, or when they are shed.
        ids: their stable ids; None if their connection collected no ids.
        marks: the marks of their receiver.
        position: the position of the first frame in the journal; None if the journal does not have them.
        made: their message keys; None until they are made, before the data is removed.
        queue: the ACKs of the connection that brought them; None if an earlier run received them.
        handles: their ack handles on that connection.
        again: their redeliveries, by the frame's index in this batch.
    """

    batch: FrameBatch
    ids: Ids | None
    marks: Marks
    position: int | None = None
    made: Keys | None = None
    queue: AckQueue | None = None
    handles: Sequence[bytes] = ()
    again: dict[int, list[_Waiting]] = field(default_factory=dict)

    @property
    def frames(self) -> FrameBatch:
        """The frames; their data is empty if it was removed from memory."""
        data, size = self.batch.data, self.batch.ends[-1]
        # If some of the frames were discarded, their bytes are still at the end.
        return replace(self.batch, data=data if len(data) == size else memoryview(data)[:size])

    def keys(self, start: int, stop: int) -> Keys:
        """The message keys of the frames [start, stop), counted within this batch, which must have ids."""
        assert self.ids is not None
        if self.made is not None:
            return self.made[start:stop]
        first = self.batch.first_sequence
        return frame_keys(self.batch.part(first + start, first + stop), self.ids[start:stop])

    def find(self, names: Collection[bytes]) -> Iterator[tuple[MessageKey, Place]]:
        """The keys of the frames with these stable ids, and where each is."""
        at = [index for index, name in enumerate(self.ids or ()) if name in names]
        begin = 0
        for index in range(1, len(at) + 1):
            if index == len(at) or at[index] != at[index - 1] + 1:
                keys = self.keys(at[begin], at[index - 1] + 1)
                yield from ((key, Place(self, one)) for one, key in enumerate(keys, at[begin]) if key)
                begin = index

    def attach(self, at: int, queue: AckQueue, key: MessageKey, handle: bytes) -> None:
        """The frame ``at`` was redelivered. It is never discarded from now on."""
        self.marks.advance(kept=self.batch.first_sequence + at + 1)
        live = [waiting for waiting in self.again.get(at, ()) if not waiting[0].closed]
        self.again[at] = [*live, (queue, key, handle)]

    def permit_acks(self, low: int, high: int) -> None:
        """The frames [low, high) may be ACKed: push their handles to the queues of their connections."""
        first = self.batch.first_sequence
        start, stop = max(low - first, 0), high - first
        if self.queue is not None:
            self.queue.push(first + start, self.handles[start:stop])
        for at in sorted(self.again):
            for queue, key, handle in self.again.pop(at) if at < stop else ():
                queue.push_again(key, handle)

    def joined(self, other: Held) -> Held | None:
        """This batch with ``other``, which follows, added to it; None if they must stay separate.

        Joining saves memory: if each read of the socket brings one message, most of the memory would go to
        the objects, one for each read. Only batches that the journal has are joined, because those have no
        data in memory.
        """
        ends, keys = self.batch.ends, self.made
        if keys is None or other.made is None or self.ids is None or other.ids is None:
            return None
        if self.position is None or other.position != self.position + len(ends) or len(ends) >= _JOIN_BELOW:
            return None
        if self.queue is not other.queue:
            return None
        self.again.update((at + len(ends), waiting) for at, waiting in other.again.items())
        together = ends[:] if isinstance(ends, array) else array("q", ends)
        together.extend([int(end) + int(ends[-1]) for end in other.batch.ends])
        self.batch = replace(self.batch, ends=together)
        self.ids, self.made = [*self.ids, *other.ids], [*keys, *other.made]
        self.handles = [*self.handles, *other.handles]
        return self

    def cut(self, count: int) -> None:
        """Keep only the first ``count`` frames."""
        self.batch = replace(self.batch, ends=self.batch.ends[:count])
        self.ids = None if self.ids is None else self.ids[:count]
        self.handles = self.handles[:count]

    def select(self, indices: Sequence[int]) -> None:
        """Keep only the frames at ``indices``."""
        data, old = self.batch.data, self.batch.ends
        parts = [data[int(old[index - 1]) if index else 0 : int(old[index])] for index in indices]
        ends = list(accumulate(map(len, parts)))
        self.batch = replace(self.batch, data=b"".join(parts), ends=ends)
        self.ids = None if self.ids is None else [self.ids[index] for index in indices]


class Place(NamedTuple):
    """Where a message is held: its batch, and its index there."""

    held: Held
    at: int

    @property
    def may_be_acked(self) -> bool:
        return self.held.batch.first_sequence + self.at < self.held.marks.committed


class FrameStore:
    """The frames of one receiver. Thread-safe. ``marks`` say how far they are received, released and freed.

    ``max_bytes`` bounds the bytes in memory. ``name`` is the name of the receiver.
    """

    def __init__(self, max_bytes: int, name: str = "") -> None:
        self.marks = Marks()
        self._max_bytes = max_bytes
        self.name = name
        self._lock = threading.Lock()
        self._index: FrameIndex[Held] = FrameIndex(lambda held: held.batch.ends, Held.joined)
        self._memory_bytes = 0
        self._shed = 0

    @property
    def received(self) -> int:
        """The sequence number that the next frame will get."""
        return self.marks.received

    @property
    def released(self) -> int:
        """Frames below this sequence number are committed and must not be read any more."""
        return self.marks.released

    @property
    def mean_bytes(self) -> float | None:
        """The mean size in bytes of all frames that ever came; None before the first."""
        with self._lock:
            return self._index.total_bytes / self.marks.received if self.marks.received else None

    @property
    def memory_bytes(self) -> int:
        """How many bytes of raw frames are in memory."""
        return self._memory_bytes

    @property
    def room(self) -> int:
        """How many more bytes may be held in memory; 0 or less if the bound is reached."""
        return self._max_bytes - self._memory_bytes

    # --- frames come

    def append(self, held: Held) -> int:
        """Add the frames of one read; returns the sequence number of the first."""
        with self._lock:
            self._memory_bytes += len(held.batch.data)
            return self._add(held)

    def recover(self, batch: FrameBatch, ids: Ids) -> Held:
        """Add frames that the journal has from an earlier run; returns the batch that has them now.

        ``batch`` is numbered by positions in the journal. Its message keys are kept, its data is not.
        """
        held = Held(batch, ids, self.marks, position=batch.first_sequence, made=frame_keys(batch, ids))
        held.batch = replace(batch, data=b"", ends=array("q", batch.ends))
        with self._lock:
            first = self._add(held)
            return self._index.overlapping(first, first + 1)[0].item

    def _add(self, held: Held) -> int:
        first, ends = self.marks.received, held.batch.ends
        if (held.batch.first_sequence, held.batch.receiver) != (first, self.name):
            held.batch = replace(held.batch, first_sequence=first, receiver=self.name)
        self._index.append(first, len(ends), int(ends[-1]), held)
        self.marks.advance(received=first + len(ends))
        return first

    # --- frames are read

    def batches(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames [low, high), in order.

        Raises RangeUnavailable if a part of the range was released or has not been received.
        """
        with self._lock:
            self._require_readable(low, high)
            pieces = self._index.overlapping(low, high)
        return self._load(pieces, low, high)

    def _load(self, pieces: list[Piece[Held]], low: int, high: int) -> Iterator[FrameBatch]:
        for piece in pieces:
            with self._lock:
                self._require_readable(max(low, piece.first), high)
                frames = piece.item.frames
            yield frames.part(low, high)

    def _require_readable(self, low: int, high: int) -> None:
        released, received = self.marks.released, self.marks.received
        if low < released or high > received or low > high:
            raise RangeUnavailable(
                f"frames [{low}, {high}) were asked for, but only [{released}, {received}) are held: "
                "earlier frames were committed and freed"
            )

    def keys(self, low: int, high: int) -> Keys:
        """The message keys of those frames of [low, high) that are held and whose connection collected ids.

        The key is None for a frame without an id.
        """
        with self._lock:
            return [
                key
                for piece in self._index.overlapping(low, high)
                if piece.item.ids is not None
                for key in piece.item.keys(max(low - piece.first, 0), min(high, piece.end) - piece.first)
            ]

    def held(self, low: int, high: int) -> list[Held]:
        """The batches that hold a part of the frames [low, high), in order."""
        with self._lock:
            return [piece.item for piece in self._index.overlapping(low, high)]

    def ids(self, low: int, high: int) -> list[tuple[Held, Ids]]:
        """The stable ids of the frames [low, high), in parts, each with the batch that has them.

        Frames that are freed, or whose connection collected no ids, are left out.
        """
        with self._lock:
            return [
                (piece.item, ids[max(low - piece.first, 0) : high - piece.first])
                for piece in self._index.overlapping(low, high)
                if (ids := piece.item.ids) is not None
            ]

    def bytes_between(self, low: int, high: int) -> int:
        """How many bytes the frames [low, high) had on the wire; freed frames count nothing."""
        with self._lock:
            return bytes_between([self._index], low, high)

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        """The largest end up to ``high`` for which [low, end) has at most ``max_bytes``; at least ``low``."""
        with self._lock:
            return end_within([(self._index, high)], low, high, max_bytes)

    def copies(self, low: int, subscriptions: Collection[str]) -> list[Held]:
        """Copies of the frames from ``low`` on that came by these subscriptions, or name none."""
        copies = []
        with self._lock:
            for piece in self._index.overlapping(low, self.marks.received):
                start = max(low - piece.first, 0)
                batch, ids = piece.item.frames.part(low, piece.end), piece.item.ids
                copy = Held(batch, None if ids is None else ids[start:], self.marks)
                data = bytes(batch.data)
                frames = [data[begin:end] for begin, end in pairwise((0, *map(int, batch.ends)))]
                names = [frame_content(frame, batch.version)[1] for frame in frames]
                copy.select([at for at, name in enumerate(names) if not name or name in subscriptions])
                if copy.batch.ends:
                    copies.append(copy)
        return copies

    # --- frames go to the journal

    def next_batches(self, low: int, max_bytes: int) -> list[FrameBatch]:
        """The held batches from frame ``low`` on. A batch must begin at ``low``.

        Together they have about ``max_bytes``. If any frame is held, at least one batch is returned.
        """
        found: list[FrameBatch] = []
        with self._lock:
            for piece in self._index.overlapping(low, self.marks.received):
                if found and (max_bytes := max_bytes - piece.size) < 0:
                    break
                found.append(piece.item.frames)
        return found

    def make_keys(self, batch: FrameBatch) -> None:
        """Make the message keys of a batch that is kept, while its data is in memory; without a lock."""
        with self._lock:
            held = self._index.overlapping(batch.first_sequence, batch.end)[0].item
            ids = held.ids
        if held.made is None and ids is not None:
            held.made = frame_keys(batch, ids)

    def journaled(self, first: int, position: int) -> tuple[Held, Held]:
        """The batch that begins with frame ``first`` is in the journal at ``position``: remove its data.

        Returns that batch, and the one that has its frames now: it may have been added to the one before it.
        """
        with self._lock:
            held = self._index.overlapping(first, first + 1)[0].item
            self._drop_data(held)
            held.position = position
            self._index.join_before(first)
            return held, self._index.overlapping(first, first + 1)[0].item

    def end_below(self, position: int) -> int:
        """The sequence number up to which all frames are below ``position`` in the journal."""
        with self._lock:
            oldest = self._index.oldest
            end = self.marks.received if oldest is None else oldest.first
            for piece in self._index:
                at = piece.item.position
                if at is None or at >= position:
                    break
                end = piece.first + min(piece.end - piece.first, position - at)
            return end

    def position_from(self, number: int) -> int | None:
        """The position in the journal of the first held frame from ``number`` on.

        None if there is no such frame, or if the journal does not have it.
        """
        with self._lock:
            piece = self._index.at(number)
            if piece is None or piece.item.position is None:
                return None
            return piece.item.position + max(0, number - piece.first)

    # --- frames go

    def release(self, upto: int) -> None:
        """Frames below ``upto`` are committed: they may be ACKed, and must not be read any more."""
        with self._lock:
            upto = min(upto, self.marks.received)
            self.marks.advance(released=upto, committed=upto, kept=upto)

    def free(self, upto: int) -> None:
        """Free the released frames below ``upto``; the bytes of a batch go when all its frames are free."""
        with self._lock:
            self.marks.advance(freed=min(upto, self.marks.released))
            for held in self._index.free(self.marks.freed):
                self._drop_data(held)

    def discard(self) -> None:
        """Forget the frames that are not kept. Their sequence numbers will be given to other frames."""
        with self._lock:
            for held in self._index.discard(self.marks.kept, Held.cut):
                self._drop_data(held)
            self.marks.discard()

    def shed(self) -> None:
        """Reduce batches of which all frames are released to their message keys.

        Only the thread that appends may call it. No lock is held while keys are made.
        """
        with self._lock:
            released = self.marks.released
            pieces = self._index.overlapping(max(self._shed, self.marks.freed), released)
        for piece in pieces:
            if piece.end > released:
                break
            held = piece.item
            made = held.made
            if made is None and held.ids is not None and held.batch.data:
                made = frame_keys(held.batch, held.ids)
            with self._lock:
                if piece.end > self.marks.freed:
                    held.made = made
                    self._drop_data(held)
            self._shed = piece.end

    def close(self) -> None:
        """Forget the ids of all frames."""
        with self._lock:
            for piece in self._index:
                piece.item.ids = None

    def _drop_data(self, held: Held) -> None:
        if held.batch.data:
            self._memory_bytes -= len(held.batch.data)
            held.batch = replace(held.batch, data=b"")


def frame_keys(batch: FrameBatch, ids: Ids) -> list[MessageKey | None]:
    """The message keys of the frames in ``batch``, which have these stable ids; None for a missing id."""
    data, version = bytes(batch.data), batch.version
    own_queues = dialect_named(batch.dialect or "generic").own_queues
    keys: list[MessageKey | None] = []
    for (begin, end), name in zip(pairwise((0, *batch.ends)), ids, strict=True):
        if not name:
            keys.append(None)
            continue
        # The frame is not decoded: that took 15 to 22 us a message, and this takes 2 (November 2026).
        destination, subscription, body = frame_content(data[begin:end], version)
        digest = blake2b(body, digest_size=16).digest()
        if destination.startswith(own_queues):
            subscription = ""  # two entries of the option may match this queue, and either may bring it again
        keys.append(MessageKey(destination, name, digest, subscription))
    return keys
