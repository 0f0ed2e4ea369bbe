"""A query on its own clock: a broker, the planner, and Spark with its cost of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.receiver import ReceiverStatus
from spark_stomp.source.planning import (
    REFILL_MAX,
    REFILL_PART,
    Available,
    BatchLimits,
    Decision,
    LastBatch,
    Mode,
    Situation,
    decide,
    shares_of,
)

STEP = 0.002
BODY = 250


class Sizes:
    def bytes_between(self, low: int, high: int) -> int:
        return (high - low) * BODY

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        return min(high, low + max_bytes // BODY)


@dataclass
class Query:
    """Seconds and messages a second. ``rate``: of a broker with a backlog without end, or of its producers;
    ``fixed`` and ``rows`` are what a batch costs Spark. ACKs take the broker ``receipt`` seconds."""

    rate: float
    window: int
    fixed: float = 0.15
    rows: float = 100_000.0
    receipt: float = 0.01
    limits: BatchLimits = field(default_factory=lambda: BatchLimits(halves=True))
    now: float = 0.0
    received: int = 0
    planned: int = 0
    committed: int = 0
    acked: int = 0
    credit: float = 0.0
    receipt_at: float | None = None
    last: LastBatch | None = None
    pending_since: float | None = None
    batches: list[int] = field(default_factory=list)
    waits: list[tuple[float, LastBatch | None]] = field(default_factory=list)
    """Of each batch: how long it was waited for, and the one before it."""

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until - 1e-9:
            self.now += STEP
            if self.receipt_at is not None and self.now >= self.receipt_at:
                self.acked, self.receipt_at = self.committed, None
            room = self.window - (self.received - self.acked)
            self.credit = min(self.credit + self.rate * STEP, max(room, 0))
            self.received += int(self.credit)
            self.credit -= int(self.credit)

    def situation(self) -> Situation:
        full = self.received - self.acked >= self.window
        status = ReceiverStatus(
            "r", True, self.received - self.planned, self.received, self.committed, self.acked, self.now,
            full, None, acks_pending=self.receipt_at is not None,
        )  # fmt: skip
        seen = Available(
            "r", Sizes(), 0, self.received - self.planned, full, window=self.window, window_bytes=256 << 20
        )
        if self.pending_since is None and seen.new:
            self.pending_since = self.now
        return Situation([status], [seen], self.now, self.pending_since, 1e9, 2.0, last=self.last)

    def batch(self) -> None:
        """Spark asks, and asks again, until there is a batch; works on it, and commits it."""
        asked = self.now
        self.last = None if self.last is None else self.last.asked_again(asked)
        while (decision := decide(Mode.STREAMING, self.limits, self.situation())) is not Decision.CUT:
            self.pass_time(STEP if decision is Decision.WAIT else 0.01)
        self.waits.append((self.now - asked, self.last))
        taken = shares_of(self.situation().available, self.limits)["r"]
        self.planned += taken
        self.pending_since = None
        self.last = LastBatch(taken, cut=self.now)
        seconds = self.fixed + taken / self.rows
        self.pass_time(seconds)
        self.batches.append(taken)
        self.committed, self.receipt_at = self.planned, self.now + self.receipt

    def run(self, seconds: float) -> None:
        while self.now < seconds:
            self.batch()

    def delivered(self, since: int) -> float:
        return float(sum(self.batches[since:]))


rates = st.floats(5.0, 200_000.0)
windows = st.integers(50, 200_000)
# Even an empty batch costs Spark some 60 ms.
durations = st.floats(0.06, 1.0)


@pytest.mark.rule("5.10")
@given(rates, windows, durations)
def test_a_batch_waits_for_the_window_a_bounded_part_of_the_last_one(
    rate: float, window: int, fixed: float
) -> None:
    query = Query(rate, window, fixed)
    while len(query.batches) < 10 and query.now < 60:
        query.batch()
    between = 2 / rate
    for waited, last in query.waits[1:]:
        assert last is not None and last.done is not None
        longest = min(REFILL_MAX, (last.done - last.cut) * REFILL_PART)
        assert waited <= max(longest, between) + 0.02


@pytest.mark.rule("5.10")
@pytest.mark.parametrize("rate", [20.0, 1_000.0, 3_000.0])
def test_a_steady_trickle_is_not_waited_for(rate: float) -> None:
    query = Query(rate, window=40_000)
    query.run(10.0)
    assert all(waited <= 1 / rate + STEP for waited, _ in query.waits[3:])


@pytest.mark.parametrize("rate", [15_000.0, 30_000.0, 60_000.0])
def test_the_broker_never_stands_still_by_default(rate: float) -> None:
    """Its rate is what comes through as long as Spark could do more."""
    query = Query(rate, window=40_000)
    query.run(5.0)
    begun, since = query.now, len(query.batches)
    query.run(20.0)
    assert query.delivered(since) / (query.now - begun) >= 0.95 * rate
