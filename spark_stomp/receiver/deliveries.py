"""Deliveries: all that one receiver holds over its connections, and what becomes of each message.

Goal: every message becomes a row, and a redelivered one gives no second row if it has a stable id (contract
1, 2 and 4). An ACK is sent only for what is committed, and only on the connection that delivered it.

Plan: this is the receiver without I/O. Blocks, commits, receipts and lost connections come in, ACKs go out.
There is no socket, thread or clock here. Four objects hold the state: ``FrameStore`` has the raw frames,
``Marks`` how far they have come, ``AckQueue`` the ACKs of the present connection, and ``DedupIndex`` the ids
of held messages and the keys of committed ones, for all receivers of a query. A message is *held* from its
arrival until its frame is freed or discarded. Its handles wait with it (``Held``) until it may be ACKed. A
delivery is one of three:

- New: it gets a sequence number, and later a row. So does a delivery without a stable id, always.
- Of a held message that is not committed: its ack handle is attached to the held frame. No row.
- Of a committed message that is held or remembered: it is ACKed again. No row.

:func:`offer` keeps frames before Spark is told about them. When a connection is lost, the frames that are
kept stay, without handles until the broker redelivers them. If the broker redelivers, the others are
discarded, and their numbers go to other frames. A committed frame whose ACK was not confirmed is remembered
by its message key.

:meth:`Deliveries.room` says how many more bytes may be held. If there is no room, the receiver pauses.

With a journal, its writer takes frames (:meth:`Deliveries.take`), which are kept from then on, and reports
what is durable (:meth:`Deliveries.journaled`). At the start, :meth:`Deliveries.recover` adds what an earlier
run left in the journal, so that a redelivery of it is recognised.

Invariants: the marks keep their order (see marks.py). Every change is made under the lock of the dedup index.
No I/O is done. A message is recognised by its entry of the option ``destination``, its destination header,
its stable id and its body, never by its id alone. The header ``subscription`` says which entry it is. The
entry does not count where the destination header names the queue itself.

Tried and left (November 2026):

- The header ``redelivered``: Artemis sets it only on the first of the messages that a lost connection had.
- Keys without the entry: a message of which two queues held a copy each gave one row instead of two.
- Making message keys only when they were compared: frames could be in files by then, which meant I/O under
  the lock. Now keys are made before the bytes leave memory, and without decoding the frames: 2 microseconds a
  message, not 15 to 22.
- Temporary files beyond ``maxBufferedBytes``: 2,500 bodies of 1 MB from RabbitMQ took 7.5 s of the driver's
  processor, and 3.6 s without them. Now the receiver pauses, and messages wait on the broker.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from spark_stomp.frame_batch import FrameBatch, MessageKey
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.ack_queue import AckQueue, Acks
from spark_stomp.receiver.dedup import DedupIndex
from spark_stomp.receiver.frame_store import FrameStore, Held, Place
from spark_stomp.receiver.status import Counts

# A delivery of a known message: its key, where it is held (None: it is committed), and its new handle.
_Repeat = tuple[MessageKey, Place | None, bytes]


def new_epoch() -> str:
    """A name for the life of one receiver: random, so that no restart and no second driver repeats it."""
    return secrets.token_hex(8)


class Deliveries:
    """All that one receiver holds over its connections: frames, ack handles, marks. Thread-safe.

    ``frames`` is for reading. ``max_bytes`` bounds the bytes in memory, ``name`` is the name of the receiver.
    All receivers of one query share ``index``. With a journal, :meth:`take` passes frames to its writer and
    marks them as kept, and :meth:`journaled` notes that they are durable.
    """

    def __init__(self, max_bytes: int, index: DedupIndex | None = None, name: str = "") -> None:
        self.epoch = new_epoch()
        self.frames = FrameStore(max_bytes, name)
        self._marks = self.frames.marks
        self._index = DedupIndex() if index is None else index
        self._queue: AckQueue | None = None
        self._keyed = False
        self._counts = Counts()
        self.unmarked = 0
        """How many messages were recognised as redelivered, although the broker did not mark them so."""

    @property
    def committed(self) -> int:
        """Frames below this sequence number may be ACKed."""
        return self._marks.committed

    @property
    def discards(self) -> int:
        """How often frames were discarded. If it grows after a batch's end was chosen, the end is void."""
        return self._marks.discards

    @property
    def durable(self) -> int:
        """Frames below this sequence number are in the journal."""
        return self._marks.durable

    @property
    def unwritten(self) -> int:
        """How many frames are not in the journal yet."""
        return self._marks.received - self._marks.durable

    @property
    def counts(self) -> Counts:
        """What came since the start; a copy that does not change."""
        return replace(self._counts)

    @property
    def delivery_count(self) -> int:
        """The largest count of earlier deliveries that came since the start; 0 if none came."""
        return self._counts.delivery_count

    @property
    def lock(self) -> threading.RLock:
        """The lock of the dedup index, under which all receivers of a query change their marks."""
        return self._index.lock

    # --- the connection

    def connected(self, *, keyed: bool) -> None:
        """A connection is being subscribed.

        ``keyed``: its blocks carry stable ids, and an ACK names exactly one message.
        """
        with self._index.lock:
            self._queue = AckQueue(self._marks)
            self._keyed = keyed

    def disconnected(self, *, redelivers: bool, but: Collection[str] = ()) -> None:
        """The connection ended, and all its ack handles are void.

        ``redelivers``: the broker redelivers what was not ACKed, so that frames that are not kept can be
        discarded. It does not redeliver those of the subscriptions ``but``: they stay, and get new sequence
        numbers.
        """
        with self._index.lock:
            queue, self._queue = self._queue, None
            if queue is None:
                return
            queue.closed = True
            marks = self._marks
            if redelivers:
                self._expect_doubles(max(queue.confirmed, marks.live_from), marks.kept)
                self._discard(but)
            self._remember_committed(marks.committed)
            self.frames.free(marks.committed)
            marks.advance(live_from=marks.received)

    def receive(self, block: MessageBlock, *, received_at: int, version: str, dialect: str) -> None:
        """Take the messages of one read.

        ``received_at`` is the time in microseconds since 1970, ``version`` the STOMP version of the
        connection, and ``dialect`` the name of the broker's dialect. New messages get sequence numbers; the
        handles of redelivered ones are attached.
        """
        marked = block.redelivered
        origin = version, dialect, self.frames.name, block.malformed
        batch = FrameBatch(block.data, block.ends, 0, received_at, *origin)
        held = Held(batch, block.ids if self._keyed else None, self._marks)
        with self._index.lock:
            if self._queue is None:
                # Closed meanwhile. The messages are not ACKed, so they stay on the broker.
                return
            count = len(block.ends)
            malformed = 0 if block.malformed is None else count
            self._count(delivered=count, bytes=len(block.data), malformed=malformed, redelivered=marked)
            acks, repeats = self._sort_out(held, block.acks, marked)
            if held.batch.ends:
                held.queue, held.handles = self._queue, acks
                self.frames.append(held)
                self._queue.came(self._marks.received, len(acks), received_at)
            for repeat in repeats:
                self._attach(*repeat, received_at)
            self.unmarked += max(0, len(repeats) - marked)
            if marked:
                self._counts.delivery_count = max(self._counts.delivery_count, block.delivery_count)

    def keep(self, upto: int) -> None:
        """Never discard the frames below ``upto``, whatever happens to the connection."""
        self._marks.advance(kept=upto)

    def room(self) -> int:
        """How many more bytes may be held in memory; 0 or less if there is no room.

        Call it in the receiver's thread. Without room, committed frames are reduced to their message keys
        before their receipts come. With a journal these keys are remembered at once, so that the journal can
        delete the frames: it may be full too (contract 5.14).
        """
        if self.frames.room <= 0:
            self.frames.shed()
            if self._index.journaled:
                with self._index.lock:
                    self._remember_committed(self._marks.committed)
        return self.frames.room

    def refused(self, size: int) -> None:
        """Count a malformed message of ``size`` bytes that came and is not taken."""
        with self._index.lock:
            self._count(delivered=1, bytes=size, malformed=1)

    # --- ACKs

    @property
    def acked(self) -> int:
        """The sequence number below which each frame's ACK is confirmed, or its connection is gone.

        While there is no connection, it equals ``committed``.
        """
        queue = self._queue
        return self._marks.committed if queue is None else queue.confirmed

    @property
    def unacked(self) -> int:
        """How many deliveries on the present connection have no confirmed ACK; 0 without a connection."""
        queue = self._queue
        return 0 if queue is None else queue.unacked

    @property
    def oldest_unacked(self) -> int | None:
        """When the oldest un-acked message came, in microseconds since 1970; None if all are acked."""
        with self._index.lock:
            return None if self._queue is None else self._queue.oldest_unacked

    @property
    def acks_pending(self) -> bool:
        """Whether an ACK is due, or was sent and is not confirmed."""
        with self._index.lock:
            queue = self._queue
            return queue is not None and queue.pending

    @property
    def receipts_awaited(self) -> int:
        """How many groups of ACKs were sent and have no receipt yet."""
        queue = self._queue
        return 0 if queue is None else queue.awaited

    @property
    def unconfirmed_acks(self) -> list[bytes]:
        """The ack handles that were sent and are not confirmed, in the order of sending."""
        with self._index.lock:
            return [] if self._queue is None else self._queue.unconfirmed

    @property
    def receipt_deadline(self) -> float | None:
        """When the next awaited receipt for ACKs is overdue; None if no receipt is awaited."""
        queue = self._queue
        return None if queue is None else queue.next_deadline

    def receipt_is_behind(self, prefetch: int) -> bool:
        """Whether a broker with this prefetch may still send messages before the next receipt for ACKs."""
        queue = self._queue
        return queue is not None and queue.receipt_is_behind(prefetch)

    def due(self, most: int) -> Acks | None:
        """Take the ACKs to send now; None if there are none.

        They are for at most ``most`` new messages and as many redelivered ones.
        """
        with self._index.lock:
            if self._queue is None:
                return None
            acks = self._queue.take(most)
            self._free(self._queue.confirmed)
            return acks

    def sent(self, receipt: str, deadline: float) -> None:
        """The ACKs that :meth:`due` returned were passed to the connection; see :meth:`AckQueue.sent`."""
        with self._index.lock:
            if self._queue is not None:
                self._queue.sent(receipt, deadline)

    def confirm(self, receipt: str) -> None:
        """A RECEIPT came, for ACKs or for something else."""
        with self._index.lock:
            acks = None if self._queue is None else self._queue.confirm(receipt)
            if acks is not None and self._queue is not None:
                self._index.confirm(acks.keys)
                self._free(self._queue.confirmed)

    # --- Spark

    def commit(self, upto: int) -> bool:
        """Frames below ``upto`` are committed. Returns False if that was known."""
        with self._index.lock:
            if upto <= self._marks.released:
                return False
            before = self._marks.committed
            self.frames.release(upto)
            self._permit_acks(before)
            self._remember_committed(min(upto, self._marks.live_from))
            if self._queue is None:
                self.frames.free(upto)
            return True

    def close(self) -> None:
        """Take nothing more, and forget all ids: a message redelivered to another receiver counts as new."""
        with self._index.lock:
            if self._queue is not None:
                self._queue.closed = True
            self._queue = None
            self._remove(self._marks.unindexed, self._marks.received)
            self.frames.close()

    # --- the journal

    def take(self, max_bytes: int) -> list[FrameBatch]:
        """Take the next frames for the journal, about ``max_bytes``; they are kept from now on.

        Call :meth:`journaled` for each batch before the next call.
        """
        with self._index.lock:
            taken = self.frames.next_batches(self._marks.durable, max_bytes)
            if taken:
                self._marks.advance(kept=taken[-1].end)
            return taken

    def journaled(self, batch: FrameBatch, position: int) -> None:
        """A batch that :meth:`take` returned is durable in the journal, from ``position`` on."""
        self.frames.make_keys(batch)
        with self._index.lock:
            held, now = self.frames.journaled(batch.first_sequence, position)
            if now is not held:
                self._index.move(held.ids or (), held, now)
            self._marks.advance(durable=batch.end)

    def commit_position(self, position: int) -> bool:
        """Frames below ``position`` in the journal are committed. Returns False if that was known."""
        return self.commit(self.frames.end_below(position))

    @property
    def oldest_position(self) -> int | None:
        """The position in the journal of the oldest frame whose key is not remembered.

        None if there is no such frame, or if the journal does not have it.
        """
        return self.frames.position_from(self._marks.unindexed)

    def recover(self, batch: FrameBatch, ids: Sequence[bytes | None]) -> None:
        """Add frames that the journal has from an earlier run, with these stable ids.

        They have no ack handles until the broker redelivers them.
        """
        with self._index.lock:
            held = self.frames.recover(batch, ids)
            end = self._marks.received
            self._marks.advance(kept=end, durable=end, live_from=end)
            self._note_ids(ids, held)

    def permit_acks(self) -> None:
        """Allow ACKs for all held frames, although Spark did not commit them: they are in the journal."""
        with self._index.lock:
            before = self._marks.committed
            self._marks.advance(committed=self._marks.received)
            self._permit_acks(before)

    def _permit_acks(self, before: int) -> None:
        """Frames from ``before`` on may be ACKed now: push their handles to the queues."""
        for held in self.frames.held(before, self._marks.committed):
            held.permit_acks(before, self._marks.committed)
        if self._queue is not None:
            self._queue.advance()

    # --- messages come

    def _sort_out(
        self, held: Held, acks: Sequence[bytes], marked: int
    ) -> tuple[Sequence[bytes], list[_Repeat]]:
        """Reduce ``held`` to the new messages; returns their handles, and the deliveries of known ones."""
        if held.ids is None:
            self._count(doubled=self._index.take_doubles(marked))
            return acks, []
        if self._index.add_new(held.ids, held):
            return acks, []
        return self._compare(held, acks, marked)

    def _compare(
        self, held: Held, acks: Sequence[bytes], marked: int
    ) -> tuple[Sequence[bytes], list[_Repeat]]:
        """Reduce ``held`` to the new messages by comparing keys, because an id is known, missing or repeated.

        Returns the handles of the new messages, and the deliveries of known ones.
        """
        # An empty id identifies nothing.
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
                known[key] = Place(held, len(fresh))
                self._index.add(key.id, held)
                self._count(other_body=int(key._replace(body=b"") in names))
                names.add(key._replace(body=b""))
            fresh.append(index)
        nameless = sum(1 for index in fresh if ids[index] is None)
        self._count(doubled=self._index.take_doubles(min(marked, nameless)))
        if repeats:
            held.select(fresh)
        return [acks[index] for index in fresh], repeats

    def _attach(self, key: MessageKey, place: Place | None, handle: bytes, received_at: int) -> None:
        """A known message was redelivered: its new handle is ACKed when the message is committed."""
        assert self._queue is not None
        self._queue.came_again(handle, received_at)
        if place is None or place.may_be_acked:
            self._queue.push_again(key, handle)
            self._count(dropped=1)
        else:
            place.held.attach(place.at, self._queue, key, handle)
            self._count(reattached=1)

    # --- frames go

    def _discard(self, but: Collection[str]) -> None:
        """Forget the frames that are not kept and not of ``but``: the broker redelivers them."""
        if self._marks.received > self._marks.kept:
            staying = self.frames.copies(self._marks.kept, but) if but else ()
            self._remove(self._marks.kept, self._marks.received)
            self.frames.discard()
            for held in staying:
                self.frames.append(held)
                self._note_ids(held.ids or (), held)

    def _note_ids(self, ids: Sequence[bytes | None], held: Held) -> None:
        """Note the ids of frames in ``held``, of which some may be known."""
        if not self._index.add_new(ids, held):
            for name in filter(None, ids):
                self._index.add(name, held)

    def _remember_committed(self, upto: int) -> None:
        """In the index, replace the ids of the committed frames below ``upto`` by their message keys."""
        self._index.remember_unconfirmed(self.frames.keys(self._marks.unindexed, upto))
        self._remove(self._marks.unindexed, upto)
        self._marks.advance(unindexed=upto)

    def _free(self, upto: int) -> None:
        """Free the frames below ``upto``: the broker confirmed their ACKs."""
        if upto <= self._marks.freed:
            return
        low = self._marks.unindexed
        if self._index.journaled:
            # Keys that ``room`` remembered before these receipts came.
            early = self.frames.keys(max(self._marks.freed, self._marks.live_from), min(low, upto))
            self._index.confirm([*filter(None, early)])
            self._index.remember_confirmed(self.frames.keys(low, upto))
        self._remove(low, upto)
        self._marks.advance(unindexed=upto)
        self.frames.free(upto)

    def _remove(self, low: int, high: int) -> None:
        """Remove the ids of the frames [low, high) from the index."""
        for held, ids in self.frames.ids(low, high):
            self._index.remove(ids, held)

    def _expect_doubles(self, low: int, high: int) -> None:
        """Expect second rows: frames of [low, high) without an id are not recognised when redelivered."""
        if high > low:
            known = sum(len(ids) - ids.count(None) for _, ids in self.frames.ids(low, high))
            self._index.expect_doubles(high - low - known)

    def _count(self, **more: int) -> None:
        for name, count in more.items():
            setattr(self._counts, name, getattr(self._counts, name) + count)


@dataclass(frozen=True, slots=True)
class Offer:
    """The end ``upto`` of a batch, chosen when ``deliveries`` had discarded frames ``discards`` times."""

    deliveries: Deliveries
    upto: int
    discards: int


def offer(offers: Sequence[Offer]) -> bool:
    """Keep the frames below these ends from now on, because Spark is about to be told about them.

    The receivers must belong to one query. Returns False, and keeps nothing, if one of them has discarded
    frames since its end was chosen; then the ends must be chosen again.
    """
    if not offers:
        return True
    with offers[0].deliveries.lock:
        if any(one.deliveries.discards != one.discards for one in offers):
            return False
        for one in offers:
            one.deliveries.keep(one.upto)
        return True
