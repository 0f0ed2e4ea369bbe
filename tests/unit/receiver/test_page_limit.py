"""When a broker counts as holding back, and when that is certain."""

from __future__ import annotations

import pytest

from spark_stomp.receiver.page_limit import PageLimitDetector


@pytest.fixture
def cap() -> PageLimitDetector:
    return PageLimitDetector(200, 10_000)


def learned(cap: PageLimitDetector, at: int = 400) -> bool:
    """The broker stops ``at`` so many messages, and goes on once ACKs make room."""
    cap.watch(at, 1.0)
    cap.acks_sent()
    cap.acks_confirmed(now=5.0)
    return cap.delivered(unacked=100, now=5.1)


class TestForTheTimeBeing:
    @pytest.mark.rule("5.3")
    def test_whole_pages_and_silence(self, cap: PageLimitDetector) -> None:
        assert cap.holds_back(200, quiet=1.0)
        assert cap.holds_back(600, quiet=1.0)
        assert not cap.holds_back(200, quiet=0.9)
        assert not cap.holds_back(201, quiet=60.0)
        assert not cap.holds_back(0, quiet=60.0)

    def test_not_beyond_the_prefetch_where_it_stops_anyway(self) -> None:
        assert not PageLimitDetector(200, 400).holds_back(400, quiet=60.0)

    def test_not_where_the_broker_has_no_pages(self) -> None:
        cap = PageLimitDetector(None, 10_000)
        assert not cap.holds_back(200, quiet=60.0)
        assert not learned(cap)


class TestForCertain:
    def test_once_messages_come_as_soon_as_there_is_room(self, cap: PageLimitDetector) -> None:
        assert learned(cap)
        assert cap.learned == 400

    def test_also_before_the_receipt(self, cap: PageLimitDetector) -> None:
        cap.watch(400, 1.0)
        cap.acks_sent()
        assert cap.delivered(unacked=400, now=5.0)

    @pytest.mark.rule("5.3")
    def test_from_then_on_at_once(self, cap: PageLimitDetector) -> None:
        learned(cap)
        assert cap.holds_back(400, quiet=0.0)
        assert not cap.holds_back(399, quiet=0.0)
        assert not cap.holds_back(400, quiet=0.0, acks_pending=True)

    def test_not_where_they_come_without_room_being_made(self, cap: PageLimitDetector) -> None:
        cap.watch(400, 1.0)
        assert not cap.delivered(unacked=401, now=5.0)
        cap.acks_sent()
        cap.acks_confirmed(now=6.0)
        assert not cap.delivered(unacked=10, now=6.1)

    def test_not_where_they_come_later(self, cap: PageLimitDetector) -> None:
        cap.watch(400, 1.0)
        cap.acks_sent()
        cap.acks_confirmed(now=5.0)
        assert not cap.delivered(unacked=10, now=5.3)
        assert cap.learned is None

    def test_until_the_broker_sends_more(self, cap: PageLimitDetector) -> None:
        learned(cap)
        assert not cap.delivered(unacked=400, now=7.0)
        assert cap.learned == 400
        cap.delivered(unacked=401, now=7.1)
        assert cap.learned is None
        assert not cap.holds_back(401, quiet=0.0)
