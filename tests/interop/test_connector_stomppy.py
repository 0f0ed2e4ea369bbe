"""stomp.py publishes what the connector reads, and consumes what it writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import stomp
from pyspark.sql import SparkSession
from support.spark import Running, stomp_stream

from spark_stomp.devbroker import DevBroker

pytestmark = pytest.mark.spark


class Consumer(stomp.ConnectionListener):  # type: ignore[misc]
    """Collects frames and ACKs each."""

    def __init__(self, connection: stomp.Connection12) -> None:
        self.frames: list[Any] = []
        self.changed = threading.Event()
        self._connection = connection

    def on_message(self, frame: Any) -> None:
        self.frames.append(frame)
        self._connection.ack(frame.headers["ack"])
        self.changed.set()


@contextmanager
def stomp_py(broker: DevBroker) -> Iterator[stomp.Connection12]:
    connection = stomp.Connection12([("127.0.0.1", broker.port)], auto_decode=False)
    connection.connect(wait=True)
    yield connection
    connection.disconnect()


def test_the_connector_reads_what_stomp_py_publishes(
    spark: SparkSession, devbroker: DevBroker, tmp_path: Path
) -> None:
    with stomp_py(devbroker) as connection:
        for number in range(50):
            connection.send(
                "/queue/a",
                f"Grüße {number}".encode(),
                content_type="text/plain",
                headers={"colour": "blue:green\\\n", "number": str(number)},
            )
    rows: list[Any] = []
    schema = "body string, content_type string, headers map<string,string>, destination string"
    frame = stomp_stream(spark, devbroker.url, "/queue/a", schema=schema)
    with Running(
        frame, tmp_path, lambda batch, _: rows.extend(batch.collect()), availableNow=True
    ) as running:
        running.finish()
    assert [row.body for row in rows] == [f"Grüße {number}" for number in range(50)]
    assert {(row.content_type, row.destination) for row in rows} == {("text/plain", "/queue/a")}
    assert [row.headers["number"] for row in rows] == [str(number) for number in range(50)]
    assert {row.headers["colour"] for row in rows} == {"blue:green\\\n"}
    assert devbroker.queue("/queue/a").depth == 0


def test_stomp_py_consumes_what_the_connector_writes(spark: SparkSession, devbroker: DevBroker) -> None:
    rows = [(b"\x00\xff%d" % number, {"number": str(number), "path": "C:\\new"}) for number in range(50)]
    frame = spark.createDataFrame(rows, "body binary, headers map<string,string>").coalesce(1)
    writer = frame.write.format("stomp").option("url", devbroker.url).option("destination", "/queue/b")
    writer.mode("append").save()
    with stomp_py(devbroker) as connection:
        consumer = Consumer(connection)
        connection.set_listener("consumer", consumer)
        connection.subscribe("/queue/b", id="1", ack="client-individual")
        devbroker.wait_until(lambda: devbroker.queue("/queue/b").acked == 50, what="stomp.py's ACKs")
    assert [bytes(item.body) for item in consumer.frames] == [body for body, _ in rows]
    assert [item.headers["number"] for item in consumer.frames] == [str(number) for number in range(50)]
    assert {item.headers["path"] for item in consumer.frames} == {"C:\\new"}
