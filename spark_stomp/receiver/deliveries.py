"""What one receiver holds, over all its connections: frames, keys and handles, and what happens to them.

No socket, no thread, no clock: blocks, commits, receipts and broken connections in, ACKs out. Frames live in
the window from the moment they come until the broker confirmed their ACK; what a new delivery means is
decided here, and so is what a broken connection leaves behind (contract 2 and 4):

- Frames that were offered to Spark, or that another delivery counts on, stay. Their handles are void; a
  redelivery gives them new ones.
- The others are discarded where the broker delivers them again, and their numbers with them.
- Of committed frames whose ACK was not confirmed only the keys are kept: if they come again, they are ACKed
  again and dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_stomp.framebatch import FrameBatch, MessageKey
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.ack_ledger import AckGroup, AckLedger, Acks
from spark_stomp.receiver.dedup import DedupIndex, HeldAt
from spark_stomp.receiver.frame_store import FrameStore, Stored
from spark_stomp.receiver.keys import IdsBySequence, frame_keys

__all__ = ["Counts", "Deliveries"]

_REDELIVERED = b"\nredelivered:true\n"


@dataclass(frozen=True, slots=True)
class Counts:
    """What redelivery came to, in messages since the start.

    ``redelivered``: marked so by the broker. ``reattached``: known again and still held, so no second row.
    ``dropped``: known again and committed already, so ACKed again. ``other_body``: the key of a held message
    with another body, so a message of its own. ``doubled``: without an id, and so a second row.
    """

    redelivered: int = 0
    reattached: int = 0
    dropped: int = 0
    other_body: int = 0
    doubled: int = 0


class Deliveries:
    """Thread-safe. ``book`` is shared by the receivers of a query; the rest is as in :class:`FrameStore`.

    With a journal, frames are taken for it with :meth:`take`, kept from then on, and told durable with
    :meth:`journaled`.
    """

    def __init__(
        self, max_bytes: int, book: DedupIndex | None = None, name: str = "", stored: Stored | None = None
    ) -> None:
        self.window = FrameStore(max_bytes, name, stored)
        self._book = DedupIndex() if book is None else book
        self._owner = self._book.enroll(self)
        self._ids = IdsBySequence()
        self._ledger: AckLedger | None = None
        self._keyed = False
        self._kept = 0  # frames below are never discarded
        self._durable = 0  # frames below are in the journal
        self._live_from = 0  # frames below came on earlier connections
        self._committed = 0
        self._discards = 0
        self._counts = Counts()

    @property
    def committed(self) -> int:
        """Everything below this number is committed."""
        return self._committed

    @property
    def acked(self) -> int:
        """The broker confirmed the ACKs of everything below this number that could be ACKed."""
        ledger = self._ledger
        return self._committed if ledger is None else ledger.confirmed

    @property
    def outstanding(self) -> int:
        """How many deliveries of the living connection the broker counts as un-acked."""
        ledger = self._ledger
        return 0 if ledger is None else ledger.outstanding

    @property
    def acks_pending(self) -> bool:
        """Whether anything committed is still to be ACKed, or its receipt to come."""
        with self._book.lock:
            ledger = self._ledger
            return ledger is not None and ledger.pending(self._committed, self._book.committed)

    @property
    def discards(self) -> int:
        """How often frames were discarded; a choice made before the latest of them does not hold."""
        return self._discards

    @property
    def counts(self) -> Counts:
        return self._counts

    # --- the connection

    def connected(self, *, keyed: bool) -> None:
        """A connection stands. ``keyed``: its blocks carry stable ids, and its ACKs name single messages."""
        with self._book.lock:
            self._ledger = AckLedger(self._committed)
            self._keyed = keyed

    def disconnected(self, *, redelivers: bool) -> None:
        """The connection is gone, and all its handles are void.

        ``redelivers``: what was not ACKed comes again by itself.
        """
        with self._book.lock:
            ledger, self._ledger = self._ledger, None
            if ledger is None:
                return
            if redelivers:
                self._put_at_risk(max(ledger.confirmed, self._live_from), self._kept)
                self._discard()
            self._settle(self._committed)
            self.window.free(self._committed)
            self._live_from = self.window.end

    def receive(self, block: MessageBlock, *, received_at: int, version: str, dialect: str) -> None:
        """Take the messages of one read: each is new, or one that is known already."""
        marked = block.data.count(_REDELIVERED)
        with self._book.lock:
            if self._ledger is None:
                # Closed meanwhile. It is un-acked, so it stays on the broker.
                return
            self._count(redelivered=marked)
            fresh = self._fresh(block, version, marked)
            if fresh.ends:
                first = self.window.append(
                    fresh.data, fresh.ends, received_at=received_at, version=version, dialect=dialect
                )
                self._ledger.add(first, fresh.acks)

    def due(self, most: int) -> Acks | None:
        """ACKs to send now, ``most`` or so at once; None where there are none."""
        with self._book.lock:
            if self._ledger is None:
                return None
            acks = self._ledger.take(self._committed, self._book.committed, most)
            self._free(self._ledger.confirmed)
            return acks

    def sent(self, group: AckGroup) -> None:
        """What :meth:`due` gave was handed to the connection."""
        with self._book.lock:
            if self._ledger is not None:
                self._ledger.sent_with(group)

    def confirm(self, receipt: str) -> None:
        """A RECEIPT came, for ACKs or for something else."""
        with self._book.lock:
            group = None if self._ledger is None else self._ledger.confirm(receipt)
            if group is not None and self._ledger is not None:
                self._book.forget(group.acks.keys)
                self._free(self._ledger.confirmed)

    @property
    def receipt_deadline(self) -> float | None:
        """When the oldest outstanding receipt of ACKs is overdue."""
        ledger = self._ledger
        return None if ledger is None else ledger.next_deadline

    # --- the query

    def offer(self, upto: int) -> None:
        """Frames below ``upto`` are about to be offered to Spark. The caller holds the book's lock since it
        saw that ``discards`` is what it was when ``upto`` was chosen."""
        self._kept = max(self._kept, upto)

    def take(self, max_bytes: int) -> list[FrameBatch]:
        """What comes next into the journal, about ``max_bytes`` of it; told by :meth:`journaled` before more
        is taken."""
        with self._book.lock:
            runs = self.window.next_blocks(self._durable, max_bytes)
            self._kept = max(self._kept, runs[-1].end if runs else 0)
            return runs

    def journaled(self, run: FrameBatch, position: int) -> None:
        """A run that was taken is durable, from ``position`` on in the journal."""
        with self._book.lock:
            self.window.journaled(run.first_sequence, position)
            self._durable = run.end

    @property
    def waiting(self) -> int:
        """How many frames are not in the journal yet."""
        return self.window.end - self._durable

    def commit(self, upto: int) -> bool:
        """Everything below ``upto`` is committed; False where that was known."""
        with self._book.lock:
            if upto <= self.window.released:
                return False
            self._committed = max(self._committed, upto)
            self._kept = max(self._kept, upto)
            self.window.release(upto)
            self._settle(min(upto, self._live_from))
            if self._ledger is None:
                self.window.free(upto)
            return True

    def recover(self, run: FrameBatch, ids: Sequence[bytes | None]) -> None:
        """Take in frames that the journal has from an earlier run, with these stable ids.

        They have no handles until they come again.
        """
        with self._book.lock:
            first = self.window.recover(run)
            self._kept = self._durable = self._live_from = self.window.end
            self._ids.add(first, ids)
            if not self._book.hold_new(ids, HeldAt(self._owner, first)):
                for sequence, name in enumerate(ids, start=first):
                    if name:
                        self._book.hold(name, HeldAt(self._owner, sequence))

    def permit(self) -> None:
        """Everything held may be ACKed, though it is not committed: it is in the journal."""
        self._committed = self.window.end

    def close(self) -> None:
        """Nothing is held any more; what comes again elsewhere is new."""
        with self._book.lock:
            self._ledger = None
            self._drop(self._ids.take_from(0))
        self.window.close()

    # --- as the book sees it, with its lock held

    def pin(self, sequence: int) -> None:
        """Keep this frame whatever happens to its connection."""
        self._kept = max(self._kept, sequence + 1)

    def keys_at(self, wanted: Sequence[tuple[int, bytes]]) -> list[MessageKey]:
        """The keys of held frames, by ascending number and id."""
        found: list[MessageKey] = []
        begin = 0
        for index in range(1, len(wanted) + 1):
            if index == len(wanted) or wanted[index][0] != wanted[index - 1][0] + 1:
                stretch = wanted[begin:index]
                found += filter(None, self._keys(stretch[0][0], [name for _, name in stretch]))
                begin = index
        return found

    def _keys(self, first: int, ids: Sequence[bytes | None]) -> list[MessageKey | None]:
        keys: list[MessageKey | None] = []
        for run in self.window.retained(first, first + len(ids)):
            keys += frame_keys(run.data, run.ends, ids[len(keys) : len(keys) + len(run.ends)], run.version)
        return keys

    # --- what comes

    def _fresh(self, block: MessageBlock, version: str, marked: int) -> MessageBlock:
        """The messages of ``block`` that are new; the others are attached to what is held."""
        end = self.window.end
        if not self._keyed:
            self._count(doubled=self._book.take_at_risk(marked))
            return block
        if not self._book.hold_new(block.ids, HeldAt(self._owner, end)):
            block = self._sorted_out(block, version, marked)
        self._ids.add(end, block.ids)
        return block

    def _sorted_out(self, block: MessageBlock, version: str, marked: int) -> MessageBlock:
        # An empty id names nothing.
        block = replace(block, ids=[name or None for name in block.ids])
        known = self._book.known(block.ids)
        names = {key[:2] for key in known}
        fresh: list[int] = []
        for index, key in enumerate(frame_keys(block.data, block.ends, block.ids, version)):
            if key is not None and key in known:
                self._again(key, known[key], block.acks[index])
                continue
            if key is not None:
                known[key] = HeldAt(self._owner, self.window.end + len(fresh))
                self._book.hold(key.id, known[key])
                self._count(other_body=int(key[:2] in names))
                names.add(key[:2])
            fresh.append(index)
        nameless = sum(1 for index in fresh if block.ids[index] is None)
        self._count(doubled=self._book.take_at_risk(min(marked, nameless)))
        return block if len(fresh) == len(block.ends) else _selected(block, fresh)

    def _again(self, key: MessageKey, place: HeldAt, handle: bytes) -> None:
        assert self._ledger is not None
        self._ledger.attach(place, key, handle)
        if place.sequence < self._book.committed(place.owner):
            self._count(dropped=1)
        else:
            self._count(reattached=1)
            self._book.pin(place)

    # --- what goes

    def _discard(self) -> None:
        """Frames that nobody was told of come again; forget them."""
        if self.window.end > self._kept:
            self._drop(self._ids.take_from(self._kept))
            self.window.truncate(self._kept)
            self._discards += 1

    def _settle(self, upto: int) -> None:
        """Frames below ``upto`` are committed and have no handle here: remember their keys instead."""
        for first, ids in self._ids.take_below(upto):
            self._book.settle(self._keys(first, ids))
            self._book.drop(ids, HeldAt(self._owner, first))

    def _free(self, upto: int) -> None:
        """The broker confirmed that it will not deliver frames below ``upto`` again."""
        confirmed = self._ids.take_below(upto)
        if self._book.journaled:
            for first, ids in confirmed:
                self._book.retire(self._keys(first, ids))
        self._drop(confirmed)
        self.window.free(upto)

    def _drop(self, runs: Sequence[tuple[int, Sequence[bytes | None]]]) -> None:
        for first, ids in runs:
            self._book.drop(ids, HeldAt(self._owner, first))

    def _put_at_risk(self, low: int, high: int) -> None:
        if high > low:
            self._book.put_at_risk(high - low - self._ids.count(low, high))

    def _count(self, **more: int) -> None:
        if any(more.values()):
            counts = self._counts
            self._counts = replace(counts, **{name: getattr(counts, name) + n for name, n in more.items()})


def _selected(block: MessageBlock, indices: Sequence[int]) -> MessageBlock:
    """The frames at ``indices`` as a block of their own."""
    parts: list[bytes] = []
    ends: list[int] = []
    size = 0
    for index in indices:
        parts.append(block.data[block.ends[index - 1] if index else 0 : block.ends[index]])
        size += len(parts[-1])
        ends.append(size)
    chosen = [block.acks[index] for index in indices], [block.ids[index] for index in indices]
    return MessageBlock(b"".join(parts), ends, *chosen)
