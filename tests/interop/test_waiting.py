"""What a query says it waits for, in each state, under Spark with RabbitMQ."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.brokers.rabbitmq import RabbitMQ
from support.driven import publish
from support.proxy import FaultProxy, Way
from support.release import spark_release
from support.spark import Running, classic_only, stomp_stream

from spark_stomp.status import read_status

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    classic_only("the sink of these tests is in this process"),
]


class Sink:
    """A foreachBatch function that waits in each batch while it is ``held``."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self.free()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        batch.count()
        self._free.wait(60)

    def hold(self) -> None:
        self._free.clear()

    def free(self) -> None:
        self._free.set()


class Query:
    """A running query, its sink, and what it says in its status."""

    def __init__(self, running: Running, sink: Sink, checkpoint: Path) -> None:
        self.running, self.sink = running, sink
        self._checkpoint = checkpoint

    def status(self) -> dict[str, Any]:
        try:
            return dict(read_status(self._checkpoint))
        except FileNotFoundError:
            return {}

    def wait_for(self, begin: str) -> dict[str, Any]:
        """The status, once its ``waiting_for`` begins so."""
        found: dict[str, Any] = {}

        def says() -> bool:
            nonlocal found
            found = self.status()
            return str(found.get("waiting_for")).startswith(begin)

        try:
            self.running.wait(says, what=begin, every=0.1)
        except AssertionError as error:
            raise AssertionError(f"the status says {found.get('waiting_for')!r}: {error}") from None
        assert found["waiting_since"] is not None
        return found


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Any:
    """Start a query with these options."""

    @contextmanager
    def started(held: bool = False, trigger: dict[str, Any] | None = None, **options: Any) -> Iterator[Query]:
        checkpoint, sink = tmp_path / "checkpoint", Sink()
        if held:
            sink.hold()
        frame = stomp_stream(spark, checkpointLocation=str(checkpoint), **options)
        with Running(frame, checkpoint, sink, **(trigger or {})) as running:
            try:
                yield Query(running, sink, checkpoint)
            finally:
                sink.free()

    return started


def test_nothing_comes(rabbitmq: RabbitMQ, start: Any) -> None:
    with start(**rabbitmq.options(destination=rabbitmq.new_queue())) as query:
        status = query.wait_for("the broker: nothing un-acked and nothing new")
        assert status["batch_since"] is status["last_commit_at"] is None


def test_spark_works_and_memory_is_full(rabbitmq: RabbitMQ, start: Any) -> None:
    queue = rabbitmq.new_queue()
    publish(rabbitmq.options(), queue, [b"x" * 50_000] * 100)
    options = rabbitmq.options(destination=queue, maxBufferedBytes="1m")
    with start(held=True, **options) as query:
        status = query.wait_for("Spark, in batch 0 of ")
        assert status["batch_since"] is not None
        query.wait_for(status["waiting_for"].partition(";")[0] + "; memory is full (maxBufferedBytes)")
        query.sink.free()
        status = query.wait_for("the broker: nothing un-acked and nothing new")
        assert status["batch_since"] is None
        assert status["last_commit_at"] is not None
        assert status["totals"]["received_per_second"] > 0
        if spark_release() >= (4, 2):
            (source,) = query.running.query.lastProgress["sources"]
            assert "waiting_for" in json.loads(source["latestOffset"])["status"]


@pytest.mark.soak  # unit/source/test_waiting.py has every sentence
def test_a_minimum_is_not_reached(rabbitmq: RabbitMQ, start: Any) -> None:
    queue = rabbitmq.new_queue()
    publish(rabbitmq.options(), queue, [b"one"] * 10)
    options = rabbitmq.options(destination=queue, minMessagesPerTrigger="1000", maxTriggerDelay="15m")
    with start(**options) as query:
        status = query.wait_for("990 more messages (minMessagesPerTrigger), 14 min ")
        assert status["waiting_for"].endswith(" at most (maxTriggerDelay)")


@pytest.mark.soak  # unit/source/test_waiting.py has every sentence
def test_the_trigger(rabbitmq: RabbitMQ, start: Any) -> None:
    queue = rabbitmq.new_queue()
    publish(rabbitmq.options(), queue, [b"one"])
    options = rabbitmq.options(destination=queue)
    with start(trigger={"processingTime": "1 hour"}, **options) as query:
        query.wait_for("the broker: nothing un-acked")
        publish(rabbitmq.options(), queue, [b"one"] * 7)
        query.wait_for("Spark's next trigger: 7 messages wait for it")


@pytest.mark.soak  # unit/source/test_waiting.py has every sentence
def test_the_drain(rabbitmq: RabbitMQ, start: Any, tmp_path: Path) -> None:
    queue = rabbitmq.new_queue()
    publish(rabbitmq.options(), queue, [b"one"] * 500)
    options = rabbitmq.options(
        destination=queue,
        journal=str(tmp_path / "journal"),
        ackAfter="journal",
        drain="true",
        idleTimeout="6s",
    )
    with start(**options) as query:
        status = query.wait_for("the end of the drain: 500 messages so far, ")
        assert "; it ends after 6.0 s without a message (idleTimeout), in " in status["waiting_for"]
        assert status["totals"]["committed"] == 0
        assert [one["committed"] for one in status["receivers"].values()] == [None]


def test_the_broker_is_away_then_refuses_the_login(rabbitmq: RabbitMQ, start: Any) -> None:
    queue = rabbitmq.new_queue()
    rabbitmq.add_user("oncall", "right", ".*", ".*", ".*")
    with FaultProxy(rabbitmq.port) as proxy:
        options = rabbitmq.options(url=proxy.url, destination=queue, login="oncall", password="right")
        with start(**options) as query:
            query.wait_for("the broker: nothing un-acked")
            rabbitmq.change_password("oncall", "other")
            proxy.cut()
            status = query.wait_for(f"the broker: no connection for {queue}#0, ")
            query.wait_for(
                f"the broker: no connection for {queue}#0, 1 attempt failed: [STOMP_LOGIN_REFUSED]"
            )
            assert status["waiting_since"] is not None


def test_receipts_do_not_come(rabbitmq: RabbitMQ, start: Any) -> None:
    queue = rabbitmq.new_queue()
    publish(rabbitmq.options(), queue, [b"one"] * 5)
    with ExitStack() as stack:
        proxy = stack.enter_context(FaultProxy(rabbitmq.port))
        options = rabbitmq.options(url=proxy.url, destination=queue)
        query = stack.enter_context(start(held=True, **options))
        query.wait_for("Spark, in batch 0 of 5 messages")
        proxy.hold(Way.TO_CLIENT)
        query.sink.free()
        query.wait_for("the broker: receipts of ACKs")
        proxy.release()
        query.wait_for("the broker: nothing un-acked")
