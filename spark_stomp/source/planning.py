"""Planning: when a batch is cut, and which offset ends it.

No clock, no Spark, no receiver: snapshots and limits in, decisions out.

Under the default trigger a batch takes half of what may stand un-acked, so that the other half comes while
Spark works on it. Spark asks again some milliseconds after an answer without news. Under Trigger.Once
and AvailableNow such an answer ends the run, so it must mean that every receiver was subscribed and nothing
came.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spark_stomp.receiver import ReceiverStatus
from spark_stomp.source.offsets import Offset, Position, Sizes

QUIET_PERIOD = 0.2
"""A single batch or a drain is cut after this many seconds without a further message."""

QUIET_PERIOD_MAX = 1.0
"""... and after this many at the latest if messages never stop coming."""

REFILL_PART, REFILL_MAX = 0.5, 0.5
"""How long a streaming batch waits for half as many messages as the largest of the last ones had: this part
of the time that one took, but no more seconds than this."""

RECENT_BATCHES = 4
"""This many of the last batches say what to wait for. With the last one alone, a small batch made the next
one smaller still: with a journal on RabbitMQ, 200,000 messages were 41 batches in place of 14, at 0.6 of the
rate (November 2026, one pair of runs)."""

SMALL_BATCH = 1_000
SMALL_BYTES = 1 << 20
"""A batch of less costs Spark as much, so that a small window is not halved."""


@dataclass(frozen=True)
class BatchLimits:
    """What bounds a batch: counts, bytes of raw frames, and seconds. None means no such limit.

    ``halves``: without a limit, a batch takes about half of each receiver's window.
    """

    max_messages: int | None = None
    max_bytes: int | None = None
    min_messages: int | None = None
    max_delay: float = 0.0
    halves: bool = False


@dataclass(frozen=True)
class LastBatch:
    """The batch that was cut last, at the monotonic time ``cut``. Its commit made room in the window.

    ``done`` is when Spark asked for the next one; None while it works on this one.
    """

    messages: int
    cut: float
    done: float | None = None

    def asked_again(self, now: float) -> LastBatch:
        """Spark asks for the next batch, so that it is done with this one."""
        return self if self.done is not None else replace(self, done=now)

    @classmethod
    def largest(cls, recent: Sequence[LastBatch]) -> LastBatch | None:
        """The largest of ``recent``, oldest first, as if it had been the last one; None if there is none."""
        last = recent[-1] if recent else None
        if last is None or last.done is None:
            return last
        one = max(recent, key=lambda batch: batch.messages)
        took = (one.done or last.done) - one.cut
        return replace(one, cut=last.done - took, done=last.done)

    def next_waits_until(self) -> float:
        """How long the next batch may wait for more messages."""
        if self.done is None:
            return self.cut
        return self.done + min((self.done - self.cut) * REFILL_PART, REFILL_MAX)


@dataclass(frozen=True)
class Available:
    """What one receiver holds: ``[offered, received)`` is new. ``full`` means that its broker sends no more
    until something is ACKed. ``discards`` says how often frames were discarded before this was seen. ``base``
    is where the epoch begins for a start that does not know it. ``bound`` is why a journal takes no more;
    None if it does. So many messages and bytes as ``window`` and ``window_bytes`` say may wait for Spark's
    commit; None if that is not known."""

    name: str
    epoch: str
    offered: int
    received: int
    full: bool = False
    discards: int = 0
    base: int = 0
    bound: str | None = None
    window: int | None = None
    window_bytes: int | None = None

    @property
    def new(self) -> int:
        return self.received - self.offered


def is_ready(available: Sequence[Available], limits: BatchLimits, waited: float) -> bool:
    """Whether a batch may be cut now, ``waited`` seconds after the oldest new message came.

    A minimum that the un-acked window cannot hold would never be met, so a full window counts as enough
    (contract 5); so does the delay.
    """
    new = sum(receiver.new for receiver in available)
    if new == 0:
        return False
    if limits.min_messages is None or new >= limits.min_messages:
        return True
    return waited >= limits.max_delay or any(receiver.full and receiver.new for receiver in available)


def choose_end(
    start: Offset,
    available: Sequence[Available],
    limits: BatchLimits,
    sizes: Sizes,
) -> Offset:
    """The end of a batch that starts at ``start`` and takes as much as the limits let through.

    Receivers share the limits evenly; what one leaves goes to the others. At least one message is taken from
    the first receiver that has any, however large (contract 5), so that with :func:`rotated` each gets its
    turn. If nothing is new, the result equals ``start``.
    """
    wanted = {receiver.name: _half_window(receiver, limits, sizes) for receiver in available}
    takes = _shares(wanted, limits.max_messages)
    if limits.max_bytes is not None:
        takes = _within_bytes(available, takes, limits.max_bytes, sizes)
    positions = dict(start.positions)
    for receiver in available:
        if takes[receiver.name]:
            end = receiver.offered + takes[receiver.name]
            positions[receiver.name] = Position(receiver.epoch, end, receiver.base)
    return Offset(positions)


def _half_window(receiver: Available, limits: BatchLimits, sizes: Sizes) -> int:
    """How many of a receiver's messages a batch may take if nobody limits it: half of its window.

    A minimum wants larger batches rather than a full pipe.
    """
    least, take = limits.min_messages or 0, receiver.new
    if not limits.halves:
        return take
    if limits.max_messages is None and receiver.window is not None:
        take = min(take, max(receiver.window // 2, SMALL_BATCH, least))
    if limits.max_bytes is None and receiver.window_bytes is not None and not least and take:
        low, half = receiver.offered, max(receiver.window_bytes // 2, SMALL_BYTES)
        take = max(1, sizes.end_within(receiver.name, low, low + take, half) - low)
    return take


def rotated(available: Sequence[Available], turn: int) -> list[Available]:
    """The receivers in the order in which they are served, another one first each turn."""
    first = turn % len(available) if available else 0
    return [*available[first:], *available[:first]]


def _shares(wanted: Mapping[str, int], budget: int | None) -> dict[str, int]:
    """Split ``budget`` evenly; the unused part of a share goes to the others.

    If there is less than one for each, the first ones get one each.
    """
    if budget is None or sum(wanted.values()) <= budget:
        return dict(wanted)
    shares = dict.fromkeys(wanted, 0)
    hungry = [name for name, want in wanted.items() if want]
    if budget < len(hungry):
        return shares | dict.fromkeys(hungry[:budget], 1)
    for index, name in enumerate(sorted(hungry, key=lambda name: wanted[name])):
        shares[name] = min(wanted[name], -(-budget // (len(hungry) - index)))
        budget -= shares[name]
    return shares


def _within_bytes(
    available: Sequence[Available],
    takes: Mapping[str, int],
    max_bytes: int,
    sizes: Sizes,
) -> dict[str, int]:
    """How many messages of each receiver fit: at least one of the first that has any, however large."""
    wanted = {r.name: sizes.bytes_between(r.name, r.offered, r.offered + takes[r.name]) for r in available}
    budgets = _shares(wanted, max_bytes)
    first = next((r for r in available if takes[r.name]), None)
    if first is not None:
        least = sizes.bytes_between(first.name, first.offered, first.offered + 1)
        if least > budgets[first.name]:
            others = {name: size for name, size in wanted.items() if name != first.name}
            budgets = {first.name: least, **_shares(others, max(0, max_bytes - least))}
    return {
        r.name: sizes.end_within(r.name, r.offered, r.offered + takes[r.name], budgets[r.name]) - r.offered
        for r in available
    }


class Mode(enum.Enum):
    """What the trigger wants of ``latestOffset``; WHOLE is a drain in one batch (option ``drain``)."""

    STREAMING = "streaming"
    ONCE = "once"
    DRAIN = "drain"
    WHOLE = "whole drain"


class Decision(enum.Enum):
    """What to do now: cut a batch, answer that nothing is new, or wait and decide again."""

    CUT = "cut"
    NOTHING_NEW = "nothing new"
    WAIT = "wait"


@dataclass(frozen=True)
class Situation:
    """What there is at monotonic time ``now``.

    ``drain_until`` is when a drain has to end; ``pending_since`` is when the oldest new message was first
    seen, None if there is none. ``has_unwritten``: received frames are not available yet, but will be.
    """

    statuses: Sequence[ReceiverStatus]
    available: Sequence[Available]
    now: float
    pending_since: float | None
    drain_until: float
    idle_timeout: float
    has_unwritten: bool = False
    last: LastBatch | None = None

    @property
    def new(self) -> int:
        return sum(receiver.new for receiver in self.available)

    @property
    def waits_for_news(self) -> bool:
        """Whether time alone brings neither a batch nor, by a malformed message, a failure."""
        return not self.new and not any(status.refused for status in self.statuses)

    @property
    def silence(self) -> float:
        """Seconds since the last message came, or since anything happened that could bring one.

        It is 0 while a receiver is not subscribed, or is paused, while frames are unwritten, and while ACKs
        are unconfirmed: the broker's window may be full until then.
        """
        if self.has_unwritten or any(
            one.acks_pending or not one.subscribed or one.paused_since is not None for one in self.statuses
        ):
            return 0.0
        return self.now - max(status.last_active for status in self.statuses)

    @property
    def refill_left(self) -> float:
        """Seconds for which the window may still be waited for."""
        return 0.0 if self.last is None else max(0.0, self.last.next_waits_until() - self.now)

    @property
    def waited(self) -> float:
        """Seconds since the oldest new message was first seen; 0 if there is none."""
        return 0.0 if self.pending_since is None else self.now - self.pending_since


def decide(mode: Mode, limits: BatchLimits, situation: Situation) -> Decision:
    """What ``latestOffset`` does now; contract 5 says that it never waits for what cannot come."""
    if mode is Mode.STREAMING:
        if awaits_refill(limits, situation):
            return Decision.WAIT
        ready = is_ready(situation.available, limits, situation.waited)
        return Decision.CUT if ready else Decision.NOTHING_NEW
    if mode is Mode.WHOLE:
        if end_of_drain(limits, situation) is None:
            return Decision.WAIT
        return Decision.CUT if situation.new else Decision.NOTHING_NEW
    if mode is Mode.DRAIN and situation.now >= situation.drain_until:
        return Decision.NOTHING_NEW
    if situation.new:
        return Decision.CUT if _batch_is_complete(limits, situation) else Decision.WAIT
    return Decision.NOTHING_NEW if situation.silence >= situation.idle_timeout else Decision.WAIT


def awaits_refill(limits: BatchLimits, situation: Situation) -> bool:
    """Whether a streaming batch is put off until the window that the last one emptied has filled again.

    The first messages that come would make a batch of their own that costs as much as a large one, while the
    others stand on the broker. Half as many as in the largest of the last batches are enough; a minimum says
    itself what is.
    """
    if situation.last is None or limits.min_messages is not None:
        return False
    waits = situation.refill_left > 0 and _more_may_come(situation)
    return waits and 2 * situation.new < situation.last.messages


def _more_may_come(situation: Situation) -> bool:
    """Whether any broker may send more now: it has room in its window, or ACKs are about to make some."""
    if any(receiver.bound is not None for receiver in situation.available):
        return False
    return any(
        one.subscribed and (_may_be_confirmed(one) or not one.window_full) for one in situation.statuses
    )


def _may_be_confirmed(status: ReceiverStatus) -> bool:
    """Whether ACKs are to be confirmed, and their receipts are read."""
    return status.acks_pending and status.paused_since is None


def _batch_is_complete(limits: BatchLimits, situation: Situation) -> bool:
    """Enough for a batch: the limit, a full window, a quiet period, or the longest wait for one."""
    if limits.max_messages is not None and situation.new >= limits.max_messages:
        return True
    if any(receiver.full for receiver in situation.available):
        return True
    return situation.silence >= QUIET_PERIOD or situation.waited >= QUIET_PERIOD_MAX


def end_of_drain(limits: BatchLimits, situation: Situation) -> str | None:
    """What ends a drain in one batch; None if nothing does yet."""
    if limits.max_messages is not None and situation.new >= limits.max_messages:
        return "maxMessagesPerTrigger"
    bound = next(filter(None, (receiver.bound for receiver in situation.available)), None)
    # With nothing new the journal is full of what is committed, and about to be deleted.
    if bound is not None and situation.new:
        return bound
    if situation.now >= situation.drain_until:
        return "maxDrainTime"
    return "idleTimeout" if situation.silence >= situation.idle_timeout else None


def leaves_more(mode: Mode, situation: Situation, end: Offset) -> bool:
    """Whether more messages than the batch up to ``end`` are probably there: here, or still on the broker.

    A batch of a one-time trigger also leaves some if messages were still coming when it was cut.
    """
    if any(receiver.full for receiver in situation.available):
        return True
    if mode is not Mode.STREAMING and situation.silence < QUIET_PERIOD:
        return True
    taken = {(name, position.epoch): position.sequence for name, position in end}
    # A limit may leave all that a receiver has, so that the end does not name its epoch.
    return any(
        receiver.new and taken.get((receiver.name, receiver.epoch), 0) < receiver.received
        for receiver in situation.available
    )
