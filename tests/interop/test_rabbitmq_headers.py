"""What RabbitMQ reads headers of a SEND or a SUBSCRIBE as, besides what they say of the message."""

from __future__ import annotations

from typing import Any

import pytest
from support.brokers.fixtures import on_every_rabbitmq
from support.brokers.rabbitmq import RabbitMQ
from support.driven import Run, write_columns

from spark_stomp.errors import SinkRowError
from spark_stomp.sink.write import TaskResult

pytestmark = [pytest.mark.broker, on_every_rabbitmq]

# Bytes: the longest of those headers that are short strings in AMQP.
LONGEST = 255
SHORT = (
    "correlation-id",
    "reply-to",
    "type",
    "content-type",
    "content-encoding",
    "app-id",
    "amqp-message-id",
)


def written(broker: RabbitMQ, rows: dict[str, list[Any]], **options: str) -> TaskResult:
    return write_columns(broker.options(reconnectTimeout="5s", **options), rows)


def headers_in(broker: RabbitMQ, queue: str, count: int) -> list[dict[str, str]]:
    """The headers of all messages in the queue, which are ACKed."""
    with Run(broker.options(destination=queue), ("body", "headers")) as query:
        rows = query.gather(count)
        query.commit()
        broker.wait_for(queue, ready=0, unacked=0)
    return [dict(row["headers"]) for row in rows]


class TestPersistent:
    """RabbitMQ reads it as the ``durable`` of a queue that it declares, too."""

    OPTIONS = ({"persistent": "false"}, {"sendHeaders": '{"persistent": "false"}'}, {})

    @pytest.mark.rule("S.13")
    @pytest.mark.parametrize("options", OPTIONS, ids=["option", "header", "column"])
    @pytest.mark.parametrize("exists", [False, True], ids=["new", "exists"])
    @pytest.mark.parametrize("place", ["/queue/", "/amq/queue/"])
    def test_messages_that_need_not_be_kept_stay_in_a_queue_that_is(
        self, rabbitmq: RabbitMQ, options: dict[str, str], exists: bool, place: str
    ) -> None:
        queue, number = rabbitmq.new_queue(), 10
        if exists or place != "/queue/":
            rabbitmq.declare(queue, {})
        rows: dict[str, list[Any]] = {"body": [b"x"] * number}
        if not options:
            rows["persistent"] = [False] * number
        named = queue.replace("/queue/", place)
        assert written(rabbitmq, rows, destination=named, **options).figures.confirmed == number
        rabbitmq.wait_for(queue, ready=number)
        assert all("persistent" not in headers for headers in headers_in(rabbitmq, queue, number))

    @pytest.mark.parametrize("options", OPTIONS[:2])
    def test_and_so_do_dead_letters(self, rabbitmq: RabbitMQ, options: dict[str, str]) -> None:
        queue, dead = rabbitmq.new_queue(), rabbitmq.new_queue()
        options = options | {"onError": "deadletter", "deadLetterDestination": dead}
        written(rabbitmq, {"body": [None, b"x"]}, destination=queue, **options)
        rabbitmq.wait_for(dead, ready=1)
        rabbitmq.wait_for(queue, ready=1)


@pytest.mark.rule("S.9")
@pytest.mark.parametrize("name", [*SHORT, "N"])
def test_what_is_too_long_for_amqp_is_the_rows_fault(rabbitmq: RabbitMQ, name: str) -> None:
    """4.3.6 ends the connection for it. 3.10.8 takes it, but no consumer by AMQP gets the message."""
    queue = rabbitmq.new_queue()
    longest, longer = (
        [(name * length, "v") if name == "N" else (name, "x" * length)] for length in (LONGEST, LONGEST + 1)
    )
    rows = {"body": [b"a", b"b", b"c"], "headers": [longest, longer, [("own", "1")]]}
    result = written(rabbitmq, rows, destination=queue, onError="drop")
    assert (result.figures.confirmed, result.figures.dropped) == (2, 1)
    rabbitmq.wait_for(queue, ready=2)
    assert isinstance(written(rabbitmq, rows, destination=queue).refused, SinkRowError)
