"""The query of ``notebooks/04_rail_feed.ipynb`` on ActiveMQ, as the real feeds are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rail import OPERATORS, Message, calls, movements
from run_notebooks import NOTEBOOKS, read
from support.brokers.fixtures import BrokerPool
from support.driven import send_messages
from support.waiting import wait_until

from spark_stomp.status import read_status

TOPICS = sorted(operator.topic for operator in OPERATORS)


def recorder(names: dict[str, Any]) -> Callable[[], StreamingQuery]:
    """The function of the notebook that starts the query, with what its other cells have set."""
    (path,) = (path for path in NOTEBOOKS if path.name == "04_rail_feed.ipynb")
    (cell,) = (cell.source for cell in read(path).cells if "def record():" in cell.source)
    exec(compile(cell.partition("def kept(")[0], path.name, "exec"), names)
    record: Callable[[], StreamingQuery] = names["record"]
    return record


@pytest.mark.broker
@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(330)
def test_movements_also_those_that_were_sent_while_the_query_was_away(
    broker_pool: BrokerPool, spark: SparkSession, tmp_path: Path
) -> None:
    broker = broker_pool.get("activemq")
    feed = SimpleNamespace(broker=SimpleNamespace(url=broker.url))
    login, password = broker.credentials["login"], broker.credentials["password"]
    set_before = {"LOGIN": login, "PASSWORD": password, "FOLDER": tmp_path, "network_rail": feed}
    record = recorder({"spark": spark, "json": json, "OPERATORS": OPERATORS, **set_before})
    status = tmp_path / "checkpoint/spark_stomp/status.json"

    def send(messages: Iterable[Message]) -> None:
        """None of them expires."""
        send_messages(
            broker.options(),
            ((one.destination, one.body, {**dict(one.headers), "expires": "0"}.items()) for one in messages),
        )

    def run(messages: Iterable[Message]) -> None:
        """Send these once the query is subscribed, and end it when all is acknowledged."""
        query = record()

        def subscribed() -> bool:
            assert query.isActive, query.exception()
            said = read_status(status) if status.exists() else {"running": False}
            return said["running"] and all(one["connected_since"] for one in said["receivers"].values())

        wait_until(subscribed, what="the subscriptions")
        send(messages)
        for topic in TOPICS:
            broker.wait_for(topic, ready=0, unacked=0)
        assert query.isActive, query.exception()
        query.stop()

    trains = calls(datetime(2026, 3, 2, 6, 0, tzinfo=timezone.utc), 20, failure=(5, 10))
    messages = list(movements(trains))
    first, last = messages[0].sent + timedelta(minutes=10), messages[0].sent + timedelta(minutes=15)
    run(one for one in messages if one.sent <= first)
    send(one for one in messages if first < one.sent <= last)
    run(one for one in messages if one.sent > last)

    table = spark.read.parquet(str(tmp_path / "movements"))
    found = table.selectExpr("operator", "train", "unix_millis(happened)", "late >= 0").collect()
    expected = [
        (one.operator.code, one.train_id, round(one.actual.timestamp() * 1000), True) for one in trains
    ]
    assert sorted(map(tuple, found)) == sorted(expected)
