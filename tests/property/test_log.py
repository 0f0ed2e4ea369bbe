"""The delivery contract, sections 1 to 4 and J, against the model of a query."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import ClassVar
from unittest import mock

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from property.engines import JournalEngine, MemoryEngine
from property.log_model import Engine, Query, receivers
from support.soak import long_property


class WithJournal(Query):
    """The journal deletes single objects."""

    keeps = True
    folder: tempfile.TemporaryDirectory[str] | None = None
    max_bytes = 1 << 30

    def run(self) -> Engine:
        if self.folder is None:
            self.folder = tempfile.TemporaryDirectory()
            self.often = mock.patch("spark_stomp.source.journal_writer._TRIM_OBJECTS", 1)
            self.often.start()
        folder = Path(self.folder.name) / "journal"
        return JournalEngine(folder, self.max_bytes, ack_when_durable=self.acks_durable)

    @initialize(max_bytes=st.sampled_from([1 << 30, 6_000, 1]))
    def bound(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.crash(written=False, tell=False, seed=0)

    @rule(at=receivers)
    def keep_while_a_connection_ends(self, at: int) -> None:
        """What is on its way to the disk may not be discarded any more, and is redelivered."""

        def interrupt() -> None:
            self.drop(at, noticed=True, seed=0)
            self.deliver(at, 100, read=True, cut=False)

        self.engine.keep(before=interrupt)

    @rule(at=receivers)
    def keep_while_spark_goes_on(self, at: int) -> None:
        """What is durable may be read and committed before its receiver knows that it is durable."""

        def whole_batch() -> None:
            self.plan(100)
            self.finish(tell=True)

        self.deliver(at, 100, read=True, cut=False)
        self.engine.keep(after=whole_batch)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            assert self.folder is not None
            self.often.stop()
            self.folder.cleanup()


class InMemory(Query):
    def run(self) -> Engine:
        return MemoryEngine()


class LogThenAck(WithJournal):
    acks_durable: ClassVar[bool] = True


for machine, usual in ((InMemory, 40), (WithJournal, 25), (LogThenAck, 20)):
    machine.TestCase.settings = long_property(usual, steps=100)
TestInMemory = pytest.mark.timeout(600)(InMemory.TestCase)
TestWithJournal = pytest.mark.timeout(600)(WithJournal.TestCase)
TestLogThenAck = pytest.mark.timeout(600)(LogThenAck.TestCase)
