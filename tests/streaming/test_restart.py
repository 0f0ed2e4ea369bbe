"""Restarts on one checkpoint, after a clean stop and after SIGKILL: nothing is missing (contract 3)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.processes import descendants, stream_readers
from support.spark import Recorder, Running, drains, stomp_stream
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"
# A driver of its own starts a JVM, which takes its time on a busy machine.
START = 180
DRIVER = Path(__file__).with_name("driver.py")


def bodies(first: int, count: int) -> list[bytes]:
    return [b"order %04d" % number for number in range(first, first + count)]


def test_after_a_clean_stop_the_query_goes_on(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    seen = Recorder()
    for first in (0, 100, 200):
        devbroker.publish_many(QUEUE, bodies(first, 100))
        with Running(stomp_stream(spark, devbroker.url, QUEUE), tmp_path, seen) as running:
            running.wait(lambda first=first: set(bodies(0, first + 100)) <= set(seen.bodies), what="all rows")
        devbroker.wait_until(lambda: devbroker.connections == 0, what="the end of the receiver")
    assert set(seen.bodies) == set(bodies(0, 300))


@drains
def test_available_now_run_after_run_on_one_checkpoint(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    seen = Recorder()
    for first in (0, 60):
        devbroker.publish_many(QUEUE, bodies(first, 60))
        frame = stomp_stream(spark, devbroker.url, QUEUE, maxMessagesPerTrigger=25)
        with Running(frame, tmp_path, seen, availableNow=True) as running:
            running.finish()
        devbroker.wait_until(lambda: devbroker.connections == 0, what="the end of the receiver")
        assert devbroker.queue(QUEUE).depth == 0
    assert seen.bodies == bodies(0, 120)


def test_a_batch_that_failed_is_replayed_empty_and_its_messages_come_again(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish_many(QUEUE, bodies(0, 50))
    known: set[int] = set()

    def failing(batch: Any, batch_id: int) -> None:
        batch.count()
        known.add(batch_id)
        raise RuntimeError("the sink is down")

    with Running(stomp_stream(spark, devbroker.url, QUEUE), tmp_path, failing) as running:
        running.failure()
    devbroker.wait_until(lambda: devbroker.queue(QUEUE).unacked == 0, what="the messages given back")
    seen = Recorder()
    with Running(stomp_stream(spark, devbroker.url, QUEUE), tmp_path, seen) as running:
        running.wait(lambda: devbroker.queue(QUEUE).depth == 0, what="all ACKs")
    # The replayed batch id carries no rows: a sink that skips the ids it knows has skipped nothing.
    assert all(not seen.batches[batch_id] for batch_id in known)
    assert seen.bodies == bodies(0, 50)


@contextmanager
def driver(broker: DevBroker, tmp_path: Path, mode: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A driver process of its own, in a process group of its own."""
    (tmp_path / "output").mkdir(exist_ok=True)
    command = [sys.executable, str(DRIVER), broker.url, QUEUE]
    command += [str(tmp_path / "checkpoint"), str(tmp_path / "output"), mode, json.dumps(options)]
    support = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([support, *sys.path])}
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        if process.stdin is not None:
            process.stdin.close()


def written(tmp_path: Path) -> list[bytes]:
    texts = [path.read_text() for path in (tmp_path / "output").glob("batch-*")]
    return [line.encode() for text in texts for line in text.splitlines()]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("named", [False, True], ids=["plain", "checkpoint named"])
def test_after_sigkill_in_the_middle_of_a_batch_nothing_is_missing(
    devbroker: DevBroker, tmp_path: Path, named: bool
) -> None:
    options = {"checkpointLocation": str(tmp_path / "checkpoint")} if named else {}
    devbroker.publish_many(QUEUE, bodies(0, 200))
    with driver(devbroker, tmp_path, "stall", maxMessagesPerTrigger=80, **options) as first:
        wait_until(lambda: (tmp_path / "output" / "partial").exists(), START, "the middle of a batch")
        readers = stream_readers(first.pid)
        assert len(readers) == 1
        assert devbroker.queue(QUEUE).acked == 0
        for process in [*descendants(first.pid), first]:
            if process not in readers:
                process.send_signal(signal.SIGKILL)
        # The reader process notices the end of its input by itself.
        wait_until(lambda: not readers[0].is_running(), 20, "the end of the reader process")
    assert devbroker.queue(QUEUE).acked == 0
    devbroker.publish_many(QUEUE, bodies(200, 100))
    with driver(devbroker, tmp_path, "run", maxMessagesPerTrigger=80, **options) as second:
        wait_until(lambda: set(bodies(0, 300)) <= set(written(tmp_path)), START, "all rows")
        wait_until(lambda: devbroker.queue(QUEUE).depth == 0, 20, "all ACKs")
        assert second.stdin is not None
        second.stdin.write(b"stop\n")
        second.stdin.flush()
        second.wait(60)
    assert sorted(written(tmp_path)) == bodies(0, 300)
