"""Consumers that are taken away from a query that runs, by each broker in its ways: what is said, and that
the query goes on without a second row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.brokers import Broker
from support.driven import Run, bodies, send_rows
from support.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.rule("4.13")]
COUNT = 10


def delete_queue(broker: Any, queue: str) -> None:
    broker.delete_queue(queue)


def delete_address(broker: Any, queue: str) -> None:
    broker.delete_address(queue)


def operator_closes(broker: Any, queue: str) -> None:
    broker.close_connections("we are sorry")


def close_sessions(broker: Any, queue: str) -> None:
    broker.close_sessions(queue)


def is_slow(broker: Any, queue: str) -> None:
    """The policy of the queue takes them away, and its messages back."""
    broker.wait_for(queue, COUNT)


@dataclass(frozen=True)
class Way:
    """``happens`` to a queue that ``broker`` has, and the query says ``said``.

    - ``silent``: the broker says nothing, so only the count of its consumers does.
    - ``keeps``: the messages are still there afterwards.
    """

    broker: str
    happens: Callable[[Any, str], None]
    said: str
    silent: bool = False
    keeps: bool = False

    def __str__(self) -> str:
        return f"{self.broker}-{self.happens.__name__}"


WAYS = [
    Way("activemq", is_slow, "the broker counts 0 consumers of {queue}", silent=True, keeps=True),
    Way("activemq", delete_queue, "the broker has no {queue}", silent=True),
    Way("artemis", delete_queue, "somebody has closed the consumer"),
    Way("artemis", delete_address, "somebody has closed the consumer"),
    Way("artemis", close_sessions, "somebody has closed the consumer", keeps=True),
    Way("rabbitmq", delete_queue, "Server cancelled subscription"),
    Way("rabbitmq", operator_closes, "An operator has closed the connection", keeps=True),
]


def counted(run: Run) -> bool:
    """A broker that has never counted a consumer is not believed that it counts none."""
    return any(one["consumers"] for one in run.status.document["queues"].values())


@pytest.mark.parametrize(("told", "way"), [(one.broker, one) for one in WAYS], indirect=["told"], ids=str)
def test_it_is_said_and_no_row_comes_twice(told: Broker, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_stomp.source.standings._PERIOD", 0.5)
    broker: Any = told
    queue = broker.new_slow_queue() if way.happens is is_slow else broker.new_queue()
    send_rows(told.options(), queue, ((b"%d" % one, [("x-id", str(one))]) for one in range(COUNT)))
    # RabbitMQ has no ids of its own that survive redelivery.
    ids = {"idHeader": "x-id"} if way.broker == "rabbitmq" else {}
    with Run(told.options(destination=queue, reconnectDelay="100ms", **ids)) as run:
        rows = run.gather(COUNT)
        wait_until(lambda: counted(run), what="our consumer in the figures of the queue")
        way.happens(broker, queue)
        run.commit()
        wait_until(lambda: run.counters()[0]["reconnects"], what="a new connection")
        (figures,) = run.counters()
        assert way.said.format(queue=queue) in figures["last_error"]
        assert figures["forgotten"] == way.silent
        send_rows(told.options(), queue, [(b"new", [("x-id", "new")])])
        rows += run.gather(1)
        run.commit()
        told.wait_for(queue, 0)
        assert sorted(bodies(rows)) == sorted([*(b"%d" % number for number in range(COUNT)), b"new"])
        # They may have come again before they were committed. None was to come without the messages.
        (figures,) = run.counters()
        assert figures["dropped"] + figures["reattached"] == COUNT * way.keeps
