"""Planning: when a batch is cut, and which offset ends it.

Goals, the most important first:

1. Never wait for messages that cannot come (docs/delivery-contract.md, section 5).
2. Keep the broker sending while Spark works. A broker stops when its un-acked window is full, and goes on
   only after a commit.
3. Make few large batches: each costs Spark up to half a processor second, whatever its size (November 2026).

Plan. :func:`decide` says whether to cut a batch, to wait, or to answer that nothing is new.
:func:`shares_of` says how many messages the batch takes of each receiver or log. Both are pure: snapshots,
limits and the time go in, a decision comes out. What they decide depends on the :class:`Mode`:

- STREAMING: a batch takes about half of the window, so that the other half arrives while Spark works. Then
  the next batch waits until as many messages have come as the largest of the last four batches had, or for
  one message if that batch had at most 1,000. It waits at most half as long as that batch took, and at most
  0.5 s.
- ONCE and DRAIN (AvailableNow): a batch takes all that the options allow. The answer "nothing new" ends the
  run. So it is given only if all receivers are subscribed and silent, or if the time of the drain is over.
- WHOLE (the option ``drain``): the whole drain is one batch, which is cut when the receivers are silent or a
  bound is reached (:func:`why_drain_ends`).

Invariants. If anything is new, a batch has at least one message, however large. Each receiver gets its turn
(:func:`rotated`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spark_stomp.receiver import ReceiverStatus
from spark_stomp.source.offsets import Sizes

ONE_BATCH = (
    "Once; AvailableNow before Spark 4.2 or beside a source that cannot do it; pipelines before Spark 4.2"
)
"""Triggers under which a run has one batch."""

QUIET_PERIOD = 0.2
"""Seconds without a further message after which Trigger.Once or a drain cuts its batch."""

WITHHELD_MAX = 60.0
"""Seconds of silence after which a run ends although the broker says that messages wait. ActiveMQ looks for
those that a selector wants every 30 seconds (6.3.1, November 2026)."""

QUIET_PERIOD_MAX = 1.0
"""Seconds after which Trigger.Once or a drain cuts its batch although messages keep coming."""

REFILL_PART, REFILL_MAX = 0.5, 0.5
"""How long a streaming batch waits for more messages: a fraction of the time that the largest of the last
batches took, and a maximum in seconds. With a maximum of 0.2 s, RabbitMQ on a busy machine left a batch of
695 messages between batches of 7,000 (November 2026). The fraction keeps the wait short after quick
batches."""

RECENT_BATCHES = 4
"""The largest of this many last batches decides how long to wait, and for how many messages. With only one, a
small batch made the next one smaller still: with a journal on RabbitMQ, 200,000 messages came in 41 batches
instead of 14, at 0.6 of the rate (November 2026, one pair of runs)."""

SMALL_BATCH = 1_000
SMALL_BYTES = 1 << 20
"""The least messages and bytes to which a batch is limited when it takes half of a window: a smaller batch
costs Spark as much. After batches of at most this many messages the next one waits only for the first
message (:func:`awaits_refill`)."""


@dataclass(frozen=True)
class BatchLimits:
    """The limits of a batch: counts of messages, bytes of raw frames, and seconds. None means no limit.

    ``halves``: if a limit is None, a batch takes about half of each receiver's window instead.
    """

    max_messages: int | None = None
    max_bytes: int | None = None
    min_messages: int | None = None
    max_delay: float = 0.0
    halves: bool = False


@dataclass(frozen=True)
class LastBatch:
    """One of the last batches: its ``messages``, and the monotonic time ``cut`` at which its end was chosen.

    ``done`` is the monotonic time at which Spark asked for the next batch; None while it works on this one.
    """

    messages: int
    cut: float
    done: float | None = None

    def asked_again(self, now: float) -> LastBatch:
        """This batch when Spark asks for the next one: ``done`` is ``now``, unless it was set before."""
        return self if self.done is not None else replace(self, done=now)

    @classmethod
    def largest(cls, recent: Sequence[LastBatch]) -> LastBatch | None:
        """The batch that says how long the next one waits, of the ``recent`` ones (oldest first).

        It has the size and the duration of the largest, and the end of the last. While Spark works on the
        last batch, it is that one. None if there was no batch yet.
        """
        last = recent[-1] if recent else None
        if last is None or last.done is None:
            return last
        one = max(recent, key=lambda batch: batch.messages)
        took = (one.done or last.done) - one.cut
        return replace(one, cut=last.done - took, done=last.done)

    def next_waits_until(self) -> float:
        """The monotonic time until which the next batch may wait for more messages."""
        if self.done is None:
            return self.cut
        return self.done + min((self.done - self.cut) * REFILL_PART, REFILL_MAX)


@dataclass(frozen=True)
class Available:
    """What one receiver or log can give to a batch: the messages ``[low, high)``, as ``sizes`` counts them.

    - ``full``: the broker sends no more until something is ACKed.
    - ``full_because``: why the journal takes no more frames; None if it takes more.
    - ``window``, ``window_bytes``: how many messages and bytes may wait for Spark's commit; None if unknown.
    - ``complete``: whether everything is here that a run takes that ends with what there was; None if only
      silence says so.
    """

    name: str
    sizes: Sizes
    low: int
    high: int
    full: bool = False
    full_because: str | None = None
    window: int | None = None
    window_bytes: int | None = None
    complete: bool | None = None

    @property
    def new(self) -> int:
        return self.high - self.low

    def size(self, count: int) -> int:
        """How many bytes the first ``count`` new messages have."""
        return self.sizes.bytes_between(self.low, self.low + count)

    def count_within(self, most: int, max_bytes: int) -> int:
        """How many of the first ``most`` new messages have at most ``max_bytes`` together."""
        return self.sizes.end_within(self.low, self.low + most, max_bytes) - self.low


def is_ready(available: Sequence[Available], limits: BatchLimits, waited: float) -> bool:
    """Whether a batch may be cut now, ``waited`` seconds after the oldest new message was seen.

    Without a minimum one new message is enough. With a minimum, a wait of ``max_delay`` seconds is enough
    too, and so is a full window, because no more messages come then (contract 5).
    """
    new = sum(receiver.new for receiver in available)
    if new == 0:
        return False
    if limits.min_messages is None or new >= limits.min_messages:
        return True
    return waited >= limits.max_delay or any(receiver.full and receiver.new for receiver in available)


def shares_of(available: Sequence[Available], limits: BatchLimits) -> dict[str, int]:
    """How many messages a batch takes of each name in ``available``: as many as the limits allow.

    All share the limits evenly; what one does not use goes to the others. The first one that has a message
    gives at least one, however large (contract 5). So each gets its turn if they come in the order of
    :func:`rotated`.
    """
    shares = _shared({one.name: _half_window(one, limits) for one in available}, limits.max_messages)
    return shares if limits.max_bytes is None else _within_bytes(available, shares, limits.max_bytes)


def _half_window(one: Available, limits: BatchLimits) -> int:
    """How many messages a batch may take without a limit by the user: half of the window.

    With a minimum (``minMessagesPerTrigger``) it is at least that many messages, of any size in bytes: the
    user prefers large batches to an even flow.
    """
    least, take = limits.min_messages or 0, one.new
    if not limits.halves:
        return take
    if limits.max_messages is None and one.window is not None:
        take = min(take, max(one.window // 2, SMALL_BATCH, least))
    if limits.max_bytes is None and one.window_bytes is not None and not least and take:
        take = max(1, one.count_within(take, max(one.window_bytes // 2, SMALL_BYTES)))
    return take


def rotated(available: Sequence[Available], turn: int) -> list[Available]:
    """The receivers in the order in which they are served: each turn begins with the next one."""
    first = turn % len(available) if available else 0
    return [*available[first:], *available[:first]]


def _shared(wanted: Mapping[str, int], budget: int | None) -> dict[str, int]:
    """Split ``budget`` evenly among the names in ``wanted``; what one does not need goes to the others.

    If the budget is less than one for each, the first ones get one each.
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
    available: Sequence[Available], shares: Mapping[str, int], max_bytes: int
) -> dict[str, int]:
    """How many messages of each share fit into ``max_bytes``.

    The first share that has a message keeps at least one, however large.
    """
    wanted = {one.name: one.size(shares[one.name]) for one in available}
    budgets = _shared(wanted, max_bytes)
    first = next((one for one in available if shares[one.name]), None)
    if first is not None:
        least = first.size(1)
        if least > budgets[first.name]:
            others = {name: size for name, size in wanted.items() if name != first.name}
            budgets = {first.name: least, **_shared(others, max(0, max_bytes - least))}
    return {one.name: one.count_within(shares[one.name], budgets[one.name]) for one in available}


class Mode(enum.Enum):
    """What the trigger wants of ``latestOffset``. WHOLE is a drain in one batch (option ``drain``)."""

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
    """What is known at the monotonic time ``now``, in seconds.

    - ``drain_until``: when a drain has to end.
    - ``pending_since``: when the oldest new message was first seen; None if nothing is new.
    - ``has_unwritten``: some received frames are not available yet, but will be.
    - ``last``: the batch that says how long to wait for more messages; None if there was none yet.
    - ``withheld``: how many messages wait at the broker that nobody has, and that do not come; None while it
      is asked. It is asked only once there was silence for ``idle_timeout``.
    """

    statuses: Sequence[ReceiverStatus]
    available: Sequence[Available]
    now: float
    pending_since: float | None
    drain_until: float
    idle_timeout: float
    has_unwritten: bool = False
    last: LastBatch | None = None
    withheld: int | None = 0

    @property
    def new(self) -> int:
        return sum(receiver.new for receiver in self.available)

    @property
    def waits_for_news(self) -> bool:
        """Whether only news can change the decision: no messages wait, and no failure is due."""
        return not self.new and not any(status.refused for status in self.statuses)

    @property
    def complete(self) -> bool | None:
        """Whether everything is here that the run takes; None if only silence says so."""
        known = [receiver.complete for receiver in self.available]
        if False in known:
            return False
        return True if known and None not in known else None

    @property
    def silence(self) -> float:
        """Seconds since the last message came, or since anything happened that could bring one.

        It is 0 while a receiver is not subscribed or is paused, and while frames are not available yet. It
        is 0 also while ACKs are not confirmed, because the broker's window may be full until then. What comes
        of a stream after all that the run takes does not count.
        """
        over = {receiver.name for receiver in self.available if receiver.complete}
        statuses = [one for one in self.statuses if one.name not in over]
        if self.has_unwritten or any(
            one.acks_pending or one.is_away or one.paused_since is not None for one in statuses
        ):
            return 0.0
        return self.now - max((status.last_active for status in statuses), default=float("-inf"))

    @property
    def is_silent(self) -> bool:
        """Whether silence may end the run, if the broker has nothing for it."""
        return self.silence >= self.idle_timeout

    @property
    def is_read(self) -> bool:
        """Whether all was read, as far as silence and the broker say."""
        patient = self.withheld != 0 and self.silence < WITHHELD_MAX
        return self.is_silent and not patient

    @property
    def refill_wait(self) -> float:
        """Seconds for which a batch may still wait for the un-acked window to fill again."""
        return 0.0 if self.last is None else max(0.0, self.last.next_waits_until() - self.now)

    @property
    def decided_until(self) -> float:
        """The monotonic time at which a decision to wait may change without news."""
        waits = (
            self.refill_wait,
            self.idle_timeout - self.silence,
            QUIET_PERIOD - self.silence,
            QUIET_PERIOD_MAX - self.waited,
            self.drain_until - self.now,
            # The broker is asked again.
            QUIET_PERIOD_MAX if self.is_silent and self.withheld != 0 else 0.0,
        )
        return self.now + min((one for one in waits if one > 0), default=0.0)

    @property
    def waited(self) -> float:
        """Seconds since the oldest new message was first seen; 0 if there is none."""
        return 0.0 if self.pending_since is None else self.now - self.pending_since


def decide(mode: Mode, limits: BatchLimits, situation: Situation) -> Decision:
    """What ``latestOffset`` does now. It never waits for messages that cannot come (contract 5)."""
    if mode is Mode.STREAMING:
        if awaits_refill(limits, situation):
            return Decision.WAIT
        ready = is_ready(situation.available, limits, situation.waited)
        return Decision.CUT if ready else Decision.NOTHING_NEW
    if mode is Mode.WHOLE:
        if why_drain_ends(limits, situation) is None:
            return Decision.WAIT
        return Decision.CUT if situation.new else Decision.NOTHING_NEW
    if mode is Mode.DRAIN and situation.now >= situation.drain_until:
        return Decision.NOTHING_NEW
    if situation.new:
        return Decision.CUT if _batch_is_complete(mode, limits, situation) else Decision.WAIT
    whole = situation.is_read if situation.complete is None else situation.complete
    return Decision.NOTHING_NEW if whole else Decision.WAIT


def awaits_refill(limits: BatchLimits, situation: Situation) -> bool:
    """Whether a streaming batch waits for the window to fill again after the commit of the last one.

    Without a wait, the first few messages would be a batch that costs as much as a large one. As many
    messages as in the largest of the last batches are enough. After small batches one is enough, so that few
    messages a second come quickly. With ``minMessagesPerTrigger`` there is no such wait: that option says
    what is enough.
    """
    if situation.last is None or limits.min_messages is not None:
        return False
    # On ActiveMQ with ackAfter=journal, waiting for half of a large batch reached 0.86, 0.74 and 0.88 of the
    # rate of version 0.2, waiting for all of it 0.95, 0.91 and 0.98 (three rounds, November 2026).
    enough = situation.last.messages if situation.last.messages > SMALL_BATCH else 1
    return situation.refill_wait > 0 and _more_may_come(situation) and situation.new < enough


def _more_may_come(situation: Situation) -> bool:
    """Whether any broker may send more now: its window has room, or pending ACKs are about to make some."""
    if any(receiver.full_because is not None for receiver in situation.available):
        return False
    return any(
        one.subscribed and (_may_be_confirmed(one) or not one.window_full) for one in situation.statuses
    )


def _may_be_confirmed(status: ReceiverStatus) -> bool:
    """Whether ACKs wait for receipts, and the receiver is not paused, so that it can read them."""
    return status.acks_pending and status.paused_since is None


def _batch_is_complete(mode: Mode, limits: BatchLimits, situation: Situation) -> bool:
    """Whether there is enough for a batch: the limit is reached, a window is full, or the wait is over."""
    if limits.max_messages is not None and situation.new >= limits.max_messages:
        return True
    if mode is Mode.ONCE and situation.complete is False:
        # This may be the only batch of its run, and a stream is known to have more: a queue's full window
        # does not end the wait for it.
        full = any(one.full and one.complete is not None for one in situation.available)
        return full or situation.silence >= situation.idle_timeout
    if situation.complete or any(receiver.full for receiver in situation.available):
        return True
    return situation.silence >= QUIET_PERIOD or situation.waited >= QUIET_PERIOD_MAX


def left_behind_text(*, streams: bool, queues: bool) -> str:
    """What the log says of a batch that leaves messages behind and may be the only one of its run."""
    has = ["memory (maxBufferedBytes)"] if streams else []
    has += ["the broker, which awaits ACKs,"] if queues else []
    drain = "" if streams else "set drain = true (with journal and ackAfter = journal), or "
    return (
        f"this batch has only what {' and '.join(has)} and the limits allow. If it is the only one of its "
        f"run ({ONE_BATCH}), more messages are probably waiting after it: {drain}start the query again until "
        "a run finds nothing"
    )


def why_drain_ends(limits: BatchLimits, situation: Situation) -> str | None:
    """Why a drain in one batch ends now; None if it goes on.

    The reason is the name of an option, or the bound that the journal has reached.
    """
    if limits.max_messages is not None and situation.new >= limits.max_messages:
        return "maxMessagesPerTrigger"
    why = next(filter(None, (receiver.full_because for receiver in situation.available)), None)
    # If nothing is new, the journal is full of committed messages, which are about to be deleted.
    if why is not None and situation.new:
        return why
    if situation.now >= situation.drain_until:
        return "maxDrainTime"
    return "idleTimeout" if situation.is_read else None


def leaves_more(mode: Mode, situation: Situation, shares: Mapping[str, int]) -> bool:
    """Whether a batch with these ``shares`` probably leaves messages behind, here or on the broker.

    In any mode but STREAMING it also does if messages were still coming when it was cut.
    """
    if situation.withheld or any(one.full or one.new > shares[one.name] for one in situation.available):
        return True
    return mode is not Mode.STREAMING and not situation.complete and situation.silence < QUIET_PERIOD
