"""Contract 1: ACK after the commit, never before, and without waiting for new data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from support.spark import Recorder, Running, classic_only, single_batch, stomp_stream
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = [pytest.mark.spark, pytest.mark.core]

QUEUE = "/queue/orders"
BODIES = [b"order %d" % number for number in range(50)]


def everything_acked(broker: DevBroker, count: int = len(BODIES)) -> bool:
    view = broker.queue(QUEUE)
    return view.acked == count and view.depth == 0


@pytest.mark.rule("5.1")
def test_default_trigger_acks_an_idle_queues_only_batch(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    seen = Recorder()
    with Running(stomp_stream(spark, devbroker.url, QUEUE), tmp_path, seen) as running:
        running.wait(lambda: running.committed(0), what="the commit of batch 0")
        wait_until(lambda: everything_acked(devbroker), what="the ACK of the only batch")
    assert sorted(seen.bodies) == sorted(BODIES)


@pytest.mark.rule("1.5", "5.1")
@pytest.mark.parametrize("trigger", [{"once": True}, {"processingTime": "1000 hours"}], ids=str)
def test_with_the_checkpoint_named_no_further_call_is_needed(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path, trigger: dict[str, object]
) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    seen = Recorder()
    frame = stomp_stream(spark, devbroker.url, QUEUE, checkpointLocation=tmp_path)
    with Running(frame, tmp_path, seen, **trigger) as running:
        running.wait(lambda: running.committed(0), what="the commit of batch 0")
        wait_until(lambda: everything_acked(devbroker), what="the ACK of the batch")
    assert sorted(seen.bodies) == sorted(BODIES)


@pytest.mark.rule("1.6")
def test_a_location_is_read_as_spark_reads_it(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    """Neither is %20 a blank, nor need the folder before ``..`` exist."""
    devbroker.publish_many(QUEUE, BODIES)
    location = Path(f"file:{tmp_path}/missing/../check%20point")
    frame = stomp_stream(spark, devbroker.url, QUEUE, checkpointLocation=location)
    with Running(frame, location, Recorder(), processingTime="1000 hours") as running:
        running.wait(lambda: everything_acked(devbroker), what="the ACKs")
    assert (tmp_path / "check%20point/commits/0").exists()


@pytest.mark.rule("1.1")
@classic_only("a foreachBatch function runs in another process, and cannot ask this one's broker")
def test_nothing_is_acked_while_its_batch_runs(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    acked_before, acked_during = [], []

    def sink(batch: DataFrame, batch_id: int) -> None:
        acked_before.append(sum(acked_during[-1:]))
        count = batch.count()
        acked_during.append(count)
        # Everything that was ACKed so far belongs to earlier batches.
        assert devbroker.queue(QUEUE).acked <= sum(acked_during) - count

    frame = stomp_stream(spark, devbroker.url, QUEUE, maxMessagesPerTrigger=10)
    with Running(frame, tmp_path, sink) as running:
        running.wait(lambda: everything_acked(devbroker), what="all ACKs")
    assert acked_during == [10] * 5


def test_once_without_the_checkpoint_named_loses_nothing(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    seen = Recorder()
    with Running(stomp_stream(spark, devbroker.url, QUEUE), tmp_path, seen, once=True) as running:
        running.finish()
    wait_until(lambda: devbroker.connections == 0, what="the end of the receiver")
    assert sorted(seen.bodies) == sorted(BODIES)
    assert devbroker.queue(QUEUE).acked == 0
    assert devbroker.bodies(QUEUE) == BODIES


@single_batch
def test_available_now_before_42_is_one_batch_that_the_named_checkpoint_acks(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    seen = Recorder()
    frame = stomp_stream(spark, devbroker.url, QUEUE, maxMessagesPerTrigger=20, checkpointLocation=tmp_path)
    with Running(frame, tmp_path, seen, availableNow=True) as running:
        running.finish()
        wait_until(lambda: devbroker.queue(QUEUE).acked == 20, what="the ACK of the batch")
    assert seen.bodies == BODIES[:20]


@contextmanager
def asynchronous_progress(
    spark: SparkSession, broker: DevBroker, checkpoint: Path, table: str, interval: int
) -> Iterator[StreamingQuery]:
    """A burst of five times what the broker sends un-acked, into a table in memory."""
    broker.publish_many(QUEUE, BODIES)
    frame = stomp_stream(spark, broker.url, QUEUE, prefetch=10, checkpointLocation=checkpoint)
    writer = frame.writeStream.format("memory").queryName(table).option("checkpointLocation", str(checkpoint))
    writer = writer.option("asyncProgressTrackingEnabled", "true")
    query = writer.option("asyncProgressTrackingCheckpointIntervalMs", str(interval)).start()
    try:
        yield query
    finally:
        query.stop()


@pytest.mark.rule("1.4")
def test_asynchronous_progress_with_every_batch_logged(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    with asynchronous_progress(spark, devbroker, tmp_path, "every_batch", 0) as query:
        wait_until(lambda: everything_acked(devbroker) or query.exception(), what="all ACKs")
        assert query.exception() is None
        rows = spark.table("every_batch").select("body").collect()
    assert [bytes(row.body) for row in rows] == BODIES


@pytest.mark.rule("1.6")
def test_asynchronous_progress_that_leaves_batches_out_is_refused_by_name(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    # The default is a second, which a busy machine may need for a batch.
    with asynchronous_progress(spark, devbroker, tmp_path, "some_batches", 60_000) as query:
        wait_until(query.exception, what="the refusal")
        failure = str(query.exception())
    assert "[STOMP_UNSUPPORTED]" in failure
    assert "asyncProgressTrackingCheckpointIntervalMs=0" in failure
    assert devbroker.queue(QUEUE).acked < len(BODIES)
