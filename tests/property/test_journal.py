"""The journal against a model: receivers, a broker, connections that break, and drivers that die anywhere.

The broker's half is that of the model for deliveries. Here Spark reads positions of a journal, which one run
after the other opens. Every message with an id has exactly one position, always, and every other one at
least one; the broker gets an ACK only for what is committed or, with ``ackAfter=journal``, durable.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from property.broker_model import RECEIVERS, Fate, Query, Side, body_of, counts, frames_of, receivers
from support.journals import local_journal

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.journal.local.journal import LocalJournal
from spark_stomp.receiver import DedupIndex
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.source.journal_backlog import recover
from spark_stomp.source.journal_writer import JournalWriter


class JournaledSide(Side):
    """A receiver whose frames go to the journal."""

    def __init__(self, book: DedupIndex, journal: LocalJournal, name: str) -> None:
        self.deliveries = Deliveries(200, book, name)
        self.link = None


class JournaledQuery(Query):
    """Sixteen segments at most, so that deletion is an everyday matter."""

    ack_when_durable = False

    def __init__(self) -> None:
        super().__init__()
        for side in self.sides:
            side.deliveries.close()
        self.folder = tempfile.TemporaryDirectory()
        self.small = mock.patch.multiple(
            "spark_stomp.journal.local.journal", _SMALLEST_SEGMENT=400, _LARGEST_SEGMENT=400
        )
        self.small.start()
        self.rows: dict[int, bytes] = {}  # by position, whatever Spark or a test ever saw there
        self.planned = self.committed = 0
        self.max_bytes = 1 << 30
        self._open()

    @initialize(max_bytes=st.sampled_from([1 << 30, 6_000, 1]))
    def bound(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.crash(told=False)

    def _open(self) -> None:
        """A run begins: the journal is what is left of the last one, and Spark's two logs."""
        self.index = DedupIndex(journaled=True)
        self.journal = local_journal(Path(self.folder.name) / "journal")
        recovered = recover(self.journal, self.index, "id", most=1_000)
        self.sides = [JournaledSide(self.index, self.journal, f"r{at}") for at in range(RECEIVERS)]
        self.writer = JournalWriter(
            self.journal,
            recovered,
            [side.deliveries for side in self.sides],
            self.index,
            max_bytes=self.max_bytes,
            ack_when_durable=self.ack_when_durable,
            changed=lambda: None,
        )

    # --- what dies

    @rule(told=st.booleans())
    def crash(self, told: bool) -> None:
        """The driver dies; ``told``: the next run learns first what Spark had committed."""
        for side in self.sides:
            if side.link is not None:
                self._break(side.link)
            side.deliveries.close()
        self.journal.close()
        self._open()
        if told:
            self.writer.commit(self.committed)

    @rule(count=counts)
    def broker_dies(self, count: int) -> None:
        self._forget_acks(count)

    # --- the journal

    @rule()
    def write(self) -> None:
        self.writer.step()

    @rule(at=receivers)
    def write_while_a_connection_ends(self, at: int) -> None:
        """What is on its way to the disk may not be discarded any more, and is redelivered."""
        append = self.journal.append

        def interrupted(batches: Sequence[FrameBatch]) -> list[int]:
            self.drop(at, noticed=True)
            self.deliver(at, 100, read=True, offer=False)
            return append(batches)

        with mock.patch.object(self.journal, "append", interrupted):
            self.write()

    # --- Spark

    @rule(at=receivers, count=counts, fate=st.sampled_from([None, *Fate]), batches=st.integers(1, 3))
    def batch(self, at: int, count: int, fate: Fate | None, batches: int) -> None:
        """Whole batches, from the producer to the commit; their ACKs may get anywhere."""
        for _ in range(batches):
            self.publish(count, nameless=False, repeat_id=False)
            self.deliver(at, 100, read=True, offer=False)
            self.write()
            self.offer(at, 100)
            self.commit(at, 100)
            if fate is not None:
                self.exchange_acks(at, 100, fate)
            self.write()

    @rule(at=receivers, most=counts)
    def offer(self, at: int, most: int) -> None:
        self.planned = max(self.planned, min(self.journal.end, self.planned + most))
        self._read(self.committed, self.planned)

    @rule(at=receivers, most=counts)
    def commit(self, at: int, most: int) -> None:
        self.committed = min(self.planned, self.committed + most)
        self.writer.commit(self.committed)

    def _read(self, low: int, high: int) -> None:
        position = low
        for batch in self.journal.batches(low, high):
            assert batch.first_sequence == position
            for body in map(body_of, frames_of(batch)):
                assert self.rows.setdefault(position, body) == body
                position += 1
        assert position == max(low, high)

    @invariant()
    def what_was_offered_stays_readable(self) -> None:
        self._read(self.committed, self.planned)

    @invariant()
    def the_memory_is_that_of_what_is_held(self) -> None:
        for side in self.sides:
            assert side.deliveries.frames.released <= side.deliveries.frames.received

    def teardown(self) -> None:
        try:
            self._check_the_end()
        finally:
            for side in self.sides:
                side.deliveries.close()
            self.journal.close()
            self.small.stop()
            self.folder.cleanup()

    def _check_the_end(self) -> None:
        for _ in range(3):
            for at in range(RECEIVERS):
                link = self.sides[at].link
                if link is not None and (link.owes_receipts or not link.open):
                    self.drop(at, noticed=True)
            self._run_dry()
        assert not self.ready
        assert self.planned == self.journal.end
        assert self.acked == {message.body for message in self.published}
        rows = Counter(self.rows.values())
        assert rows.keys() == {message.body for message in self.published}
        assert [message for message in self.published if message.id and rows[message.body] > 1] == []
        for side in self.sides:
            assert side.link is not None
            assert not side.link.unacked
            assert not side.deliveries.acks_pending
            assert side.deliveries.frames.memory_bytes == 0

    def _run_dry(self) -> None:
        for _ in range(2):
            for at in range(RECEIVERS):
                self.deliver(at, 100, read=True, offer=False)
            # At its bound the journal gets room by commits, and by the receipts of the ACKs that follow.
            for _ in range(1_000):
                if not self.writer.unwritten:
                    break
                self.write()
                self.offer(0, 1_000)
                self.commit(0, 1_000)
                for at in range(RECEIVERS):
                    self.exchange_acks(at, 100, Fate.CONFIRMED)
            assert not self.writer.unwritten, "frames wait for room that never comes"
            self.offer(0, 1_000)
            self.commit(0, 1_000)
            for at in range(RECEIVERS):
                self.exchange_acks(at, 100, Fate.CONFIRMED)
            self.write()

    def _committed_bodies(self) -> set[bytes]:
        """What the broker may be told to forget."""
        if self.ack_when_durable:
            self._read(self.journal.first, self.journal.end)
            return set(self.rows.values())
        return {body for position, body in self.rows.items() if position < self.committed}


class LogThenAck(JournaledQuery):
    ack_when_durable = True


_settings = settings(
    max_examples=max(120, settings.default.max_examples),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
JournaledQuery.TestCase.settings = _settings
LogThenAck.TestCase.settings = _settings
TestJournaledQuery = pytest.mark.timeout(600)(JournaledQuery.TestCase)
TestLogThenAck = pytest.mark.timeout(600)(LogThenAck.TestCase)
