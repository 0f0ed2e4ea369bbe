"""The code under test of the model of a query (property/log_model.py): receivers, planning, journal.

No thread and no socket: the model says when the journal's writer does a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from unittest import mock

from property.log_model import RECEIVERS, RING, TOPIC
from support.journals import local_journal

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver import DedupIndex, Deliveries, Log, ReceiverStatus
from spark_stomp.source.journal_log import JournalLog, recover
from spark_stomp.source.journal_writer import JournalWriter
from spark_stomp.source.logs import Logs, SourceLog
from spark_stomp.source.memory_log import MemoryLog
from spark_stomp.source.offsets import Offset
from spark_stomp.source.planning import Available, BatchLimits, rotated, shares_of

NAMES = [f"r#{at}" for at in range(RECEIVERS)]
_BUFFER = 200
_Call = Callable[[], None]


def _nothing() -> None:
    """The write is not interrupted."""


class MemoryEngine:
    """A query without a journal."""

    def __init__(self) -> None:
        self.index = DedupIndex()
        messages = Log(self.index)
        self.receivers = self._receivers(messages)
        self.logs = self._logs(MemoryLog(messages, dict(zip(NAMES, self.receivers, strict=True))))
        self._turn = 0

    def _receivers(self, log: Log) -> list[Deliveries]:
        return [Deliveries(_BUFFER, log, name) for name in NAMES]

    def _logs(self, one: SourceLog) -> Logs:
        return Logs([one], self.index.lock, tolerant=False)

    def connected(self, at: int, *, keyed: bool) -> None:
        self.receivers[at].connected(keyed=keyed)

    def disconnected(self, at: int) -> None:
        self.receivers[at].disconnected(redelivers=True, but=[TOPIC, RING])

    def receive(self, at: int, block: MessageBlock) -> None:
        self.receivers[at].receive(block, received_at=0, version="1.2", dialect="generic")

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
        return rotated(self.logs.available(start, [_status(one) for one in self.receivers]), self._turn)

    def cut(self, start: Offset, seen: list[Available], most: int) -> Offset | None:
        limits = BatchLimits(max_messages=most)
        if not any(shares_of(seen, limits).values()):
            return start
        chosen = self.logs.take_batch(start, seen, limits)
        return None if chosen is None else chosen[0]

    def read(self, start: Offset, end: Offset) -> list[bytes]:
        held = [part for part, _ in self.logs.ranges(start, end)[0]]
        tickets = [ticket for whole in held for ticket in self.logs.tickets(whole)]
        batches = [batch for ticket in tickets for batch in self.logs.read(ticket)]
        assert sum(len(batch.ends) for batch in batches) == sum(part.high - part.low for part in held)
        return [body for batch in batches for body in _bodies(batch)]

    def commit(self, end: Offset) -> None:
        self.logs.commit(end)

    def keep(self, before: _Call = _nothing, after: _Call = _nothing) -> None:
        """There is no journal."""

    def durable(self) -> set[bytes]:
        return set()

    def settled(self) -> None:
        for receiver in self.receivers:
            assert not receiver.acks_pending
            assert receiver.acks.unacked == 0
            assert receiver.inbox.memory_bytes == 0
        assert self.index.held == 0

    def end(self) -> None:
        for receiver in self.receivers:
            receiver.close()


class JournalEngine(MemoryEngine):
    """A query with a journal in ``folder``, of at most ``max_bytes``."""

    def __init__(self, folder: Path, max_bytes: int, *, ack_when_durable: bool) -> None:
        super().__init__()
        self.index = DedupIndex(journaled=True)
        self.journal = local_journal(folder)
        messages = recover(self.journal, self.index, "id", most=1_000)
        self.receivers = self._receivers(messages)
        self.writer = JournalWriter(
            self.journal,
            messages,
            self.receivers,
            max_bytes=max_bytes,
            ack_when_durable=ack_when_durable,
            changed=lambda: None,
        )
        self.logs = self._logs(JournalLog(self.writer, NAMES, tolerant=False))

    def keep(self, before: _Call = _nothing, after: _Call = _nothing) -> None:
        append = self.journal.append

        def interrupted(batches: Sequence[FrameBatch]) -> list[int]:
            before()
            positions = append(batches)
            after()
            return positions

        with mock.patch.object(self.journal, "append", interrupted):
            self.writer.step()

    def durable(self) -> set[bytes]:
        held = self.journal.held(self.journal.first, self.journal.end)
        batches = [batch for low, high in held for batch in self.journal.batches(low, high)]
        return {body for batch in batches for body in _bodies(batch)}

    def settled(self) -> None:
        assert self.writer.unwritten == 0
        for receiver in self.receivers:
            assert not receiver.acks_pending
            assert receiver.inbox.memory_bytes == 0

    def end(self) -> None:
        super().end()
        self.journal.close()


def _status(one: Deliveries) -> ReceiverStatus:
    inbox, acked = one.inbox, one.acked
    return ReceiverStatus(
        inbox.name, True, inbox.pending, inbox.received, inbox.ackable, acked, 0.0, False, None
    )


def _bodies(batch: FrameBatch) -> list[bytes]:
    frames = [bytes(batch.data[low:high]) for low, high in pairwise([0, *batch.ends])]
    return [frame.split(b"\n\n", 1)[1].rstrip(b"\0") for frame in frames]
