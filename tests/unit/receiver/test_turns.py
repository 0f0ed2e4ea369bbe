"""What the next connection asks for, after one that ended early."""

from __future__ import annotations

import pytest

from spark_stomp.errors import BrokerError, ConnectionLost, DestinationRefused, StompError
from spark_stomp.receiver.turns import Ended, Turn, Turns, may_be_about_a_message

pytestmark = pytest.mark.rule("4.12")

A, B, C = "/queue/a", "/queue/b", "/queue/c"


def error(unacked: int, achieved: int = 0, given: int | None = None, **more: bool) -> Ended:
    """An ERROR ended it. What came is ``given`` to Spark, unless that says otherwise."""
    return Ended(unacked, unacked if given is None else given, achieved, by_error=True, **more)


def cut(unacked: int, achieved: int = 0) -> Ended:
    return Ended(unacked, unacked, achieved, by_error=False)


class TestOneDestination:
    def test_is_asked_for_a_hundredth_and_at_last_for_one(self) -> None:
        turns = Turns((A,))
        turns.ended(error(40_000))
        found = [turns.ended(error(unacked, 1)).prefetch for unacked in (40_000, 400, 3, 1)]
        assert found == [400, 4, 1, 1]
        assert turns.current.is_careful

    @pytest.mark.parametrize(
        ("ends", "prefetch"),
        [
            ([cut(40_000)] * 5, None),
            # It may have any cause.
            ([error(40_000)], None),
            ([error(40_000), error(40_000)], 400),
            ([error(40_000), error(20_000, achieved=40_000)], 200),
            ([error(0), error(0)], 1),
            # It got past.
            ([error(40_000), error(40_000, achieved=40_001)], None),
            ([error(300, achieved=7), cut(9, achieved=300), error(9)], None),
            # A broker whose window cannot be set.
            ([error(40_000, limits_unacked=False)] * 5, None),
            # A topic, or a broker that redelivers nothing.
            ([error(40_000, redelivers=False)] * 5, None),
        ],
        ids=str,
    )
    def test_is_asked_for_less_after(self, ends: list[Ended], prefetch: int | None) -> None:
        turns = Turns((A,))
        for end in ends:
            turns.ended(end)
        assert turns.current.prefetch == prefetch
        assert turns.current.is_careful == (prefetch is not None)

    def test_is_read_as_ever_once_the_turn_is_over(self) -> None:
        turns = Turns((A,))
        turns.ended(error(300))
        turns.ended(error(300))
        assert turns.current == Turn((A,), 3, suspects=300, errors=2)
        turns.ended(cut(3, achieved=120))
        assert turns.current == Turn((A,), 3, suspects=180)
        turns.next()
        assert turns.current == Turn((A,))
        assert not turns.current.is_careful


class TestSeveralDestinations:
    def test_have_turns_of_their_own_and_one_that_fails_waits_for_the_others(self) -> None:
        turns = Turns((A, B, C))
        for _ in range(2):
            turns.ended(error(500))
        assert turns.current == Turn((A,), 5, suspects=500, errors=2)
        turns.ended(error(0, achieved=7))
        for one in (B, C):
            assert turns.current == Turn((one,), 5, suspects=500, errors=2)
            turns.next()
        assert turns.current == Turn((A,), 1, errors=3)
        turns.next()
        assert turns.current == Turn((A, B, C))

    @pytest.mark.parametrize("end", [cut(500), error(500, limits_unacked=False)], ids=str)
    def test_stay_together_otherwise(self, end: Ended) -> None:
        """Without a subscription a topic would lose its messages."""
        turns = Turns((A, B))
        for _ in range(5):
            turns.ended(end)
        assert not turns.current.is_careful


class TestFailures:
    @pytest.mark.parametrize(
        ("end", "before", "after"),
        [
            (error(0), Turn((A,)), 1),
            (error(0), Turn((A,), 1, failures=2), 3),
            # One came, and Spark does not know of it. The ERROR is for the one behind it, or for its ACK.
            (error(1, given=0), Turn((A,), 1, failures=1), 2),
            (error(1, acks_sent=True), Turn((A,), 1, failures=1), 2),
            (error(3, acks_sent=True, limits_unacked=False), Turn((A,)), 1),
            # It may have come from one behind those.
            (error(9, given=0), Turn((A,), 9), 0),
            (error(9, acks_sent=True), Turn((A,), 9), 0),
            # Spark takes its time.
            (error(1), Turn((A,), 1), 0),
            (error(0, achieved=1), Turn((A,), 1, failures=2), 0),
            (error(0), Turn((A, B)), 0),
            (error(0, redelivers=False), Turn((A,)), 0),
            (error(3, acks_sent=True, redelivers=False), Turn((A,)), 1),
            (cut(0), Turn((A,), 1, failures=2), 0),
        ],
        ids=str,
    )
    def test_are_errors_before_anything_is_achieved(self, end: Ended, before: Turn, after: int) -> None:
        turns = Turns((A, B))
        turns._turns[0] = before
        assert turns.ended(end).failures == after

    def test_three_in_a_row_are_too_many_and_the_pauses_grow(self) -> None:
        turns, found = Turns((A,)), []
        for _ in range(3):
            turn = turns.ended(error(0))
            found.append((turn.has_failed, turn.pause))
        assert found == [(False, 5.0), (False, 10.0), (True, 15.0)]


@pytest.mark.parametrize(
    ("error", "since", "size", "may_be"),
    [
        (BrokerError("AMQP channel died"), 0.1, 0, True),
        # Long after the broker could send it, another cause is likelier.
        (BrokerError("AMQP channel died"), 3.0, 1_000, False),
        (BrokerError("AMQP channel died"), 3.0, 200_000_000, True),
        (ConnectionLost("it is gone"), 0.1, 0, False),
        (DestinationRefused("no"), 0.1, 0, False),
    ],
    ids=str,
)
def test_which_errors_may_be_about_a_message(
    error: StompError, since: float, size: int, may_be: bool
) -> None:
    assert may_be_about_a_message(error, since, size) is may_be


def test_the_log_says_how_many_are_asked_for() -> None:
    assert str(Turn((A,))) == ""
    assert str(Turn((A, B), 4)) == "; 4 messages of /queue/a and 1 more at a time"
