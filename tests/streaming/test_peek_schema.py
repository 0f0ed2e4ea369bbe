"""What ``spark-stomp peek --schema`` prints, given to a query on the same queue."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from support.commands import Command, command
from support.ddl import Printed, printed_schema
from support.documents import Producer
from support.spark import stomp_stream
from support.waiting import PATIENCE

from spark_stomp.devbroker import DevBroker
from spark_stomp.spark.json_schema import json_problems, json_type

__all__ = ["command"]

pytestmark = [pytest.mark.spark, pytest.mark.core]

QUEUE = "/queue/orders"
MIX = "variant_get(body.mix, '$', 'string') AS mix"
FIT = [
    '{"id": 1, "order": "a", "at": "2026-11-29T12:00:00+01:00", "x y": {"`": [1, 2.5]}, "Id": true}',
    '{"id": 9223372036854775808, "day": "2026-11-29", "lines": [{"n": 1}, {"é": null}], "": 0.1, "\\n": []}',
    '{"price": 0.12345678901234567891, "local": "2026-11-29T12:00", "-- \\\\": {}, "\\"\\"\\"": false}',
    '{"mix": 1}',
    '{"mix": "a"}',
]


def schema_of(devbroker: DevBroker, command: Command) -> Printed:
    done = command("peek", devbroker.url, QUEUE, "--schema")
    assert (done.code, done.err) == (0, "")
    return printed_schema(done.out)


@pytest.fixture(params=["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def timestamp_type(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """What TIMESTAMP means in this session."""
    before = spark.conf.get("spark.sql.timestampType")
    assert before is not None
    spark.conf.set("spark.sql.timestampType", request.param)
    yield
    spark.conf.set("spark.sql.timestampType", before)


@pytest.mark.usefixtures("timestamp_type")
def test_a_stream_rescues_none_of_the_messages(
    spark: SparkSession, devbroker: DevBroker, command: Command, tmp_path: Path
) -> None:
    """Whatever TIMESTAMP means in its session."""
    devbroker.publish_many(QUEUE, [body.encode() for body in FIT])
    ddl = schema_of(devbroker, command).ddl
    frame = stomp_stream(spark, devbroker.url, QUEUE, ddl, idleTimeout="1s")
    query = (
        frame.selectExpr(
            "body.`x y`.```` AS prices",
            "body.lines[1].`é` AS e",
            MIX,
            "typeof(body.at) AS at",
            "rescued",
            "malformed",
        )
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "run"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE)
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert {row.at for row in rows} == {"timestamp"}
    assert sorted((row.prices or [], row.mix or "", row.e, row.rescued, row.malformed) for row in rows) == [
        ([], "", None, None, None),
        ([], "", None, None, None),
        ([], "1", None, None, None),
        ([], "a", None, None, None),
        ([1.0, 2.5], "", None, None, None),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_spark_reads_it_as_it_is_meant(
    spark: SparkSession, devbroker: DevBroker, command: Command, seed: int
) -> None:
    """Whatever the names are; the bodies that are rescued are those that the comments name."""
    bodies = Producer(random.Random(seed)).bodies(30)
    devbroker.publish_many(QUEUE, [body.encode() for body in bodies])
    printed = schema_of(devbroker, command)
    kind = StructType.fromDDL(printed.ddl)["body"].dataType
    assert [*json_problems(kind)] == []
    assert json_type(kind) == printed.columns["body"].arrow()
    source = spark.read.format("stomp").options(url=devbroker.url, idleTimeout="300ms").schema(printed.ddl)
    rows = source.load(QUEUE).select("rescued", "malformed").collect()
    assert len(rows) == len(bodies)
    begin = printed.comments[0].split()
    others = int(begin[3]) - int(begin[1]) if begin[2] == "of" and begin[4] == "messages" else 0
    rescued = [row.malformed for row in rows if row.rescued is not None]
    named = [reason for reason in rescued if "has other fields" in reason]
    assert len(rescued) - len(named) == others
    assert "left out" in printed.ddl or not named
