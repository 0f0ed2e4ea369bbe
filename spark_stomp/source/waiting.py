"""What a query waits for, in one sentence: for its status, and for the log if it waits long.

:func:`waiting_for` is pure. Spark's thread leaves what it saw last in an :class:`OffsetCall`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Final

from spark_stomp.brokers.standing import QueueAnswer, waits
from spark_stomp.logs import get_log
from spark_stomp.quoting import counted, duration, listed
from spark_stomp.receiver import ReceiverStatus
from spark_stomp.receiver.status import by_the_clock
from spark_stomp.source.malloc import give_back_memory
from spark_stomp.source.planning import (
    WITHHELD_MAX,
    BatchLimits,
    Decision,
    LastBatch,
    Mode,
    Situation,
)
from spark_stomp.status.receivers import Observed, Waiting
from spark_stomp.threads import Worker

log = get_log(__name__)

# What the query itself cannot know of a queue that brings nothing.
_EMPTY_OR_TAKEN: Final = "it is empty, or another consumer has them"
# Seconds without a message after which it is worth a word that messages wait.
_SETTLED = 5.0
# Seconds for which Spark plans its first batch after it has asked for it, rather than waits for its trigger.
_STARTING = 10.0
# Seconds between two looks, and how many looks a rate is taken over.
_PERIOD, _LOOKS = 1.0, 11
# The part of its fastest rate below which a query is slow.
_SLOW = 0.1
# Seconds after which a wait is logged. Then the pauses double, up to the longest one.
_FIRST, _LONGEST = 10.0, 600.0


@dataclass(frozen=True)
class OffsetCall:
    """A call of ``latestOffset``: what it saw last and decided, and whether Spark got its answer."""

    mode: Mode
    limits: BatchLimits
    situation: Situation
    decision: Decision
    answered: bool = False


@dataclass(frozen=True)
class QuerySnapshot:
    """What is known at the monotonic time ``now``.

    - ``call``: the last call of ``latestOffset``; None before the first.
    - ``batch``: the last batch of this run; None before the first.
    - ``number``: its number, if the checkpoint says it.
    - ``in_empty_batch``: whether Spark is in a batch without messages, as the first one of a checkpoint is.
    - ``proved``: whether there is evidence of the commit of all planned batches.
    - ``rows_waiting``: rows that are in no committed batch.
    - ``rate``: messages received in a second.
    - ``answers``: what the broker told of the queues, by their names.
    """

    now: float
    statuses: Sequence[ReceiverStatus]
    call: OffsetCall | None
    batch: LastBatch | None
    number: int | None
    proved: bool
    rows_waiting: int
    rate: float
    in_empty_batch: bool = False
    answers: Mapping[str, QueueAnswer] = field(default_factory=dict)


def waiting_for(known: QuerySnapshot) -> Waiting:
    """What has to happen before the query gets on."""
    if known.batch is not None and known.batch.done is None and not known.proved:
        return _batch(known, known.batch)
    away = [one for one in known.statuses if one.is_away and one.paused_since is None]
    rows = known.rows_waiting
    if away and not rows:
        return _connection(away)
    call = known.call
    if call is None:
        return Waiting("spark", "Spark, which has asked for no batch yet")
    if known.in_empty_batch:
        there = f"; {counted(rows, 'message')} wait for the next one" if rows else ""
        return Waiting("spark", f"Spark, in its first batch, which is empty{there}")
    if not call.answered and call.mode is not Mode.STREAMING:
        return _end_of_run(known, call)
    if not known.proved:
        return Waiting("commit", "the commit of the last batch: there is no evidence of it yet")
    if rows:
        return _more_messages(known, call)
    return _broker(known)


def _batch(known: QuerySnapshot, batch: LastBatch) -> Waiting:
    messages = counted(batch.messages, "message")
    if known.number is not None:
        text = f"Spark, in batch {known.number} of {messages}"
    else:
        # Without checkpointLocation only Spark's next call shows that the batch is done.
        text = f"Spark, in a batch of {messages} or before its next trigger"
    if any(one.paused_since is not None for one in known.statuses):
        text += "; memory is full (maxBufferedBytes), so nothing more is read before its commit"
    return Waiting("spark", text)


def _connection(away: Sequence[ReceiverStatus]) -> Waiting:
    state = away[0].connection
    text = f"the broker: no connection for {listed([one.name for one in away])}"
    if state.last_error is not None:
        failed = f", {counted(state.attempts, 'attempt')} failed" if state.attempts else ""
        text += f"{failed}: {state.last_error}"
    return Waiting("connection", text)


def _end_of_run(known: QuerySnapshot, call: OffsetCall) -> Waiting:
    """Spark waits for the answer to ``latestOffset`` in a run that ends."""
    seen = call.situation
    if call.decision is Decision.NOTHING_NEW:
        return Waiting("receipts", "the broker: receipts of the last ACKs of this run")
    ends = f"after {duration(seen.idle_timeout)} without a message (idleTimeout)"
    if seen.drain_until < float("inf"):
        ends += f", in {duration(max(0.0, seen.drain_until - known.now))} at most (maxDrainTime)"
    if seen.is_silent and seen.withheld:
        seconds_left = min(WITHHELD_MAX - seen.silence, seen.drain_until - seen.now) - (known.now - seen.now)
        text = f"{counted(seen.withheld, 'message')} that wait there, that nobody has and that do not come"
        return Waiting(
            "withheld", f"the broker: {text}; the run ends in {duration(max(0.0, seconds_left))} at most"
        )
    if not seen.new:
        return Waiting("drain", f"the broker: a first message; the run ends {ends}")
    return Waiting(
        "drain",
        f"the end of the drain: {counted(seen.new, 'message')} so far, {known.rate:,.0f} a second; "
        f"it ends {ends}",
    )


def _more_messages(known: QuerySnapshot, call: OffsetCall) -> Waiting:
    """Some messages are here, and Spark has not got them."""
    rows, least, seen = known.rows_waiting, call.limits.min_messages, call.situation
    if not seen.new and seen.has_unwritten:
        why = next(filter(None, (one.full_because for one in seen.available)), None)
        full = "" if why is None else f"; it is full ({why})"
        return Waiting("journal", f"the journal: {counted(rows, 'message')} to become durable{full}")
    if least is not None and rows < least and call.decision is not Decision.CUT:
        seconds_left = call.limits.max_delay - seen.waited - (known.now - seen.now)
        return Waiting(
            "messages",
            f"{counted(least - rows, 'more message')} (minMessagesPerTrigger), "
            f"{duration(max(0.0, seconds_left))} at most (maxTriggerDelay)",
        )
    if known.batch is None and known.now - seen.now < _STARTING:
        return Waiting("spark", "Spark, which starts its first batch")
    return Waiting("trigger", f"Spark's next trigger: {counted(rows, 'message')} wait for it")


def _broker(known: QuerySnapshot) -> Waiting:
    """All that was received is committed."""
    if any(one.acks_pending for one in known.statuses):
        return Waiting("acks", "the broker: receipts of ACKs")
    unacked = sum(one.unacked for one in known.statuses)
    if unacked:
        return Waiting("broker", f"the broker: nothing new, {counted(unacked, 'message')} un-acked")
    if missing := {name: since for one in known.statuses for name, since in one.missing.items()}:
        return _missing(missing)
    return _nothing_new(known)


def _missing(missing: Mapping[str, float | None]) -> Waiting:
    deleted = {name: since for name, since in missing.items() if since is not None}
    on = "deleted" if deleted else "queue"
    if not deleted:
        why = "was not there before this query: check the name"
    else:
        at = datetime.fromtimestamp(min(deleted.values()), timezone.utc).isoformat(timespec="seconds")
        why = f"was deleted (noticed at {at}) and which this query has made anew, empty and without bindings"
    names = listed([*(deleted or missing)])
    return Waiting(on, f"the broker: a first message in {names}, which {why}")


def _nothing_new(known: QuerySnapshot) -> Waiting:
    """With what the broker told of the queues since the query has nothing more of them."""
    answers = [
        known.answers.get(queue) for queue in {name for one in known.statuses for name in one.destinations}
    ]
    quiet = max(one.last_active for one in known.statuses)
    every = [one for one in answers if one is not None and one.asked_at >= quiet + _SETTLED]
    on = "withheld" if any(one.standing.withheld for one in every) else "broker"
    if every and (on == "withheld" or len(every) == len(answers)):
        own = sum(one.own for one in every)
        return Waiting(on, nothing_new_text(waits((one.standing for one in every), own)))
    return Waiting(on, nothing_new_text(_EMPTY_OR_TAKEN))


def nothing_new_text(clause: str) -> str:
    """The sentence of a query that has committed all it got. ``clause``: what is known of its queues."""
    return f"the broker: nothing un-acked and nothing new ({clause})"


class Monitor:
    """Looks once a second, in its own thread, what a query waits for and how fast it is.

    A wait is logged after ten seconds, then less and less often; the end of a drain every ten seconds. When
    the query has become slow, memory is given back.

    ``look`` takes the rate of received messages and returns what the query waits for. ``counts`` returns how
    many messages were received and committed so far.
    """

    def __init__(
        self, look: Callable[[float], Waiting | None], counts: Callable[[], tuple[int, int]]
    ) -> None:
        self.observed = Observed()
        self._look = look
        self._counts = counts
        self._seen: deque[tuple[float, tuple[int, int]]] = deque(maxlen=_LOOKS)
        self._on: str | None = None
        self._since: float | None = None
        self._began = self._due = 0.0
        self._fastest = 0.0  # since memory was given back
        self._worker = Worker("stomp-monitor", self._run)

    def start(self) -> None:
        self._seen.append((time.monotonic(), self._counts()))
        self._worker.start()

    def stop(self) -> None:
        self._worker.stop(0.0)

    def _run(self) -> None:
        was_logged = False
        while self._worker.goes_on(_PERIOD):
            try:
                self.observe(time.monotonic())
            except Exception:  # no figure may end the thread, and what it said last is no news
                self.observed = Observed()
                if not was_logged:
                    log.exception("what the query waits for is not known")
                was_logged = True

    def observe(self, now: float) -> None:
        """Look once. ``now`` is the monotonic time."""
        self._seen.append((now, self._counts()))
        (then, old), (_, new) = self._seen[0], self._seen[-1]
        received, committed = (after - before for before, after in zip(old, new, strict=True))
        seconds = now - then if now > then else float("inf")
        rate = (received + committed) / seconds
        self._fastest = max(self._fastest, rate)
        if rate < self._fastest * _SLOW:
            self._fastest = rate
            give_back_memory()
        waiting = self._look(received / seconds)
        on = None if waiting is None else waiting.on
        if on != self._on:
            self._on, self._began, self._due = on, now, now + _FIRST
            self._since = None if waiting is None else now
        self.observed = Observed(
            waiting,
            by_the_clock(self._since),
            received_per_second=received / seconds,
            committed_per_second=committed / seconds,
        )
        waited = now - self._began
        if waiting is not None and now >= self._due:
            log.info("waiting for %s: %s so far", waiting.text, duration(waited))
            self._due = now + (_FIRST if on == "drain" else min(waited, _LONGEST))
