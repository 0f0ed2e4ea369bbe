"""The inbox of a receiver: what it has received and nobody was told.

What waits here has no number. When the log takes messages, they get their numbers and wait here no more. The
inbox still lists their blocks, to count their bytes until the data is not needed any more: a receiver reads
only as much as there is room for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterator

from spark_stomp.receiver.block import Block


class Inbox:
    """The blocks of one receiver. Hold the lock of the dedup index to look at blocks or to change anything.

    ``max_bytes`` bounds the bytes in memory, ``name`` is the name of the receiver. Any thread may read the
    attributes.

    Attributes:
        pending: how many messages wait here.
        received: how many messages were received that give a row.
        ackable: how many of these may be ACKed.
        memory_bytes: how many bytes of raw frames are in memory, here and in the log.
    """

    def __init__(self, max_bytes: int, name: str = "") -> None:
        self.name = name
        self._max_bytes = max_bytes
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

    @property
    def last(self) -> Block | None:
        """The block that came last, if it waits here; None if none does."""
        return self._waiting[-1] if self._waiting else None

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

    def drop(self, but: Collection[str]) -> Iterator[tuple[Block, Block | None]]:
        """The connection has broken, and the broker redelivers: drop the blocks that are not pinned.

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
            block.dropped = True
            rest = block.remainder(but) if but else None
            if rest is not None:
                rest.dropped = False
                block.rest = rest
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
