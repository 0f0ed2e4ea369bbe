"""Consumers that are taken away from a query that runs, by each broker in its ways: what is said, and that
the query goes on without a second row."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.brokers import Broker, RabbitMQCluster
from support.driven import Run, bodies, publish, send_rows
from support.waiting import wait_until

from spark_stomp.transport.logins import RefusedLogins

pytestmark = [pytest.mark.broker, pytest.mark.rule("4.13")]
COUNT = 10


def delete_queue(broker: Any, queue: str) -> None:
    broker.delete_queue(queue)


def delete_address(broker: Any, queue: str) -> None:
    broker.delete_address(queue)


def operator_closes(broker: Any, queue: str) -> None:
    broker.close_connections("we are sorry")


def management_closes(broker: Any, queue: str) -> None:
    """By the HTTP API, as its page does."""
    broker.delete_connections()


def limit_is_reached(broker: Any, queue: str) -> None:
    """The virtual host may have no connection, until it has refused one."""
    broker.limit_virtual_host(0)
    refused = broker.said.count("access to vhost")
    broker.close_connections("we are sorry")
    wait_until(lambda: broker.said.count("access to vhost") > refused, what="a refused connection")
    broker.limit_virtual_host(None)


def close_consumer(broker: Any, queue: str) -> None:
    broker.close_consumers(queue)


def address_may_be_deleted(broker: Any, queue: str) -> None:
    """The broker looks for such addresses twice a second, and deletes another one that nobody uses."""
    unused = broker.new_queue().replace("/queue/", "/queue/reaped.")
    publish(broker.options(), unused, [b"x"])
    broker.delete_queue(unused)
    wait_until(lambda: not broker.has_address(unused), what="a look for addresses")


def leader_moves(cluster: Any, queue: str) -> None:
    cluster.move_leader(queue, cluster.nodes[2])


def close_sessions(broker: Any, queue: str) -> None:
    broker.close_sessions(queue)


def is_killed(broker: Any, queue: str) -> None:
    """As it ACKs nothing."""
    (consumer,) = broker.consumers(queue)
    wait_until(lambda: consumer["sessionID"] not in sessions(broker, queue), what="the end of the connection")


def sessions(broker: Any, queue: str) -> list[str]:
    return [one["sessionID"] for one in broker.consumers(queue)]


def is_slow(broker: Any, queue: str) -> None:
    """The policy of the queue takes them away, and its messages back."""
    broker.wait_for(queue, COUNT)


@dataclass(frozen=True)
class Way:
    """``happens`` to a queue that ``broker`` has, and the query says ``said``; None: its subscription stays.

    - ``silent``: the broker says nothing, so only the count of its consumers does.
    - ``keeps``: the messages are still there afterwards.
    - ``folder``: below which the queue is, for the policy of the broker.
    """

    broker: str
    happens: Callable[[Any, str], None]
    said: str | None
    silent: bool = False
    keeps: bool = False
    folder: str = ""

    def __str__(self) -> str:
        return f"{self.broker}-{self.happens.__name__}"

    def new_queue(self, broker: Broker) -> str:
        return broker.new_queue().replace("/queue/", f"/queue/{self.folder}")


CANCELLED, OPERATOR = "Server cancelled subscription", "An operator has closed the connection"
CLOSED = "somebody has closed the consumer"
WAYS = [
    Way("activemq", is_slow, "the broker counts 0 consumers of {queue}", True, True, "slow."),
    Way("activemq", delete_queue, "the broker has no {queue}", silent=True),
    Way("activemq", operator_closes, "closed the connection", keeps=True),
    Way("artemis", delete_queue, CLOSED),
    Way("artemis", delete_address, CLOSED),
    Way("artemis", close_sessions, CLOSED, keeps=True),
    Way("artemis", close_consumer, CLOSED, keeps=True),
    Way("artemis", is_killed, "AMQ229005", keeps=True, folder="slow."),
    Way("artemis", address_may_be_deleted, None, keeps=True, folder="reaped."),
    Way("rabbitmq", delete_queue, CANCELLED),
    Way("rabbitmq", operator_closes, OPERATOR, keeps=True),
    Way("rabbitmq", management_closes, OPERATOR, keeps=True),
    Way("rabbitmq", limit_is_reached, "Virtual host '/' access denied", keeps=True),
    Way("rabbitmq-cluster", leader_moves, None, keeps=True),
]
MATRIX = [
    pytest.param(one.broker, one, id=str(one), marks=pytest.mark.soak if "cluster" in one.broker else ())
    for one in WAYS
]


def counted(run: Run) -> bool:
    """A broker that has never counted a consumer is not believed that it counts none."""
    return any(one["consumers"] for one in run.status.document["queues"].values())


@pytest.mark.parametrize(("telling", "way"), MATRIX, indirect=["telling"])
def test_it_is_said_and_no_row_comes_twice(
    telling: Broker, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_stomp.source.standings._PERIOD", 0.5)
    # An ERROR to CONNECT counts as a refused login, which no other test is to know.
    monkeypatch.setattr("spark_stomp.transport.connect._refused", RefusedLogins())
    monkeypatch.setattr("spark_stomp.transport.logins.REFUSED_PAUSE", 0.5)
    monkeypatch.setattr("spark_stomp.transport.retry.FIRST_LOGIN_DELAY", 1.0)
    queue = way.new_queue(telling)
    if isinstance(telling, RabbitMQCluster):
        telling.declare(queue, "quorum", telling.nodes[1])
        queue = queue.replace("/queue/", "/amq/queue/")
    send_rows(telling.options(), queue, ((b"%d" % one, [("x-id", str(one))]) for one in range(COUNT)))
    # RabbitMQ has no ids of its own that survive redelivery.
    ids = {"idHeader": "x-id"} if "rabbitmq" in way.broker else {}
    with Run(telling.options(destination=queue, reconnectDelay="100ms", **ids)) as run:
        rows = run.gather(COUNT)
        if way.silent:
            wait_until(lambda: counted(run), what="our consumer in the figures of the queue")
        begun = time.monotonic()
        way.happens(telling, queue)
        run.commit()
        if way.said is not None:
            wait_until(lambda: run.counters()[0]["reconnects"], what="a new connection")
        took = time.monotonic() - begun
        (figures,) = run.counters()
        sys.stdout.write(f"{way}: {took:.1f} s: {figures['last_error']}\n")
        assert (way.said or "None").format(queue=queue) in str(figures["last_error"])
        assert figures["forgotten"] == way.silent
        send_rows(telling.options(), queue, [(b"new", [("x-id", "new")])])
        rows += run.gather(1)
        run.commit()
        telling.wait_for(queue, 0)
        assert sorted(bodies(rows)) == sorted([*(b"%d" % number for number in range(COUNT)), b"new"])
        # They may have come again before they were committed, or were ACKed before the end. None was to come
        # without the messages.
        (figures,) = run.counters()
        again = figures["dropped"] + figures["reattached"]
        assert again == COUNT if way.keeps and way.silent else again in (0, COUNT * way.keeps)
