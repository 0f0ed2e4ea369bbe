"""Batch reads look without consuming; batch and stream writes succeed only when the broker confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from support.spark import stomp_stream
from support.waiting import PATIENCE

from spark_stomp.devbroker import DevBroker

pytestmark = [pytest.mark.spark, pytest.mark.core]

QUEUE = "/queue/orders"
BODIES = [b"order %d" % number for number in range(30)]
# Of the columns that a look shows, those that the producer decides.
COLUMNS = ["body", "destination", "content_type"]


def orders(spark: SparkSession, destination: str, bodies: list[bytes]) -> DataFrame:
    """What a look at these messages shows."""
    rows = [(body, destination, None) for body in bodies]
    return spark.createDataFrame(rows, "body binary, destination string, content_type string")


def test_a_look_by_browsing_costs_nothing(spark: SparkSession, devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    frame = spark.read.format("stomp").option("url", devbroker.url).load(QUEUE)
    assert_df_equality(frame.select(COLUMNS), orders(spark, QUEUE, BODIES), ignore_nullable=True)
    view = devbroker.queue(QUEUE)
    assert (view.depth, view.delivered) == (len(BODIES), 0)


def test_every_column_arrives_at_the_broker(spark: SparkSession, devbroker: DevBroker) -> None:
    rows = [
        (b"\x00binary\xff", "/queue/a", "application/octet-stream", {"colour": "blue:green\n"}),
        (b"", "/queue/b", None, None),
    ]
    schema = "body binary, destination string, content_type string, headers map<string,string>"
    frame = spark.createDataFrame(rows, schema)
    frame.write.format("stomp").option("url", devbroker.url).mode("append").save()
    reader = spark.read.format("stomp").option("url", devbroker.url)
    read = reader.load("/queue/a").union(reader.load("/queue/b"))
    # The broker adds its own headers.
    compared = [*COLUMNS, "headers.colour"]
    assert_df_equality(read.select(compared), frame.select(compared), ignore_nullable=True)


def test_a_string_body_and_the_option_destination(spark: SparkSession, devbroker: DevBroker) -> None:
    frame = spark.createDataFrame([("Zoë", "/queue/ignored")], "body string, destination string")
    writer = frame.write.format("stomp").option("url", devbroker.url).option("destination", "/queue/real")
    writer.mode("append").save()
    assert devbroker.bodies("/queue/real") == ["Zoë".encode()]
    assert devbroker.bodies("/queue/ignored") == []


def test_names_in_any_case_and_times_without_a_zone(spark: SparkSession, devbroker: DevBroker) -> None:
    time = "TIMESTAMP_NTZ '2026-03-08 02:30:00' AS at"
    frame = spark.sql(f"SELECT 'x' AS BODY, '{QUEUE}' AS Destination, {time}")
    writer = frame.write.format("stomp").option("url", devbroker.url).option("headerColumns", "at")
    writer.mode("append").save()
    reader = spark.read.format("stomp").option("url", devbroker.url)
    schema = "Body string, RECEIVED_AT timestamp_ltz, Headers map<string,string>"
    (row,) = reader.schema(schema).load(QUEUE).collect()
    assert (row.Body, row.Headers["at"]) == ("x", "2026-03-08 02:30:00.000000")
    assert row.RECEIVED_AT is not None


class TestFailures:
    def test_complete_mode(self, spark: SparkSession, devbroker: DevBroker, tmp_path: Path) -> None:
        counts = stomp_stream(spark, devbroker.url, QUEUE).groupBy("body").count().select("body")
        writer = counts.writeStream.format("stomp").option("url", devbroker.url).outputMode("complete")
        query = writer.option("destination", QUEUE).option("checkpointLocation", str(tmp_path)).start()
        with pytest.raises(Exception, match=r"\[STOMP_UNSUPPORTED\].*update"):
            query.awaitTermination(int(PATIENCE))
