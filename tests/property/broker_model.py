"""A model of receivers, a broker, and connections that break anywhere: contract 2 and 4.

The model broker knows what it handed out on which connection and checks every ACK: it must name something
un-acked on that very connection, and a message that is committed. Between broker and receiver lie pipes, so
that either side may see the end of a connection long before the other.
"""

from __future__ import annotations

import bisect
import enum
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.ack_ledger import AckGroup
from spark_stomp.receiver.dedup import DedupIndex
from spark_stomp.receiver.deliveries import Deliveries, Offer, offer

RECEIVERS = 2
receivers = st.integers(0, RECEIVERS - 1)
counts = st.integers(1, 4)
often = st.sampled_from([True, True, False])


@dataclass(frozen=True, order=True)
class Message:
    number: int
    id: bytes | None
    body: bytes


@dataclass
class Link:
    """A connection as the broker sees it, and what is under way on it."""

    unacked: dict[bytes, Message] = field(default_factory=dict)
    open: bool = True
    owes_receipts: bool = False
    blocks: list[MessageBlock] = field(default_factory=list)
    acks: list[tuple[str, list[bytes]]] = field(default_factory=list)


class Fate(enum.Enum):
    """How far a group of ACKs gets."""

    CONFIRMED = enum.auto()
    OBEYED = enum.auto()
    HALF_OBEYED = enum.auto()
    UNDER_WAY = enum.auto()


class Side:
    """One receiver: what is under test, and what it showed to Spark."""

    def __init__(self, index: DedupIndex) -> None:
        self.deliveries = Deliveries(200, index)
        self.link: Link | None = None
        self.offered: list[bytes] = []
        self.committed = 0

    def frames(self, low: int, high: int) -> list[bytes]:
        return [frame for batch in self.deliveries.frames.batches(low, high) for frame in frames_of(batch)]


def frames_of(batch: FrameBatch) -> list[bytes]:
    bounds = [0, *batch.ends]
    return [bytes(batch.data[low:high]) for low, high in pairwise(bounds)]


def body_of(frame: bytes) -> bytes:
    return frame.split(b"\n\n", 1)[1].rstrip(b"\0")


class Query(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = DedupIndex()
        self.sides = [Side(self.index) for _ in range(RECEIVERS)]
        self.ready: list[Message] = []
        self.published: list[Message] = []
        self.delivered: set[int] = set()
        self.acked: set[bytes] = set()
        self.handles = 0

    # --- the broker

    @rule(count=counts, nameless=st.booleans(), repeat_id=st.booleans())
    def publish(self, count: int, nameless: bool, repeat_id: bool) -> None:
        for _ in range(count):
            number = len(self.published)
            name = None if nameless and number % 3 == 0 else b"id-%d" % (number // 2 if repeat_id else number)
            message = Message(number, name, b"body-%d" % number)
            self.published.append(message)
            self.ready.append(message)

    @rule(at=receivers, count=counts, read=often, offer=often)
    def deliver(self, at: int, count: int, read: bool, offer: bool) -> None:
        side = self.sides[at]
        self.connect(at)
        if side.link is not None and side.link.open and self.ready:
            messages, self.ready = self.ready[:count], self.ready[count:]
            side.link.blocks.append(self._block(side.link, messages))
        if read:
            self.read(at)
        if offer:
            self.offer(at, count)

    def _block(self, link: Link, messages: list[Message]) -> MessageBlock:
        block = MessageBlock(b"", [], [], [])
        for message in messages:
            self.handles += 1
            handle = b"h%d" % self.handles
            link.unacked[handle] = message
            again = b"redelivered:true\n" if message.number in self.delivered else b""
            self.delivered.add(message.number)
            name = b"" if message.id is None else b"id:%b\n" % message.id
            head = b"MESSAGE\ndestination:/q\nack:%b\n%b%b\n" % (handle, name, again)
            block.heads += head
            block.data += head + message.body + b"\0"
            block.ends.append(len(block.data))
            block.acks.append(handle)
            block.ids.append(message.id)
        return block

    @rule(at=receivers, most=st.sampled_from([1, 100]), fate=st.sampled_from(Fate))
    def exchange_acks(self, at: int, most: int, fate: Fate) -> None:
        """The receiver sends what is due; the broker obeys all or a part of it before something breaks."""
        side = self.sides[at]
        if side.link is None:
            return
        self._send_acks(side, side.link, most)
        while side.link.open and side.link.acks and fate is not Fate.UNDER_WAY:
            receipt, handles = side.link.acks.pop(0)
            half = len(handles) // 2 if fate is Fate.HALF_OBEYED else len(handles)
            for handle in handles[:half]:
                self._obey(side.link, handle)
            if fate is Fate.HALF_OBEYED:
                self._break(side.link)
            elif fate is Fate.CONFIRMED:
                side.deliveries.confirm(receipt)
            else:
                side.link.owes_receipts = True

    def _send_acks(self, side: Side, link: Link, most: int) -> None:
        while (acks := side.deliveries.due(most)) is not None:
            assert acks.handles
            self.handles += 1
            receipt = f"r{self.handles}"
            side.deliveries.sent(AckGroup(acks, receipt, 0.0))
            link.acks.append((receipt, acks.handles))

    def _obey(self, link: Link, handle: bytes) -> None:
        message = link.unacked.pop(handle, None)
        assert message is not None, "an ACK names nothing un-acked on its connection"
        assert message.body in self._committed_bodies(), "an ACK before the commit"
        self.acked.add(message.body)

    @rule(
        at=receivers,
        to=receivers,
        noticed=st.sampled_from(["before", "after", "after", "not yet"]),
        offer=st.booleans(),
    )
    def redeliver(self, at: int, to: int, noticed: str, offer: bool) -> None:
        """A connection ends for the broker, and what was un-acked on it goes to whoever is there."""
        self.drop(at, noticed == "before")
        self.deliver(to, 100, read=True, offer=offer)
        if noticed == "after":
            self.notice_the_end(at)

    @rule(at=receivers, noticed=st.booleans())
    def drop(self, at: int, noticed: bool) -> None:
        """The broker takes the connection for dead; the receiver may not know for a while."""
        link = self.sides[at].link
        if link is not None:
            self._break(link)
            if noticed:
                self.notice_the_end(at)

    def _break(self, link: Link) -> None:
        if link.open:
            link.open = False
            for message in link.unacked.values():
                bisect.insort(self.ready, message)
            link.unacked.clear()

    def _forget_acks(self, count: int) -> None:
        """The broker dies, and knows nothing of the last ``count`` ACKs that it confirmed."""
        for at in range(RECEIVERS):
            self.drop(at, noticed=True)
        for message in [message for message in self.published if message.body in self.acked][-count:]:
            if message not in self.ready:
                bisect.insort(self.ready, message)

    # --- the receivers

    @rule(at=receivers)
    def connect(self, at: int) -> None:
        side = self.sides[at]
        if side.link is None:
            side.link = Link()
            side.deliveries.connected(keyed=True)

    @rule(at=receivers)
    def notice_the_end(self, at: int) -> None:
        side = self.sides[at]
        if side.link is not None and not side.link.open:
            side.link = None
            side.deliveries.disconnected(redelivers=True)

    @rule(at=receivers)
    def read(self, at: int) -> None:
        side = self.sides[at]
        while side.link is not None and side.link.blocks:
            block = side.link.blocks.pop(0)
            side.deliveries.receive(block, received_at=0, version="1.2", dialect="generic")

    # --- Spark

    @rule(at=receivers, most=counts)
    def offer(self, at: int, most: int) -> None:
        side = self.sides[at]
        low = len(side.offered)
        high = min(side.deliveries.frames.received, low + most)
        assert offer([Offer(side.deliveries, high, side.deliveries.discards)])
        side.offered += side.frames(low, high)

    @rule(at=receivers, most=counts)
    def commit(self, at: int, most: int) -> None:
        side = self.sides[at]
        side.committed = min(len(side.offered), side.committed + most)
        side.deliveries.commit(side.committed)

    @invariant()
    def what_was_offered_stays_readable(self) -> None:
        for side in self.sides:
            assert side.frames(side.committed, len(side.offered)) == side.offered[side.committed :]

    @invariant()
    def the_memory_is_that_of_what_is_held(self) -> None:
        for side in self.sides:
            frames = side.deliveries.frames
            assert frames.received >= len(side.offered)
            assert frames.released == side.committed

    def teardown(self) -> None:
        try:
            self._check_the_end()
        finally:
            for side in self.sides:
                side.deliveries.close()

    def _check_the_end(self) -> None:
        """In the end everything is delivered, committed and ACKed, and nothing is held."""
        for _ in range(2):
            for at in range(RECEIVERS):
                link = self.sides[at].link
                if link is not None and (link.owes_receipts or not link.open):
                    # The time limit for receipts ends it as well.
                    self.drop(at, noticed=True)
            self._run_dry()
        assert not self.ready
        assert self.acked == {message.body for message in self.published}
        rows = Counter(body_of(frame) for side in self.sides for frame in side.offered)
        assert rows.keys() == {message.body for message in self.published}
        doubled = [message for message in self.published if message.id and rows[message.body] > 1]
        assert doubled == []
        for side in self.sides:
            assert side.link is not None
            assert not side.link.unacked
            assert not side.deliveries.acks_pending
            assert side.deliveries.unacked == 0
            assert side.deliveries.frames.memory_bytes == 0
        assert self.index.held == 0

    def _run_dry(self) -> None:
        for at in range(RECEIVERS):
            self.deliver(at, 100, read=True, offer=False)
        for at in range(RECEIVERS):
            self.offer(at, 1_000)
            self.commit(at, 1_000)
        for at in range(RECEIVERS):
            self.exchange_acks(at, 100, Fate.CONFIRMED)

    def _committed_bodies(self) -> set[bytes]:
        return {body_of(frame) for side in self.sides for frame in side.offered[: side.committed]}
