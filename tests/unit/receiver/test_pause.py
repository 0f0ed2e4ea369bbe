"""A receiver that is ahead of Spark waits a moment for more bytes; what the log says of a long pause."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.by_hand import block_of, of_queues, receive
from support.options import source_options

from spark_stomp.receiver import pause
from spark_stomp.receiver.pause import BoundedReader
from spark_stomp.receiver.subscription import ReceiverSettings
from spark_stomp.transport import Connection

FRAME = b"MESSAGE\nmessage-id:1\n\n\0"
BLOCK = block_of([FRAME], [b"1"])


class Reading:
    """A reader and a connection that brings as many bytes as are asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits: list[float] = []
        clock = SimpleNamespace(sleep=self.waits.append, monotonic=time.monotonic, time=time.time)
        monkeypatch.setattr(pause, "time", clock)
        self.deliveries = of_queues()
        self.deliveries.connected(keyed=False)
        settings = ReceiverSettings("q#0", ("/queue/a",), source_options("stomp://127.0.0.1", "/queue/a"))
        self.reader = BoundedReader(settings, self.deliveries, lambda: None, threading.Event())
        self.connection = SimpleNamespace(ended=False, received=0, poll=lambda timeout, most: [])

    def hold(self, count: int) -> None:
        for _ in range(count):
            receive(self.deliveries, BLOCK)

    def read(self, size: int) -> int:
        """Read ``size`` bytes; returns how many waits that took."""
        before = len(self.waits)

        def poll(timeout: float, most: int) -> list[Any]:
            self.connection.received += size
            return []

        self.connection.poll = poll
        self.reader.poll(cast(Connection, self.connection), 1.0)
        return len(self.waits) - before


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(monkeypatch)


def test_small_reads_are_gathered_while_many_messages_wait(reading: Reading) -> None:
    reading.hold(1_001)
    assert [reading.read(3_000) for _ in range(3)] == [0, 1, 1]
    assert max(reading.waits) < 0.01


def test_a_trickle_never_waits(reading: Reading) -> None:
    reading.hold(1_000)
    assert [reading.read(3_000) for _ in range(3)] == [0, 0, 0]


def test_commits_of_spark_end_it(reading: Reading) -> None:
    reading.hold(2_000)
    assert [reading.read(3_000) for _ in range(2)] == [0, 1]
    reading.deliveries.number(1_500)
    reading.deliveries.log.commit(1_500)
    assert reading.read(3_000) == 0


def test_large_reads_and_silence_are_not_waited_for(reading: Reading) -> None:
    reading.hold(2_000)
    assert [reading.read(size) for size in (100_000, 0, 0, 3_000, 0)] == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("of_batch", [False, True])
def test_only_a_query_warns_of_a_long_one(
    of_batch: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr(pause, "time", SimpleNamespace(monotonic=time.monotonic, time=lambda: now[0]))
    options = source_options("stomp://127.0.0.1", "/queue/a")
    settings = ReceiverSettings("q#0", ("/queue/a",), options, of_batch=of_batch)
    deliveries = of_queues(max_bytes=len(FRAME))
    deliveries.connected(keyed=False)
    receive(deliveries, BLOCK)
    reader = BoundedReader(settings, deliveries, lambda: None, threading.Event())
    connection = cast(Connection, SimpleNamespace(ended=False, rested=0.0, rest=lambda timeout: []))
    for now[0] in (0.0, 2.0):
        reader.poll(connection, 1.0)
    assert reader.paused_since == 0.0
    assert ("raise maxBufferedBytes" in caplog.text) is not of_batch
