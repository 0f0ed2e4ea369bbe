"""Deliveries: what becomes of each message that one receiver gets.

Goal: every message becomes a row, and a redelivered one gives no second row if it has a stable id (contract
1, 2 and 4). An ACK is sent only for what is ackable, and only on the connection that delivered it.

Plan: this is the receiver without I/O. Blocks, receipts and lost connections come in, ACKs go out. There is
no socket, thread or clock here. Four objects hold the state: ``Inbox`` has what nobody was told, and counts
the bytes of all, ``Log`` has what has numbers, ``AckQueue`` the ACKs of the present connection, and
``DedupIndex`` the ids of held messages and the keys of committed ones. Log and index are shared by all
receivers of a query. A message is *held* from its arrival until it is freed or discarded. Its handles wait
with it (``Block``) until it may be ACKed. A delivery is one of three:

- New: it goes into the inbox, and later gives a row. So does a delivery without a stable id, always.
- Of a held message that is not ackable yet: its handle is attached to the held message. No row.
- Of a message that is held and ackable, or was committed and is remembered: it is ACKed again. No row.

The log takes messages from the inbox just before Spark is told about them, or when they are in the journal.
When a connection is lost, what has a number stays, without handles until the broker redelivers it. What has
none is discarded if the broker redelivers it, unless the journal is writing it. A committed message whose ACK
was not confirmed is remembered by its key.

:meth:`Deliveries.room` says how many more bytes may be held. If there is no room, the receiver pauses.

Invariants: every change is made under the lock of the dedup index. No I/O is done. A message is recognised by
its entry of the option ``destination``, its destination header, its stable id and its body, never by its id
alone. The header ``subscription`` says which entry it is. The entry does not count if the destination header
names the queue itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from spark_stomp.errors import StompError
from spark_stomp.frame_batch import FrameBatch, MessageKey
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.ack_queue import AckQueue, Acks
from spark_stomp.receiver.blocks import Block, HeldAt, Inbox
from spark_stomp.receiver.log import Log
from spark_stomp.receiver.status import Counts
from spark_stomp.receiver.unproved import UnprovedAcks

# The part of the memory that frames take whose confirmed ACKs are not proved.
_UNPROVED_PART = 16

# A delivery of a known message: its key, where it is held (None: it is remembered), and its new handle.
_Repeat = tuple[MessageKey, HeldAt | None, bytes]


class Deliveries:
    """All that one receiver holds over its connections. Thread-safe.

    ``max_bytes`` bounds the bytes in memory, ``name`` is the name of the receiver. All receivers of queues of
    one query share ``log``. ``inbox`` is for reading, and for those who take messages from it. ``acks`` is
    for reading too: the ACKs of the present connection.
    """

    def __init__(self, max_bytes: int, log: Log, name: str = "") -> None:
        self.log = log
        self.inbox = Inbox(max_bytes, name)
        self._index = log.index
        self.acks = AckQueue(closed=True)
        self._keyed = False
        self._unproved_bytes = max_bytes // _UNPROVED_PART
        self._unproved = UnprovedAcks(self._unproved_bytes)
        self._counts = Counts()
        self.unmarked = 0
        """How many messages were recognised as redelivered, although the broker did not mark them so."""

    @property
    def counts(self) -> Counts:
        """What came since the start; a copy that does not change."""
        return replace(self._counts)

    @property
    def delivery_count(self) -> int:
        """The largest count of earlier deliveries that came since the start; 0 if none came."""
        return self._counts.delivery_count

    @property
    def came_by(self) -> Mapping[bytes | None, int]:
        """See :attr:`UnprovedAcks.came_by`."""
        return self._unproved.came_by

    @property
    def lock(self) -> threading.RLock:
        """The lock of the dedup index, under which all receivers of a query change what they hold."""
        return self._index.lock

    # --- the connection

    def connected(self, *, keyed: bool) -> None:
        """A connection is being subscribed.

        ``keyed``: its blocks carry stable ids, and an ACK names exactly one message.
        """
        with self._index.lock:
            self.acks = AckQueue()
            self._keyed = keyed
            self._unproved = UnprovedAcks(self._unproved_bytes)

    def disconnected(self, *, redelivers: bool, but: Collection[str] = (), forgotten: bool = False) -> None:
        """The connection ended, and all its ack handles are void.

        ``redelivers``: the broker redelivers what was not ACKed, so that messages without numbers can be
        discarded. It does not redeliver those of the subscriptions ``but``: they stay.
        ``forgotten``: the broker had forgotten a subscription. So what it confirmed last counts as
        unconfirmed.
        """
        with self._index.lock:
            ended = self.acks
            if ended.closed:
                return
            ended.closed = True
            self.acks = AckQueue(closed=True)
            self.inbox.refused = None
            if forgotten:
                self._index.remember_unconfirmed(self._unproved.keys)
            if redelivers:
                for block, rest in self.inbox.discard(but):
                    self._index.remove(block.ids or (), block)
                    if rest is not None:
                        self._index.note(rest.ids or (), rest)
                self._expect_doubles(ended)
            for block in self.inbox.all:
                block.ack_queue, block.handles = None, ()
                if block.is_below(self.log.ackable):
                    self.log.free(block, confirmed=False)

    def receive(self, frames: MessageBlock, *, received_at: int, version: str, dialect: str) -> None:
        """Take the messages of one read.

        ``received_at`` is the time in microseconds since 1970, ``version`` the STOMP version of the
        connection, and ``dialect`` the name of the broker's dialect. New messages go into the inbox; the
        handles of redelivered ones are attached.
        """
        marked = frames.redelivered
        origin = version, dialect, self.inbox.name, frames.malformed
        batch = FrameBatch(frames.data, frames.ends, 0, received_at, *origin)
        block = Block(batch, frames.ids if self._keyed else None)
        with self._index.lock:
            if self.acks.closed:
                # Closed meanwhile. The messages are not ACKed, so they stay on the broker.
                return
            count, size = len(frames.ends), len(frames.data)
            malformed = 0 if frames.malformed is None else count
            self._count(delivered=count, bytes=size, malformed=malformed, redelivered=marked)
            block.subscriptions = self._unproved.came(frames.subscriptions)
            acks, repeats = self._sort_out(block, frames.acks, marked)
            if block.batch.ends:
                block.ack_queue, block.handles = self.acks, acks
                self.inbox.put(block)
                self._index.came(len(block))
                if acks:
                    self.acks.came(len(acks), block.size, time.monotonic())
            for repeat in repeats:
                self._attach(*repeat, size // count)
            self.unmarked += max(0, len(repeats) - marked)
            if marked:
                self._counts.delivery_count = max(self._counts.delivery_count, frames.delivery_count)

    def room(self) -> int:
        """How many more bytes may be held in memory; 0 or less if there is no room.

        Call it in the receiver's thread. Without room, committed messages are reduced to their keys before
        their receipts come, but only until there is room again: their receipts may be milliseconds away, and
        free them without keys. With a journal all of them are reduced, and the keys are remembered at once,
        so that the journal can delete the frames: it may be full too (contract 5.14).
        """
        if self.inbox.room <= 0:
            self._shed()
        return self.inbox.room

    def _shed(self) -> None:
        journaled = self._index.journaled
        with self._index.lock:
            blocks = self.inbox.numbered if journaled else self.inbox.loaded
            blocks = [one for one in blocks if one.is_below(self.log.ackable) and not one.remembered]
        for block in blocks:
            if not journaled and self.inbox.room > 0:
                return
            block.make_keys()  # without the lock: it takes 2 microseconds a message
            with self._index.lock:
                if block.remembered:
                    continue  # its receipts came meanwhile
                self.log.unload(block)
                if journaled:
                    self.log.remember(block, confirmed=False)

    def refuse(self, error: StompError, size: int | None = None) -> None:
        """The next message cannot be taken, because of ``error``. Until the connection ends nothing is taken.

        ``size``: how many bytes it has; None if it has not come.
        """
        with self._index.lock:
            self.inbox.refused = error
            if size is not None:
                self._count(delivered=1, bytes=size, malformed=1)

    # --- ACKs

    @property
    def acked(self) -> int:
        """How many messages may be ACKed and need no ACK any more: it is confirmed, or cannot be sent."""
        with self._index.lock:
            return self.inbox.ackable - self.acks.owed

    @property
    def oldest_unacked(self) -> float | None:
        """When the oldest un-acked message came, monotonic; None if all are acked."""
        with self._index.lock:
            return self.acks.oldest_unacked

    @property
    def acks_pending(self) -> bool:
        """Whether an ACK is due, or was sent and is not confirmed."""
        with self._index.lock:
            return self.acks.has_pending

    def take_acks(self, most: int) -> Acks | None:
        """Take the ACKs to send now; None if there are none.

        They are for at most ``most`` new messages and as many redelivered ones.
        """
        with self._index.lock:
            return self.acks.take_acks(most)

    def sent(self, receipt: str, deadline: float) -> None:
        """The ACKs of :meth:`take_acks` were passed to the connection; see :meth:`AckQueue.sent`."""
        with self._index.lock:
            if not self.acks.closed:
                self.acks.sent(receipt, deadline)

    def confirm(self, receipt: str) -> None:
        """A RECEIPT came, for ACKs or for something else."""
        with self._index.lock:
            acks = self.acks.confirm(receipt)
            if acks is None:
                return
            self._index.confirm(acks.keys)
            blocks = dict.fromkeys(block for block, _, _ in acks.ranges)
            done = [block for block in blocks if block.confirmed == len(block)]
            if not self._index.journaled:  # it remembers confirmed ones anyway
                self._unproved.confirm(done, acks.keys)
            for block in done:
                self.log.free(block, confirmed=True)

    # --- messages get their numbers

    def number(self, count: int) -> None:
        """Give numbers to the first ``count`` messages of the inbox, because Spark is about to be told.

        Hold ``lock``, so that no connection breaks between the choice of ``count`` and this.
        """
        while count:
            rest = self.inbox.split(count)
            block = self.inbox.take()
            if rest is not None:
                self._index.move(rest.ids or (), block, rest)
            self.log.add(block)
            count -= len(block)

    def pin_next(self, max_bytes: int) -> list[Block]:
        """The next blocks for the journal, about ``max_bytes``; they are pinned from now on.

        Call :meth:`journaled` for each of them before the next call.
        """
        with self._index.lock:
            blocks = self.inbox.next_blocks(max_bytes)
            for block in blocks:
                block.pinned = True
            return blocks

    def journaled(self, block: Block, position: int) -> None:
        """A block that :meth:`pin_next` returned is durable in the journal, from ``position`` on."""
        block.make_keys()
        with self._index.lock:
            taken = self.inbox.take()
            assert taken is block, "blocks become durable in their order"
            self.log.add(block, position)
            self.log.unload(block)

    def close(self) -> None:
        """Take nothing more, and forget all ids: a message redelivered to another receiver counts as new."""
        with self._index.lock:
            self.acks.closed = True
            self.acks = AckQueue(closed=True)
            for block in self.inbox.all:
                self._index.remove(block.ids or (), block)
                block.ids = None

    # --- messages come

    def _sort_out(
        self, block: Block, acks: Sequence[bytes], marked: int
    ) -> tuple[Sequence[bytes], list[_Repeat]]:
        """Reduce ``block`` to the new messages; returns their handles, and the deliveries of known ones."""
        if block.ids is None:
            self._count(doubled=self._index.count_second_rows(marked))
            return acks, []
        if self._index.add_new(block.ids, block):
            return acks, []
        return self._compare(block, acks, marked)

    def _compare(
        self, block: Block, acks: Sequence[bytes], marked: int
    ) -> tuple[Sequence[bytes], list[_Repeat]]:
        """Reduce ``block`` to the new messages by keys, because an id is known, missing or repeated.

        Returns the handles of the new messages, and the deliveries of known ones.
        """
        # An empty id identifies nothing.
        ids = block.ids = [name or None for name in block.ids or ()]
        keys, new = block.keys(0, len(ids)), list[MessageKey]()
        known = self._index.find(keys)
        origins = set[MessageKey]()
        fresh: list[int] = []
        repeats: list[_Repeat] = []
        for index, key in enumerate(keys):
            if key is not None and key in known:
                repeats.append((key, known[key], acks[index]))
                continue
            if key is not None:
                known[key] = HeldAt(block, len(fresh))
                new.append(key)
                origin = key._replace(body=b"")
                self._count(other_body=int(origin in origins or self._index.has_other_body(key)))
                origins.add(origin)
            fresh.append(index)
        self._index.add(new, block)
        without_id = sum(1 for index in fresh if ids[index] is None)
        self._count(doubled=self._index.count_second_rows(min(marked, without_id)))
        if repeats:
            block.select(fresh)
        return [acks[index] for index in fresh], repeats

    def _attach(self, key: MessageKey, place: HeldAt | None, handle: bytes, size: int) -> None:
        """A known message was redelivered: its new handle is ACKed when the message is ackable."""
        self.acks.came_again(handle, size, time.monotonic())
        if place is None or place.is_below(self.log.ackable):
            self.acks.push_again(key, handle)
            self._count(dropped=1)
        else:
            place.block.attach(place.at, self.acks, key, handle)
            self._count(reattached=1)

    # --- messages go

    def _expect_doubles(self, queue: AckQueue) -> None:
        """Expect second rows: messages without an id that stay are not recognised when redelivered."""
        for block in self.inbox.all:
            if block.ack_queue is queue:
                self._index.expect_doubles(min(block.without_id, len(block) - block.confirmed))

    def _count(self, **more: int) -> None:
        for name, count in more.items():
            setattr(self._counts, name, getattr(self._counts, name) + count)
