"""The sink under Spark: proved logins, its figures beside the source's, and no connection left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from support.spark import stomp_stream
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.status import prometheus, read_status

pytestmark = [pytest.mark.spark, pytest.mark.core]

QUEUE, ARCHIVE = "/queue/orders", "/queue/archive"
BODIES = [b"order %d" % number for number in range(30)]


def bridge(
    spark: SparkSession, url: str, sink: str, checkpoint: Path, where: str = "true", **options: str
) -> StreamingQuery:
    """A running query from one queue to another."""
    frame = stomp_stream(spark, url, QUEUE, checkpointLocation=checkpoint).where(where).select("body")
    writer = frame.writeStream.format("stomp").option("url", sink).option("destination", ARCHIVE)
    return writer.options(**options).option("checkpointLocation", str(checkpoint)).start()


@pytest.mark.rule("S.8")
def test_a_wrong_password_fails_a_batch_write_without_rows(spark: SparkSession) -> None:
    with DevBroker(users={"ada": "right"}) as guarded:
        writer = spark.createDataFrame([], "body binary").write.format("stomp").option("url", guarded.url)
        writer = writer.options(destination=ARCHIVE, login="ada", password="wrong").mode("append")
        with pytest.raises(PySparkException, match="STOMP_LOGIN_REFUSED"):
            writer.save()


@pytest.mark.rule("S.7", "S.8")
def test_a_query_leaves_no_connection_behind_and_shows_its_figures(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    with DevBroker() as target:
        query = bridge(spark, devbroker.url, target.url, tmp_path)
        for batch in range(3):
            devbroker.publish_many(QUEUE, BODIES)
            wait_until((tmp_path / "commits" / str(batch)).exists, what="the batch")
        path = tmp_path / "spark_stomp" / "status.json"
        wait_until(
            lambda: path.exists() and (read_status(path)["sink"] or {}).get("confirmed") == 90,
            what="the figures",
        )
        query.stop()
        status = read_status(path)
        assert status["sink"]["run"] == str(query.runId)
        assert status["sink"]["connections"] == target.connects
        wait_until(lambda: read_status(path)["totals"]["delivered"] == 90, what="the source's part")
        assert "spark_stomp_sink_confirmed_total" in prometheus(path)
        target.wait_until(lambda: target.connections == 0, PATIENCE, "the end of the connections")


@pytest.mark.rule("S.3")
def test_a_broker_that_is_away_between_batches_is_waited_for(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    with DevBroker() as target:
        port = target.port
        query = bridge(spark, devbroker.url, target.url, tmp_path)
        devbroker.publish_many(QUEUE, BODIES)
        target.wait_until(lambda: (tmp_path / "commits" / "0").exists(), PATIENCE, "the first batch")
    devbroker.publish_many(QUEUE, BODIES)
    wait_until(lambda: (tmp_path / "offsets" / "1").exists(), what="the second batch")
    with DevBroker(port=port) as target:
        target.wait_until(lambda: target.queue(ARCHIVE).enqueued == 30, PATIENCE, "the rows")
        assert query.exception() is None
        query.stop()
