"""Messages of the sink as consumers of real brokers get them, and as the brokers' management counts them."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_rabbitmq_and_others_in_soak, on_real_brokers
from support.driven import Run, write_columns


def send(broker: Broker, rows: dict[str, Any], **options: Any) -> None:
    assert write_columns(broker.options(**options), rows).refused is None


def taken(broker: Broker, queue: str, count: int) -> list[dict[str, Any]]:
    """The rows of the source, headers as a dict; all are ACKed."""
    with Run(broker.options(destination=queue), ("body", "headers")) as query:
        rows = query.take(count)
        query.commit()
        # The end of the run would not wait for as long as a busy broker may take.
        broker.wait_for(queue, ready=0, unacked=0)
    return [row | {"headers": dict(row["headers"])} for row in rows]


@on_real_brokers
def test_odd_headers_of_many_rows(broker: Broker, queue: str) -> None:
    odd = [("a", ""), ("b:", ":\\ \n\r "), ("ü €", "😀"), ("UPPER", "x" * 2_000), ("c\\", "\t tab")]
    headers = [[odd[n % len(odd)], ("number", str(n))] for n in range(400)]
    send(broker, {"body": [b"x" * n for n in range(400)], "headers": headers}, destination=queue)
    for row in taken(broker, queue, 400):
        number = len(row["body"])
        assert {*headers[number]} <= {*row["headers"].items()}


@on_real_brokers
def test_what_a_message_is_like(broker: Broker, queue: str) -> None:
    headers = '{"correlation-id": "c:1", "reply-to": "/queue/replies"}'
    options = {"priority": 7, "ttl": "10m", "sendHeaders": headers}
    before = time.time() * 1000
    send(broker, {"body": [b"a", b"b"], "priority": [None, 2]}, destination=queue, **options)
    found = {row["body"]: row["headers"] for row in taken(broker, queue, 2)}
    assert [found[body]["priority"] for body in (b"a", b"b")] == ["7", "2"]
    for headers in found.values():
        assert (headers["correlation-id"], headers["reply-to"]) == ("c:1", "/queue/replies")
        assert headers["persistent"] == "true"
        if broker.dialect == "rabbitmq":
            assert headers["expiration"] == "600000"
        else:
            assert before <= float(headers["expires"]) - 600_000 <= time.time() * 1000


@on_rabbitmq_and_others_in_soak
def test_persistent_messages_survive_a_restart_and_others_do_not(broker: Broker) -> None:
    """The first message of each queue is none: RabbitMQ declares the queue by its headers."""
    cells: dict[str, list[bool | None]] = {
        "true": [False, None],
        "false": [None, True],
        "unset": [None, True],
    }
    queues = {option: broker.new_queue() for option in cells}
    for option, queue in queues.items():
        rows = {"body": [b"lost", b"kept"], "persistent": cells[option]}
        send(broker, rows, destination=queue, persistent=option)
        broker.wait_for(queue, ready=2)
    broker.restart()
    for queue in queues.values():
        broker.wait_for(queue, ready=1)
        assert [row["body"] for row in taken(broker, queue, 1)] == [b"kept"]


@on_real_brokers
def test_messages_expire(broker: Broker, queue: str) -> None:
    send(broker, {"body": [b"short", b"long"], "ttl": [1, None]}, destination=queue)
    time.sleep(0.01)  # the message is past its time then, whatever the broker does meanwhile
    assert [row["body"] for row in taken(broker, queue, 1)] == [b"long"]


@on_real_brokers
@pytest.mark.parametrize("text", [True, False])
def test_text_and_bytes(broker: Broker, queue: str, text: bool) -> None:
    """ActiveMQ sends content-length with a BytesMessage only. Artemis sends one without for text."""
    send(broker, {"body": pa.array(["ü"] if text else ["ü".encode()])}, destination=queue)
    (row,) = taken(broker, queue, 1)
    assert row["body"] == "ü".encode()
    if broker.dialect == "activemq":
        assert ("content-length" in row["headers"]) == (not text)


@on_real_brokers
def test_a_row_that_is_sent_again_is_known_by_its_id(broker: Broker, queue: str) -> None:
    """Artemis drops it. Behind any other broker the source knows it, if a journal remembers it."""
    rows = {"body": [b"a", b"b"], "n": pa.array([1, 2], pa.int64())}
    for _ in range(2):
        send(broker, rows, destination=queue, dedupKey="n")
    count = 2 if broker.dialect == "artemis" else 4
    broker.wait_for(queue, ready=count)
    header = "_AMQ_DUPL_ID" if broker.dialect == "artemis" else "dedup-id"
    with Run(broker.options(destination=queue, idHeader=header), ("body", "stable_id")) as query:
        found = query.gather(2)
        broker.wait_for(queue, ready=0, unacked=count)
        assert sorted(row["body"] for row in query.gather(2)) == [b"a", b"b"]
        assert len({row["stable_id"] for row in found}) == 2
        query.commit()
        broker.wait_for(queue, ready=0, unacked=0)
