"""Restarts on one checkpoint, after a clean stop and after SIGKILL: nothing is missing (contract 3)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.drivers import START, SparkDriver
from support.processes import lives, stream_readers
from support.spark import Recorder, Running, drains, stomp_stream
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.status import read_statuses

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"


def bodies(first: int, count: int) -> list[bytes]:
    return [b"order %04d" % number for number in range(first, first + count)]


@pytest.mark.core
def test_after_a_clean_stop_the_query_goes_on(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    """It is stopped right after a batch. What was not proved committed is redelivered, nothing else."""
    seen = Recorder()
    for run in (1, 2, 3):
        devbroker.publish_many(QUEUE, bodies(100 * (run - 1), 100))
        with Running(stomp_stream(spark, devbroker.url, QUEUE), tmp_path, seen) as running:
            running.wait(lambda run=run: set(bodies(0, 100 * run)) <= set(seen.bodies), what="all rows")
        wait_until(lambda run=run: devbroker.disconnects == run, what="an orderly DISCONNECT")
    assert set(seen.bodies) == set(bodies(0, 300))
    assert devbroker.queue(QUEUE).acked + devbroker.queue(QUEUE).depth == 300
    assert devbroker.connects == 3
    wait_until(lambda: not stream_readers(), what="the end of the reader processes")


@pytest.mark.core
@drains
def test_available_now_run_after_run_on_one_checkpoint(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    seen = Recorder()
    for first in (0, 60):
        devbroker.publish_many(QUEUE, bodies(first, 60))
        frame = stomp_stream(spark, devbroker.url, QUEUE, maxMessagesPerTrigger=25, idleTimeout="1s")
        with Running(frame, tmp_path, seen, availableNow=True) as running:
            running.finish()
        wait_until(lambda: devbroker.connections == 0, what="the end of the receiver")
        assert devbroker.queue(QUEUE).depth == 0
    assert seen.bodies == bodies(0, 120)


@pytest.mark.core
@pytest.mark.rule("3.1")
def test_a_batch_that_failed_is_replayed_empty_and_its_messages_come_again(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish_many(QUEUE, bodies(0, 50))
    failed = Recorder(error="the sink is down")
    with Running(stomp_stream(spark, devbroker.url, QUEUE), tmp_path, failed) as running:
        running.failure()
    wait_until(lambda: devbroker.queue(QUEUE).unacked == 0, what="the messages given back")
    seen = Recorder()
    with Running(stomp_stream(spark, devbroker.url, QUEUE), tmp_path, seen) as running:
        running.wait(lambda: devbroker.queue(QUEUE).depth == 0, what="all ACKs")
    # The replayed batch id carries no rows: a sink that skips the ids it knows has skipped nothing.
    assert failed.bodies
    assert not any(seen.batches[batch_id] for batch_id in failed.batches)
    assert seen.bodies == bodies(0, 50)


@pytest.mark.core
@pytest.mark.rule("1.4")
def test_two_sources_with_the_checkpoint_named_are_acked_and_go_on(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    """Each finds its own end among those of the batch, and has a status. A failed batch is lost for both."""
    queues = [QUEUE, "/queue/returns"]
    sent = {queue: [b"%s %04d" % (queue.encode(), number) for number in range(150)] for queue in queues}

    def publish(queue: str, first: int, end: int) -> None:
        devbroker.publish_many(queue, sent[queue][first:end])

    def run(seen: Recorder) -> Running:
        one, two = (
            stomp_stream(spark, devbroker.url, queue, checkpointLocation=tmp_path) for queue in queues
        )
        return Running(one.union(two), tmp_path, seen)

    def all_acked(*counts: int) -> bool:
        views = [devbroker.queue(queue) for queue in queues]
        return [(view.acked, view.depth) for view in views] == [(count, 0) for count in counts]

    for queue in queues:
        publish(queue, 0, 50)
    failed, seen = Recorder(error="the sink is down"), Recorder()
    with run(failed) as running:
        assert "the sink is down" in running.failure()
    wait_until(lambda: devbroker.connections == 0, what="the end of the receivers")
    assert [devbroker.queue(queue).acked for queue in queues] == [0, 0]
    with run(seen) as running:
        running.wait(lambda: all_acked(50, 50), what="the ACKs of both queues")
        # A batch of one of them alone, and of the other alone.
        publish(queues[0], 50, 100)
        running.wait(lambda: all_acked(100, 50), what="the ACKs of the first queue")
        publish(queues[1], 50, 100)
        running.wait(lambda: all_acked(100, 100), what="the ACKs of the second queue")
    wait_until(lambda: devbroker.connections == 0, what="the end of the receivers")
    wait_until(lambda: not any(one["running"] for one in read_statuses(tmp_path)), what="their last status")
    for queue in queues:
        publish(queue, 100, 150)
    with run(seen) as running:
        running.wait(lambda: all_acked(150, 150), what="the ACKs of both queues")
        running.wait(lambda: [one["running"] for one in read_statuses(tmp_path)] == [True] * 2, what="status")
        # Each has one of its own, the same one in every run.
        statuses = read_statuses(tmp_path)
        assert [(one["source"], [*one["receivers"]]) for one in statuses] == [
            (1, [f"{queues[0]}#0"]), (2, [f"{queues[1]}#0"])
        ]  # fmt: skip
        assert len({one["pid"] for one in statuses}) == 2
    names = sorted(path.name for path in (tmp_path / "spark_stomp").glob("status*.json"))
    assert names == ["status-2.json", "status.json"]
    assert failed.bodies and not any(seen.batches[batch_id] for batch_id in failed.batches)
    assert sorted(seen.bodies) == sorted(sent[queues[0]] + sent[queues[1]])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "named",
    [pytest.param(False, id="plain"), pytest.param(True, id="checkpoint named", marks=pytest.mark.soak)],
)
def test_after_sigkill_in_the_middle_of_a_batch_nothing_is_missing(
    devbroker: DevBroker, tmp_path: Path, named: bool
) -> None:
    options = {"url": devbroker.url, "maxMessagesPerTrigger": "80", "logLevel": "info"}
    if named:
        options["checkpointLocation"] = str(tmp_path / "checkpoint")
    devbroker.publish_many(QUEUE, bodies(0, 200))
    with SparkDriver(tmp_path, "stall", QUEUE, options) as first:
        wait_until((first.output / "partial").exists, START, "the middle of a batch")
        assert devbroker.queue(QUEUE).acked == 0
        # The reader process notices the end of its input.
        first.kill_driver()
    assert devbroker.queue(QUEUE).acked == 0
    devbroker.publish_many(QUEUE, bodies(200, 100))
    with SparkDriver(tmp_path, "batches", QUEUE, options) as second:
        expected = {body.decode() for body in bodies(0, 300)}
        wait_until(lambda: expected <= set(second.rows()), START, "all rows")
        wait_until(lambda: devbroker.queue(QUEUE).depth == 0, what="all ACKs")
        second.stop()
    assert sorted(second.rows()) == sorted(expected)
    # Nobody sets up logging in Spark's Python processes.
    query = "checkpoint" if named else QUEUE
    line = rf"^[-\dT:.]+\+00:00 INFO query={query} receiver={QUEUE}#0: subscribed to {QUEUE} at "
    log = (tmp_path / "log").read_text(errors="replace")
    assert len(re.findall(line, log, re.MULTILINE)) == 2, log


@pytest.mark.soak  # unit/source/test_parent_watch.py has it without Spark
@pytest.mark.timeout(600)
def test_a_reader_that_waits_does_not_outlive_its_jvm(devbroker: DevBroker, tmp_path: Path) -> None:
    options = {"url": devbroker.url, "idleTimeout": "60s", "journal": str(tmp_path / "journal")}
    with SparkDriver(tmp_path, "available", QUEUE, options) as driver:
        wait_until(lambda: devbroker.connections == 1, START, "the reader, which waits for messages")
        reader = driver.kill_jvm()
        wait_until(lambda: not lives(reader), 10, "its end")
        assert devbroker.disconnects == 1
        # The journal is free.
        driver.start()
        wait_until(lambda: devbroker.connections == 1, START, "the next reader")
