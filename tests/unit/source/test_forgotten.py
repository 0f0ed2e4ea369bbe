"""When a broker is believed that counts fewer consumers of a queue than the query has there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_stomp.brokers import dialect_named
from spark_stomp.brokers.standing import QueueAnswer, Standing
from spark_stomp.source.forgotten import Forgotten

pytestmark = pytest.mark.rule("4.13")
GONE = Standing(is_there=False)
UNKNOWN = Standing(is_there=True)


def counting(consumers: int) -> Standing:
    return Standing(True, 0, 0, consumers)


class Asking:
    """One queue, of which the broker tells every ten seconds."""

    def __init__(self, queue: str = "/queue/a", dialect: str = "activemq", own: int = 1) -> None:
        self.forgotten = Forgotten()
        self.queue = queue
        self.last = QueueAnswer(counting(own), 0.0, 0.0, own, dialect_named(dialect).asks)
        self.subscriptions, self.delivered, self.every = 0, 0, 10.0

    def tells(self, *answers: Standing | int) -> list[bool]:
        """Whether each of these answers, or counts of consumers, shows that it has forgotten."""
        return [self.why(one) is not None for one in answers]

    def why(self, answer: Standing | int) -> str | None:
        standing = counting(answer) if isinstance(answer, int) else answer
        self.last = replace(self.last, standing=standing, asked_at=self.last.asked_at + self.every)
        return self.forgotten.why(self.queue, self.last, self.subscriptions, self.delivered)


def test_two_answers_in_a_row_are_believed() -> None:
    asking = Asking()
    assert asking.tells(1, 0, 1, 0) == [False] * 4
    assert asking.forgotten.doubts
    why = asking.why(0)
    assert why is not None and not asking.forgotten.doubts
    assert why.startswith(
        "the broker counts 0 consumers of /queue/a, in 2 answers within 10 s, and this query has "
        "1 subscription there: it has forgotten what it confirmed"
    )
    assert "abortSlowAckConsumerStrategy" in why


@pytest.mark.parametrize("answer", [0, GONE], ids=["no consumer", "no queue"])
def test_a_broker_that_never_counted_anything_is_not_believed(answer: Standing | int) -> None:
    """Its statistics may be off."""
    assert Asking().tells(answer, answer, answer) == [False] * 3


@pytest.mark.parametrize("messages", [{"ready": 1}, {"unacked": 1}], ids=str)
def test_a_broker_that_counts_messages_counts_consumers(messages: dict[str, int]) -> None:
    answer = replace(counting(0), **messages)
    assert Asking().tells(answer, answer) == [False, True]


def test_other_consumers_hide_it() -> None:
    assert Asking().tells(2, 1, 1, 1) == [False] * 4


def test_one_of_several_is_enough() -> None:
    assert Asking(own=3).tells(3, 2, 2) == [False, False, True]


def test_a_message_or_another_connection_takes_the_doubt_away() -> None:
    asking = Asking()
    asking.tells(1, 0)
    asking.subscriptions = 1
    assert asking.tells(0, 0) == [False, True]


@pytest.mark.parametrize(
    ("queue", "seen"), [("/queue/a", True), ("/queue/a.>", False), ("/queue/a,b", False)]
)
def test_a_queue_that_is_gone_has_no_consumers(queue: str, seen: bool) -> None:
    """What stands for several queues may stand for none."""
    assert Asking(queue).tells(1, GONE, GONE) == [False, False, seen]


def test_figures_that_are_not_known_are_no_answer() -> None:
    assert Asking().tells(1, 0, UNKNOWN, 0, 0) == [False] * 4 + [True]


def test_figures_of_rabbitmq_are_those_of_five_seconds_ago() -> None:
    asking = Asking(dialect="rabbitmq")
    asking.every = 2.0
    assert asking.tells(1, 0, 0, 0, 0) == [False] * 4 + [True]


def test_who_gets_nothing_afterwards_is_asked_longer() -> None:
    asking = Asking()
    asking.tells(1)
    for needed in 2, 4, 8:
        assert asking.tells(*[0] * needed) == [False] * (needed - 1) + [True]
    asking.delivered = 1
    assert asking.tells(0, 0) == [False, True]
