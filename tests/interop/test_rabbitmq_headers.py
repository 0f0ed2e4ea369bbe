"""What RabbitMQ reads headers of a SEND or a SUBSCRIBE as, besides what they say of the message."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from support.brokers.fixtures import on_every_rabbitmq
from support.brokers.rabbitmq import RabbitMQ
from support.driven import Run

from spark_stomp.columns import SinkColumns
from spark_stomp.errors import SinkRowError, UnsupportedError
from spark_stomp.options import parse_sink_options
from spark_stomp.sink.write import TaskResult, send_batches

pytestmark = [pytest.mark.broker, on_every_rabbitmq]

TYPES = {"headers": pa.map_(pa.string(), pa.string())}
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
    batch = pa.record_batch({name: pa.array(values, TYPES.get(name)) for name, values in rows.items()})
    columns = SinkColumns(tuple(rows), False)
    given = broker.options(reconnectTimeout="5s", **options)
    return send_batches([batch], columns, parse_sink_options(given))


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

    @pytest.mark.rule("7.5")
    @pytest.mark.parametrize("value", ["false", "False"])
    def test_a_subscription_that_says_it_needs_consent(self, rabbitmq: RabbitMQ, value: str) -> None:
        options = rabbitmq.options(
            destination=rabbitmq.new_queue(), subscribeHeaders=json.dumps({"persistent": value})
        )
        with Run(options) as query, pytest.raises(UnsupportedError, match=r"persistent: .*allowLoss"):
            query.batch()


@pytest.mark.rule("S.13")
@pytest.mark.parametrize(
    "header",
    [("durable", "false"), ("durable", "False"), ("exclusive", "true"), ("auto-delete", "true"),
     ("x-expires", "1000")],
)  # fmt: skip
class TestAQueueThatWouldGoWithItsMessages:
    def test_is_not_declared_by_an_option(self, rabbitmq: RabbitMQ, header: tuple[str, str]) -> None:
        queue = rabbitmq.new_queue()
        with pytest.raises(
            UnsupportedError, match=f"sendHeaders cannot go to this broker .*: {header[0]} is "
        ):
            written(rabbitmq, {"body": [b"x"]}, destination=queue, sendHeaders=json.dumps(dict([header])))
        assert rabbitmq.standing(queue).ready == 0

    def test_nor_by_a_column(self, rabbitmq: RabbitMQ, header: tuple[str, str]) -> None:
        queue, (name, value) = rabbitmq.new_queue(), header
        options = {"headerColumns": name, "onError": "drop"}
        result = written(rabbitmq, {"body": [b"x", b"y"], name: [None, value]}, destination=queue, **options)
        assert (result.figures.confirmed, result.figures.dropped) == (1, 1)
        rabbitmq.wait_for(queue, ready=1)


@pytest.mark.rule("S.9")
@pytest.mark.parametrize("name", [*SHORT, "N"])
class TestWhatIsTooLongForAmqp:
    """4.3.6 ends the connection for it. 3.10.8 takes it, but no consumer by AMQP gets the message."""

    @staticmethod
    def header(name: str, length: int) -> tuple[str, str]:
        return (name * length, "v") if name == "N" else (name, "x" * length)

    def rows(self, name: str) -> dict[str, list[Any]]:
        longest, longer = ([self.header(name, length)] for length in (LONGEST, LONGEST + 1))
        return {"body": [b"a", b"b", b"c"], "headers": [longest, longer, [("own", "1")]]}

    def test_is_the_rows_fault(self, rabbitmq: RabbitMQ, name: str) -> None:
        queue = rabbitmq.new_queue()
        result = written(rabbitmq, self.rows(name), destination=queue, onError="drop")
        assert (result.figures.confirmed, result.figures.dropped) == (2, 1)
        rabbitmq.wait_for(queue, ready=2)
        assert isinstance(written(rabbitmq, self.rows(name), destination=queue).refused, SinkRowError)

    def test_is_not_in_its_dead_letter(self, rabbitmq: RabbitMQ, name: str) -> None:
        queue, dead = rabbitmq.new_queue(), rabbitmq.new_queue()
        options = {"onError": "deadletter", "deadLetterDestination": dead}
        rows = self.rows(name)
        rows["headers"][1].append(("own", "1"))
        assert written(rabbitmq, rows, destination=queue, **options).figures.confirmed == 3
        (letter,) = headers_in(rabbitmq, dead, 1)
        assert letter["own"] == "1" and self.header(name, LONGEST + 1)[0] not in letter
        assert letter["dead-letter-reason"].startswith("[STOMP_SINK_ROW_INVALID]")

    def test_is_refused_in_an_option(self, rabbitmq: RabbitMQ, name: str) -> None:
        headers = json.dumps(dict([self.header(name, LONGEST + 1)]))
        with pytest.raises(UnsupportedError, match=r"sendHeaders cannot go .* 255 bytes"):
            written(rabbitmq, {"body": [b"x"]}, destination=rabbitmq.new_queue(), sendHeaders=headers)
