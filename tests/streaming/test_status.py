"""What a query shows of itself under Spark: beside its checkpoint, and in its progress."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.spark import Recorder, Running, drains, stomp_stream
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.status import read_status

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"
BODIES = [b"order %d" % number for number in range(30)]


@pytest.mark.core
def test_the_status_file_is_beside_the_checkpoint_until_the_end(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    seen, path = Recorder(), tmp_path / "spark_stomp" / "status.json"
    frame = stomp_stream(spark, devbroker.url, QUEUE, checkpointLocation=tmp_path)
    with Running(frame, tmp_path, seen) as running:
        running.wait(lambda: path.exists() and read_status(path)["totals"]["rows"] == 30, what="the rows")
        status = read_status(path)
        assert status["running"]
        assert status["query"] == tmp_path.name
        assert status["totals"]["unacked"] == 0
        assert status["receivers"][f"{QUEUE}#0"]["delivered"] == 30
    # Spark ends the reader's process by a signal; the last line is written all the same.
    wait_until(lambda: not read_status(path)["running"], what="the end in the status file")
    assert not read_status(path)["unfinished"]


@drains
def test_the_progress_has_it_and_the_offsets_do_not(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    seen = Recorder()
    frame = stomp_stream(spark, devbroker.url, QUEUE, maxMessagesPerTrigger=10)

    def shown() -> list[dict[str, Any]]:
        return [json.loads(one.json)["sources"][0]["latestOffset"] for one in running.query.recentProgress]

    with Running(frame, tmp_path, seen) as running:
        running.wait(lambda: seen.bodies == BODIES, what="the rows")
        running.wait(lambda: any(one["status"]["totals"]["rows"] == 30 for one in shown()), what="progress")
        latest = shown()[-1]
    assert latest["offset"]["logs"]["memory"]["next"] == 30
    assert latest["status"]["totals"]["delivered"] == 30
    for entry in (tmp_path / "offsets").glob("[0-9]*"):
        assert "status" not in entry.read_text(encoding="utf-8")
