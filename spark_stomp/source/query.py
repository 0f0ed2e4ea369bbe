"""A streaming query while it runs, in the one process where Spark asks for offsets.

Spark calls from one thread, and SIGTERM may come at any time. The order matters where the logs begin before
anything is received, where statuses are read before what is available, so that nothing is missed that comes
between, and where the committer ends before the receivers, which ACK what it finds last.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from spark_stomp.deadline import Deadline
from spark_stomp.errors import DrainTimeout, StompError, StreamTimeout, SubscribeTimeout
from spark_stomp.logs import about, get_log, show
from spark_stomp.options import SourceOptions
from spark_stomp.quoting import counted, duration
from spark_stomp.receiver.status import by_the_clock
from spark_stomp.source.checkpoint import Checkpoint
from spark_stomp.source.commits import Committer
from spark_stomp.source.neighbours import Neighbours
from spark_stomp.source.offsets import JOURNAL, STREAM, Offset, Range, split, task_bytes
from spark_stomp.source.planning import (
    QUIET_PERIOD,
    QUIET_PERIOD_MAX,
    RECENT_BATCHES,
    BatchLimits,
    Decision,
    LastBatch,
    Mode,
    Situation,
    decide,
    leaves_more,
    left_behind_text,
    rotated,
    why_drain_ends,
)
from spark_stomp.source.process_end import ParentWatch, SigtermHandler
from spark_stomp.source.reads import FrameRanges
from spark_stomp.source.receivers import ReceiverGroup
from spark_stomp.source.standings import StandingWatch
from spark_stomp.source.waiting import Monitor, OffsetCall, QuerySnapshot, waiting_for
from spark_stomp.status.files import StatusWriter, query_name
from spark_stomp.status.receivers import Observed, TotalsPart, Waiting
from spark_stomp.status.source import QueryPart, QueuePart, RunIdentity, UnfitPart

log = get_log(__name__)

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")

# Seconds.
_SHUTDOWN = 5.0  # the longest that ending the query may take; Spark does not wait until it has ended
_LAST_LOOK = 2.0  # the part of _SHUTDOWN for the last look into the checkpoint (contract 1.5)
_RESERVE = 1.0  # the part of _SHUTDOWN that is left when the receivers must have ended
_STATUS_END = 0.5  # for the last write of the status file
# Seconds for which the query's progress shows the same status if there is no news. Spark asks for it about a
# hundred times a second, and shows it every ten seconds. Making it each time took half of what an idle query
# took (November 2026).
_SHOW_AGAIN = 1.0
# The cores of this machine, because Spark does not tell a source how many tasks run at a time. In local mode
# it is this number; a cluster runs more.
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shown_if_it_fails(
    call: Callable[Concatenate[QueryRuntime, _Given], _Returned],
) -> Callable[Concatenate[QueryRuntime, _Given], _Returned]:
    """Wrap ``call``, so that the status shows its StompError, which ends the query."""

    @wraps(call)
    def calling(runtime: QueryRuntime, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Returned:
        try:
            return call(runtime, *args, **kwargs)
        except StompError as error:
            runtime._raised = error
            raise

    return calling


class QueryRuntime:
    """One streaming query: its receivers, logs, frame server and committer, and what Spark asks of them.

    Attributes:
        in_empty_batch: whether Spark has planned a batch that is empty, and has not asked for the next one.
    """

    def __init__(self, options: SourceOptions) -> None:
        show(options.connection.log_level)
        self._identity = RunIdentity(query_name(options))
        about(query=self._identity.query)
        self._options = options
        self._limits = BatchLimits(
            max_messages=options.max_messages_per_trigger,
            max_bytes=options.max_bytes_per_trigger,
            min_messages=options.min_messages_per_trigger,
            max_delay=options.max_trigger_delay,
        )
        self._recent: deque[LastBatch] = deque(maxlen=RECENT_BATCHES)
        checkpoint = None if options.checkpoint_location is None else Checkpoint(options.checkpoint_location)
        has_status = (options.status_file or options.checkpoint_location) is not None
        self._status = StatusWriter(options, self._document) if has_status else None
        self._receivers = ReceiverGroup(options)
        self._logs = self._receivers.logs
        self._frame_server = self._receivers.frame_server
        self._committer = Committer(
            self._receivers.commit,
            self._logs.ids,
            self._frame_server,
            checkpoint,
            acks_wait=options.ack_after == "commit" and bool(options.queues),
            on_failure=self._receivers.news.tell,
        )
        self._monitor = Monitor(self._waiting, self._counts)
        self._neighbours = Neighbours(options, self._identity)
        self._standings = StandingWatch(
            options, self._receivers.statuses, self._have_looked, self._receivers.give_up
        )
        self.in_empty_batch = False
        self._call: OffsetCall | None = None
        self._raised: StompError | None = None
        self._pending_since: float | None = None
        self._nothing_since: object = None
        self._shown: dict[str, Any] = {}
        self._shown_since: object = None
        self._shown_until = 0.0
        self._turn = 0
        self._drain_until = float("inf")
        self._more_waiting = False
        self._withheld = 0
        self._sigterm = SigtermHandler(self.stop)
        self._parent = ParentWatch(self._sigterm.finish)
        self._stop_lock = threading.Lock()
        self._stopping = False
        self._stopped = threading.Event()

    def _document(self, running: bool) -> dict[str, Any]:
        receivers = self._receivers.figures()
        journal = receivers.pop(JOURNAL, None)
        observed = self._observed() if running else Observed(committed_at=self._receivers.committed_at)
        flaws = self._receivers.flaws.counts
        every = [*receivers.values()]
        totals = TotalsPart(self._logs.rows, self._more_waiting, every, observed, flaws, self._withheld)
        return QueryPart(
            self._identity,
            totals.shown(),
            receivers,
            journal,
            self._failure or self._raised,
            running,
            self._committer.ended_within_batch,
            is_stopping=self._stopping,
            number=1 if self._status is None else self._status.number,
            observed=observed,
            given_texts=self._options.given_texts,
            sharing=self._neighbours.sharing,
            of_unfit={name: UnfitPart(one).shown() for name, one in self._receivers.flaws.unfit.items()},
            of_queues={queue: QueuePart(one).shown() for queue, one in self._standings.answers.items()},
        ).shown()

    def _observed(self) -> Observed:
        in_batch = bool(self._recent) and self._recent[-1].done is None and not self._committer.is_proved
        return replace(
            self._monitor.observed,
            batch_since=by_the_clock(self._recent[-1].cut) if in_batch else None,
            committed_at=self._receivers.committed_at,
        )

    def start(self, begin: Offset, planned: Offset) -> None:
        """Start to receive, and to watch for commits, in other threads.

        The run begins at ``begin``; batches from there up to ``planned`` were planned already. Raises a
        JournalError, before anything is received, if frames after ``begin`` should be in a journal and are
        not.
        """
        self._logs.begin(begin, planned)
        self._committer.began_at(begin)
        for note in self._options.notes:
            log.warning("%s", note)
        self._sigterm.install()
        self._parent.start()
        if self._status is not None:
            self._status.start()
        self._receivers.start()
        self._committer.start()
        self._monitor.start()
        self._standings.start()
        self._neighbours.join()

    def _have_looked(self) -> None:
        """The broker was asked, which is a time to look for other sources too."""
        answers = self._standings.answers.items()
        self._receivers.add_forgetful(name for name, one in answers if one.standing.forgetful)
        self._neighbours.look()
        self._receivers.news.tell()

    def _waiting(self, rate: float) -> Waiting | None:
        """What the query waits for; None once it ends. ``rate``: messages received in a second."""
        if self._stopping or self._failure is not None:
            return None
        return waiting_for(
            QuerySnapshot(
                now=time.monotonic(),
                statuses=self._receivers.statuses(),
                call=self._call,
                batch=self._recent[-1] if self._recent else None,
                number=self._committer.batch,
                proved=self._committer.is_proved,
                rows_waiting=self._logs.rows.waiting,
                rate=rate,
                in_empty_batch=self.in_empty_batch,
                answers=self._standings.answers,
            )
        )

    def _counts(self) -> tuple[int, int]:
        """How many messages were delivered, and how many rows committed."""
        return sum(one.counts.delivered for one in self._receivers.statuses()), self._logs.rows.committed

    @property
    def drains_first(self) -> bool:
        """Whether the first batch of the run drains."""
        return self._options.drain

    def begin_drain(self) -> None:
        """From now on drain, for at most ``maxDrainTime`` (AvailableNow, or the option ``drain``)."""
        self._drain_until = time.monotonic() + self._options.max_drain_time

    @_shown_if_it_fails
    def await_subscriptions(self) -> None:
        """Wait until every receiver is subscribed or paused, then up to 0.2 s for a first message.

        A receiver may be paused before it is subscribed: then messages fill its memory, and the receipt of
        its subscription lies behind them.

        Raises the error that kept a receiver from subscribing, or SubscribeTimeout after ``maxDrainTime``.
        """
        if not self._await(self._receivers.are_subscribed, self._drain_until):
            raise SubscribeTimeout("not every destination was subscribed within maxDrainTime")
        self._await(self._receivers.have_received, time.monotonic() + QUIET_PERIOD)

    def _await(self, condition: Callable[[], bool], until: float) -> bool:
        """Wait until ``condition()``. False at the monotonic time ``until``. Raises what fails the query."""
        news = self._receivers.news
        while True:
            seen = news.latest
            if condition():
                return True
            self._raise_failure()
            now = time.monotonic()
            if now >= until:
                return False
            # A malformed message may fail the query later, without further news: look again after this time.
            news.wait(seen, min(until, now + QUIET_PERIOD_MAX))

    # --- evidence of commits

    def latest_offset_called(self, start: Offset | None) -> None:
        """Spark called ``latestOffset``, so all up to ``start`` is committed; None if that shows nothing."""
        self._committer.latest_offset_called(start)

    def commit(self, end: Offset) -> None:
        """Spark called ``commit(end)``."""
        self._committer.commit_called(end)

    # --- the end of the next batch

    @_shown_if_it_fails
    def latest_offset(self, start: Offset, mode: Mode, *, only: bool = False) -> Offset:
        """The end of the next batch; equal to ``start`` if there is none.

        ``only``: it may be the only batch of its run.

        The first batch of streams may be empty: its end then says where reading begins.

        If there is none and the run ends (any mode but STREAMING), this first waits for the receipts of all
        ACKs, because Spark ends the process right after.
        """
        if self._recent:
            # In one step: other threads look at the last batch.
            self._recent[-1] = self._recent[-1].asked_again(time.monotonic())
        # With a one-time trigger this may be the only batch, so it takes all there is.
        limits = replace(self._limits, halves=mode is Mode.STREAMING)
        self._receivers.fix_ends(until_now=mode is not Mode.STREAMING)
        if mode is not Mode.STREAMING and not self._recent:
            self._standings.begin_run_that_ends()
        news = self._receivers.news
        while True:
            seen = news.latest
            self._raise_failure()
            situation = self._situation(start, mode)
            begin = self._logs.offset(start, {})
            decision = decide(mode, limits, situation)
            self._call = call = OffsetCall(mode, limits, situation, decision)
            if decision is Decision.CUT:
                end = self._cut(mode, limits, situation, start, only=only)
                if end is None:
                    continue
                self._call = replace(call, answered=True)
                return end
            if decision is Decision.NOTHING_NEW:
                self._note_nothing_new(mode, situation)
                self._nothing_since = seen if situation.waits_for_news else None
                self._call = replace(call, answered=True)
                return begin
            news.wait(seen, situation.decided_until)

    def _note_nothing_new(self, mode: Mode, situation: Situation) -> None:
        """There is no batch. A run that ends waits for its receipts, and says what it leaves."""
        self._more_waiting = situation.new > 0
        if self._more_waiting and mode is Mode.DRAIN:
            log.warning("the run ends at maxDrainTime, and more messages are waiting for the next one")
        if mode is not Mode.STREAMING:
            self._finish_run(situation)
            self._note_withheld(situation)

    @property
    def nothing_new(self) -> bool:
        """Whether the last call of :meth:`latest_offset` found nothing new, and that is still so.

        It stays so until there is news of a receiver, the journal or the committer, or a batch is planned.
        The answer is not kept if time alone may change it: while messages wait for a minimum, or a malformed
        message waits to fail the query.
        """
        return self._nothing_since is self._receivers.news.latest

    def _cut(
        self, mode: Mode, limits: BatchLimits, situation: Situation, start: Offset, *, only: bool
    ) -> Offset | None:
        """The end of a batch of what ``situation`` has; None if that is not there any more."""
        chosen = self._logs.take_batch(start, situation.available, limits)
        if chosen is None:
            return None
        end, shares = chosen
        self._more_waiting = leaves_more(mode, situation, shares)
        self._log_what_remains(mode, situation, only=only)
        if mode is Mode.ONCE:
            self._committer.warn_if_unprovable()
        self._recent.append(LastBatch(sum(shares.values()), cut=time.monotonic()))
        self._pending_since = self._nothing_since = None
        self._turn += 1
        return end

    def progress(self) -> dict[str, Any]:
        """The end of everything received, and the status, for the query's progress.

        Without news it may be a second old.
        """
        latest, now = self._receivers.news.latest, time.monotonic()
        if latest is not self._shown_since or now >= self._shown_until:
            received = self._logs.received_end()
            self._shown = {"offset": received.to_dict(), "status": self._document(running=True)}
            self._shown_since, self._shown_until = latest, now + _SHOW_AGAIN
        return self._shown

    def _log_what_remains(self, mode: Mode, situation: Situation, *, only: bool) -> None:
        # Logged when the batch is cut: at the end of the run Spark no longer reads what this process writes.
        if mode is Mode.WHOLE:
            self._note_withheld(situation)
            reason = why_drain_ends(self._limits, situation)
            text = "the first batch of this run is a drain, which ended because of %s"
            if self._more_waiting and only:
                log.warning(f"{text}; more messages are probably waiting for the next run", reason)
            else:
                log.info(text, reason)
        elif mode is Mode.ONCE and self._more_waiting:
            streams, queues = self._options.streams, self._options.queues
            log.warning(left_behind_text(streams=bool(streams), queues=bool(queues)))

    def _note_withheld(self, situation: Situation) -> None:
        """At the end of a run, or of a drain in one batch: what the broker does not give."""
        self._withheld = situation.withheld or 0
        if self._withheld:
            self._more_waiting = True
            log.warning(
                "nothing has come for %s, and this ends without %s that wait there and that nobody has, %s. "
                "Start the query again once that is mended",
                duration(situation.silence),
                counted(self._withheld, "message"),
                self._standings.why_withheld(),
            )
        if later := self._standings.scheduled:
            log.warning("this ends without %s that are not due yet (scheduled, or a delayed retry)", later)

    def _situation(self, start: Offset, mode: Mode) -> Situation:
        now = time.monotonic()
        statuses = self._receivers.statuses()
        # Read before ``available``, so that frames that become durable in between are not missed.
        has_unwritten = self._receivers.has_unwritten
        available = rotated(self._logs.available(start, statuses), self._turn)
        if not any(receiver.new for receiver in available):
            self._pending_since = None
        elif self._pending_since is None:
            self._pending_since = now
        situation = Situation(
            statuses=statuses,
            available=available,
            now=now,
            pending_since=self._pending_since,
            drain_until=self._drain_until,
            idle_timeout=self._options.idle_timeout,
            has_unwritten=has_unwritten,
            last=LastBatch.largest(self._recent),
        )
        if mode is Mode.STREAMING or not situation.is_silent:
            return situation
        return replace(situation, withheld=self._standings.withheld(now - situation.silence))

    def _finish_run(self, situation: Situation) -> None:
        """Wait for the receipts of the run's last ACKs. Raises DrainTimeout if one has no connection."""
        over = {one.name for one in situation.available if one.complete}
        for one in situation.statuses:
            if one.is_away and one.name not in over:
                raise DrainTimeout(one.away_after(f"maxDrainTime ({self._options.max_drain_time:g}s)"))
        deadline = time.monotonic() + self._options.ack_receipt_timeout
        # If there was a malformed message, it fails the run after these receipts.
        self._await(self._receivers.is_done, deadline)

    # --- the tasks of a batch

    @_shown_if_it_fails
    def partitions(self, start: Offset, end: Offset) -> list[FrameRanges]:
        """The tasks of the batch between two offsets.

        Ranges of a log in memory that ended with its run are lost. They give no rows: their messages were
        never ACKed, so the broker redelivers them (contract 3). A range that is missing from a journal or a
        stream is an error.
        """
        self._raise_failure()
        # The old answer is not kept: before Spark 4.2 the next latestOffset is evidence for this batch.
        self._nothing_since = None
        if not self._await(lambda: self._logs.are_here(end), time.monotonic() + self._options.max_drain_time):
            raise StreamTimeout("a batch of an earlier run was not received again within maxDrainTime")
        here, lost = self._logs.ranges(start, end)
        self._declare_lost(lost)
        volume = sum(sizes.bytes_between(one.low, one.high) for one, sizes in here)
        shares = split(here, task_bytes(volume, _CORES))
        tickets = [[one for part in share for one in self._logs.tickets(part)] for share in shares]
        tasks = [tuple(task) for task in tickets if task]
        if here:
            self._committer.planned(end, [ticket for task in tasks for ticket in task])
        streams = {one.id: one.name.removeprefix(STREAM) for one, _ in here if one.name.startswith(STREAM)}
        return [FrameRanges(self._frame_server.address, task, streams) for task in tasks]

    def _declare_lost(self, absent: list[Range]) -> None:
        lost = [part for part in absent if self._logs.refuse_missing(part)]
        if not lost:
            return
        self._committer.fence({part.id for part in lost})
        messages = sum(part.high - part.low for part in lost)
        log.warning(
            "lost range: a batch of an earlier run is read again without %s. The range was never ACKed: "
            "what the broker redelivers of it is in a later batch",
            counted(messages, "message"),
        )

    # --- the end

    def stop(self) -> None:
        """ACK what is committed, disconnect and end, within 5 s. A second call waits for the first."""
        with self._stop_lock:
            first, self._stopping = not self._stopping, True
        if first:
            self._stop()
        else:
            self._stopped.wait(_SHUTDOWN)
        self._parent.stop()
        self._sigterm.uninstall()

    def _stop(self) -> None:
        deadline = Deadline.after(_SHUTDOWN - _RESERVE)
        if self._status is not None:
            # A query that starts again at once takes the file of a source that is being stopped.
            self._status.write_soon()
        try:
            self._neighbours.leave()
            self._standings.stop()
            self._monitor.stop()
            self._committer.stop(_LAST_LOOK)
        finally:
            self._receivers.stop(deadline)
            if self._status is not None:
                self._status.stop(_STATUS_END)
            self._stopped.set()

    @property
    def _failure(self) -> StompError | None:
        return self._receivers.failure or self._committer.failure

    def _raise_failure(self) -> None:
        if (failure := self._failure) is not None:
            raise failure
