"""What an AMQP producer can put into a queue of RabbitMQ, and no STOMP frame may hold."""

from __future__ import annotations

import time

import pytest
from support.brokers import Broker, RabbitMQ
from support.driven import Run, publish
from support.waiting import PATIENCE

from spark_stomp.errors import MalformedMessageError

pytestmark = [pytest.mark.broker, pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)]

GOOD = [b"good %d" % number for number in range(40)]
POISON = {
    "a NUL": ('[{<<"x">>, longstr, <<"a", 0, "b">>}]', "a NUL"),
    "70 KB": ('[{<<"x">>, longstr, binary:copy(<<"y">>, 70000)}]', "a header line of more than 65536"),
    "1,100 headers": (
        '[{integer_to_binary(N), longstr, <<"1">>} || N <- lists:seq(1, 1100)]',
        "more than 1000 headers",
    ),
}
each_poison = pytest.mark.parametrize(("headers", "reason"), POISON.values(), ids=POISON)


def poisoned_queue(broker: Broker, headers: str) -> str:
    """Twenty good messages, a malformed one, and twenty good ones."""
    assert isinstance(broker, RabbitMQ)
    queue = broker.new_queue()
    publish(broker.options(), queue, GOOD[:20])
    broker.publish_amqp(queue, b"bad", headers)
    publish(broker.options(), queue, GOOD[20:])
    broker.wait_for(queue, ready=41)
    return queue


def the_failure(run: Run) -> MalformedMessageError:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            assert run.reader.latestOffset(run.start, None) == run.start, "another batch"
        except MalformedMessageError as error:
            return error
    raise AssertionError("the query goes on")


@pytest.mark.rule("7.6")
@each_poison
def test_fail_takes_what_is_before_it(broker: Broker, headers: str, reason: str) -> None:
    queue = poisoned_queue(broker, headers)
    with Run(broker.options(destination=queue)) as run:
        assert [row["body"] for row in run.gather(20)] == GOOD[:20]
        run.commit()
        error = str(the_failure(run))
        assert queue in error and reason in error and "T_" in error
    broker.wait_for(queue, ready=21)
    with Run(broker.options(destination=queue)) as again:
        the_failure(again)
    broker.wait_for(queue, ready=21)


@pytest.mark.rule("7.7")
@each_poison
def test_column_makes_it_a_row(broker: Broker, headers: str, reason: str) -> None:
    queue = poisoned_queue(broker, headers)
    columns = ("body", "destination", "message_id", "headers", "malformed")
    with Run(broker.options(destination=queue), columns, onMalformed="column") as run:
        rows = run.gather(41)
        assert [row["body"] for row in rows[:20] + rows[21:]] == GOOD
        assert [place for place, row in enumerate(rows) if row["malformed"] is not None] == [20]
        assert reason in rows[20]["malformed"]
        assert rows[20]["destination"] == queue and rows[20]["message_id"]
        assert rows[20]["body"].startswith(b"MESSAGE\n") and rows[20]["body"].endswith(b"\n\nbad\0")
        run.commit()
        broker.wait_for(queue, ready=0)
