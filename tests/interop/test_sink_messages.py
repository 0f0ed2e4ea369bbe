"""Messages of the sink as consumers of real brokers get them, and as the brokers' management counts them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_rabbitmq_and_others_in_soak, on_real_brokers
from support.driven import Run

from spark_stomp.columns import SinkColumns
from spark_stomp.options import parse_sink_options
from spark_stomp.sink.write import TaskResult, send_batches

TYPES = {
    "body": pa.binary(),
    "headers": pa.map_(pa.string(), pa.string()),
    "ttl": pa.int64(),
    "priority": pa.int32(),
}
ODD = {"a": "", "b:": ":\\ \n\r ", "ü €": "\U0001f600", "UPPER": "x" * 2_000, "c\\": "\t tab"}
QUEUES = 4
# Mixed sizes: what fits a window many times over, and in every thousand rows what is larger than a slice.
# ActiveMQ holds up to maxPageSize messages of each queue in memory: more of these would be too much for it.
SIZES = {0: 10, 1: 10, 30: 10, 300: 10, 3_000: 5}
LARGE = {17: 70_000, 180: 300_000}


def send(broker: Broker, rows: dict[str, Any], **options: Any) -> TaskResult:
    arrays = {
        name: values if isinstance(values, pa.Array) else pa.array(values, TYPES.get(name))
        for name, values in rows.items()
    }
    batch = pa.record_batch(arrays)
    columns = SinkColumns(tuple(rows), pa.types.is_string(batch.schema.field("body").type))
    result = send_batches([batch], columns, parse_sink_options(broker.options(**options)))
    assert result.refused is None
    return result


def taken(broker: Broker, destinations: str | list[str], count: int, **options: Any) -> list[dict[str, Any]]:
    """The rows of the source, headers as a dict; all are ACKed."""
    queues = [destinations] if isinstance(destinations, str) else destinations
    named = destinations if isinstance(destinations, str) else json.dumps(destinations)
    with Run(broker.options(destination=named, **options), ("body", "headers", "destination")) as query:
        rows = query.take(count)
        query.commit()
        # The end of the run would not wait for as long as a busy broker may take.
        for queue in queues:
            broker.wait_for(queue, ready=0, unacked=0)
    return [row | {"headers": dict(row["headers"])} for row in rows]


@pytest.fixture
def queue(broker: Broker) -> Iterator[str]:
    """A new queue, empty at the end."""
    destination = broker.new_queue()
    yield destination
    broker.wait_for(destination, ready=0, unacked=0)


def mixed_rows(queues: list[str], count: int) -> dict[str, list[Any]]:
    """Numbered bodies of mixed sizes, to all queues in turn, each with one odd header and its number."""
    draw = random.Random(7)
    small = draw.choices([*SIZES], [*SIZES.values()], k=count)
    sizes = [LARGE.get(n % 1000, size) for n, size in enumerate(small)]
    odd = list(ODD.items())
    return {
        "body": [b"%d:" % n + draw.randbytes(size) for n, size in enumerate(sizes)],
        "destination": [queues[n % len(queues)] for n in range(count)],
        "headers": [[odd[n % len(odd)], ("number", str(n))] for n in range(count)],
    }


def check_mixed(broker: Broker, count: int) -> None:
    queues = [broker.new_queue() for _ in range(QUEUES)]
    sent = mixed_rows(queues, count)
    assert send(broker, sent).figures.confirmed == count
    for at, queue in enumerate(queues):
        broker.wait_for(queue, ready=len(range(at, count, QUEUES)))
    rows = taken(broker, queues, count)
    assert len(rows) == count
    for row in rows:
        number = int(row["headers"]["number"])
        name, value = sent["headers"][number][0]
        assert row["headers"][name] == value
        assert row["body"] == sent["body"][number]
        assert row["destination"] == sent["destination"][number]
    for queue in queues:
        broker.wait_for(queue, ready=0, unacked=0)


@on_real_brokers
def test_mixed_rows_arrive_byte_for_byte(broker: Broker) -> None:
    check_mixed(broker, 400)


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


@on_real_brokers
def test_dead_letters(broker: Broker, queue: str) -> None:
    dead = broker.new_queue()
    rows = {"body": [b"a", None, b"c"], "headers": [None, [("own", "1"), (" bad", "2")], None]}
    options = {"onError": "deadletter", "deadLetterDestination": dead}
    figures = send(broker, rows, destination=queue, **options).figures
    assert (figures.confirmed, figures.dead_lettered) == (3, 1)
    (letter,) = taken(broker, dead, 1)
    assert letter["headers"]["dead-letter-reason"] == "[STOMP_SINK_ROW_INVALID] its body is null"
    assert (letter["headers"]["dead-letter-from"], letter["headers"]["own"]) == (queue, "1")
    assert len(taken(broker, queue, 2)) == 2
