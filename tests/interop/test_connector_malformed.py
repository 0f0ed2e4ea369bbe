"""What an AMQP producer can put into a queue of RabbitMQ, and no STOMP frame may hold."""

from __future__ import annotations

import time

import pytest
from support.brokers import RabbitMQ
from support.driven import Run, publish
from support.waiting import PATIENCE

from spark_stomp.errors import MalformedMessageError

pytestmark = [pytest.mark.broker, pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)]

GOOD = [b"good %d" % number for number in range(40)]
POISON = {
    "70 KB": ('[{<<"x">>, longstr, binary:copy(<<"y">>, 70000)}]', "a header line of more than 65536"),
    "1,100 headers": (
        '[{integer_to_binary(N), longstr, <<"1">>} || N <- lists:seq(1, 1100)]',
        "more than 1000 headers",
    ),
}


def the_failure(run: Run) -> MalformedMessageError:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            assert run.reader.latestOffset(run.start, None) == run.start, "another batch"
        except MalformedMessageError as error:
            return error
    raise AssertionError("the query goes on")


@pytest.mark.rule("7.6", "7.7")
@pytest.mark.parametrize(("headers", "reason"), POISON.values(), ids=POISON)
def test_it_fails_the_query_and_column_makes_it_a_row(broker: RabbitMQ, headers: str, reason: str) -> None:
    """What comes before it is taken. It is there for the next run, with what comes after it."""
    queue = broker.new_queue()
    publish(broker.options(), queue, GOOD[:20])
    broker.publish_amqp(queue, b"bad", headers)
    publish(broker.options(), queue, GOOD[20:])
    broker.wait_for(queue, ready=41)
    with Run(broker.options(destination=queue)) as run:
        assert [row["body"] for row in run.gather(20)] == GOOD[:20]
        run.commit()
        error = str(the_failure(run))
        assert queue in error and reason in error and "T_" in error
    broker.wait_for(queue, ready=21)
    with Run(broker.options(destination=queue)) as again:
        the_failure(again)
    broker.wait_for(queue, ready=21)
    columns = ("body", "destination", "message_id", "headers", "malformed")
    with Run(broker.options(destination=queue), columns, onMalformed="column") as run:
        first, *rows = run.gather(21)
        assert [row["body"] for row in rows] == GOOD[20:]
        assert not any(row["malformed"] for row in rows) and reason in first["malformed"]
        assert first["destination"] == queue and first["message_id"]
        assert first["body"].startswith(b"MESSAGE\n") and first["body"].endswith(b"\n\nbad\0")
        run.commit()
        broker.wait_for(queue, ready=0)


@pytest.mark.rule("7.10")
def test_octets_in_a_header_are_no_fault(broker: RabbitMQ) -> None:
    """The messages before and after it are read and ACKed with it."""
    queue = broker.new_queue()
    publish(broker.options(), queue, GOOD[:2])
    broker.publish_amqp(
        queue, b"octets", '[{<<"x">>, longstr, <<255, 0, 254>>}, {<<"y">>, longstr, <<"text">>}]'
    )
    publish(broker.options(), queue, GOOD[2:4])
    columns = ("body", "headers", "malformed")
    with Run(broker.options(destination=queue), columns) as run:
        rows = run.gather(5)
        assert [row["body"] for row in rows] == [*GOOD[:2], b"octets", *GOOD[2:4]]
        headers = dict(rows[2]["headers"])
        assert (headers["x"].encode("latin-1"), headers["y"]) == (b"\xff\0\xfe", "text")
        assert "'x'" in rows[2]["malformed"] and rows[1]["malformed"] is None
        run.commit()
        broker.wait_for(queue, ready=0)
