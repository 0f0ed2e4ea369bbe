"""Contract 5 and the triggers: when a batch is cut, and when "nothing new" may be said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from spark_stomp.receiver import DedupIndex, Log, ReceiverStatus
from spark_stomp.source.planning import (
    QUIET_PERIOD,
    QUIET_PERIOD_MAX,
    REFILL_MAX,
    WITHHELD_MAX,
    Available,
    BatchLimits,
    Decision,
    LastBatch,
    Mode,
    Situation,
    decide,
    leaves_more,
    why_drain_ends,
)

STATUS = ReceiverStatus("r", True, 0, 0, 0, 0, last_active=100.0, window_full=False, failure=None)


def seen(new: int, **more: Any) -> Available:
    return Available("a", Log(DedupIndex()), 0, new, **more)


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
            available=[seen(self.new, full=self.full)],
            now=now,
            pending_since=None if self.pending is None else now - self.pending,
            drain_until=now + self.drain_left,
            idle_timeout=2.0,
        )


def decided(mode: Mode, case: Case, limits: BatchLimits | None = None) -> Decision:
    return decide(mode, limits or BatchLimits(), case.situation())


@pytest.mark.rule("5.2")
def test_a_minimum_holds_back_until_the_delay() -> None:
    limits = BatchLimits(min_messages=5, max_delay=3)
    assert decided(Mode.STREAMING, Case(new=4, pending=2.9), limits) is Decision.NOTHING_NEW
    assert decided(Mode.STREAMING, Case(new=4, pending=3.1), limits) is Decision.CUT
    assert decided(Mode.STREAMING, Case(new=4, pending=0, full=True), limits) is Decision.CUT


@pytest.mark.rule("R.5")
class TestAKnownEnd:
    """What a run takes that ends with what a stream had: ``complete`` says whether it is here."""

    def decided(self, mode: Mode, *complete: bool, **case: Any) -> Decision:
        situation = Case(pending=0.0, **case).situation()
        available = [replace(situation.available[0], complete=one) for one in complete]
        return decide(mode, BatchLimits(), replace(situation, available=available))

    @pytest.mark.parametrize("mode", [Mode.ONCE, Mode.DRAIN])
    def test_ends_the_run_at_once_and_silence_does_not(self, mode: Mode) -> None:
        assert self.decided(mode, True, True) is Decision.NOTHING_NEW
        assert self.decided(mode, True, False, silence=60.0) is Decision.WAIT

    @pytest.mark.parametrize("mode", [Mode.ONCE, Mode.DRAIN])
    def test_ends_the_wait_for_more(self, mode: Mode) -> None:
        assert self.decided(mode, True, new=1) is Decision.CUT
        assert self.decided(mode, False, new=1) is Decision.WAIT
        assert self.decided(mode, False, new=1, full=True) is Decision.CUT

    def test_a_full_queue_does_not_end_the_wait_for_a_stream(self) -> None:
        """A run with Once may have no other batch. A drain has."""
        full = replace(seen(1), name="q", full=True)
        available = [full, replace(seen(1, complete=False), name="s")]
        situation = replace(Case(pending=0.0).situation(), available=available)
        assert decide(Mode.ONCE, BatchLimits(), situation) is Decision.WAIT
        assert decide(Mode.DRAIN, BatchLimits(), situation) is Decision.CUT

    def beside_a_queue(self, mode: Mode, complete: bool, *, queue: float, stream: float) -> Decision:
        """Nothing is new. ``queue`` and ``stream``: seconds since something came of each."""
        now = STATUS.last_active
        active = [
            replace(STATUS, name=name, last_active=now - at) for name, at in (("q", queue), ("s", stream))
        ]
        available = [replace(seen(0), name="q"), replace(seen(0, complete=complete), name="s")]
        situation = replace(Case().situation(), statuses=active, available=available)
        return decide(mode, BatchLimits(), situation)

    @pytest.mark.rule("5.5")
    @pytest.mark.parametrize("mode", [Mode.ONCE, Mode.DRAIN])
    def test_of_a_stream_and_the_silence_of_a_queue_end_the_run(self, mode: Mode) -> None:
        assert self.beside_a_queue(mode, True, queue=2.1, stream=0.0) is Decision.NOTHING_NEW
        assert self.beside_a_queue(mode, True, queue=1.9, stream=60.0) is Decision.WAIT
        assert self.beside_a_queue(mode, False, queue=60.0, stream=60.0) is Decision.WAIT

    def test_only_silence_ends_the_wait_of_a_batch_that_may_be_the_only_one(self) -> None:
        situation = Case(new=1, pending=60.0, silence=1.9).situation()
        incomplete = [replace(situation.available[0], complete=False)]
        situation = replace(situation, available=incomplete)
        assert decide(Mode.ONCE, BatchLimits(), situation) is Decision.WAIT
        assert decide(Mode.DRAIN, BatchLimits(), situation) is Decision.CUT
        later = replace(situation, now=situation.now + 0.2)
        assert decide(Mode.ONCE, BatchLimits(), later) is Decision.CUT


@pytest.mark.rule("5.10")
class TestRefill:
    """A streaming batch right after the ACKs of the last one, which had 10,000 messages and took 300 ms."""

    last = LastBatch(10_000, cut=STATUS.last_active - 0.3, done=STATUS.last_active)
    acking = replace(STATUS, acks_pending=True)

    def decided(
        self,
        new: int,
        last: LastBatch = last,
        status: ReceiverStatus = acking,
        limits: BatchLimits | None = None,
        after: float = 0.0,
        **more: Any,
    ) -> Decision:
        situation = Situation(
            statuses=[status],
            available=[seen(new, **more)],
            now=STATUS.last_active + after,
            pending_since=STATUS.last_active,
            drain_until=1e9,
            idle_timeout=2.0,
            last=last,
        )
        return decide(Mode.STREAMING, limits or BatchLimits(), situation)

    def test_waits_for_as_much_as_the_last_batch(self) -> None:
        assert self.decided(new=0) is Decision.WAIT
        assert self.decided(new=9_999) is Decision.WAIT
        assert self.decided(new=10_000) is Decision.CUT

    def test_after_a_small_one_for_the_first_message(self) -> None:
        small = replace(self.last, messages=1_000)
        assert self.decided(new=0, last=small) is Decision.WAIT
        assert self.decided(new=1, last=small) is Decision.CUT

    def test_a_decision_to_wait_may_change_then(self) -> None:
        situation = Case().situation()
        assert situation.decided_until == pytest.approx(situation.now + QUIET_PERIOD)
        soon = replace(situation, last=replace(self.last, cut=STATUS.last_active - 0.1))
        assert soon.decided_until == pytest.approx(situation.now + 0.05)
        assert Case(drain_left=0.1).situation().decided_until == pytest.approx(situation.now + 0.1)
        silent = Case(silence=0.3, pending=0.3).situation()
        assert silent.decided_until == pytest.approx(silent.now + QUIET_PERIOD_MAX - 0.3)
        assert Case(silence=1.2, pending=1.2).situation().decided_until == pytest.approx(102.0)

    def test_and_no_longer_than_a_moment(self) -> None:
        slow = replace(self.last, cut=STATUS.last_active - 9.0)
        assert self.decided(new=9, last=slow, after=REFILL_MAX - 0.01) is Decision.WAIT
        assert self.decided(new=9, last=slow, after=REFILL_MAX + 0.01) is Decision.CUT

    @pytest.mark.parametrize(
        ("status", "more"),
        [
            (replace(STATUS, window_full=True), {"full": True}),
            (replace(acking, window_full=True, paused_since=STATUS.last_active), {}),
            (replace(acking, subscribed=False), {}),
            (acking, {"full": True, "full_because": "journalMaxBytes"}),
        ],
        ids=["full window", "paused", "no subscription", "full journal"],
    )
    def test_not_for_what_cannot_come(self, status: ReceiverStatus, more: dict[str, Any]) -> None:
        assert self.decided(new=9, status=status, **more) is Decision.CUT
        assert self.decided(new=0, status=status, **more) is Decision.NOTHING_NEW

    def test_a_window_is_full_only_until_the_acks_are_there(self) -> None:
        about_to_have_room = replace(self.acking, window_full=True)
        assert self.decided(new=9, status=about_to_have_room, full=True) is Decision.WAIT

    def test_a_minimum_says_what_is_enough(self) -> None:
        limits = BatchLimits(min_messages=9, max_delay=900)
        assert self.decided(new=9, limits=limits) is Decision.CUT
        assert self.decided(new=8, limits=limits) is Decision.NOTHING_NEW

    def test_a_small_batch_does_not_make_the_next_one_smaller(self) -> None:
        small = LastBatch(10, cut=STATUS.last_active - 0.1, done=STATUS.last_active)
        large = replace(self.last, cut=1.0, done=1.3)
        for recent in ([large, small], [small, large, small]):
            last = LastBatch.largest(recent)
            assert last is not None
            assert (last.messages, last.done) == (10_000, STATUS.last_active)
            assert last.next_waits_until() == pytest.approx(STATUS.last_active + 0.15)
        assert LastBatch.largest([]) is None
        assert LastBatch.largest([large, at_work := LastBatch(10, cut=2.0)]) is at_work


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
        assert decided(Mode.ONCE, Case(new=3), BatchLimits(max_messages=3)) is Decision.CUT
        assert decided(Mode.ONCE, Case(new=2), BatchLimits(max_messages=3)) is Decision.WAIT

    def test_or_when_producers_never_pause(self) -> None:
        assert decided(Mode.ONCE, Case(new=3, pending=QUIET_PERIOD_MAX / 2)) is Decision.WAIT
        assert decided(Mode.ONCE, Case(new=3, pending=QUIET_PERIOD_MAX)) is Decision.CUT

    def test_a_minimum_does_not_keep_messages_from_the_only_batch(self) -> None:
        limits = BatchLimits(min_messages=100, max_delay=900)
        assert decided(Mode.ONCE, Case(new=3, silence=QUIET_PERIOD), limits) is Decision.CUT


@pytest.mark.rule("5.6")
def test_a_drain_ends_at_max_drain_time_even_with_messages() -> None:
    assert decided(Mode.DRAIN, Case(new=50, drain_left=0)) is Decision.NOTHING_NEW
    assert decided(Mode.DRAIN, Case(new=50, silence=QUIET_PERIOD, drain_left=0.1)) is Decision.CUT


@pytest.mark.rule("5.5")
def test_unconfirmed_acks_are_no_silence_since_the_window_may_be_full_until_then() -> None:
    waiting = replace(STATUS, acks_pending=True)
    situation = replace(Case(silence=60.0).situation(), statuses=[STATUS, waiting])
    assert decide(Mode.DRAIN, BatchLimits(), situation) is Decision.WAIT


@pytest.mark.rule("5.5")
def test_a_connection_that_is_tried_again_is_no_silence() -> None:
    away = replace(STATUS, subscribed=False)
    situation = replace(Case(silence=60.0).situation(), statuses=[STATUS, away])
    for mode in (Mode.ONCE, Mode.DRAIN):
        assert decide(mode, BatchLimits(), situation) is Decision.WAIT
    assert decide(Mode.STREAMING, BatchLimits(), situation) is Decision.NOTHING_NEW


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
            (BatchLimits(), Case(new=3).situation(), None),
            (BatchLimits(), Case(new=3, silence=2.0).situation(), "idleTimeout"),
            (BatchLimits(), Case(new=3, drain_left=0.0).situation(), "maxDrainTime"),
            (BatchLimits(max_messages=3), Case(new=3).situation(), "maxMessagesPerTrigger"),
            (
                BatchLimits(),
                replace(Case().situation(), available=[seen(3, full_because="journalMaxBytes")]),
                "journalMaxBytes",
            ),
        ],
        ids=["it goes on", "idleTimeout", "maxDrainTime", "maxMessagesPerTrigger", "journalMaxBytes"],
    )
    def test_what_ends_it(self, limits: BatchLimits, situation: Situation, reason: str | None) -> None:
        assert why_drain_ends(limits, situation) == reason


@pytest.mark.rule("5.16")
class TestWithheld:
    """The broker says that messages wait which nobody has, and they do not come."""

    @pytest.mark.parametrize("mode", [Mode.ONCE, Mode.DRAIN, Mode.WHOLE])
    @pytest.mark.parametrize("withheld", [7, None], ids=["some", "it is asked"])
    def test_a_run_goes_on_for_a_minute(self, mode: Mode, withheld: int | None) -> None:
        def decision(silence: float, **more: Any) -> Decision:
            situation = replace(Case(silence=silence).situation(), withheld=withheld, **more)
            return decide(mode, BatchLimits(), situation)

        assert decision(2.0) is decision(WITHHELD_MAX - 0.1) is Decision.WAIT
        assert decision(WITHHELD_MAX) is Decision.NOTHING_NEW
        assert decision(WITHHELD_MAX, idle_timeout=90.0) is Decision.WAIT
        assert decision(90.0, idle_timeout=90.0) is Decision.NOTHING_NEW

    @pytest.mark.rule("5.6")
    def test_a_drain_ends_at_max_drain_time_all_the_same(self) -> None:
        situation = replace(Case(silence=5.0, drain_left=0.0).situation(), withheld=7)
        assert decide(Mode.DRAIN, BatchLimits(), situation) is Decision.NOTHING_NEW
        assert why_drain_ends(BatchLimits(), situation) == "maxDrainTime"

    def test_meanwhile_the_broker_is_asked_again(self) -> None:
        situation = Case(new=4, silence=5.0, pending=5.0).situation()
        assert situation.decided_until > situation.now + 1e6
        asked = replace(situation, withheld=7)
        assert asked.decided_until == pytest.approx(asked.now + QUIET_PERIOD_MAX)

    @pytest.mark.rule("5.9")
    def test_a_batch_leaves_them(self) -> None:
        situation = replace(Case(new=4, silence=90.0).situation(), withheld=7)
        assert leaves_more(Mode.WHOLE, situation, {"a": 4})


class TestLeavesMore:
    def leaves_more(self, case: Case, mode: Mode = Mode.ONCE, taken: int = 4) -> bool:
        return leaves_more(mode, case.situation(), {"a": taken})

    @pytest.mark.rule("5.9")
    def test_a_full_window_leaves_some_on_the_broker(self) -> None:
        assert self.leaves_more(Case(new=4, silence=5.0, full=True))
        assert not self.leaves_more(Case(new=4, silence=5.0))

    def test_a_limit_leaves_some_here(self) -> None:
        assert self.leaves_more(Case(new=4, silence=5.0), taken=3)

    @pytest.mark.parametrize("mode", [Mode.ONCE, Mode.STREAMING])
    def test_a_limit_that_leaves_all_that_a_receiver_has(self, mode: Mode) -> None:
        assert self.leaves_more(Case(new=4, silence=5.0), mode, taken=0)
        assert not self.leaves_more(Case(silence=5.0), mode, taken=0)

    def test_messages_that_were_still_coming(self) -> None:
        assert self.leaves_more(Case(new=4, silence=0.1))
        assert not self.leaves_more(Case(new=4, silence=0.1), Mode.STREAMING)
