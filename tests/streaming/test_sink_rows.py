"""What becomes of rows on their way through Spark: order, rows of the source, rows that cannot be sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.spark import stomp_stream
from support.waiting import PATIENCE

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE, OTHER = "/queue/a", "/queue/b"


def write(frame: DataFrame, url: str, **options: str) -> None:
    frame.write.format("stomp").options(url=url, **options).mode("append").save()


def stream(frame: DataFrame, checkpoint: Path, **options: str) -> None:
    """One run over what is there."""
    writer = (
        frame.writeStream.format("stomp").options(**options).option("checkpointLocation", str(checkpoint))
    )
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(int(PATIENCE))


@pytest.mark.rule("S.10")
def test_each_partition_arrives_in_its_order(spark: SparkSession, devbroker: DevBroker) -> None:
    numbers = spark.range(0, 4_000, 1, 4).selectExpr("spark_partition_id() AS p", "id")
    write(
        numbers.selectExpr("concat(p, ':', id) AS body"),
        devbroker.url,
        destination=QUEUE,
        receiptWindow="300",
    )
    arrived = [tuple(map(int, body.split(b":"))) for body in devbroker.bodies(QUEUE)]
    assert len(arrived) == 4_000
    for partition in range(4):
        ids = [number for where, number in arrived if where == partition]
        assert ids == sorted(ids) and len(ids) == 1_000


def test_a_batch_with_a_row_that_cannot_be_sent_is_not_tried_again(
    spark: SparkSession, devbroker: DevBroker
) -> None:
    """Spark tries a task that fails twice here; the rows before the bad one's slice arrive once."""
    bodies = spark.range(0, 250, 1, 1).selectExpr("IF(id = 230, NULL, cast(id AS string)) AS body")
    with pytest.raises(
        Exception, match=r"\[STOMP_SINK_ROW_INVALID\] row 230 of its partition .*body is null"
    ):
        write(bodies, devbroker.url, destination=QUEUE, receiptWindow="100")
    assert len(devbroker.bodies(QUEUE)) == 200


def test_columns_that_options_name(spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
    """On Spark 4.0 rows come one by one, and their types are made into Arrow here."""
    devbroker.publish_many(QUEUE, [b"1"])
    rows = stomp_stream(spark, devbroker.url, QUEUE).selectExpr(
        "cast(body AS string) AS body", "7 AS n", "cast(1.50 AS decimal(9,2)) AS d",
        "date'2026-01-02' AS day", "true AS persistent", "3 AS priority",
    )  # fmt: skip
    options = {"headerColumns": '["n", "d", "day"]', "dedupKey": '["body", "n"]'}
    stream(rows, tmp_path, url=devbroker.url, destination=OTHER, **options)
    (sent,) = spark.read.format("stomp").option("url", devbroker.url).load(OTHER).collect()
    found = [sent.headers[name] for name in ("n", "d", "day", "persistent", "priority")]
    assert found == ["7", "1.50", "2026-01-02", "true", "3"]
    assert len(sent.headers["dedup-id"]) == 32
