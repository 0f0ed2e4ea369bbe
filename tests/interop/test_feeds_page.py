"""The feeds of docs/reading.md on ActiveMQ, which they are: its program, with generated messages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rail import Message, calls, movements
from support.brokers.fixtures import BrokerPool
from support.driven import send_messages
from support.pages import READING, programs
from support.waiting import wait_until

from spark_stomp.status import read_status

(MOVEMENTS,) = programs(READING, "Feeds")
ALL = "/topic/TRAIN_MVT_ALL_TOC"


@pytest.mark.broker
@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(330)
def test_movements_also_those_that_were_sent_while_the_query_was_away(
    broker_pool: BrokerPool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = broker_pool.get("activemq")
    monkeypatch.setenv("FEED_LOGIN", broker.credentials["login"])
    monkeypatch.setenv("FEED_PASSWORD", broker.credentials["password"])
    program = re.sub(r'"url", "[^"]*"', f'"url", "{broker.url}"', MOVEMENTS)
    program = program.replace('"/data', f'"{tmp_path}').replace("10 seconds", "1 second")
    status = tmp_path / "checkpoints/movements/spark_stomp/status.json"

    def send(messages: Iterable[Message]) -> None:
        """None of them expires."""
        send_messages(
            broker.options(),
            ((ALL, one.body, {**dict(one.headers), "expires": "0"}.items()) for one in messages),
        )

    def run(messages: Iterable[Message]) -> None:
        """Send these once the query is subscribed, and end it when all is acknowledged."""
        names: dict[str, Any] = {"__name__": "__main__", "spark": spark, "os": os}
        exec(compile(program, "reading.md", "exec"), names)
        query = names["query"]

        def subscribed() -> bool:
            assert query.isActive, query.exception()
            said = read_status(status) if status.exists() else {"running": False}
            return said["running"] and all(one["connected_since"] for one in said["receivers"].values())

        wait_until(subscribed, what="the subscription")
        send(messages)
        broker.wait_for(ALL, ready=0, unacked=0)
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
        (one.operator.toc_id, one.train_id, round(one.actual.timestamp() * 1000), True) for one in trains
    ]
    assert sorted(map(tuple, found)) == sorted(expected)
