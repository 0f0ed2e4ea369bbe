"""When a broker seems to hold messages back, and what is learned from what comes after the ACKs."""

from __future__ import annotations

import pytest

from spark_stomp.receiver.page_limit import PageLimitDetector


@pytest.fixture
def cap() -> PageLimitDetector:
    return PageLimitDetector(has_limit=True, prefetch=10_000)


def stalls(cap: PageLimitDetector, unacked: int, quiet: float) -> None:
    """Silence, then the ACKs for all, whose receipt comes at 5.0."""
    cap.watch(unacked, quiet, now=4.0)
    cap.acks_sent()
    cap.acks_confirmed(now=5.0)


def refuted(cap: PageLimitDetector, quiet: float) -> None:
    """Nothing comes after the ACKs."""
    stalls(cap, 120, quiet)
    cap.watch(0, 0.3, now=5.3)


class TestSilence:
    @pytest.mark.rule("5.3")
    @pytest.mark.parametrize("unacked", [80, 120, 200, 300, 2_048])
    def test_any_number_may_be_the_limit(self, cap: PageLimitDetector, unacked: int) -> None:
        assert cap.holds_back(unacked, quiet=1.0)
        assert not cap.holds_back(unacked, quiet=0.9)
        assert not cap.holds_back(unacked, quiet=60.0, acks_pending=True)

    def test_without_un_acked_messages_the_queue_is_empty(self, cap: PageLimitDetector) -> None:
        assert not cap.holds_back(0, quiet=60.0)

    def test_not_at_the_prefetch_where_it_stops_anyway(self, cap: PageLimitDetector) -> None:
        assert not cap.holds_back(10_000, quiet=60.0)

    def test_not_where_the_broker_has_no_such_limit(self) -> None:
        cap = PageLimitDetector(has_limit=False, prefetch=10_000)
        assert not cap.holds_back(200, quiet=60.0)
        stalls(cap, 200, quiet=60.0)
        assert not cap.delivered(200, now=5.1)


class TestWhatComesAfterTheAcks:
    @pytest.mark.rule("5.3")
    def test_messages_at_once_were_held_back(self, cap: PageLimitDetector) -> None:
        stalls(cap, 300, quiet=1.0)
        assert cap.limit == 300
        assert cap.delivered(200, now=5.1)
        assert cap.limit == 300
        assert cap.holds_back(417, quiet=1.0)

    def test_also_before_the_receipt(self, cap: PageLimitDetector) -> None:
        cap.watch(400, 1.0, now=4.0)
        cap.acks_sent()
        assert cap.delivered(200, now=5.0)

    def test_in_several_pieces(self, cap: PageLimitDetector) -> None:
        stalls(cap, 300, quiet=1.0)
        assert not cap.delivered(1, now=5.1)
        assert not cap.delivered(1, now=5.15)
        assert cap.delivered(1, now=5.2)

    def test_one_message_may_come_by_chance(self, cap: PageLimitDetector) -> None:
        stalls(cap, 300, quiet=1.0)
        assert not cap.delivered(1, now=5.1)
        cap.watch(1, 0.3, now=5.4)
        assert not cap.holds_back(300, quiet=1.9)
        assert cap.limit is None

    def test_messages_that_come_later_were_not(self, cap: PageLimitDetector) -> None:
        stalls(cap, 300, quiet=1.0)
        assert not cap.delivered(200, now=5.3)
        assert not cap.holds_back(300, quiet=1.9)

    def test_messages_that_come_without_room_being_made_were_not(self, cap: PageLimitDetector) -> None:
        cap.watch(300, 1.0, now=4.0)
        assert not cap.delivered(200, now=4.1)
        assert not cap.holds_back(300, quiet=1.9)
        cap.acks_sent()
        cap.acks_confirmed(now=5.0)
        assert not cap.delivered(200, now=5.1)


class TestATrickle:
    """Messages with long gaps are no limit: the minimum is there to gather them."""

    @pytest.mark.rule("5.3")
    def test_each_time_the_silence_has_to_last_twice_as_long(self, cap: PageLimitDetector) -> None:
        for silence in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
            assert cap.holds_back(120, quiet=silence)
            assert not cap.holds_back(120, quiet=silence - 0.1)
            refuted(cap, silence)

    def test_up_to_a_minute(self, cap: PageLimitDetector) -> None:
        for _ in range(20):
            refuted(cap, 60.0)
        assert cap.holds_back(120, quiet=60.0)
        assert not cap.holds_back(120, quiet=59.0)

    def test_gaps_shorter_than_that_leave_nothing_to_be_judged(self, cap: PageLimitDetector) -> None:
        refuted(cap, 1.0)
        stalls(cap, 120, quiet=1.9)
        assert not cap.delivered(200, now=5.1)
        assert cap.holds_back(120, quiet=2.0)

    def test_a_limit_that_shows_is_looked_for_quickly_again(self, cap: PageLimitDetector) -> None:
        for _ in range(4):
            refuted(cap, 60.0)
        stalls(cap, 300, quiet=60.0)
        assert cap.delivered(200, now=5.1)
        assert cap.holds_back(80, quiet=1.0)
