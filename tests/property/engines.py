"""The code under test of the model of a query (property/log_model.py): receivers, planning, journal.

No thread and no socket: the model says when the journal's writer does a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

from property.log_model import RECEIVERS, RING, TOPIC
from support.by_hand import Journaled, Query, receive
from support.journals import bodies

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import MessageBlock
from spark_stomp.source.offsets import Offset
from spark_stomp.source.planning import Available, BatchLimits, shares_of

NAMES = [f"r#{at}" for at in range(RECEIVERS)]
_BUFFER = 200
_Call = Callable[[], None]


def _nothing() -> None:
    """The write is not interrupted."""


class MemoryEngine:
    """A query without a journal."""

    def __init__(self, query: Query | None = None) -> None:
        self.query = query or Query(NAMES, buffer=_BUFFER)
        self.receivers, self.logs = self.query.queues, self.query.logs
        self._turn = 0

    def connected(self, at: int, *, keyed: bool) -> None:
        self.receivers[at].connected(keyed=keyed)

    def disconnected(self, at: int) -> None:
        self.receivers[at].disconnected(redelivers=True, but=[TOPIC, RING])

    def receive(self, at: int, block: MessageBlock) -> None:
        receive(self.receivers[at], block)

    def look_for_room(self, at: int) -> None:
        self.receivers[at].room()

    def due(self, at: int, most: int) -> list[bytes]:
        acks = self.receivers[at].take_acks(most)
        return [] if acks is None else acks.handles

    def sent(self, at: int, receipt: str) -> None:
        self.receivers[at].sent(receipt, 0.0)

    def confirm(self, at: int, receipt: str) -> None:
        self.receivers[at].confirm(receipt)

    def begin(self, start: Offset, planned: Offset) -> None:
        self.logs.begin(start, planned)

    def seen(self, start: Offset) -> list[Available]:
        self._turn += 1
        return self.query.available(start, self._turn)

    def cut(self, start: Offset, seen: list[Available], most: int) -> Offset | None:
        limits = BatchLimits(max_messages=most)
        if not any(shares_of(seen, limits).values()):
            return start
        chosen = self.logs.take_batch(start, seen, limits)
        return None if chosen is None else chosen[0]

    def read(self, start: Offset, end: Offset) -> list[str]:
        batches = [batch for found in self.query.read(start, end).values() for batch in found]
        held = [part for part, _ in self.logs.ranges(start, end)[0]]
        assert sum(len(batch.ends) for batch in batches) == sum(part.high - part.low for part in held)
        return bodies(batches)

    def commit(self, end: Offset) -> None:
        self.logs.commit(end)

    def keep(self, before: _Call = _nothing, after: _Call = _nothing) -> None:
        """There is no journal."""

    def durable(self) -> set[str]:
        return set()

    def settled(self) -> None:
        for receiver in self.receivers:
            assert not receiver.acks_pending
            assert receiver.acks.unacked == 0
            assert receiver.inbox.memory_bytes == 0
        assert self.query.index.held == 0

    def end(self) -> None:
        self.query.close()


class JournalEngine(MemoryEngine):
    """A query with a journal in ``folder``, of at most ``max_bytes``."""

    def __init__(self, folder: Path, max_bytes: int, *, ack_when_durable: bool) -> None:
        self.query: Journaled
        super().__init__(
            Journaled(
                folder,
                NAMES,
                max_bytes=max_bytes,
                ack_when_durable=ack_when_durable,
                id_header="id",
                buffer=_BUFFER,
            )
        )
        self.journal, self.writer = self.query.journal, self.query.writer

    def keep(self, before: _Call = _nothing, after: _Call = _nothing) -> None:
        append = self.journal.append

        def interrupted(batches: Sequence[FrameBatch]) -> list[int]:
            before()
            positions = append(batches)
            after()
            return positions

        with mock.patch.object(self.journal, "append", interrupted):
            self.writer.step()

    def durable(self) -> set[str]:
        held = self.journal.held(self.journal.first, self.journal.end)
        return set(bodies(batch for low, high in held for batch in self.journal.batches(low, high)))

    def settled(self) -> None:
        assert self.writer.unwritten == 0
        for receiver in self.receivers:
            assert not receiver.acks_pending
            assert receiver.inbox.memory_bytes == 0
