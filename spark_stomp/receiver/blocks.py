"""Blocks: messages of one receiver that came together. And the inbox, where they wait for their numbers.

A block begins in the inbox of its receiver. It gets its numbers when the log takes it, and keeps them. It is
held until its messages may be ACKed and the broker has confirmed these ACKs. Its handles wait with it; when
they may go out, they are pushed to the queue of the connection that brought them. The inbox still lists a
block that has numbers, to count its bytes: a receiver reads only as much as there is room for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

from spark_stomp.brokers import dialect_named
from spark_stomp.errors import StompError
from spark_stomp.frame_batch import FrameBatch, Ids, MessageKey
from spark_stomp.protocol import frame_content

Keys = list[MessageKey | None]


class AckTaker(Protocol):
    """What takes the ACKs of one connection, until that is ``closed``."""

    closed: bool

    def push(self, block: Block, start: int, stop: int) -> None: ...
    def push_again(self, key: MessageKey, handle: bytes) -> None: ...


# A delivery that waits until its message may be ACKed: the queue of its connection, the key, and the handle.
_Waiting = tuple[AckTaker, MessageKey, bytes]


@dataclass(slots=True, eq=False)
class Block:
    """The messages of one read of the socket, or a part of them.

    Attributes:
        batch: the frames. Their data is removed once the journal has them, or when they are shed. The number
            of the first frame counts only if the block is ``numbered``.
        ids: their stable ids; None if their connection collected no ids.
        numbered: whether a log has given them numbers; they wait in the inbox until then.
        inbox: the inbox of their receiver; None if an earlier run received them.
        ack_queue: the ACKs of the connection that brought them; None if that has ended, or in an earlier run.
        handles: their ack handles on that connection.
        again: their redeliveries, by the frame's index in this block.
        confirmed: how many of ``handles`` have a receipt.
        made_keys: their message keys; None until they are made, before the data is removed.
        pinned: it stays if its connection breaks, because another delivery hangs on it, or because it is
            being written to the journal.
        remembered: its keys are remembered, and it is no longer in the log.
        subscriptions: by which its messages came, as on the wire; some of them may be elsewhere.
    """

    batch: FrameBatch
    ids: Ids | None
    numbered: bool = False
    inbox: Inbox | None = None
    ack_queue: AckTaker | None = None
    handles: Sequence[bytes] = ()
    again: dict[int, list[_Waiting]] = field(default_factory=dict)
    confirmed: int = 0
    made_keys: Keys | None = None
    pinned: bool = False
    remembered: bool = False
    subscriptions: frozenset[bytes | None] = frozenset()

    def __len__(self) -> int:
        return len(self.batch.ends)

    @property
    def size(self) -> int:
        """How many bytes the frames had on the wire."""
        return int(self.batch.ends[-1])

    def is_below(self, mark: int) -> bool:
        """Whether all of its messages have numbers below ``mark``."""
        return self.numbered and self.batch.end <= mark

    @property
    def without_id(self) -> int:
        """How many of its messages have no stable id."""
        return len(self) if self.ids is None else self.ids.count(None)

    def bytes_between(self, start: int, stop: int) -> int:
        """How many bytes the frames [start, stop) have, counted within this block."""
        ends = self.batch.ends
        return int(ends[stop - 1]) - (int(ends[start - 1]) if start else 0)

    def keys(self, start: int, stop: int) -> Keys:
        """The message keys of the frames [start, stop), counted within this block, which must have ids."""
        assert self.ids is not None
        if self.made_keys is not None:
            return self.made_keys[start:stop]
        batch = self.batch
        part = batch.part(batch.first_number + start, batch.first_number + stop)
        return frame_keys(part, self.ids[start:stop])

    @property
    def all_keys(self) -> Keys:
        """The message keys of all frames; none without ids."""
        return [] if self.ids is None else self.keys(0, len(self))

    def make_keys(self) -> None:
        """Make the message keys, before the data is removed. This needs no lock."""
        batch = self.batch
        if self.made_keys is None and self.ids is not None and batch.data:
            self.made_keys = frame_keys(batch, self.ids)

    def find(self, names: Collection[bytes]) -> Iterator[tuple[MessageKey, HeldAt]]:
        """The key and the place of each frame that has one of these stable ids."""
        at = [index for index, name in enumerate(self.ids or ()) if name in names]
        begin = 0
        for index in range(1, len(at) + 1):
            if index == len(at) or at[index] != at[index - 1] + 1:
                keys = self.keys(at[begin], at[index - 1] + 1)
                yield from ((key, HeldAt(self, one)) for one, key in enumerate(keys, at[begin]) if key)
                begin = index

    def attach(self, at: int, queue: AckTaker, key: MessageKey, handle: bytes) -> None:
        """The frame ``at`` was redelivered. The block stays from now on, even if its connection breaks."""
        self.pinned = True
        live = [waiting for waiting in self.again.get(at, ()) if not waiting[0].closed]
        self.again[at] = [*live, (queue, key, handle)]

    def permit_acks(self, low: int, high: int) -> int:
        """Its frames in [low, high) may be ACKed: push their handles to the queues of their connections.

        Returns how many these are.
        """
        first = self.batch.first_number
        start, stop = max(low - first, 0), min(high - first, len(self))
        if self.ack_queue is not None and self.handles:
            self.ack_queue.push(self, start, stop)
        for at in sorted(self.again):
            for queue, key, handle in self.again.pop(at) if at < stop else ():
                if not queue.closed:
                    queue.push_again(key, handle)
        return stop - start

    def select(self, indices: Sequence[int]) -> None:
        """Keep only the frames at ``indices``, and no handles."""
        data, old = self.batch.data, self.batch.ends
        parts = [data[int(old[index - 1]) if index else 0 : int(old[index])] for index in indices]
        ends = list(accumulate(map(len, parts)))
        self.batch = replace(self.batch, data=b"".join(parts), ends=ends)
        self.ids = None if self.ids is None else [self.ids[index] for index in indices]
        self.handles = ()

    def split(self, count: int) -> Block:
        """Keep the first ``count`` frames; returns a block with the others."""
        first, ids, batch = self.batch.first_number, self.ids, self.batch
        rest = replace(self, batch=batch.part(first + count, batch.end), handles=self.handles[count:])
        rest.again = {at - count: self.again.pop(at) for at in sorted(self.again) if at >= count}
        self.batch, self.handles = batch.part(first, first + count), self.handles[:count]
        if ids is not None:
            self.ids, rest.ids = ids[:count], ids[count:]
        return rest

    def remainder(self, subscriptions: Collection[str]) -> Block | None:
        """A copy of its frames that came by these subscriptions, or name none; None if there are none."""
        batch = self.batch
        data = bytes(batch.data)
        frames = [data[begin:end] for begin, end in pairwise((0, *map(int, batch.ends)))]
        names = [frame_content(frame, batch.version)[1] for frame in frames]
        indices = [at for at, name in enumerate(names) if not name or name in subscriptions]
        if not indices:
            return None
        copy = replace(self, again={})
        copy.select(indices)
        return copy


class HeldAt(NamedTuple):
    """Where a message is held: its block, and its index there."""

    block: Block
    at: int

    def is_below(self, mark: int) -> bool:
        """Whether its number is below ``mark``."""
        return self.block.numbered and self.block.batch.first_number + self.at < mark


def frame_keys(batch: FrameBatch, ids: Ids) -> Keys:
    """The message keys of the frames in ``batch``, which have these stable ids; None for a missing id."""
    data, version = bytes(batch.data), batch.version
    own_queues = dialect_named(batch.dialect or "generic").own_queues
    keys: Keys = []
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


class Inbox:
    """The blocks of one receiver. Hold the lock of the dedup index to look at blocks or to change anything.

    ``max_bytes`` bounds the bytes in memory, ``name`` is the name of the receiver. Any thread may read the
    attributes.

    Attributes:
        refused: the error of the message behind those that wait here, which cannot be taken. Nothing comes
            after it.
        pending: how many messages wait here.
        received: how many messages were received that give a row.
        ackable: how many of these may be ACKed.
        memory_bytes: how many bytes of raw frames are in memory, here and in the log.
    """

    def __init__(self, max_bytes: int, name: str = "") -> None:
        self.name = name
        self._max_bytes = max_bytes
        self.refused: StompError | None = None
        self._waiting: deque[Block] = deque()
        # Numbered blocks in the order of their numbers: those with data in memory, and those without.
        self._loaded: dict[Block, None] = {}
        self._bare: dict[Block, None] = {}
        self.pending = self.received = self.ackable = self.memory_bytes = 0
        self._came = self._came_bytes = 0

    @property
    def room(self) -> int:
        """How many more bytes may be held in memory; 0 or less if the bound is reached."""
        return self._max_bytes - self.memory_bytes

    @property
    def mean_bytes(self) -> float | None:
        """The mean size in bytes of all messages that ever came; None before the first."""
        return self._came_bytes / self._came if self._came else None

    @property
    def all(self) -> list[Block]:
        """All blocks that are held, those with numbers first."""
        return [*self.numbered, *self._waiting]

    def put(self, block: Block) -> None:
        """Add a block that came."""
        block.inbox = self
        self._came += len(block)
        self._came_bytes += block.size
        self._put(block)

    def _put(self, block: Block) -> None:
        self._waiting.append(block)
        self.pending += len(block)
        self.received += len(block)
        self.memory_bytes += len(block.batch.data)

    # --- how much waits; numbers count from the first message that waits

    def bytes_between(self, low: int, high: int) -> int:
        """How many bytes the waiting messages [low, high) have."""
        return self._bytes_before(high) - self._bytes_before(low)

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        """The largest end up to ``high`` for which [low, end) has at most ``max_bytes``."""
        limit, first, before = self._bytes_before(low) + max_bytes, 0, 0
        for block in self._waiting:
            if first >= high or before + block.size > limit:
                first += bisect_right(block.batch.ends, limit - before) if first < high else 0
                break
            first, before = first + len(block), before + block.size
        return max(low, min(first, high))

    def _bytes_before(self, number: int) -> int:
        before = 0
        for block in self._waiting if number else ():
            if len(block) >= number:
                return before + block.bytes_between(0, number)
            number, before = number - len(block), before + block.size
        return before

    # --- blocks go

    def next_blocks(self, max_bytes: int) -> list[Block]:
        """The next blocks, which have about ``max_bytes``; they stay here. At least one if any waits."""
        found: list[Block] = []
        for block in self._waiting:
            if found and (max_bytes := max_bytes - block.size) < 0:
                break
            found.append(block)
        return found

    def take(self) -> Block:
        """Take the next block, which gets its numbers now."""
        block = self._waiting.popleft()
        self.pending -= len(block)
        self._loaded[block] = None
        return block

    def split(self, count: int) -> Block | None:
        """Let the next block have at most ``count`` messages; returns a block with the others, if any."""
        block = self._waiting[0]
        if len(block) <= count:
            return None
        rest = block.split(count)
        self._waiting.popleft()
        self._waiting.extendleft((rest, block))
        return rest

    def discard(self, but: Collection[str]) -> Iterator[tuple[Block, Block | None]]:
        """The connection has broken, and the broker redelivers: discard the blocks that are not pinned.

        Yields each of them, with a block of those of its messages that came by the subscriptions ``but``,
        which are not redelivered. This block is here.
        """
        waiting, self._waiting = self._waiting, deque()
        for block in waiting:
            self.pending -= len(block)
            self.received -= len(block)
            self.memory_bytes -= len(block.batch.data)
            if block.pinned:
                self._put(block)
                continue
            rest = block.remainder(but) if but else None
            if rest is not None:
                self._put(rest)
            yield block, rest

    # --- numbered blocks

    @property
    def numbered(self) -> list[Block]:
        """The blocks that have left the inbox and are still held."""
        return [*self._loaded, *self._bare]

    @property
    def loaded(self) -> list[Block]:
        """The numbered blocks whose data is in memory, in order."""
        return [*self._loaded]

    def unload(self, block: Block) -> None:
        """The data of a numbered block was removed."""
        if block in self._loaded:
            del self._loaded[block]
            self._bare[block] = None

    def forget(self, block: Block) -> None:
        """A numbered block is not held any more."""
        self._loaded.pop(block, None)
        self._bare.pop(block, None)
