"""The feeds of docs/reading.md on ActiveMQ, which they are: its program, with generated messages."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rail import Call, Message, calls, movements
from support.brokers import Broker
from support.brokers.fixtures import BrokerPool
from support.driven import publish
from support.options import source_options
from support.pages import READING, programs
from support.receivers import running
from support.waiting import wait_until

from spark_stomp.status import read_status

pytestmark = pytest.mark.broker

(MOVEMENTS,) = programs(READING, "Feeds")
ALL = "/topic/TRAIN_MVT_ALL_TOC"
MINUTE = timedelta(minutes=1)

Execute = Callable[[str], dict[str, Any]]


@pytest.fixture
def broker(broker_pool: BrokerPool) -> Broker:
    return broker_pool.get("activemq")


@pytest.fixture
def execute(broker: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Runs a block of the page with this broker and these folders; returns the variables that it makes."""
    monkeypatch.setenv("FEED_LOGIN", broker.credentials["login"])
    monkeypatch.setenv("FEED_PASSWORD", broker.credentials["password"])

    def run(block: str) -> dict[str, Any]:
        block = re.sub(r'"url", "[^"]*"', f'"url", "{broker.url}"', block)
        block = block.replace('"/data', f'"{tmp_path}').replace("10 seconds", "1 second")
        names: dict[str, Any] = {"__name__": "__main__", "spark": spark, "os": os}
        exec(compile(block, "reading.md", "exec"), names)
        return names

    return run


def subscribed(query: StreamingQuery, checkpoint: Path) -> None:
    """Wait until the query has its connection and its subscriptions."""

    def holds() -> bool:
        assert query.isActive, query.exception()
        if not (checkpoint / "spark_stomp" / "status.json").exists():
            return False
        status = read_status(str(checkpoint))
        receivers = status["receivers"].values()
        return bool(status["running"]) and all(one["connected_since"] for one in receivers)

    wait_until(holds, what="the subscription")


def send(broker: Broker, destination: str, messages: Iterable[Message], expires: float | None = None) -> None:
    """Send these to one topic; they expire at this time, in seconds since the epoch, or never."""
    for message in messages:
        headers = {**dict(message.headers), "expires": str(round((expires or 0) * 1000))}
        publish(broker.options(), destination, [message.body], *headers.items())


def read_all(broker: Broker, query: StreamingQuery, topic: str) -> None:
    """Wait until all is committed and acknowledged, and end the query."""
    broker.wait_for(topic, ready=0, unacked=0)
    assert query.isActive, query.exception()
    query.stop()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(330)
def test_movements_but_for_those_that_expired(
    broker: Broker, spark: SparkSession, execute: Execute, tmp_path: Path
) -> None:
    begin = datetime(2026, 3, 2, 6, 0, tzinfo=timezone.utc)
    trains = calls(begin, 20, failure=(5, 10))
    messages = list(movements(trains))
    checkpoint = tmp_path / "checkpoints" / "movements"
    query = execute(MOVEMENTS)["query"]
    subscribed(query, checkpoint)
    send(broker, ALL, (one for one in messages if one.sent <= begin + 10 * MINUTE))
    read_all(broker, query, ALL)

    # Nobody is there, but the subscription is durable.
    soon = time.time() + 2
    send(
        broker,
        ALL,
        (one for one in messages if timedelta() < one.sent - begin - 10 * MINUTE <= 5 * MINUTE),
        soon,
    )
    send(broker, ALL, (one for one in messages if one.sent > begin + 15 * MINUTE), time.time() + 300)
    wait_until(lambda: time.time() > soon, what="the end of the messages' time")
    query = execute(MOVEMENTS)["query"]
    subscribed(query, checkpoint)
    read_all(broker, query, ALL)

    def kept(call: Call) -> bool:
        return not 10 * MINUTE <= call.actual - begin < 15 * MINUTE

    table = spark.read.parquet(str(tmp_path / "movements"))
    found = table.selectExpr("operator", "train", "unix_millis(happened)", "late >= 0").collect()
    expected = [
        (one.operator.toc_id, one.train_id, round(one.actual.timestamp() * 1000), True)
        for one in trains
        if kept(one)
    ]
    assert sorted(map(tuple, found)) == sorted(expected)


def test_a_second_run_waits_for_its_client_id(broker: Broker) -> None:
    """ActiveMQ's words are recognised. In some of a hundred cases it has none, which the page says, too."""
    topic = broker.new_topic()
    named = {"clientId": f"feed-{topic[-8:]}", "durableName": "movements", **broker.credentials}
    options = source_options(broker.url, topic, **named)
    with running(options) as first:
        wait_until(lambda: first.status().subscribed, what="the subscription")
        for _ in range(10):
            with running(options) as second:
                wait_until(lambda: second.status().connection.attempts, what="a refusal")
                words = second.status().connection.last_error or ""
            if "STOMP_CONNECT_FAILED" not in words:
                break
            assert "is clientId feed-" in words
        assert "STOMP_CLIENT_ID_IN_USE" in words and "already connected" in words
        assert second.status().failure is None
