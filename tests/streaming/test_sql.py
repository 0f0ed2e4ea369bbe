"""The SQL of docs/reading.md: each block runs as it stands there, but on a dev broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from support.pages import READING, programs

from spark_stomp.devbroker import DevBroker

pytestmark = [pytest.mark.spark, pytest.mark.core]

URL = "stomp://localhost:61613"
QUEUE = "/queue/orders"
BODIES = [b"order %d" % number for number in range(5)]


def blocks(language: str) -> list[str]:
    return programs(READING, "SQL", language)


def statements() -> list[str]:
    """Those of all blocks, in their order."""
    return [text.strip() for block in blocks("sql") for text in block.split(";") if text.strip()]


@pytest.fixture
def sql(spark: SparkSession, devbroker: DevBroker) -> Iterator[Any]:
    """Runs a statement of the page on a queue of five messages; the tables and views are gone afterwards."""
    devbroker.publish_many(QUEUE, BODIES)

    def run(statement: str) -> list[Row]:
        return spark.sql(statement.replace(URL, devbroker.url)).collect()

    yield run
    for view in ("orders", "texts", "replies", "live"):
        spark.catalog.dropTempView(view)
    for table in ("messages", "t"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def test_every_statement_of_the_page(sql: Any, devbroker: DevBroker) -> None:
    seen = {statement: sql(statement) for statement in statements()}
    selected = [rows for statement, rows in seen.items() if statement.startswith("SELECT")]
    assert [len(rows) for rows in selected] == [5, 5, 1]
    assert {row.body for row in selected[0]} == {row.body for row in selected[1]}
    assert selected[2] == [Row(5)]
    sent = [b"hello", b"again", *BODIES]
    assert sorted(devbroker.bodies("/queue/replies")) == sorted(sent)
    assert devbroker.bodies("/queue/bytes") == [b"\x00\xff"]
    # To look has cost nothing.
    assert devbroker.bodies(QUEUE) == BODIES


def test_a_table_without_columns_gets_those_of_the_source(sql: Any) -> None:
    sql("CREATE TABLE t USING stomp")
    assert len(sql(f"SELECT * FROM t WITH (url = '{URL}', destination = '{QUEUE}')")) == len(BODIES)


def test_a_stream_goes_on_in_sql(spark: SparkSession, devbroker: DevBroker) -> None:
    (block,) = (block for block in blocks("python") if "readStream" in block)
    devbroker.publish(QUEUE, b"one", headers=[("region", "north")])
    names: dict[str, Any] = {"spark": spark}
    exec(block.replace(URL, devbroker.url), names)
    try:
        names["query"].processAllAvailable()
        assert spark.sql("SELECT * FROM by_region").collect() == [Row(region="north", orders=1)]
    finally:
        names["query"].stop()
        spark.catalog.dropTempView("live")


class TestWhatDoesNotWork:
    """The page says so of each; if Spark can do it one day, the page is out of date."""

    def test_a_table_hands_over_none_of_its_options(self, sql: Any) -> None:
        with pytest.raises(Exception, match=r"STOMP_OPTIONS_INVALID.*a table keeps no options"):
            sql(f"CREATE TABLE t USING stomp OPTIONS (url '{URL}', path '{QUEUE}')")
        sql(f"CREATE TABLE t (body STRING) USING stomp OPTIONS (url '{URL}', path '{QUEUE}')")
        with pytest.raises(Exception, match="a table keeps no options"):
            sql("SELECT * FROM t")

    def test_a_view_ignores_options_of_the_query(self, sql: Any) -> None:
        sql(statements()[0])
        assert len(sql("SELECT * FROM orders WITH (maxMessages = '2')")) == 5

    def test_a_format_is_no_place(self, sql: Any) -> None:
        with pytest.raises(Exception, match="UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"):
            sql(f"SELECT * FROM stomp.`{QUEUE}`")

    def test_a_view_is_no_stream(self, sql: Any) -> None:
        sql(statements()[0])
        # Spark 4.0 does not know the word at all.
        with pytest.raises(Exception, match=r"not a temp view of streaming|UNRESOLVED_COLUMN"):
            sql("SELECT * FROM STREAM(orders)")

    def test_what_was_sent_cannot_be_replaced(self, sql: Any) -> None:
        create = next(statement for statement in statements() if "VIEW replies" in statement)
        sql(create)
        with pytest.raises(Exception, match=r"append|overwrite"):
            sql("INSERT OVERWRITE replies VALUES ('hello')")
