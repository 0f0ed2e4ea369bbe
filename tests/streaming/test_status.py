"""What a query shows of itself under Spark: beside its checkpoint, and in its progress."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.spark import Recorder, Running, drains, stomp_stream
from support.waiting import wait_until

from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker
from spark_stomp.status import read_status, read_statuses

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


@pytest.mark.core
@pytest.mark.parametrize("other", [QUEUE, pytest.param("/queue/returns", marks=pytest.mark.soak)])
def test_two_sources_of_a_query_have_a_status_each(
    spark: SparkSession,
    devbroker: DevBroker,
    tmp_path: Path,
    other: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No option tells them apart. In the second run they have the same files, though it begins at once."""
    queues, seen = [QUEUE, other], Recorder()
    streams = [stomp_stream(spark, devbroker.url, queue, checkpointLocation=tmp_path) for queue in queues]
    frame = streams[0].union(streams[1])

    def rows() -> int:
        return sum(status["totals"]["rows"] for status in read_statuses(tmp_path))

    for run in (1, 2):
        for queue in queues:
            devbroker.publish_many(queue, BODIES)
        with Running(frame, tmp_path, seen) as running:
            running.wait(lambda run=run: len(seen.bodies) == 60 * run, what="the rows")
            running.wait(lambda: rows() == 60, what="the rows in both files")
            statuses = read_statuses(tmp_path)
            assert [(status["source"], status["running"]) for status in statuses] == [(1, True), (2, True)]
            assert len({status["pid"] for status in statuses}) == 2
            assert [list(status["receivers"]) for status in statuses] == [[f"{queue}#0"] for queue in queues]
            running.wait(lambda: main(["status", str(tmp_path), "--quiet"]) == 0, what="both connected")
            assert main(["status", str(tmp_path)]) == 0
            shown = capsys.readouterr().out
            assert f"{tmp_path.name}  running" in shown and f"{tmp_path.name}, source 2  running" in shown
            assert all(f"{queue}#0" in shown for queue in queues)
        names = sorted(path.name for path in (tmp_path / "spark_stomp").glob("status*.json"))
        assert names == ["status-2.json", "status.json"]
    wait_until(
        lambda: not any(status["running"] for status in read_statuses(tmp_path)), what="the end of both"
    )
