"""What a look at a queue costs: the table in docs/reading.md."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from support.brokers import Artemis, Broker, RabbitMQ
from support.driven import publish

from spark_stomp.errors import UnsupportedError
from spark_stomp.options import parse_batch_options
from spark_stomp.source.reads import browse

pytestmark = pytest.mark.broker

BODIES = [b"a", b"b", b"c"]
# More than any limit of deliveries that a broker has by default.
MANY = 22


def look(broker: Broker, queue: str, **options: Any) -> int:
    """How many messages a batch read shows."""
    given = broker.options(destination=queue, maxMessages=10, idleTimeout="300ms", **options)
    with closing(browse(parse_batch_options(given))) as batches:
        return sum(len(batch.ends) for batch, _ in batches)


def plain(broker: Any, queue: str) -> str:
    return queue


def by_name(broker: Any, queue: str, **arguments: Any) -> str:
    broker.declare(queue, arguments)
    return queue.replace("/queue/", "/amq/queue/")


def classic(broker: Any, queue: str) -> str:
    return by_name(broker, queue)


def unlimited(broker: Any, queue: str) -> str:
    return by_name(broker, queue, **{"x-queue-type": "quorum", "x-delivery-limit": -1})


def single(broker: Any, queue: str) -> str:
    return by_name(broker, queue, **{"x-single-active-consumer": True})


def non_destructive(broker: Any, queue: str) -> str:
    broker.declare(queue, **{"non-destructive": True})
    return queue


def limited(broker: Any, queue: str) -> str:
    return str(broker.new_limited_queue())


def paged(broker: Any, queue: str) -> str:
    return str(broker.new_paged_queue(200))


FREE: list[tuple[str, Callable[[Any, str], str]]] = [
    ("rabbitmq", classic),
    ("rabbitmq", unlimited),
    ("rabbitmq", single),
    ("activemq", plain),
    ("activemq", paged),
    ("artemis", limited),
    ("artemis", non_destructive),
]


@pytest.mark.parametrize(
    ("broker", "make"), FREE, indirect=["broker"], ids=[f"{broker}-{make.__name__}" for broker, make in FREE]
)
def test_looking_as_often_as_one_likes(broker: Broker, make: Callable[[Any, str], str]) -> None:
    queue = make(broker, broker.new_queue())
    publish(broker.options(), queue, BODIES)
    # That a policy takes the limit away is not known here.
    further = {"allowLoss": True} if make is unlimited else {}
    assert [look(broker, queue, **further) for _ in range(MANY)] == [3] * MANY
    broker.wait_for(queue, ready=3)


@pytest.mark.rule("7.13")
def test_a_quorum_queue_drops_what_was_looked_at_twenty_times(
    rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    """The looks before that say so, then they are refused, and only with allowLoss is it lost."""
    queue = by_name(rabbitmq, rabbitmq.new_queue(), **{"x-queue-type": "quorum"})
    publish(rabbitmq.options(), queue, BODIES)

    def returned(shown: int) -> int:
        rabbitmq.wait_for(queue, ready=3)
        return shown

    for number in range(1, 16):
        caplog.clear()
        assert returned(look(rabbitmq, queue)) == 3
        assert (f"the {number}th time (x-delivery-count)" in caplog.text) == (number > 10)
    with pytest.raises(UnsupportedError, match=r"were delivered 15 times before .* allowLoss = true"):
        look(rabbitmq, queue)
    returned(3)
    for _ in range(4):
        assert returned(look(rabbitmq, queue, allowLoss=True)) == 3
    assert look(rabbitmq, queue, allowLoss=True) == 3
    rabbitmq.wait_for(queue, ready=0)


@pytest.mark.parametrize("broker", ["artemis"], indirect=True)
def test_artemis_counts_a_look_that_is_killed(broker: Artemis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_stomp.receiver.reading.disconnect", lambda *_: None)
    queue = broker.new_limited_queue()
    publish(broker.options(), queue, BODIES)
    for _ in range(9):
        assert look(broker, queue) == 3
        broker.wait_for(queue, ready=3)
    assert look(broker, queue) == 3
    broker.wait_for(queue, ready=0)
