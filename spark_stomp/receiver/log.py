"""The log: the numbered messages of a query, until they are not needed any more.

A message gets its number when it cannot be taken back any more: in memory in the step that chooses the end of
a batch; in a journal once it is durable there; of a stream on receipt, when its number is the broker's
offset. A query on queues has one log, a query on streams has one for each stream.

Invariants (contract 2 and 3):

- A number names one message as long as the log lives. Blocks are added in the order of their numbers, and
  are never discarded.
- ``committed <= ackable <= end``: Spark has committed what is below the first, and what is below the second
  may be ACKed. With ``ackAfter=journal`` what was planned is read again after its ACKs went out.
- Without a journal, the frames [committed, end) can be read any number of times, with the same bytes. Reading
  a committed frame is an error, never "no rows".
- A block is held until all of it may be ACKed and these ACKs are confirmed. If its connection is gone, its
  keys are remembered instead: the broker redelivers it.

Hold the lock of ``index`` for whatever changes anything.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from dataclasses import replace

from spark_stomp.errors import RangeUnavailable
from spark_stomp.frame_batch import FrameBatch, FrameIndex, Ids, bytes_between, end_within, merged_ranges
from spark_stomp.receiver.blocks import Block, frame_keys
from spark_stomp.receiver.dedup import DedupIndex


def new_id() -> str:
    """A name for a log: random, so that no restart and no second driver repeats it."""
    return secrets.token_hex(8)


class Log:
    """Numbered messages. Any thread may read.

    ``index`` knows the ids of all messages of the query. ``first`` is the number with which the log begins,
    ``known_id`` the id of one that goes on.

    Attributes:
        end: the number that comes next.
        ackable: messages below this number may be ACKed.
        committed: Spark has committed the messages below this number.
    """

    def __init__(self, index: DedupIndex, known_id: str = "", first: int = 0) -> None:
        self.id = known_id or new_id()
        self.index = index
        self._lock = threading.Lock()
        self._blocks: FrameIndex[Block] = FrameIndex(lambda block: block.batch.ends)
        self.begin_at(first)

    def begin_at(self, first: int) -> None:
        """The first message will have the number ``first``. Call this before anything is added."""
        self.end = self.ackable = self.committed = first

    # --- blocks come

    def add(self, block: Block, number: int | None = None) -> None:
        """Give the messages of ``block`` their numbers, the next ones, or those from ``number`` on."""
        first = self.end if number is None else number
        assert first >= self.end, "a number is given once"
        if block.batch.first_number != first:
            block.batch = replace(block.batch, first_number=first)
        block.numbered = True
        with self._lock:
            self._blocks.append(first, len(block), block.size, block)
            self.end = first + len(block)

    def recover(self, batch: FrameBatch, ids: Ids) -> None:
        """Add messages that a journal has from an earlier run, with their numbers and these stable ids.

        They have no ack handles until the broker redelivers them.
        """
        with self.index.lock:
            block = Block(batch, ids, made_keys=frame_keys(batch, ids))
            self.add(block, batch.first_number)
            self.unload(block)
            self.index.note(ids, block)

    def skip(self, number: int) -> None:
        """Give no number below ``number`` any more: those are lost, or deleted."""
        with self.index.lock:
            self.end = max(self.end, number)

    # --- blocks are read

    def batches(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames [low, high), in order.

        Raises RangeUnavailable if a part of the range is committed or has not come.
        """
        with self._lock:
            self._require_readable(low, high)
            pieces = self._blocks.overlapping(low, high)
        for piece in pieces:
            with self._lock:
                self._require_readable(max(low, piece.first), high)
                batch = piece.item.batch
            yield batch.part(low, high)

    def _require_readable(self, low: int, high: int) -> None:
        if low < self.committed or high > self.end or low > high:
            raise RangeUnavailable(
                f"frames [{low}, {high}) were asked for, but only [{self.committed}, {self.end}) "
                "can be read: earlier frames are committed"
            )

    def readable(self, low: int, high: int) -> list[tuple[int, int]]:
        """The parts of [low, high) that are held; numbers between them were never messages.

        Raises RangeUnavailable if some of it is committed (contract 3).
        """
        if low < self.committed:
            raise RangeUnavailable(
                f"Spark asks again for messages from {low} on, but those below {self.committed} are committed"
            )
        with self._lock:
            pieces = self._blocks.overlapping(low, high)
        return merged_ranges((max(one.first, low), min(one.end, high)) for one in pieces)

    def next_held(self, number: int) -> int:
        """The number of the first held message from ``number`` on; ``number`` itself if there is none."""
        with self._lock:
            piece = self._blocks.at(number)
        return number if piece is None else max(number, piece.first)

    @property
    def first_held(self) -> int | None:
        """The number of the first message that is held; None if none is."""
        with self._lock:
            oldest = self._blocks.oldest
        return None if oldest is None else oldest.first

    def bytes_between(self, low: int, high: int) -> int:
        """How many bytes the frames [low, high) had on the wire; those that are not held count as 0."""
        with self._lock:
            return bytes_between([self._blocks], low, high)

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        """The largest end up to ``high`` for which [low, end) has at most ``max_bytes``."""
        with self._lock:
            return end_within([(self._blocks, high)], low, high, max_bytes)

    # --- permit ACKs, and remove blocks

    def commit(self, upto: int) -> bool:
        """Spark has committed everything below ``upto``. False if that was known already."""
        with self.index.lock:
            upto = min(upto, self.end)
            if upto <= self.committed:
                return False
            with self._lock:
                self.committed = upto
            self.permit_acks(upto)
            return True

    def permit_acks(self, upto: int) -> None:
        """Everything below ``upto`` may be ACKed: push its handles to the queues of their connections."""
        with self.index.lock:
            before = self.ackable
            if upto <= before:
                return
            with self._lock:
                blocks = [piece.item for piece in self._blocks.overlapping(before, upto)]
            self.ackable = upto
            for block in blocks:
                count = block.permit_acks(before, upto)
                if block.inbox is not None:
                    block.inbox.ackable += count
                if block.is_below(upto) and not block.handles:
                    self.free(block, confirmed=block.ack_queue is not None)

    def free(self, block: Block, *, confirmed: bool) -> None:
        """Hold ``block`` no more: its ACKs are ``confirmed``, or its connection is gone after its commit."""
        self.remember(block, confirmed=confirmed)
        self._drop_data(block)
        if block.inbox is not None:
            block.inbox.forget(block)

    def remember(self, block: Block, *, confirmed: bool) -> None:
        """Take ``block`` out of the log and the index, which remembers its keys if they may be needed."""
        index = self.index
        if block.remembered:
            if confirmed:
                index.confirm([*filter(None, block.all_keys)])
            return
        block.remembered = True
        if not confirmed:
            index.remember_unconfirmed(block.all_keys)
        elif index.journaled:
            index.remember_confirmed(block.all_keys)
        index.remove(block.ids or (), block)
        with self._lock:
            self._blocks.remove(block.batch.first_number)

    def unload(self, block: Block) -> None:
        """Remove the data of ``block`` from memory: the journal has it, or all of it may be ACKed.

        Then :meth:`batches` has nothing of it.

        Its keys must be made before, because only they recognise a redelivery with certainty.
        """
        self._drop_data(block)
        if block.inbox is not None:
            block.inbox.unload(block)

    def _drop_data(self, block: Block) -> None:
        size = len(block.batch.data)
        if size:
            with self._lock:
                block.batch = replace(block.batch, data=b"")
            if block.inbox is not None:
                block.inbox.memory_bytes -= size
