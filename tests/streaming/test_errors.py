"""Contract 7 and bad input: a code and the thing's name in the query's exception text, messages untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.processes import stream_readers
from support.release import spark_release
from support.spark import Recorder, Running, stomp_stream
from support.waiting import PATIENCE

from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"
PASSWORD = "correct horse battery staple"


def test_a_reader_process_that_was_killed_is_told_by_the_status(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that Spark has is the end of a socket: EOFException or SocketException, without a sentence."""
    devbroker.publish(QUEUE, b"one")
    seen, killed = Recorder(), tmp_path / "killed"
    frame = stomp_stream(spark, devbroker.url, QUEUE, checkpointLocation=killed)
    with Running(frame, killed, seen) as running:
        running.wait(lambda: seen.bodies, what="the first message")
        (reader,) = stream_readers()
        reader.kill()
        assert "STOMP_" not in running.failure()
    assert main(["status", "--once", str(killed)]) == 1
    assert "gone: its process has ended without a word" in capsys.readouterr().out


def test_secrets_are_in_no_plan(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor in the progress, or in the checkpoint, the status and the journal that are written."""
    token = "a-t0ken-for-a-proxy"
    given = {
        "password": PASSWORD,
        "secretConnectHeaders": json.dumps({"x-token": token}),
        "journal": f"{tmp_path}/journal",
        "statusFile": f"{tmp_path}/status.json",
        "frameServerTls": "true",
        "logLevel": "debug",
    }
    with DevBroker(users={"ada": PASSWORD}) as broker:
        broker.publish(QUEUE, b"one")
        seen = Recorder()
        frame = stomp_stream(spark, broker.url, QUEUE, login="ada", **given)
        with Running(frame, tmp_path, seen) as running:
            running.wait(lambda: seen.bodies, what="the first message")
            running.query.explain(extended=True)
            frame.explain(extended=True)
            progress = str(running.query.recentProgress)
    plan = capfd.readouterr().out
    assert "stomp" in plan, "no plan was printed: this test proves nothing"
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"offsets", "journal"} <= {path.parent.name for path in written}
    places = {**written, "plan": plan.encode(), "progress": progress.encode()}
    secrets = (PASSWORD, token, "PRIVATE KEY", "BEGIN CERTIFICATE", "Bearer")
    found = [
        (place, secret) for place, text in places.items() for secret in secrets if secret.encode() in text
    ]
    assert found == []


@pytest.mark.skipif(spark_release() < (4, 2), reason="before Spark 4.2 not every session has real-time mode")
@pytest.mark.parametrize(
    ("trigger", "refusal"),
    [
        ({"realTime": "5 minutes"}, "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED"),
        ({"continuous": "1 second"}, "Data source stomp does not support continuous processing"),
    ],
    ids=["real-time mode", "continuous processing"],
)
def test_a_trigger_that_takes_no_python_source_is_refused_before_anything_is_read(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path, trigger: dict[str, str], refusal: str
) -> None:
    devbroker.publish(QUEUE, b"one")
    writer = stomp_stream(spark, devbroker.url, QUEUE).writeStream.format("console").trigger(**trigger)
    writer = writer.outputMode("update" if "realTime" in trigger else "append")
    with pytest.raises(PySparkException) as refused:
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination(int(PATIENCE))
    assert refusal in str(refused.value)
    assert devbroker.connections == 0
    assert devbroker.queue(QUEUE).delivered == 0
    # Of a query that it refuses in real-time mode, Spark leaves the reader process behind.
    for reader in stream_readers():
        reader.kill()
