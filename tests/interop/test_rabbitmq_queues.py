"""Queues of RabbitMQ that exist with other arguments than a SUBSCRIBE or a SEND to /queue/NAME declares."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support.brokers.fixtures import on_every_rabbitmq
from support.brokers.rabbitmq import OldRabbitMQ, RabbitMQ
from support.driven import Run, publish
from support.proxy import FaultProxy
from support.waiting import wait_until

from spark_stomp.errors import BrokerError, DestinationRefused, StompError
from spark_stomp.options import parse_batch_options
from spark_stomp.source.reads import browse

pytestmark = pytest.mark.broker

# Arguments of a queue, and whether headers can declare it so.
ARGUMENTS: dict[str, tuple[dict[str, Any], bool]] = {
    "quorum": ({"x-queue-type": "quorum"}, True),
    "ttl": ({"x-message-ttl": 60_000}, True),
    "dead letters": ({"x-dead-letter-exchange": "amq.fanout"}, True),
    "bounded": ({"x-max-length": 1_000}, True),
    "bounded bytes": ({"x-max-length-bytes": 90_000}, True),
    "priorities": ({"x-max-priority": 5}, True),
    "lazy": ({"x-queue-mode": "lazy"}, False),
    "overflow": ({"x-overflow": "reject-publish"}, False),
    "single": ({"x-single-active-consumer": True}, False),
    "expiring": ({"x-expires": 600_000}, False),
    "not durable": ({"durable": False}, False),
    "auto-delete": ({"auto_delete": True}, False),
}


def by_name(queue: str) -> str:
    return queue.replace("/queue/", "/amq/queue/")


def refused(broker: RabbitMQ, queue: str, **options: Any) -> StompError:
    """The error of a query that reads ``queue``."""
    with Run(broker.options(destination=queue, **options)) as query, pytest.raises(StompError) as caught:
        query.batch()
    return caught.value


def refused_send(broker: RabbitMQ, queue: str, *headers: tuple[str, str]) -> StompError:
    with pytest.raises(StompError) as caught:
        publish(broker.options(), queue, [b"x"], *headers)
    return caught.value


def headers_of(error: StompError, option: str) -> dict[str, str]:
    """The headers that the error says to set."""
    found = re.search(option + r" = (\{.*?\})", str(error))
    return {} if found is None else json.loads(found[1])


@pytest.mark.parametrize(("arguments", "in_headers"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_of_a_queue_with_other_arguments_the_errors_say_what_to_set(
    rabbitmq: RabbitMQ, arguments: dict[str, Any], in_headers: bool
) -> None:
    queue = rabbitmq.new_queue()
    rabbitmq.declare(queue, arguments)
    error = refused(rabbitmq, queue)
    assert isinstance(error, DestinationRefused)
    assert f"SUBSCRIBE to {queue}: PRECONDITION_FAILED" in str(error).replace("precondition_failed - ", "")
    assert f"Name it {by_name(queue)}, which declares nothing" in str(error)
    to_read = headers_of(error, "subscribeHeaders")
    error = refused_send(rabbitmq, queue)
    assert isinstance(error, DestinationRefused)
    assert f"SEND to {queue}: " in str(error)
    to_send = headers_of(error, "sendHeaders")
    assert bool(to_read) == bool(to_send) == in_headers
    assert publish(rabbitmq.options(), by_name(queue), [b"a"]) == 1
    sent = [b"a"]
    if to_send:
        assert publish(rabbitmq.options(), queue, [b"b"], *to_send.items()) == 1
        sent.append(b"b")
    rabbitmq.wait_for(queue, ready=len(sent))
    # An auto-delete queue goes with its last consumer, so it is read only once.
    ways = [{"destination": by_name(queue)}]
    ways += [{"destination": queue, "subscribeHeaders": json.dumps(to_read)}] if to_read else []
    for way in ways:
        with Run(rabbitmq.options(**way)) as query:
            assert sorted(row["body"] for row in query.gather(len(sent))) == sent


@on_every_rabbitmq
def test_headers_that_a_queue_does_not_have(rabbitmq: RabbitMQ) -> None:
    queue = rabbitmq.new_queue()
    publish(rabbitmq.options(), queue, [b"a"])
    for error in (
        refused(rabbitmq, queue, subscribeHeaders='{"x-queue-type": "quorum"}'),
        refused_send(rabbitmq, queue, ("x-queue-type", "quorum")),
    ):
        # From 4.0 on every queue has its type among its arguments.
        old = isinstance(rabbitmq, OldRabbitMQ)
        do = "Leave x-queue-type out of " if old else 'Headers = {"x-queue-type": "classic"}'
        assert do in str(error)


def test_several_differences_are_named_one_by_one(rabbitmq: RabbitMQ) -> None:
    queue = rabbitmq.new_queue()
    arguments = {"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    rabbitmq.declare(queue, arguments)
    headers: dict[str, str] = {}
    for _ in arguments:
        headers |= headers_of(refused_send(rabbitmq, queue, *headers.items()), "sendHeaders")
    assert publish(rabbitmq.options(), queue, [b"a"], *headers.items()) == 1
    rabbitmq.wait_for(queue, ready=1)


def test_an_exclusive_queue_of_another_connection(rabbitmq: RabbitMQ) -> None:
    queue = rabbitmq.new_queue()
    exclusive = json.dumps({"exclusive": "true", "durable": "false", "auto-delete": "true"})
    with Run(rabbitmq.options(destination=queue, subscribeHeaders=exclusive), allowLoss=True) as query:
        query.idle()
        for name in (queue, by_name(queue)):
            assert re.search("declared .* as exclusive", str(refused(rabbitmq, name)))
        assert "as exclusive" in str(refused_send(rabbitmq, queue))


def test_a_queue_that_does_not_exist(rabbitmq: RabbitMQ) -> None:
    missing = by_name(rabbitmq.new_queue())
    error = refused(rabbitmq, missing)
    assert isinstance(error, DestinationRefused)
    assert f"or name it {missing.removeprefix('/amq')}, which declares" in str(error)


@on_every_rabbitmq
def test_a_cancelled_subscription_names_both_causes(rabbitmq: RabbitMQ) -> None:
    """4.3 cancels a quorum queue's consumer when its time is over, with the words for a deleted queue."""
    queue = rabbitmq.new_queue()
    with Run(rabbitmq.options(destination=queue)) as query:
        query.idle()
        rabbitmq.delete_queue(queue)
        says_why(query)
    if isinstance(rabbitmq, OldRabbitMQ):
        return
    queue = by_name(rabbitmq.new_queue())
    rabbitmq.declare(queue, {"x-queue-type": "quorum", "x-consumer-timeout": 1_000})
    publish(rabbitmq.options(), queue, [b"a"])
    with Run(rabbitmq.options(destination=queue)) as query:
        query.batch()
        says_why(query)


@pytest.mark.rule("7.12")
@on_every_rabbitmq
@pytest.mark.parametrize("required", [False, True])
def test_a_queue_that_is_deleted_while_a_query_runs(rabbitmq: RabbitMQ, required: bool) -> None:
    """A SUBSCRIBE declares it anew, without its bindings."""
    queue = rabbitmq.new_queue()
    publish(rabbitmq.options(), queue, [b"a"])
    with Run(rabbitmq.options(destination=queue, failOnMissingQueue=required)) as query:
        query.gather(1)
        query.commit()
        rabbitmq.wait_for(queue, ready=0)
        rabbitmq.delete_queue(queue)
        if required:
            wait_until(lambda: query.status.failure, what="the failure")
            assert f"{queue} was deleted while this query ran" in str(query.status.failure)
            return
        says = f"a first message in {queue}, which was deleted"
        wait_until(lambda: says in (query.status.document["waiting_for"] or ""), what=says)
        assert query.status.document["waiting_on"] == "deleted"
        publish(rabbitmq.options(), queue, [b"b"])
        assert [row["body"] for row in query.gather(1)] == [b"b"]
        query.commit()
        wait_until(lambda: query.status.document["waiting_on"] == "broker", what="an idle query")


@pytest.mark.rule("7.13")
@on_every_rabbitmq
def test_a_look_makes_no_queue(rabbitmq: RabbitMQ) -> None:
    queue = rabbitmq.new_queue()
    for name in (queue, by_name(queue)):
        with pytest.raises(DestinationRefused, match="is not there, and a look makes no queue"):
            list(browse(parse_batch_options(rabbitmq.options(destination=name))))
    assert isinstance(refused(rabbitmq, by_name(queue)), DestinationRefused)


def says_why(query: Run) -> None:
    wait_until(lambda: query.counters()[0]["last_error"])
    error = query.counters()[0]["last_error"]
    assert "Server cancelled subscription" in error
    assert "the queue was deleted" in error and "set that higher than the longest batch" in error


@on_every_rabbitmq
def test_a_user_without_the_right_to_configure_names_the_queue(rabbitmq: RabbitMQ) -> None:
    queue = rabbitmq.new_queue()
    publish(rabbitmq.options(), queue, [b"a"])
    login = f"reader-{queue[-6:]}"
    rabbitmq.add_user(login, "of-the-reader", configure="", write="amq.default", read=".*")
    reader = {"login": login, "password": "of-the-reader"}
    error = str(refused(rabbitmq, queue, **reader))
    assert "ACCESS_REFUSED" in error and "/amq/queue/NAME needs only the right to read" in error
    with pytest.raises(BrokerError, match="/amq/queue/NAME needs only"):
        publish(rabbitmq.options(**reader), queue, [b"b"])
    assert publish(rabbitmq.options(**reader), by_name(queue), [b"b"]) == 1
    with Run(rabbitmq.options(destination=by_name(queue), **reader)) as query:
        assert sorted(row["body"] for row in query.gather(2)) == [b"a", b"b"]


def test_an_expired_message_says_what_became_of_it(rabbitmq: RabbitMQ) -> None:
    queue, dead = rabbitmq.new_queue(), rabbitmq.new_queue()
    rabbitmq.declare(dead, {"x-queue-type": "quorum"})
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.removeprefix("/queue/")}
    rabbitmq.declare(queue, {"x-message-ttl": 1, **letters})
    assert publish(rabbitmq.options(), by_name(queue), [b"a"], ("own", "1")) == 1
    with Run(rabbitmq.options(destination=by_name(dead)), ("body", "headers")) as query:
        (letter,) = query.gather(1)
    headers = dict(letter["headers"])
    assert (letter["body"], headers["own"]) == (b"a", "1")
    name = queue.removeprefix("/queue/")
    assert (headers["x-first-death-queue"], headers["x-first-death-reason"]) == (name, "expired")
    # A list of tables, which no header of STOMP can be: RabbitMQ leaves it out.
    assert "x-death" not in headers


@on_every_rabbitmq
def test_a_count_of_deliveries_near_the_limit_is_said(
    rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    """From 4.0 on a quorum queue drops a message after 20 redeliveries, and says nothing."""
    queue = rabbitmq.new_queue()
    rabbitmq.declare(queue, {"x-queue-type": "quorum"})
    # A producer's own count shows at the first delivery only.
    rabbitmq.publish_amqp(queue, b"a", '[{<<"x-delivery-count">>, long, 15}]')
    for count in range(12):
        caplog.clear()
        with Run(rabbitmq.options(destination=by_name(queue))) as query:
            assert [row["body"] for row in query.gather(1)] == [b"a"]
            assert query.counters()[0]["delivery_count"] == count
        said = [text for text in caplog.messages if "delivery-limit" in text]
        assert len(said) == (count >= 10)
        assert all(f"redelivered {count} times (x-delivery-count)" in text for text in said)
        rabbitmq.wait_for(queue, ready=1)


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_the_message_id_of_amqp_recognises_what_is_redelivered(rabbitmq: RabbitMQ, queue_type: str) -> None:
    """RabbitMQ's own message-id does not survive redelivery; the property of a producer does."""
    queue, count = rabbitmq.new_queue(), 5
    rabbitmq.declare(queue, {"x-queue-type": queue_type})
    for number in range(count):
        rabbitmq.publish_amqp(queue, b"%d" % number, message_id=f"m-{number}")
    options = rabbitmq.options(destination=by_name(queue), idHeader="amqp-message-id")
    with FaultProxy(rabbitmq.port) as proxy, Run(options, ("stable_id",), url=proxy.url) as query:
        rows = query.gather(count)
        assert {row["stable_id"] for row in rows} == {f"m-{number}" for number in range(count)}
        proxy.cut()
        wait_until(lambda: query.status.receivers[0].counts.reattached == count, what="all once more")
        assert query.status.receivers[0].received == count
        query.commit()
        rabbitmq.wait_for(queue, ready=0, unacked=0)
