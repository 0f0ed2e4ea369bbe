"""A block: messages of one receiver that came together, with all that is known of them.

A block begins in the inbox of its receiver, without numbers. It gets them when the log takes it, and keeps
them. Then it is held until its messages may be ACKed and the broker has confirmed these ACKs. Handles wait in
the block and are pushed to the queue of the connection that brought them when they may go out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from spark_stomp.brokers import dialect_named
from spark_stomp.frame_batch import FrameBatch, Ids, MessageKey
from spark_stomp.protocol import frame_content

if TYPE_CHECKING:
    from spark_stomp.receiver.ack_queue import AckQueue
    from spark_stomp.receiver.inbox import Inbox
    from spark_stomp.receiver.log import Log

Keys = list[MessageKey | None]

# A delivery that waits until its message may be ACKed: the queue of its connection, the key, and the handle.
_Waiting = tuple["AckQueue", MessageKey, bytes]


@dataclass(slots=True, eq=False)
class Block:
    """The messages of one read of the socket, or a part of them.

    Attributes:
        batch: the frames. Their data is removed once the journal has them, or when they are shed. The number
            of the first frame counts only if there is a ``log``.
        ids: their stable ids; None if their connection collected no ids.
        log: the log that has given them numbers; None while they wait in the inbox.
        inbox: the inbox of their receiver; None if an earlier run received them.
        queue: the ACKs of the connection that brought them; None if that has ended, or in an earlier run.
        handles: their ack handles on that connection.
        again: their redeliveries, by the frame's index in this block.
        confirmed: how many of ``handles`` have a receipt.
        made: their message keys; None until they are made, before the data is removed.
        pinned: it stays if its connection breaks, because another delivery hangs on it, or because it is
            being written to the journal.
        remembered: its keys are remembered, and it is no longer in the log.
        dropped: its connection broke before Spark was told about it.
        rest: a block with some of its first messages, which came with it; None if it has all of them.
    """

    batch: FrameBatch
    ids: Ids | None
    log: Log | None = None
    inbox: Inbox | None = None
    queue: AckQueue | None = None
    handles: Sequence[bytes] = ()
    again: dict[int, list[_Waiting]] = field(default_factory=dict)
    confirmed: int = 0
    made: Keys | None = None
    pinned: bool = False
    remembered: bool = False
    dropped: bool = False
    rest: Block | None = None

    def __len__(self) -> int:
        return len(self.batch.ends)

    @property
    def size(self) -> int:
        """How many bytes the frames had on the wire."""
        return int(self.batch.ends[-1])

    @property
    def may_be_acked(self) -> bool:
        """Whether all of its messages may be ACKed."""
        return self.log is not None and self.batch.end <= self.log.ackable

    @property
    def is_over(self) -> bool:
        """Whether Spark has committed all that came with it, or will get it anew."""
        part: Block | None = self
        while part is not None:
            if not part.dropped and (part.log is None or part.batch.end > part.log.committed):
                return False
            part = part.rest
        return True

    @property
    def nameless(self) -> int:
        """How many of its messages have no stable id."""
        return len(self) if self.ids is None else self.ids.count(None)

    def bytes_between(self, start: int, stop: int) -> int:
        """How many bytes the frames [start, stop) have, counted within this block."""
        ends = self.batch.ends
        return int(ends[stop - 1]) - (int(ends[start - 1]) if start else 0)

    def keys(self, start: int, stop: int) -> Keys:
        """The message keys of the frames [start, stop), counted within this block, which must have ids."""
        assert self.ids is not None
        if self.made is not None:
            return self.made[start:stop]
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
        if self.made is None and self.ids is not None and batch.data:
            self.made = frame_keys(batch, self.ids)

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
        if self.queue is not None and self.handles:
            self.queue.push(self, start, stop)
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
        self.rest = rest
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


class Place(NamedTuple):
    """Where a message is held: its block, and its index there."""

    block: Block
    at: int

    @property
    def may_be_acked(self) -> bool:
        log = self.block.log
        return log is not None and self.block.batch.first_number + self.at < log.ackable


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
