"""What a query says it waits for, if that is Spark. unit/source/test_waiting.py has every sentence."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.release import spark_release
from support.spark import Running, classic_only, stomp_stream

from spark_stomp.devbroker import DevBroker
from spark_stomp.status import read_status

pytestmark = [pytest.mark.spark, classic_only("the sink of these tests is in this process")]

QUEUE = "/queue/orders"


def wait_for(running: Running, begin: str) -> dict[str, Any]:
    """The status, once its ``waiting_for`` begins so."""
    path, found = running.checkpoint / "spark_stomp" / "status.json", dict[str, Any]()

    def says() -> bool:
        found.update(read_status(path) if path.exists() else {})
        return str(found.get("waiting_for")).startswith(begin)

    running.wait(says, what=begin, every=0.1)
    assert found["waiting_since"] is not None
    return found


def test_spark_works_and_memory_is_full(spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
    free = threading.Event()

    def sink(batch: DataFrame, batch_id: int) -> None:
        batch.count()
        free.wait(60)

    devbroker.publish_many(QUEUE, [b"x" * 50_000] * 100)
    options = {"checkpointLocation": tmp_path, "maxBufferedBytes": "1m"}
    with Running(stomp_stream(spark, devbroker.url, QUEUE, **options), tmp_path, sink) as running:
        status = wait_for(running, "Spark, in batch 0 of ")
        assert status["batch_since"] is not None and status["last_commit_at"] is None
        wait_for(running, status["waiting_for"].partition(";")[0] + "; memory is full (maxBufferedBytes)")
        free.set()
        status = wait_for(running, "the broker: nothing un-acked and nothing new")
        assert status["batch_since"] is None
        assert status["last_commit_at"] is not None
        assert status["totals"]["received_per_second"] > 0
        if spark_release() >= (4, 2):
            (source,) = running.query.lastProgress["sources"]
            assert "waiting_for" in json.loads(source["latestOffset"])["status"]


@pytest.mark.soak
def test_the_trigger(spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
    devbroker.publish(QUEUE, b"one")
    frame = stomp_stream(spark, devbroker.url, QUEUE, checkpointLocation=tmp_path)
    with Running(frame, tmp_path, lambda batch, _: None, processingTime="1 hour") as running:
        wait_for(running, "the broker: nothing un-acked")
        devbroker.publish_many(QUEUE, [b"one"] * 7)
        wait_for(running, "Spark's next trigger: 7 messages wait for it")
