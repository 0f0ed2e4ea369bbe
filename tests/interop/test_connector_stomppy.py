"""stomp.py publishes what the connector reads, and consumes what it writes, on every broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import stomp
from support.brokers import Broker
from support.brokers.fixtures import on_every_broker
from support.driven import Run, send_rows
from support.waiting import wait_until

pytestmark = on_every_broker

COLUMNS = ("body", "content_type", "headers", "destination")


class Consumer(stomp.ConnectionListener):  # type: ignore[misc]
    """Collects frames and ACKs each."""

    def __init__(self, connection: Any) -> None:
        self.frames: list[Any] = []
        self._connection = connection

    def on_message(self, frame: Any) -> None:
        self.frames.append(frame)
        self._connection.ack(frame.headers["ack"])


@contextmanager
def stomp_py(broker: Broker) -> Iterator[Any]:
    connection = stomp.Connection12([("127.0.0.1", broker.port)], auto_decode=False, vhost="/")
    connection.connect(broker.login, broker.password, wait=True)
    yield connection
    connection.disconnect()


def test_the_connector_reads_what_stomp_py_publishes(broker: Broker, queue: str) -> None:
    with stomp_py(broker) as connection:
        for number in range(50):
            connection.send(
                queue,
                f"Grüße {number}".encode(),
                content_type="text/plain",
                headers={"colour": "blue:green\\\n", "number": str(number)},
            )
    with Run(broker.options(destination=queue), COLUMNS) as query:
        rows = query.gather(50)
        query.commit()
    headers = [dict(row["headers"]) for row in rows]
    assert [row["body"].decode() for row in rows] == [f"Grüße {number}" for number in range(50)]
    assert {(row["content_type"], row["destination"]) for row in rows} == {("text/plain", queue)}
    assert [found["number"] for found in headers] == [str(number) for number in range(50)]
    assert {found["colour"] for found in headers} == {"blue:green\\\n"}


def test_stomp_py_consumes_what_the_connector_writes(broker: Broker, queue: str) -> None:
    bodies = [b"\x00\xff%d" % number for number in range(50)]
    rows = [(body, [("number", str(number)), ("path", "C:\\new")]) for number, body in enumerate(bodies)]
    assert send_rows(broker.options(), queue, rows) == 50
    with stomp_py(broker) as connection:
        consumer = Consumer(connection)
        connection.set_listener("consumer", consumer)
        connection.subscribe(queue, id="1", ack="client-individual")
        wait_until(lambda: len(consumer.frames) == 50, what="stomp.py's messages")
        broker.wait_for(queue, ready=0, unacked=0)
    assert [bytes(item.body) for item in consumer.frames] == bodies
    assert [item.headers["number"] for item in consumer.frames] == [str(number) for number in range(50)]
    assert {item.headers["path"] for item in consumer.frames} == {"C:\\new"}
