"""Contract 5 and the triggers: when a batch is cut, and when "nothing new" may be said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from spark_stomp.receiver import ReceiverStatus
from spark_stomp.receiver.settings import PauseStatus
from spark_stomp.source.offsets import Offset, Position
from spark_stomp.source.planning import (
    QUIET_PERIOD,
    QUIET_PERIOD_MAX,
    Available,
    Decision,
    Limits,
    Mode,
    Situation,
    decide,
    end_of_drain,
    leaves_more,
)
from spark_stomp.source.recent_batches import REFILL_MAX, LastBatch, RecentBatches

STATUS = ReceiverStatus("r", "e", True, 0, 0, 0, last_active=100.0, window_full=False, failure=None)


@dataclass
class Case:
    new: int = 0
    silence: float = 0.0
    full: bool = False
    pending: float | None = None
    drain_left: float = 1e9

    def situation(self) -> Situation:
        now = STATUS.last_active + self.silence
        return Situation(
            statuses=[STATUS],
            available=[Available("a", "e", 0, self.new, self.full)],
            now=now,
            pending_since=None if self.pending is None else now - self.pending,
            drain_until=now + self.drain_left,
            idle_timeout=2.0,
        )


def decided(mode: Mode, case: Case, limits: Limits | None = None) -> Decision:
    return decide(mode, limits or Limits(), case.situation())


class TestStreaming:
    @pytest.mark.rule("5.2")
    def test_never_waits(self) -> None:
        assert decided(Mode.STREAMING, Case()) is Decision.NOTHING_NEW
        assert decided(Mode.STREAMING, Case(new=1, pending=0)) is Decision.CUT

    @pytest.mark.rule("5.2")
    def test_a_minimum_holds_back_until_the_delay(self) -> None:
        limits = Limits(min_messages=5, max_delay=3)
        assert decided(Mode.STREAMING, Case(new=4, pending=2.9), limits) is Decision.NOTHING_NEW
        assert decided(Mode.STREAMING, Case(new=4, pending=3.1), limits) is Decision.CUT
        assert decided(Mode.STREAMING, Case(new=4, pending=0, full=True), limits) is Decision.CUT


@pytest.mark.rule("5.10")
class TestRefill:
    """A streaming batch right after the ACKs of the last one, which had 1,000 messages and took 300 ms."""

    last = LastBatch(1_000, 0.3, ended=STATUS.last_active)
    acking = replace(STATUS, acks_pending=True)

    def decided(
        self,
        new: int,
        last: LastBatch = last,
        status: ReceiverStatus = acking,
        limits: Limits | None = None,
        after: float = 0.0,
        since: float = 0.0,
        **more: Any,
    ) -> Decision:
        situation = Situation(
            statuses=[status],
            available=[Available("a", "e", 0, new, **more)],
            now=last.ended + after,
            pending_since=last.ended + since,
            drain_until=1e9,
            idle_timeout=2.0,
            last=last,
        )
        return decide(Mode.STREAMING, limits or Limits(), situation)

    def test_waits_for_half_as_much_as_the_last_batch(self) -> None:
        assert self.decided(new=0) is Decision.WAIT
        assert self.decided(new=499) is Decision.WAIT
        assert self.decided(new=500) is Decision.CUT

    def test_for_a_part_of_its_duration(self) -> None:
        assert self.decided(new=9, after=0.14) is Decision.WAIT
        assert self.decided(new=9, after=0.16) is Decision.CUT
        assert self.decided(new=0, after=0.16) is Decision.NOTHING_NEW

    def test_longer_where_many_come_and_hardly_any_is_there(self) -> None:
        busy = LastBatch(6_000, 0.3, ended=0.0)
        more: dict[str, Any] = {"last": busy, "window": 40_000, "status": STATUS}
        assert self.decided(new=2_999, after=0.26, **more) is Decision.WAIT
        assert self.decided(new=2_999, after=0.28, **more) is Decision.CUT
        assert self.decided(new=3_000, after=0.26, **more) is Decision.CUT

    def test_longer_still_as_long_as_acks_are_not_confirmed(self) -> None:
        busy = LastBatch(6_000, 0.3, ended=0.0)
        assert self.decided(new=2_999, last=busy, window=40_000, after=0.99) is Decision.WAIT
        assert self.decided(new=2_999, last=busy, window=40_000, after=1.01) is Decision.CUT

    def test_from_the_first_message_if_the_broker_stood_still(self) -> None:
        more: dict[str, Any] = {"window": 40_000, "status": STATUS}
        busy = LastBatch(6_000, 0.3, ended=0.0)
        assert self.decided(new=2_999, last=busy, since=0.5, after=0.76, **more) is Decision.WAIT
        assert self.decided(new=2_999, last=busy, since=0.5, after=0.78, **more) is Decision.CUT
        assert self.decided(new=3_000, last=busy, since=0.5, after=0.5, **more) is Decision.CUT
        assert self.decided(new=9, last=busy, since=2.1, after=2.1, **more) is Decision.CUT
        longer = LastBatch(20_000, 3.0, ended=0.0)
        assert self.decided(new=9, last=longer, since=0.5, after=1.49, **more) is Decision.WAIT
        assert self.decided(new=9, last=longer, since=0.5, after=1.51, **more) is Decision.CUT

    def test_as_long_as_they_come_fast_enough(self) -> None:
        """1,500 of 6,000 within 0.26 s: at that rate 3,000 are there within a second."""
        busy = LastBatch(6_000, 0.3, ended=0.0)

        def at(after: float, new: int, heard: float) -> Decision:
            status = replace(STATUS, last_active=heard)
            return self.decided(new=new, last=busy, window=40_000, status=status, after=after)

        assert at(after=0.28, new=1_500, heard=0.26) is Decision.WAIT
        assert at(after=0.52, new=1_500, heard=0.26) is Decision.WAIT
        assert at(after=0.54, new=1_500, heard=0.26) is Decision.CUT
        assert at(after=0.99, new=2_999, heard=0.99) is Decision.WAIT
        assert at(after=1.01, new=2_999, heard=0.99) is Decision.CUT
        # One in ten milliseconds is too slow.
        assert at(after=0.28, new=26, heard=0.26) is Decision.CUT

    def test_and_no_longer_than_a_moment(self) -> None:
        slow = LastBatch(1_000, 9.0, ended=0.0)
        assert self.decided(new=600, last=slow, after=REFILL_MAX - 0.01) is Decision.CUT
        assert self.decided(new=9, last=slow, after=REFILL_MAX - 0.01) is Decision.WAIT
        assert self.decided(new=9, last=slow, after=REFILL_MAX + 0.01) is Decision.CUT

    def test_where_many_come_for_half_of_the_window(self) -> None:
        busy = LastBatch(5_000, 0.3, ended=0.0)
        assert self.decided(new=4_900, last=busy, window=40_000) is Decision.WAIT
        assert self.decided(new=20_000, last=busy, window=40_000) is Decision.CUT
        assert self.decided(new=4_900, last=busy, window=40_000, after=0.16) is Decision.CUT
        slower = LastBatch(1_000, 0.3, ended=0.0)
        assert self.decided(new=900, last=slower, window=40_000) is Decision.CUT

    def test_or_for_as_much_as_a_batch_may_have(self) -> None:
        busy = LastBatch(5_000, 0.3, ended=0.0)
        limits = Limits(max_messages=4_000)
        assert self.decided(new=3_999, last=busy, window=40_000, limits=limits) is Decision.WAIT
        assert self.decided(new=4_000, last=busy, window=40_000, limits=limits) is Decision.CUT

    def test_but_not_if_the_last_batch_left_many_behind(self) -> None:
        left_many = LastBatch(5_000, 0.3, ended=0.0, left_many=True)
        assert self.decided(new=4_900, last=left_many, window=40_000) is Decision.CUT

    def test_not_where_few_messages_come(self) -> None:
        assert self.decided(new=1, last=LastBatch(20, 0.3)) is Decision.CUT

    def test_not_if_the_window_is_full(self) -> None:
        full = replace(STATUS, window_full=True)
        assert self.decided(new=9, status=full, full=True) is Decision.CUT
        assert self.decided(new=0, status=full, full=True) is Decision.NOTHING_NEW
        # It is as full as before only until the ACKs are there.
        about_to_have_room = replace(full, acks_pending=True)
        assert self.decided(new=9, status=about_to_have_room, full=True) is Decision.WAIT

    def test_not_for_acks_whose_receipts_are_not_read(self) -> None:
        paused = replace(self.acking, window_full=True, pause=PauseStatus(STATUS.last_active))
        assert self.decided(new=9, status=paused) is Decision.CUT
        busy = LastBatch(6_000, 0.3, ended=0.0)
        other = replace(self.acking, pause=PauseStatus(STATUS.last_active))
        assert self.decided(new=9, last=busy, window=40_000, status=other, after=0.28) is Decision.CUT

    def test_not_without_a_subscription(self) -> None:
        assert self.decided(new=9, status=replace(self.acking, subscribed=False)) is Decision.CUT

    def test_not_if_the_journal_takes_no_more(self) -> None:
        assert self.decided(new=9, full=True, bound="journalMaxBytes") is Decision.CUT

    def test_a_minimum_says_what_is_enough(self) -> None:
        limits = Limits(min_messages=9, max_delay=900)
        assert self.decided(new=9, limits=limits) is Decision.CUT
        assert self.decided(new=8, limits=limits) is Decision.NOTHING_NEW


@pytest.mark.rule("5.10")
class TestRecentBatches:
    def expected(self, *batches: tuple[int, int], seconds: float = 1.0) -> LastBatch:
        """After batches with so many messages each, which left so many behind."""
        recent, now = RecentBatches(), 10.0
        for messages, left in batches:
            recent.cut(messages, left, now)
            now += seconds
            recent.asked_again(now)
        return recent.expected

    def test_the_last_one_counts(self) -> None:
        assert self.expected((3_000, 0), (200, 0)) == LastBatch(200, 1.0, ended=12.0)

    def test_the_largest_of_four_where_many_messages_come(self) -> None:
        assert self.expected((6_000, 0), (9_000, 0), (95, 0), (105, 0)).messages == 9_000
        assert self.expected((9_000, 0), *[(95, 0)] * 3).messages == 9_000
        assert self.expected((9_000, 0), *[(95, 0)] * 4).messages == 95

    def test_but_the_end_of_the_last_one(self) -> None:
        assert self.expected((9_000, 0), (95, 0)).ended == 12.0

    def test_a_few_left_behind_are_no_limit(self) -> None:
        assert not self.expected((9_000, 4_499)).left_many
        assert self.expected((9_000, 4_500)).left_many
        assert not self.expected((9_000, 4_500), (9_000, 0)).left_many

    def test_nothing_is_expected_before_the_first(self) -> None:
        assert self.expected() == LastBatch()

    def test_asking_twice_ends_one_batch(self) -> None:
        recent = RecentBatches()
        recent.cut(100, 0, 1.0)
        recent.asked_again(2.0)
        recent.asked_again(3.0)
        assert recent.expected.ended == 2.0


class TestOnce:
    @pytest.mark.rule("5.5")
    def test_no_news_needs_a_standing_silence(self) -> None:
        assert decided(Mode.ONCE, Case(silence=1.9)) is Decision.WAIT
        assert decided(Mode.ONCE, Case(silence=2.0)) is Decision.NOTHING_NEW

    def test_a_batch_is_cut_when_the_queue_falls_silent(self) -> None:
        assert decided(Mode.ONCE, Case(new=3, silence=QUIET_PERIOD / 2)) is Decision.WAIT
        assert decided(Mode.ONCE, Case(new=3, silence=QUIET_PERIOD)) is Decision.CUT

    def test_or_when_the_window_is_full_or_the_limit_met(self) -> None:
        assert decided(Mode.ONCE, Case(new=3, full=True)) is Decision.CUT
        assert decided(Mode.ONCE, Case(new=3), Limits(max_messages=3)) is Decision.CUT
        assert decided(Mode.ONCE, Case(new=2), Limits(max_messages=3)) is Decision.WAIT

    def test_or_when_producers_never_pause(self) -> None:
        assert decided(Mode.ONCE, Case(new=3, pending=QUIET_PERIOD_MAX / 2)) is Decision.WAIT
        assert decided(Mode.ONCE, Case(new=3, pending=QUIET_PERIOD_MAX)) is Decision.CUT

    def test_a_minimum_does_not_keep_messages_from_the_only_batch(self) -> None:
        limits = Limits(min_messages=100, max_delay=900)
        assert decided(Mode.ONCE, Case(new=3, silence=QUIET_PERIOD), limits) is Decision.CUT


class TestDrain:
    def test_ends_when_idle(self) -> None:
        assert decided(Mode.DRAIN, Case(silence=2.0)) is Decision.NOTHING_NEW

    @pytest.mark.rule("5.6")
    def test_ends_at_max_drain_time_even_with_messages(self) -> None:
        assert decided(Mode.DRAIN, Case(new=50, drain_left=0)) is Decision.NOTHING_NEW
        assert decided(Mode.DRAIN, Case(new=50, silence=QUIET_PERIOD, drain_left=0.1)) is Decision.CUT


@pytest.mark.rule("5.5")
def test_unconfirmed_acks_are_no_silence_since_the_window_may_be_full_until_then() -> None:
    waiting = replace(STATUS, acks_pending=True)
    situation = replace(Case(silence=60.0).situation(), statuses=[STATUS, waiting])
    assert decide(Mode.DRAIN, Limits(), situation) is Decision.WAIT


@pytest.mark.rule("5.5")
def test_a_connection_that_is_tried_again_is_no_silence() -> None:
    away = replace(STATUS, subscribed=False)
    situation = replace(Case(silence=60.0).situation(), statuses=[STATUS, away])
    for mode in (Mode.ONCE, Mode.DRAIN):
        assert decide(mode, Limits(), situation) is Decision.WAIT
    assert decide(Mode.STREAMING, Limits(), situation) is Decision.NOTHING_NEW


def test_silence_counts_from_the_latest_of_all_receivers() -> None:
    older = replace(STATUS, last_active=50.0)
    situation = replace(Case(silence=1.0).situation(), statuses=[older, STATUS])
    assert situation.silence == 1.0


class TestWhole:
    """A drain in one batch."""

    @pytest.mark.rule("5.8")
    def test_waits_for_the_idle_timeout(self) -> None:
        assert decided(Mode.WHOLE, Case(new=3, silence=1.9, pending=60.0)) is Decision.WAIT
        assert decided(Mode.WHOLE, Case(new=3, silence=2.0)) is Decision.CUT
        assert decided(Mode.WHOLE, Case(silence=2.0)) is Decision.NOTHING_NEW

    @pytest.mark.rule("5.8")
    @pytest.mark.parametrize(
        ("limits", "situation", "reason"),
        [
            (Limits(), Case(new=3).situation(), None),
            (Limits(), Case(new=3, silence=2.0).situation(), "idleTimeout"),
            (Limits(), Case(new=3, drain_left=0.0).situation(), "maxDrainTime"),
            (Limits(max_messages=3), Case(new=3).situation(), "maxMessagesPerTrigger"),
            (
                Limits(),
                replace(Case().situation(), available=[Available("a", "e", 0, 3, bound="journalMaxBytes")]),
                "journalMaxBytes",
            ),
        ],
        ids=str,
    )
    def test_what_ends_it(self, limits: Limits, situation: Situation, reason: str | None) -> None:
        assert end_of_drain(limits, situation) == reason


class TestLeavesMore:
    def left(self, case: Case, mode: Mode = Mode.ONCE, end: int = 4) -> bool:
        return leaves_more(mode, case.situation(), Offset({"a": Position("e", end)}))

    @pytest.mark.rule("5.9")
    def test_a_full_window_leaves_some_on_the_broker(self) -> None:
        assert self.left(Case(new=4, silence=5.0, full=True))
        assert not self.left(Case(new=4, silence=5.0))

    def test_a_limit_leaves_some_here(self) -> None:
        assert self.left(Case(new=4, silence=5.0), end=3)

    @pytest.mark.parametrize("start", [Offset({}), Offset({"a": Position("of an earlier run", 9)})])
    @pytest.mark.parametrize("mode", [Mode.ONCE, Mode.STREAMING])
    def test_a_limit_that_leaves_all_that_a_receiver_has(self, start: Offset, mode: Mode) -> None:
        assert leaves_more(mode, Case(new=4, silence=5.0).situation(), start)
        assert not leaves_more(mode, Case(silence=5.0).situation(), start)

    def test_messages_that_were_still_coming(self) -> None:
        assert self.left(Case(new=4, silence=0.1))
        assert not self.left(Case(new=4, silence=0.1), Mode.STREAMING)
