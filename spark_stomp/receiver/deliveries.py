"""What one receiver holds over all its connections: frames, keys and ack handles, and what happens to them.

No socket, no thread, no clock: blocks, commits, receipts and broken connections come in, ACKs go out. Decides
whether a delivery is new, repeats a held frame, or was already committed, and what survives a lost connection
(contract 2 and 4):

- Frames that were offered to Spark, or to which another delivery is attached, are kept. Their handles are
  void; a redelivery gives them new ones.
- The others are discarded, with their numbers, if the broker delivers them again.
- If a frame is committed and its ACK was not confirmed, its key is remembered: if it comes again, it is ACKed
  again and dropped.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_stomp.frame_batch import FrameBatch, MessageKey
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.ack_ledger import AckGroup, AckLedger, Acks
from spark_stomp.receiver.dedup import DedupIndex, HeldAt
from spark_stomp.receiver.frame_store import FrameStore, Held
from spark_stomp.receiver.status import Counts

_REDELIVERED = b"\nredelivered:true\n"

# A known message that came once more: its key, where it is held, and its new handle.
_Repeat = tuple[MessageKey, HeldAt, bytes]


def new_epoch() -> str:
    """A name for the life of one receiver; random, so that no restart and no second driver can repeat it."""
    return secrets.token_hex(8)


class Deliveries:
    """Thread-safe. ``frames`` holds the frames, for reading. The receivers of one query share ``index``;
    ``max_bytes`` and ``name`` are as in :class:`~spark_stomp.receiver.frame_store.FrameStore`.

    With a journal, :meth:`take` passes frames to its writer and marks them as kept, and :meth:`journaled`
    notes that they are durable.
    """

    def __init__(self, max_bytes: int, index: DedupIndex | None = None, name: str = "") -> None:
        self.epoch = new_epoch()
        self.frames = FrameStore(max_bytes, name)
        self._marks = self.frames.marks
        self._index = DedupIndex() if index is None else index
        self._owner = self._index.register(self)
        self._ledger: AckLedger | None = None
        self._keyed = False
        self._counts = Counts()
        self.unmarked = 0
        """Known messages that came again without being marked as redelivered."""

    @property
    def committed(self) -> int:
        """Everything below this number may be ACKed."""
        return self._marks.committed

    @property
    def discards(self) -> int:
        """How often frames were discarded; an end that was chosen before the last time is void."""
        return self._marks.discards

    @property
    def durable(self) -> int:
        """Everything below this number is in the journal."""
        return self._marks.durable

    @property
    def unwritten(self) -> int:
        """How many frames are not in the journal yet."""
        return self._marks.received - self._marks.durable

    @property
    def counts(self) -> Counts:
        """A snapshot."""
        return replace(self._counts)

    @property
    def lock(self) -> threading.RLock:
        """The lock of the dedup index, under which all receivers of a query change their marks."""
        return self._index.lock

    # --- the connection

    def connected(self, *, keyed: bool) -> None:
        """A connection is subscribed. ``keyed``: its blocks carry stable ids, an ACK names one message."""
        with self._index.lock:
            self._ledger = AckLedger(self._marks.committed)
            self._keyed = keyed

    def disconnected(self, *, redelivers: bool) -> None:
        """The connection is gone, and all its handles are void.

        ``redelivers``: the broker delivers again what was not ACKed.
        """
        with self._index.lock:
            ledger, self._ledger = self._ledger, None
            if ledger is None:
                return
            marks = self._marks
            if redelivers:
                self._expect_doubles(max(ledger.confirmed, marks.live_from), marks.kept)
                self._discard()
            self._remember_committed(marks.committed)
            self.frames.free(marks.committed)
            marks.advance(live_from=marks.received)

    def receive(self, block: MessageBlock, *, received_at: int, version: str, dialect: str) -> None:
        """Take the messages of one read: each is new, or one that is known."""
        marked = block.data.count(_REDELIVERED)
        origin = version, dialect, self.frames.name, block.malformed
        batch = FrameBatch(block.data, block.ends, 0, received_at, *origin)
        held = Held(batch, block.ids if self._keyed else None)
        with self._index.lock:
            if self._ledger is None:
                # Closed meanwhile. The block is un-acked, so it stays on the broker.
                return
            count = len(block.ends)
            malformed = 0 if block.malformed is None else count
            self._count(delivered=count, bytes=len(block.data), malformed=malformed, redelivered=marked)
            acks, repeats = self._sort_out(held, block.acks, marked)
            if held.batch.ends:
                self._ledger.add(self.frames.append(held), acks, received_at)
            for repeat in repeats:
                self._attach(*repeat, received_at)
            self.unmarked += max(0, len(repeats) - marked)

    def room(self) -> int:
        """How many bytes there is room for; 0 or less if there is none. For the receiver's thread.

        If there is none, committed frames leave only their keys here, before their receipts come, and a
        journal is let trim them: it may have no room itself (contract 5.14).
        """
        if self.frames.room <= 0:
            self.frames.shed()
            if self._index.journaled:
                with self._index.lock:
                    self._remember_committed(self._marks.committed)
        return self.frames.room

    def refused(self, size: int) -> None:
        """A malformed message of ``size`` bytes came, and is not taken."""
        with self._index.lock:
            self._count(delivered=1, bytes=size, malformed=1)

    # --- ACKs

    @property
    def acked(self) -> int:
        """The broker confirmed the ACKs of everything below this number that could be ACKed."""
        ledger = self._ledger
        return self._marks.committed if ledger is None else ledger.confirmed

    @property
    def unacked(self) -> int:
        """How many deliveries of the living connection the broker counts as un-acked."""
        ledger = self._ledger
        return 0 if ledger is None else ledger.unacked

    @property
    def oldest_unacked(self) -> int | None:
        """When the oldest of them came, in microseconds since 1970; None if there is none."""
        with self._index.lock:
            return None if self._ledger is None else self._ledger.oldest_unacked

    @property
    def acks_pending(self) -> bool:
        """Whether anything committed is still to be ACKed, or its receipt to come."""
        with self._index.lock:
            ledger = self._ledger
            return ledger is not None and ledger.pending(self._marks.committed, self._index.committed)

    @property
    def receipts_awaited(self) -> int:
        """How many groups of ACKs were sent whose receipt has not come."""
        ledger = self._ledger
        return 0 if ledger is None else ledger.awaited

    @property
    def unconfirmed_acks(self) -> list[bytes]:
        """The handles of ACKs that were sent and not confirmed, in the order of sending."""
        with self._index.lock:
            return [] if self._ledger is None else self._ledger.unconfirmed

    @property
    def receipt_deadline(self) -> float | None:
        """When the oldest awaited receipt of ACKs is overdue."""
        ledger = self._ledger
        return None if ledger is None else ledger.next_deadline

    def receipt_is_behind(self, prefetch: int) -> bool:
        """See :meth:`~spark_stomp.receiver.ack_ledger.AckLedger.receipt_is_behind`."""
        ledger = self._ledger
        return ledger is not None and ledger.receipt_is_behind(prefetch)

    def due(self, most: int) -> Acks | None:
        """ACKs to send now, about ``most`` at once; None if there are none."""
        with self._index.lock:
            if self._ledger is None:
                return None
            acks = self._ledger.take(self._marks.committed, self._index.committed, most)
            self._free(self._ledger.confirmed)
            return acks

    def sent(self, group: AckGroup) -> None:
        """What :meth:`due` gave was handed to the connection."""
        with self._index.lock:
            if self._ledger is not None:
                self._ledger.sent_with(group)

    def confirm(self, receipt: str) -> None:
        """A RECEIPT came, for ACKs or for something else."""
        with self._index.lock:
            group = None if self._ledger is None else self._ledger.confirm(receipt)
            if group is not None and self._ledger is not None:
                self._index.confirm(group.acks.keys)
                self._free(self._ledger.confirmed)

    # --- Spark

    def commit(self, upto: int) -> bool:
        """Everything below ``upto`` is committed; False if that was known."""
        with self._index.lock:
            if upto <= self._marks.released:
                return False
            self.frames.release(upto)
            self._remember_committed(min(upto, self._marks.live_from))
            if self._ledger is None:
                self.frames.free(upto)
            return True

    def close(self) -> None:
        """Hold nothing any more; a message that comes again on another receiver is new."""
        with self._index.lock:
            self._ledger = None
            self._remove(self._marks.unindexed, self._marks.received)
            self.frames.close()

    # --- the journal

    def take(self, max_bytes: int) -> list[FrameBatch]:
        """The next frames for the journal, about ``max_bytes`` of them.

        Call :meth:`journaled` for them before taking more.
        """
        with self._index.lock:
            taken = self.frames.next_batches(self._marks.durable, max_bytes)
            if taken:
                self._marks.advance(kept=taken[-1].end)
            return taken

    def journaled(self, batch: FrameBatch, position: int) -> None:
        """A batch that was taken is durable in the journal, from ``position`` on."""
        self.frames.make_keys(batch)
        with self._index.lock:
            self.frames.journaled(batch.first_sequence, position)
            self._marks.advance(durable=batch.end)

    def commit_position(self, position: int) -> bool:
        """Everything below ``position`` of the journal is committed; False if that was known."""
        return self.commit(self.frames.end_below(position))

    @property
    def oldest_position(self) -> int | None:
        """The journal's position of the oldest frame whose key is not remembered; None if it is not in the
        journal."""
        return self.frames.position_from(self._marks.unindexed)

    def recover(self, batch: FrameBatch, ids: Sequence[bytes | None]) -> None:
        """Take in frames that the journal has from an earlier run, with these stable ids.

        They have no handles until they come again.
        """
        with self._index.lock:
            first = self.frames.recover(batch, ids)
            end = self._marks.received
            self._marks.advance(kept=end, durable=end, live_from=end)
            if not self._index.add_new(ids, HeldAt(self._owner, first)):
                for sequence, name in enumerate(ids, start=first):
                    if name:
                        self._index.add(name, HeldAt(self._owner, sequence))

    def permit_acks(self) -> None:
        """Everything held may be ACKed, though Spark did not commit it: it is in the journal."""
        with self._index.lock:
            self._marks.advance(committed=self._marks.received)

    # --- as the index sees it, with its lock held

    def pin(self, sequence: int) -> None:
        """Keep this frame, and those before it, whatever happens to its connection."""
        self._marks.advance(kept=sequence + 1)

    def keys_at(self, wanted: Sequence[tuple[int, bytes]]) -> list[MessageKey]:
        """The keys of held frames, by ascending number and id."""
        return self.frames.keys_at([sequence for sequence, _ in wanted])

    # --- what comes

    def _sort_out(
        self, held: Held, acks: Sequence[bytes], marked: int
    ) -> tuple[Sequence[bytes], list[_Repeat]]:
        """Leave in ``held`` only what is new; returns its handles, and what is known."""
        if held.ids is None:
            self._count(doubled=self._index.take_doubles(marked))
            return acks, []
        if self._index.add_new(held.ids, HeldAt(self._owner, self._marks.received)):
            return acks, []
        return self._compare(held, acks, marked)

    def _compare(
        self, held: Held, acks: Sequence[bytes], marked: int
    ) -> tuple[Sequence[bytes], list[_Repeat]]:
        """The same by comparing keys, if an id needs a closer look."""
        # An empty id names nothing.
        ids = held.ids = [name or None for name in held.ids or ()]
        known = self._index.find(ids)
        names = {key._replace(body=b"") for key in known}
        fresh: list[int] = []
        repeats: list[_Repeat] = []
        for index, key in enumerate(held.keys(0, len(ids))):
            if key is not None and key in known:
                repeats.append((key, known[key], acks[index]))
                continue
            if key is not None:
                known[key] = HeldAt(self._owner, self._marks.received + len(fresh))
                self._index.add(key.id, known[key])
                self._count(other_body=int(key._replace(body=b"") in names))
                names.add(key._replace(body=b""))
            fresh.append(index)
        nameless = sum(1 for index in fresh if ids[index] is None)
        self._count(doubled=self._index.take_doubles(min(marked, nameless)))
        if repeats:
            held.select(fresh)
        return [acks[index] for index in fresh], repeats

    def _attach(self, key: MessageKey, held_at: HeldAt, handle: bytes, received_at: int) -> None:
        """A known message came once more: its new handle is ACKed with the held one."""
        assert self._ledger is not None
        self._ledger.attach(held_at, key, handle, received_at)
        if held_at.sequence < self._index.committed(held_at.owner):
            self._count(dropped=1)
        else:
            self._count(reattached=1)
            self._index.pin(held_at)

    # --- what goes

    def _discard(self) -> None:
        """Forget frames that are not kept; they come again."""
        if self._marks.received > self._marks.kept:
            self._remove(self._marks.kept, self._marks.received)
            self.frames.discard()

    def _remember_committed(self, upto: int) -> None:
        """Frames below ``upto`` are committed and have no handle here: remember their keys instead."""
        for first, ids in self.frames.ids(self._marks.unindexed, upto):
            self._index.remember_unconfirmed(self.frames.keys(first, first + len(ids)))
            self._index.remove(ids, HeldAt(self._owner, first))
        self._marks.advance(unindexed=upto)

    def _free(self, upto: int) -> None:
        """The broker confirmed that it will not deliver frames below ``upto`` again."""
        if upto <= self._marks.freed:
            return
        low = self._marks.unindexed
        if self._index.journaled:
            # Those that were remembered before their receipts came: see ``room``.
            early = self.frames.keys(max(self._marks.freed, self._marks.live_from), min(low, upto))
            self._index.confirm([*filter(None, early)])
            for first, ids in self.frames.ids(low, upto):
                self._index.remember_confirmed(self.frames.keys(first, first + len(ids)))
        self._remove(low, upto)
        self._marks.advance(unindexed=upto)
        self.frames.free(upto)

    def _remove(self, low: int, high: int) -> None:
        """The frames [low, high) are not to be found in the index any more."""
        for first, ids in self.frames.ids(low, high):
            self._index.remove(ids, HeldAt(self._owner, first))

    def _expect_doubles(self, low: int, high: int) -> None:
        if high > low:
            known = sum(len(ids) - ids.count(None) for _, ids in self.frames.ids(low, high))
            self._index.expect_doubles(high - low - known)

    def _count(self, **more: int) -> None:
        for name, count in more.items():
            setattr(self._counts, name, getattr(self._counts, name) + count)


@dataclass(frozen=True, slots=True)
class Offer:
    """Frames of one receiver, up to ``upto``, that were chosen when it had discarded ``discards`` times."""

    deliveries: Deliveries
    upto: int
    discards: int


def offer(offers: Sequence[Offer]) -> bool:
    """Keep these frames, of receivers of one query, from now on: Spark is about to be told of them.

    False, and nothing is kept, if one of the receivers discarded frames since the choice: choose again.
    """
    if not offers:
        return True
    with offers[0].deliveries.lock:
        if any(one.deliveries.discards != one.discards for one in offers):
            return False
        for one in offers:
            one.deliveries.pin(one.upto - 1)
        return True
