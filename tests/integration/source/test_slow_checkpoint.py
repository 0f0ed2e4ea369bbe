"""A checkpoint whose listing hangs: a task's read, the status and the end of the query do not wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.driven import Run, log_entry
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import CheckpointUnreadable
from spark_stomp.source.checkpoint import Checkpoint

QUEUE = "/queue/a"
BODIES = [b"%d" % number for number in range(5)]


class Hanging:
    """Listings of the commit log, which hang until they are released."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()
        self._batches = Checkpoint._batches

    def batches(self, checkpoint: Checkpoint, log: str) -> list[int]:
        if log == "commits":
            self.reached.set()
            self.released.wait(10)
        return self._batches(checkpoint, log)


def plan(run: Run, root: Path, batch: int) -> list[Any]:
    """Spark logs and plans a batch, which is there already."""
    wait_until(lambda: run.status.receivers[0].received >= 5 * (batch + 1), what="the messages")
    run.end = run.reader.latestOffset(run.start, None)
    assert run.end != run.start
    log_entry(root, "offsets", batch, run.end)
    return list(run.reader.partitions(run.start, run.end))


@pytest.fixture
def run(devbroker: DevBroker, tmp_path: Path) -> Iterator[Run]:
    with Run({"url": devbroker.url, "destination": QUEUE, "checkpointLocation": str(tmp_path)}) as run:
        run.idle()
        devbroker.publish_many(QUEUE, BODIES)
        yield run


@pytest.fixture
def hanging(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    """From here on."""
    hanging = Hanging()
    monkeypatch.setattr(Checkpoint, "_batches", lambda self, log: hanging.batches(self, log))
    yield hanging
    hanging.released.set()


def seconds(since: float) -> float:
    return time.monotonic() - since


@pytest.mark.rule("1.5")
def test_the_end_of_the_query_waits_for_a_moment(
    run: Run, tmp_path: Path, hanging: Hanging, devbroker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    plan(run, tmp_path, 0)
    assert hanging.reached.wait(PATIENCE)
    begun = time.monotonic()
    run.reader.stop()
    assert seconds(begun) < 5
    assert "did not answer" in caplog.text
    assert (devbroker.disconnects, devbroker.queue(QUEUE).acked) == (1, 0)


def test_a_call_that_waits_for_its_checkpoint_holds_nobody_up(
    run: Run, tmp_path: Path, hanging: Hanging
) -> None:
    plan(run, tmp_path, 0)
    call = threading.Thread(target=run.reader.latestOffset, args=(run.end, None))
    call.start()
    try:
        assert hanging.reached.wait(PATIENCE)
        begun = time.monotonic()
        assert [row["body"] for row in run.read()] == BODIES
        assert run.status.receivers[0].subscribed
        run.reader.stop()
        assert seconds(begun) < 8
    finally:
        hanging.released.set()
        call.join(PATIENCE)
    assert not call.is_alive()


@pytest.mark.rule("1.8")
def test_one_that_does_not_answer_for_a_minute_fails_the_query(
    run: Run, tmp_path: Path, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_stomp.source.commits._UNREADABLE_AT_MOST", 0.3)
    plan(run, tmp_path, 0)
    with pytest.raises(CheckpointUnreadable, match="did not answer"):
        run.reader.latestOffset(run.end, None)
