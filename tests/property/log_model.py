"""A query against a model: a broker, connections that break anywhere, Spark with its two logs, and crashes.

The model knows nothing of how a query numbers and keeps its messages: it speaks to an ``Engine``
(property/engines.py), and offsets are opaque to it. What it checks is what others see:

- The broker: an ACK names something un-acked on its own connection, and a message that is committed or, with
  ``ackAfter=journal``, durable. On a connection of STOMP 1.0 an ACK counts for all messages before it, too.
- Spark: a batch that is not empty has rows, and the same ones until it is committed. After a crash a planned
  batch has the same rows (journal), or none (memory).
- The sink: every message is in a batch, and a message with an id in one only, unless contract 4 allows two.
- In the end nothing is held, and nothing is un-acked.

Between broker and receiver lie pipes, so that either side may see the end of a connection long before the
other one does. The broker redelivers in any order, to any receiver.
"""

from __future__ import annotations

import enum
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spark_stomp.protocol import MessageBlock
from spark_stomp.source.offsets import INITIAL

RECEIVERS = 3
TOPIC, RING = "t", "r"
"""Subscriptions to a topic, which brings nothing again, and to a ring queue, which may bring nothing."""
_PLACES = {
    kind: b"/%b/%b\nsubscription:%b" % (b"topic" if kind == TOPIC else b"queue", kind.encode(), kind.encode())
    for kind in ("q", TOPIC, RING)
}

receivers = st.integers(0, RECEIVERS - 1)
counts = st.integers(1, 4)
often = st.sampled_from([True, True, False])
seeds = st.integers(0, 1 << 16)


class Engine(Protocol):
    """One run of a query: what receivers, planning and the journal do, without threads and sockets.

    ``at`` is the number of a receiver. An offset is whatever the engine makes of it.
    """

    def connected(self, at: int, *, keyed: bool) -> None: ...
    def disconnected(self, at: int) -> None: ...
    def receive(self, at: int, block: MessageBlock) -> None: ...
    def look_for_room(self, at: int) -> None: ...
    def due(self, at: int, most: int) -> list[bytes]:
        """Take the handles to ACK now."""

    def sent(self, at: int, receipt: str) -> None:
        """The handles that :meth:`due` returned were sent; the last one asks for ``receipt``."""

    def confirm(self, at: int, receipt: str) -> None: ...

    def begin(self, start: Any, planned: Any) -> None:
        """The run begins at ``start``; batches up to ``planned`` were planned already."""

    def seen(self, start: Any) -> Any:
        """What a batch that begins at ``start`` can take, as one look shows it."""

    def cut(self, start: Any, seen: Any, most: int) -> Any | None:
        """The end of a batch of at most ``most`` messages, offered to Spark; None: look again."""

    def read(self, start: Any, end: Any) -> list[bytes]:
        """The bodies between two offsets."""

    def commit(self, end: Any) -> None: ...

    def keep(self, before: Callable[[], None] = ..., after: Callable[[], None] = ...) -> None:
        """Let the journal take what waits; ``before`` and ``after`` are called around the write."""

    def durable(self) -> set[bytes]:
        """The bodies that a new run could read."""

    def settled(self) -> None:
        """Assert that nothing is held, and no ACK is pending."""

    def end(self) -> None:
        """The process dies."""


@dataclass(frozen=True, order=True)
class Message:
    number: int
    id: bytes | None
    body: bytes
    by: str = "q"

    @property
    def is_sure(self) -> bool:
        """Whether the broker delivers it until it is ACKed."""
        return self.by == "q"


@dataclass
class Link:
    """A connection as the broker sees it, and what is under way on it."""

    keyed: bool
    unacked: dict[bytes, Message] = field(default_factory=dict)
    open: bool = True
    blocks: list[tuple[MessageBlock, list[Message]]] = field(default_factory=list)
    acks: list[tuple[str, list[bytes]]] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)


@dataclass
class Batch:
    """A batch in Spark's offset log.

    ``rows``: what the sink has of it, or will have. ``here``: what the present run has of it.
    """

    start: Any
    end: Any
    rows: list[bytes]
    here: list[bytes]


class Fate(enum.Enum):
    """How far a group of ACKs gets."""

    CONFIRMED = enum.auto()
    OBEYED = enum.auto()
    HALF_OBEYED = enum.auto()
    UNDER_WAY = enum.auto()


class Query(RuleBasedStateMachine):
    """The model. A subclass names the engine."""

    keeps: ClassVar[bool] = False
    """Whether what a run has planned is there in the next one (a journal)."""
    acks_durable: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.links: list[Link | None] = [None] * RECEIVERS
        self.ghosts: list[Link] = []  # given up by their receivers; the broker does not know that yet
        self.published: list[Message] = []
        self.ready: list[Message] = []
        self.delivered: set[int] = set()
        self.acked: set[bytes] = set()
        self.may_double: set[bytes] = set()
        self.expected: set[bytes] = set()  # what has to become a row
        self.names = 0
        self.first = self.last = INITIAL
        self.done: list[Batch] = []
        self.pending: Batch | None = None  # in the offset log, and not in the commit log
        self.known_commits = 0  # how many batches of ``done`` the query knows to be committed
        self.committed: set[bytes] = set()
        self.engine = self.run()

    def run(self) -> Engine:
        """The next run."""
        raise NotImplementedError

    # --- the broker

    @rule(
        count=counts, nameless=st.booleans(), repeat_id=st.booleans(), by=st.sampled_from(["q", TOPIC, RING])
    )
    def publish(self, count: int, nameless: bool, repeat_id: bool, by: str) -> None:
        for _ in range(count):
            number = len(self.published)
            name = None if nameless and number % 3 == 0 else b"id-%d" % (number // 2 if repeat_id else number)
            message = Message(number, name, b"body-%d" % number, "q" if number % 2 else by)
            self.published.append(message)
            self.ready.append(message)
            if message.is_sure:
                self.expected.add(message.body)
            if name is None:
                self.may_double.add(message.body)

    @rule(at=receivers, count=counts, read=often, cut=often, breaks=st.booleans())
    def deliver(self, at: int, count: int, read: bool, cut: bool, breaks: bool = False) -> None:
        """Messages come, and Spark may ask for a batch; the connection may break meanwhile."""
        if self.links[at] is None:
            self.connect(at, keyed=True)
        if not self.ready:
            self.publish(count, nameless=False, repeat_id=at == 0, by=["q", TOPIC, RING][at])
        self._send(self.links[at], count)
        if read:
            self.read(at)
        if cut:
            self.plan(count, at if breaks else None)

    def _send(self, link: Link | None, count: int) -> None:
        if link is not None and link.open and self.ready:
            messages, self.ready = self.ready[:count], self.ready[count:]
            link.blocks.append((self._block(link, messages), messages))

    def _block(self, link: Link, messages: list[Message]) -> MessageBlock:
        block = MessageBlock(b"", [], [], [])
        for message in messages:
            handle = b"h%d" % self._name()
            link.unacked[handle] = message
            again = b"redelivered:true\n" if message.number in self.delivered else b""
            self.delivered.add(message.number)
            if not link.keyed:
                self.may_double.add(message.body)
            name = b"" if message.id is None else b"id:%b\n" % message.id
            head = b"MESSAGE\ndestination:%b\nack:%b\n%b%b\n" % (_PLACES[message.by], handle, name, again)
            block.heads += head
            block.data += head + message.body + b"\0"
            block.ends.append(len(block.data))
            block.acks.append(handle)
            block.ids.append(message.id)
        return block

    @rule(at=receivers, most=st.sampled_from([1, 100]), fate=st.sampled_from(Fate), tell=st.booleans())
    def exchange_acks(self, at: int, most: int, fate: Fate, tell: bool = False) -> None:
        """The receiver sends what is due; the broker obeys all or a part of it before something breaks.

        ``tell``: evidence of a commit comes while ACKs are being sent.
        """
        link = self.links[at]
        if link is None:
            return
        while handles := self.engine.due(at, most):
            receipt = f"r{self._name()}"
            if tell:
                self.tell(1)
            self.engine.sent(at, receipt)
            link.acks.append((receipt, handles))
        while link.open and link.acks and fate is not Fate.UNDER_WAY:
            self._obey_group(link, half=fate is Fate.HALF_OBEYED)
        if fate is Fate.HALF_OBEYED:
            self._break(link, seed=0)
        elif fate is Fate.CONFIRMED:
            self.receipts(at, seed=0)

    def _obey_group(self, link: Link, *, half: bool) -> None:
        receipt, handles = link.acks.pop(0)
        may_be_acked = self.committed | (self.engine.durable() if self.acks_durable else set())
        for handle in handles[: len(handles) // 2] if half else handles:
            assert handle in link.unacked, "an ACK names nothing un-acked on its connection"
            before = list(link.unacked)[: list(link.unacked).index(handle)]
            for obeyed in [handle] if link.keyed else [*before, handle]:
                body = link.unacked.pop(obeyed).body
                assert body in may_be_acked, "an ACK before the commit"
                self.acked.add(body)
        if not half:
            link.receipts.append(receipt)

    @precondition(lambda self: any(link is not None and link.receipts for link in self.links))
    @rule(at=receivers, seed=seeds)
    def receipts(self, at: int, seed: int) -> None:
        """The receipts that the broker owes come, in any order."""
        link = self.links[at]
        if link is not None:
            random.Random(seed).shuffle(link.receipts)
            while link.receipts:
                self.engine.confirm(at, link.receipts.pop())

    @rule(
        at=receivers,
        to=receivers,
        noticed=st.sampled_from(["before", "after", "after", "not yet"]),
        taken=st.sampled_from(["before", "whole", 1, 2, None]),
        acks=st.booleans(),
        seed=seeds,
    )
    def redeliver(
        self, at: int, to: int, noticed: str, taken: str | int | None, acks: bool, seed: int
    ) -> None:
        """A connection ends for the broker, and what was un-acked on it goes to whoever is there.

        ``taken``: Spark takes all there is before that or afterwards, or only so many messages.
        """
        if taken == "before":
            self.read(at)
            self.plan(100)
        self.drop(at, noticed == "before", seed)
        self.deliver(to, 100, read=True, cut=taken == "whole")
        if isinstance(taken, int):
            self.keep()
            self.finish(tell=True)
            self.plan(taken)
            self.finish(tell=True)
        if acks:
            self.exchange_acks(to, 100, Fate.CONFIRMED)
        if noticed == "after":
            self.notice_the_end(at)

    @rule(at=receivers, noticed=st.booleans(), seed=seeds)
    def drop(self, at: int, noticed: bool, seed: int) -> None:
        """The broker takes the connection for dead; the receiver may not know for a while."""
        link = self.links[at]
        if link is not None:
            self._break(link, seed)
            if noticed:
                self.notice_the_end(at)

    def _break(self, link: Link, seed: int) -> None:
        """What was un-acked is delivered again: first, last or anywhere, in any order; a ring lacks some."""
        if not link.open:
            return
        link.open = False
        chance = random.Random(seed)
        comes_again = {"q": True, TOPIC: False, RING: chance.random() < 0.5}
        back = [message for message in link.unacked.values() if comes_again[message.by]]
        link.unacked.clear()
        if seed:
            chance.shuffle(back)
        place = chance.choice([0, len(self.ready)])
        self.ready[place:place] = back

    @rule(at=receivers)
    def give_up(self, at: int) -> None:
        """The receiver takes the connection for dead; the broker does not know for a while."""
        link = self.links[at]
        if link is not None and link.open:
            self.links[at] = None
            self.ghosts.append(link)
            self.engine.disconnected(at)

    @precondition(lambda self: self.ghosts)
    @rule(count=st.integers(0, 4), ends=often, seed=seeds)
    def ghosts_act(self, count: int, ends: bool, seed: int) -> None:
        """A broker goes on with a connection that its receiver has given up."""
        link = self.ghosts[-1]
        self._send(link, count)
        while link.acks:
            self._obey_group(link, half=False)
        if ends:
            self.ghosts.remove(link)
            self._break(link, seed)

    # --- the receivers

    @precondition(lambda self: None in self.links)
    @rule(at=receivers, keyed=often)
    def connect(self, at: int, keyed: bool) -> None:
        if self.links[at] is None:
            self.links[at] = Link(keyed)
            self.engine.connected(at, keyed=keyed)

    @precondition(lambda self: any(link is not None and not link.open for link in self.links))
    @rule(at=receivers)
    def notice_the_end(self, at: int) -> None:
        link = self.links[at]
        if link is not None and not link.open:
            self.links[at] = None
            self.engine.disconnected(at)

    @precondition(lambda self: any(link is not None and link.blocks for link in self.links))
    @rule(at=receivers)
    def read(self, at: int) -> None:
        link = self.links[at]
        while link is not None and link.blocks:
            block, messages = link.blocks.pop(0)
            self.engine.receive(at, block)
            # It may be that nobody delivers these again, so they become rows if this process lives on.
            self.expected |= {message.body for message in messages if not message.is_sure}

    @precondition(lambda self: self.keeps)
    @rule()
    def keep(self) -> None:
        self.engine.keep()

    # --- Spark

    @precondition(lambda self: self.pending is None)
    @rule(most=counts, breaks=st.one_of(st.none(), receivers))
    def plan(self, most: int, breaks: int | None = None) -> None:
        """Spark asks for a batch, and reads it; a connection may break while its end is chosen."""
        if self.pending is not None:
            return
        while True:
            seen = self.engine.seen(self.last)
            if breaks is not None:
                self.drop(breaks, noticed=True, seed=0)
                breaks = None
            end = self.engine.cut(self.last, seen, most)
            if end is not None:
                break
        if end != self.last:
            rows = self.engine.read(self.last, end)
            assert rows, "a batch that is not empty has no rows"
            self.pending = Batch(self.last, end, rows, rows)
            self.last = end

    @precondition(lambda self: self.pending is not None)
    @rule(tell=often, room=st.booleans())
    def finish(self, tell: bool, room: bool = False) -> None:
        """Spark writes the batch into its commit log, and the query may learn of it at once."""
        if self.pending is not None:
            self.done.append(self.pending)
            self.pending = None
        if tell:
            self.tell(1_000, room)

    @precondition(lambda self: self.known_commits < len(self.done))
    @rule(count=counts, room=st.booleans())
    def tell(self, count: int, room: bool = False) -> None:
        """Evidence of some of the commits comes; ``room``: receivers then look for room."""
        self.known_commits = min(len(self.done), self.known_commits + count)
        if self.known_commits:
            self.committed.update(body for batch in self.done[: self.known_commits] for body in batch.rows)
            self.engine.commit(self.done[self.known_commits - 1].end)
        for at in range(RECEIVERS if room else 0):
            self.engine.look_for_room(at)

    @rule(at=receivers, count=counts, fate=st.sampled_from([None, *Fate]), batches=st.integers(1, 3))
    def batch(self, at: int, count: int, fate: Fate | None, batches: int) -> None:
        """Whole batches, from the producer to the commit; their ACKs may get anywhere."""
        for _ in range(batches):
            self.publish(count, nameless=False, repeat_id=False, by="q")
            self.deliver(at, 100, read=True, cut=False)
            self.keep()
            self.plan(100)
            self.finish(tell=True)
            if fate is not None:
                self.exchange_acks(at, 100, fate)
            self.keep()

    # --- what dies

    @rule(written=st.booleans(), tell=st.booleans(), seed=seeds)
    def crash(self, written: bool, tell: bool, seed: int) -> None:
        """The driver dies. ``written``: the sink has the pending batch, and skips it when it comes again."""
        for link in (*self.links, *self.ghosts):
            if link is not None:
                self._break(link, seed)
        self.ghosts.clear()
        self.links = [None] * RECEIVERS
        self.engine.end()
        in_sink = {body for batch in self.done for body in batch.rows}
        if self.pending is not None and written:
            in_sink |= set(self.pending.rows)
        # Who knows whether these come again. What the sink has, it keeps.
        self.expected -= {one.body for one in self.published if not one.is_sure and one.body not in in_sink}
        if not self.keeps:
            self.may_double |= in_sink & {message.body for message in self.ready}
        self.engine = self.run()
        self.engine.begin(self.done[-1].end if self.done else self.first, self.last)
        if self.pending is not None:
            if not self.keeps:
                self.pending.here = []
            if not written:
                self.pending.rows = self.pending.here
        if tell:
            self.tell(1_000)

    @rule(count=counts)
    def broker_dies(self, count: int) -> None:
        """The broker dies, and knows nothing of the last ACKs that it confirmed."""
        for at in range(RECEIVERS):
            self.drop(at, noticed=True, seed=0)
        self._end_ghosts()
        forgotten = [one for one in self.published if one.body in self.acked and one.is_sure][-count:]
        if not self.keeps:
            self.may_double |= {message.body for message in forgotten}
        self.ready[:0] = [message for message in forgotten if message not in self.ready]

    def _end_ghosts(self) -> None:
        for link in self.ghosts:
            self._break(link, seed=0)
        self.ghosts.clear()

    # --- what holds always, and in the end

    @invariant()
    def a_planned_batch_stays_the_same(self) -> None:
        batch = self.pending
        if batch is not None:
            assert self.engine.read(batch.start, batch.end) == batch.here, "a planned batch has changed"

    def teardown(self) -> None:
        try:
            self._check_the_end()
        finally:
            self.engine.end()

    def _check_the_end(self) -> None:
        for _ in range(3):
            self._end_ghosts()
            for at in range(RECEIVERS):
                link = self.links[at]
                if link is not None and (link.receipts or not link.open):
                    # The time limit for receipts ends it as well.
                    self.drop(at, noticed=True, seed=0)
            for _ in range(2):
                self._run_dry()
        assert not self.ready
        queues = {message.body for message in self.published if message.is_sure}
        assert self.acked >= queues
        rows = Counter(body for batch in self.done for body in batch.rows)
        assert rows.keys() >= self.expected, "a message is lost"
        assert [body for body in rows if rows[body] > 1 and body not in self.may_double] == []
        for link in self.links:
            assert link is not None
            assert not link.unacked
        self.engine.settled()

    def _run_dry(self) -> None:
        for at in range(RECEIVERS):
            self.connect(at, keyed=True)
            self._send(self.links[at], 100)
            self.read(at)
        # At its bound a journal gets room by commits, and by the receipts of the ACKs that follow.
        for _ in range(100):
            before = self.last
            self.keep()
            self.finish(tell=True)
            self.plan(1_000)
            self.finish(tell=True)
            for at in range(RECEIVERS):
                self.exchange_acks(at, 100, Fate.CONFIRMED)
            if self.last == before:
                break
        self.keep()

    def _name(self) -> int:
        self.names += 1
        return self.names
