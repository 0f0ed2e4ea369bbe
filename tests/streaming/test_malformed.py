"""Malformed messages under Spark, and the recipes of docs/reading.md, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from support.pages import READING, programs
from support.spark import Recorder, Running, drains, stomp_stream
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark

QUEUE = "/queue/orders"
DEAD = "/queue/orders.dead"
BAD = b"no colon\n"
GOOD = [b"good %d" % number for number in range(40)]
(DEAD_LETTERS,) = programs(READING, "Dead letters")
(AGENDA, BACK) = programs(READING, "Count dead letters, and send some back")


def poisoned(broker: DevBroker) -> None:
    broker.publish_many(QUEUE, GOOD)
    broker.publish(QUEUE, b"bad", raw=BAD)


@pytest.mark.rule("7.6")
@pytest.mark.parametrize("available_now", [False, pytest.param(True, marks=drains)])
def test_the_query_ends_with_the_message_named_after_all_that_came_before(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path, available_now: bool
) -> None:
    poisoned(devbroker)
    recorder = Recorder()
    trigger = {"availableNow": True} if available_now else {}
    frame = stomp_stream(spark, devbroker.url, QUEUE, minMessagesPerTrigger=1000, maxTriggerDelay="1h")
    with Running(frame, tmp_path, recorder, **trigger) as running:
        text = running.failure()
    assert "[STOMP_MESSAGE_MALFORMED]" in text and QUEUE in text and "'ID:" in text
    assert recorder.bodies == GOOD
    wait_until(lambda: devbroker.connections == 0, what="the end of the receiver")
    assert devbroker.bodies(QUEUE) == [b"bad"]


@pytest.mark.rule("7.7")
def test_the_recipe_routes_them_to_a_dead_letter_queue(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    devbroker.publish_many(QUEUE, [b'{"id": 1, "article": "bread"}', b"no order"])
    devbroker.publish(QUEUE, b"bad", raw=BAD)
    names: dict[str, Any] = {"spark": spark}

    def run(program: str) -> StreamingQuery:
        own = program.replace("stomp://localhost:61613", devbroker.url).replace("/data/", f"{tmp_path}/")
        exec(compile(own, "docs/reading.md", "exec"), names)
        query: StreamingQuery = names["query"]
        return query

    query = run(DEAD_LETTERS)
    try:
        wait_until(lambda: devbroker.queue(DEAD).depth == 2 or query.exception(), what="the dead letters")
        wait_until(lambda: devbroker.queue(QUEUE).depth == 0 or query.exception(), what="the ACKs")
    finally:
        query.stop()
    assert query.exception() is None
    written = spark.read.parquet(f"{tmp_path}/orders").collect()
    assert [tuple(row) for row in written] == [(1, "bread")]
    reader = spark.read.format("stomp").option("url", devbroker.url).option("idleTimeout", "300ms")
    plain, dead = sorted(reader.load(DEAD).collect(), key=lambda row: len(row.body))
    assert bytes(plain.body) == b"no order"
    assert bytes(dead.body).endswith(b"\n\nbad\0") and BAD in bytes(dead.body)
    assert {row.headers["dead-letter-origin"] for row in (plain, dead)} == {QUEUE}
    assert dead.headers["dead-letter-reason"].startswith("[STOMP_FRAME_MALFORMED] header line")

    capsys.readouterr()
    run(AGENDA)
    printed = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if QUEUE in line]
    found = {reason.strip(): count.strip() for reason, _, count in printed}
    assert len(found) == 2 and found[plain.headers["dead-letter-reason"]] == "1"

    run(BACK).awaitTermination(60)
    # What the program does not send back is kept.
    assert devbroker.bodies(QUEUE) == [bytes(plain.body)]
    assert devbroker.bodies("/queue/orders.kept") == [bytes(dead.body)]
    assert devbroker.bodies(DEAD) == []
