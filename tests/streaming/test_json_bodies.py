"""``body STRUCT<...>`` under Spark: the source decodes JSON, and ``rescued`` has whole what does not fit."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from support.spark import Running

from spark_stomp import dead_letters
from spark_stomp.devbroker import DevBroker

pytestmark = [pytest.mark.spark, pytest.mark.core]

QUEUE, DEAD = "/queue/orders", "/queue/orders.dead"
FIELDS = (
    "id: BIGINT, price: DOUBLE, few: FLOAT, amount: DECIMAL(10,2), day: DATE, at: TIMESTAMP, "
    "local: TIMESTAMP_NTZ, there: BOOLEAN, small: TINYINT, tags: MAP<STRING, SMALLINT>, "
    "lines: ARRAY<STRUCT<article: STRING, count: INT>>, any: VARIANT"
)
SCHEMA = (
    "destination STRING, headers MAP<STRING, STRING>, "
    f"body STRUCT<{FIELDS}>, rescued BINARY, malformed STRING"
)
FULL = (
    b'{"tags":{"a":1,"b":null},"lines":[{"article":"x \\"y\\"","count":2},{}],"id":7,"price":2.5,"few":0.5,'
    b'"amount":12.30,"day":"2026-11-29","at":"2026-11-29T12:00:00+01:00","local":"2026-11-29T12:00:00",'
    b'"there":true,"small":-1,"any":{"k":[1,"x",null]}}'
)
BAD = [b'{"id":"x","price":1}', b"[]", b'{"id":1} {"id":2}']
EXPECTED = {
    "id": 7,
    "price": 2.5,
    "few": 0.5,
    "amount": Decimal("12.30"),
    "day": date(2026, 11, 29),
    "local": datetime(2026, 11, 29, 12),
    "there": True,
    "small": -1,
    "lines": [{"article": 'x "y"', "count": 2}, {"article": None, "count": None}],
    "tags": {"a": 1, "b": None},
}


def options(broker: DevBroker) -> dict[str, str]:
    return {"url": broker.url, "destination": QUEUE, "idleTimeout": "300ms"}


def check(rows: list[Row]) -> None:
    found = {bytes(row.rescued) if row.rescued is not None else None: row for row in rows}
    assert set(found) == {None, *BAD}
    value = found[None].body.asDict(recursive=True)
    at = value.pop("at").astimezone(timezone.utc)
    assert value.pop("any").toPython() == {"k": [1, "x", None]}
    assert value == EXPECTED
    assert at == datetime(2026, 11, 29, 11, tzinfo=timezone.utc)
    assert found[None].malformed is None
    assert [found[body].malformed for body in BAD] == [
        "id is a string that does not fit bigint",
        "the body is a list, fields were expected",
        "more than one document",
    ]
    assert (found[BAD[0]].body.id, found[BAD[0]].body.price) == (None, 1.0)
    assert [found[body].body for body in BAD[1:]] == [None, None]


def test_a_batch_read(spark: SparkSession, devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [FULL, *BAD])
    check(spark.read.format("stomp").options(**options(devbroker)).schema(SCHEMA).load().collect())


@pytest.mark.parametrize("journal", [False, True])
def test_a_stream_sends_what_does_not_fit_away(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path, journal: bool
) -> None:
    devbroker.publish_many(QUEUE, [FULL, *BAD])
    more = {"journal": str(tmp_path / "journal")} if journal else {}
    frame = spark.readStream.format("stomp").options(**options(devbroker), **more).schema(SCHEMA).load()
    kept = str(tmp_path / "kept")

    # Over Spark Connect it runs in another process.
    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(kept)

    send = dead_letters(write, DEAD, url=devbroker.url)
    with Running(frame, tmp_path / "run", send, availableNow=True) as running:
        running.finish()
    assert sorted(devbroker.bodies(DEAD)) == sorted(BAD)
    dead = spark.read.format("stomp").options(**{**options(devbroker), "destination": DEAD}).schema(SCHEMA)
    reasons = {row.headers["dead-letter-reason"]: row for row in dead.load().collect()}
    check([*spark.read.parquet(kept).collect(), *reasons.values()])
    assert set(reasons) == {row.malformed for row in reasons.values()}


def test_each_element_of_a_list_is_a_row_by_explode(spark: SparkSession, devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [b'[{"n":1},{"n":2}]', b'[{"n":3},{"n":"x"}]', b"[]"])
    source = spark.read.format("stomp").options(**options(devbroker))
    frame = source.schema("body ARRAY<STRUCT<n: INT>>, rescued BINARY").load()
    rows = frame.selectExpr("inline_outer(body)", "CAST(rescued AS STRING) AS r").collect()
    assert sorted((row.n or 0, row.r or "") for row in rows) == [
        (0, "[]"),
        (0, '[{"n":3},{"n":"x"}]'),
        (1, ""),
        (2, ""),
    ]


def test_a_view_of_sql(spark: SparkSession, devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [FULL])
    listed = ", ".join(f"{key} '{value}'" for key, value in options(devbroker).items())
    spark.sql(f"CREATE TEMPORARY VIEW typed ({SCHEMA}) USING stomp OPTIONS ({listed})")
    try:
        assert [tuple(row) for row in spark.sql("SELECT body.id, rescued FROM typed").collect()] == [
            (7, None)
        ]
    finally:
        spark.catalog.dropTempView("typed")


def test_without_the_column_of_what_does_not_fit_it_is_refused(
    spark: SparkSession, devbroker: DevBroker
) -> None:
    source: Any = spark.read.format("stomp").options(**options(devbroker))
    with pytest.raises(Exception, match=r"a body of fields needs the column `rescued binary`"):
        source.schema("body STRUCT<a: INT>").load().collect()
