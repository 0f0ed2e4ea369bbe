"""Queries whose receivers pause: prefetch times size is far beyond the bounds (contract 5)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.commands import ENVIRONMENT
from support.driven import Run
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.receiver import Deliveries
from spark_stomp.source.journal_writer import JournalWriter
from spark_stomp.source.planning import Mode

QUEUE = "/queue/a"
SIZE = 10_000
MANY = 2_000
BODIES = [b"%06d" % number + b"x" * SIZE for number in range(MANY)]
BOUND = 200 << 10
MORE = (64 << 10) + 2 * SIZE


@pytest.fixture
def options(devbroker: DevBroker) -> dict[str, str]:
    devbroker.publish_many(QUEUE, BODIES)
    given = {"url": devbroker.url, "destination": QUEUE}
    return {**given, "prefetch": str(MANY), "maxBufferedBytes": "200k"}


@pytest.fixture
def journaled(options: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return {**options, "journal": str(tmp_path / "journal"), "journalMaxBytes": "8m"}


def held(run: Run) -> int:
    return sum(one["buffered_bytes"] for one in run.counters())


def is_paused(run: Run) -> bool:
    return bool(run.status.document["totals"]["paused"])


def taken(run: Run, count: int) -> tuple[list[bytes], int]:
    """The bodies of all batches up to ``count`` messages, each committed, and the most bytes held."""
    bodies: list[bytes] = []
    most, deadline = 0, time.monotonic() + 2 * PATIENCE
    while len(bodies) < count:
        assert time.monotonic() < deadline, f"{len(bodies)} of {count} came"
        bodies += [row["body"] for row in run.batch()]
        most = max(most, held(run))
        run.commit()
    return bodies, most


@pytest.mark.rule("5.6")
def test_the_end_of_a_drain_does_not_wait_for_receipts_behind_what_is_not_read(
    options: dict[str, str],
) -> None:
    with Run(options, maxDrainTime="2s", ackReceiptTimeout="5m") as run:
        run.reader._mode = Mode.DRAIN
        begun = time.monotonic()
        run.end = run.reader.latestOffset(run.start, None)
        run.read()
        wait_until(lambda: is_paused(run), what="a pause")
        wait_until(lambda: time.monotonic() > begun + 3, what="maxDrainTime")
        run.commit()
        assert run.reader.latestOffset(run.start, None) == run.start


class TestWithAJournal:
    @pytest.mark.rule("5.7", "J.12")
    def test_what_waits_to_be_written_is_bounded(self, journaled: dict[str, str]) -> None:
        with Run(journaled, ackAfter="journal") as run:
            assert run.batch()
            wait_until(lambda: is_paused(run), what="a pause")
            assert run.status.document["journal"]["bytes"] <= 12 << 20
            assert held(run) <= BOUND + MORE
            bodies = [row["body"] for row in run.read()]
            run.commit()
            rest, most = taken(run, MANY - len(bodies))
        assert bodies + rest == BODIES
        assert most <= BOUND + MORE

    @pytest.mark.rule("5.14", "J.12")
    def test_it_is_trimmed_though_the_receipts_wait_behind_what_is_not_read(
        self, journaled: dict[str, str], devbroker: DevBroker
    ) -> None:
        """The journal is full of what is committed and not confirmed, and nobody reads the receipts."""
        devbroker.faults.withhold_receipts = ("ACK",)
        with Run(journaled) as run:
            bodies, most = taken(run, MANY)
        assert bodies == BODIES
        assert most <= BOUND + MORE

    @pytest.mark.rule("5.14", "J.12")
    def test_also_if_its_writer_looked_before_the_receiver_did(
        self, journaled: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All of the journal is one batch. Its commit wakes the writer, which finds nothing to delete, before
        the receiver has remembered the keys."""
        room = Deliveries.room
        looked = threading.Event()

        def late(deliveries: Deliveries) -> int:
            if deliveries.inbox.ackable:
                looked.wait(0.5)
            return room(deliveries)

        def look(writer: JournalWriter) -> bool:
            done = step(writer)
            if writer.log.committed and writer.full:
                looked.set()
            return done

        step = JournalWriter.step
        monkeypatch.setattr(Deliveries, "room", late)
        monkeypatch.setattr(JournalWriter, "step", look)
        with Run(journaled, minMessagesPerTrigger=MANY, maxTriggerDelay="1s") as run:
            bodies, most = taken(run, MANY)
        assert bodies == BODIES
        assert most <= BOUND + MORE


CHILD = """
import json, sys
from support.driven import Run
run = Run(json.loads(sys.argv[1]))
run.batch()
run.commit()
run.batch()
while not run.status.document["totals"]["paused"]:
    pass
print(run.status.document["totals"]["committed"], flush=True)
sys.stdin.read()
"""


@pytest.mark.rule("5.15")
def test_sigterm_ends_a_paused_query_in_time(options: dict[str, str], devbroker: DevBroker) -> None:
    command = [sys.executable, "-c", CHILD, json.dumps(options)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as process:
        assert process.stdout is not None
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        try:
            committed = int(process.stdout.readline())
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
            assert time.monotonic() - begun < 8
        finally:
            timer.cancel()
            process.kill()
    devbroker.wait_until(lambda: devbroker.connections == 0, PATIENCE, "the end")
    assert devbroker.queue(QUEUE).acked == committed > 0
    assert len(devbroker.bodies(QUEUE)) == MANY - committed
