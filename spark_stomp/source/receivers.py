"""The receivers of one query, its logs and the frame server, all in the reader process."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from spark_stomp.arrow import Flaw
from spark_stomp.deadline import Deadline
from spark_stomp.errors import StompError
from spark_stomp.frameserver import open_frame_server
from spark_stomp.journal import JournalSettings, open_journal
from spark_stomp.options import SourceOptions
from spark_stomp.receiver import (
    MAX_REMEMBERED,
    DedupIndex,
    Deliveries,
    Log,
    Receiver,
    ReceiverSettings,
    ReceiverStatus,
    StreamDeliveries,
    StreamReading,
)
from spark_stomp.receiver.status import by_the_clock
from spark_stomp.source.flaws import FlawCounts
from spark_stomp.source.journal_log import JournalLog, recover
from spark_stomp.source.journal_writer import JournalWriter
from spark_stomp.source.logs import Logs, SourceLog
from spark_stomp.source.memory_log import MemoryLog
from spark_stomp.source.offsets import JOURNAL, Offset
from spark_stomp.source.planning import QUIET_PERIOD, QUIET_PERIOD_MAX
from spark_stomp.source.stream_log import StreamLog, find_ends
from spark_stomp.status.receivers import ReceiverPart
from spark_stomp.status.source import JournalPart
from spark_stomp.threads import aside


class News:
    """Says that something has changed: messages, a receipt, a connection, a discard, a failure.

    ``latest`` is replaced with each news. Get it before a look at what may have changed: while it stays the
    same, only time changes what was seen.
    """

    def __init__(self) -> None:
        self.latest = object()
        self._changed = threading.Condition()

    def tell(self) -> None:
        """Something has changed. May be called from any thread."""
        # A new object and not a counter: several threads come here, and no news may get lost.
        self.latest = object()
        with self._changed:
            self._changed.notify_all()

    def wait(self, seen: object, until: float) -> None:
        """Wait until ``latest`` is not ``seen`` any more, at most until the monotonic time ``until``."""
        timeout = min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
        with self._changed:
            self._changed.wait_for(lambda: self.latest is not seen, timeout)


class ReceiverGroup:
    """All receivers of one query in this process. Methods may be called from any thread.

    ``news`` tells of the receivers and the journal. ``committed_at`` is when a commit last came, in seconds
    since 1970; None before the first.

    The constructor opens the frame server and, with the option ``journal``, the journal. It raises
    OptionError or a JournalError if it cannot.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.news = News()
        self.committed_at: float | None = None
        self._options = options
        self._ends: dict[str, int] | None = None
        self._knows_commits = options.journal is None or options.ack_after == "commit"
        self._writer: JournalWriter | None = None
        settings = ReceiverSettings.of(options)
        queues = [one for one in settings if not one.of_stream]
        streams = [one for one in settings if one.of_stream]
        streamed = [StreamDeliveries(one.max_buffered_bytes, one.name) for one in streams]
        with ExitStack() as undo:
            index = DedupIndex(journaled=options.journal is not None)
            of_queues, received = self._open_queues(queues, index, undo)
            self._streams = [*map(StreamLog, streams, streamed)]
            logs = (*([of_queues] if queues else ()), *self._streams)
            # What is in a journal stays, and to know how large it is may take I/O.
            lock = index.lock if self._writer is None else nullcontext()
            self.logs = Logs(logs, lock, tolerant=not options.fail_on_data_loss)
            self._deliveries = [*received, *streamed]
            both = zip(queues, received, strict=True)
            self._receivers = [Receiver(one, its, self._tell) for one, its in both]
            of_streams = zip(streams, streamed, strict=True)
            self._receivers += [Receiver(one, its, self._tell, StreamReading) for one, its in of_streams]
            self._refusal = DelayedFailure(self._deliveries, self._streams)
            self._judging = threading.Lock()
            self.flaws = FlawCounts()
            self.frame_server = open_frame_server(options, self.logs.read, self._take_report)
            undo.pop_all()

    def _open_queues(
        self, settings: Sequence[ReceiverSettings], index: DedupIndex, undo: ExitStack
    ) -> tuple[SourceLog, list[Deliveries]]:
        """The log of these queues, in memory or in a journal, and what each of their receivers holds."""
        options = self._options
        if options.journal is None:
            messages = Log(index)
            received = [Deliveries(one.max_buffered_bytes, messages, one.name) for one in settings]
            return MemoryLog(messages, {one.inbox.name: one for one in received}), received
        tolerant = not options.fail_on_data_loss
        journal = open_journal(
            JournalSettings(options.journal, options.journal_max_bytes, MAX_REMEMBERED, tolerant)
        )
        undo.callback(journal.close)
        messages = recover(journal, index, options.id_header, most=MAX_REMEMBERED)
        received = [Deliveries(one.max_buffered_bytes, messages, one.name) for one in settings]
        self._writer = JournalWriter(
            journal,
            messages,
            received,
            max_bytes=options.journal_max_bytes,
            ack_when_durable=options.ack_after == "journal",
            changed=self._more_is_durable,
        )
        names = [one.inbox.name for one in received]
        return JournalLog(self._writer, names, tolerant=tolerant), received

    def _take_report(self, kind: str, destination: str, dialect: str, reason: str, count: int) -> None:
        self.flaws.take(Counter({Flaw(kind, destination, dialect, reason): count}))

    def start(self) -> None:
        if self._writer is not None:
            self._writer.start()
        for receiver in self._receivers:
            receiver.start()

    def statuses(self) -> list[ReceiverStatus]:
        """A snapshot of each receiver.

        If one has met a malformed message, the query is about to fail. Then all windows count as full, so
        that no batch waits for a minimum.
        """
        statuses = [receiver.status() for receiver in self._receivers]
        if any(status.refused for status in statuses):
            return [replace(status, window_full=True) for status in statuses]
        return statuses

    @property
    def failure(self) -> StompError | None:
        """The error that ended a receiver or the writer, or that of a malformed message if it is due now."""
        failures = [one.failure for one in (self._writer, *self._receivers) if one is not None]
        # One thread at a time: the status writer asks too, and an older snapshot must not be judged last.
        with self._judging:
            refused = any(one.inbox.refused for one in self._deliveries)
            refusal = self._refusal.failure(self.statuses() if refused else (), time.monotonic())
        return next(filter(None, failures), refusal)

    def commit(self, committed: Offset) -> None:
        """Everything up to ``committed`` is committed: ACK it."""
        if self.logs.commit(committed):
            self.committed_at = time.time()
            # Wake all: a message may have been redelivered to a receiver that does not hold its frame.
            self._wake_receivers()

    def give_up(self, name: str, number: int, error: StompError) -> None:
        """See :meth:`Receiver.give_up` of the receiver with this name."""
        for receiver, deliveries in zip(self._receivers, self._deliveries, strict=True):
            if deliveries.inbox.name == name:
                receiver.give_up(number, error)

    def add_forgetful(self, queues: Iterable[str]) -> None:
        """The broker may not deliver again what comes back to these queues. Any thread may call it."""
        forgetful = frozenset(queues)
        for receiver in self._receivers:
            receiver.add_forgetful(forgetful)

    def are_subscribed(self) -> bool:
        """Whether every receiver is subscribed or paused."""
        return not any(one.is_away and one.paused_since is None for one in self.statuses())

    @property
    def has_unwritten(self) -> bool:
        """Whether there are received messages that will become available later."""
        return self._writer is not None and self._writer.unwritten > 0

    def fix_ends(self, *, until_now: bool) -> None:
        """Let batches end where the streams end now (``until_now``), or nowhere.

        Where that is stays the same until a call without ``until_now``.
        """
        if not until_now:
            self._ends = None
        elif self._ends is None:
            self._ends = find_ends(self._options, [one.destination for one in self._streams])
        for one in self._streams:
            one.stop_at(None if self._ends is None else self._ends.get(one.destination, 0))

    def have_received(self) -> bool:
        """Whether any message has come."""
        return any(deliveries.inbox.received for deliveries in self._deliveries)

    def is_done(self) -> bool:
        """Whether all ACKs are confirmed and no receiver has met a malformed message.

        Receipts of a paused receiver are not waited for: they lie behind messages that it does not read.
        """
        return not any(
            status.refused or (status.acks_pending and status.paused_since is None)
            for status in self.statuses()
        )

    def stop(self, deadline: Deadline) -> None:
        """Stop the writer, then all receivers together, by the ``deadline``, then the frame server.

        The writer gets half of the time. A receiver that hangs gets a second more.
        """
        if self._writer is not None:
            self._writer.stop(deadline.left() / 2)
        wait([aside(partial(one.stop, deadline)) for one in self._receivers], deadline.left() + 1.0)
        self.frame_server.close()

    def figures(self) -> dict[str, Any]:
        """The status figures of each receiver, and of the journal, by name."""
        figures = {
            status.name: ReceiverPart(
                status, by_the_clock(deliveries.oldest_unacked), self._knows_commits
            ).shown()
            for status, deliveries in zip(self.statuses(), self._deliveries, strict=True)
        }
        if self._writer is not None:
            figures[JOURNAL] = JournalPart(
                self._writer.journal, self._writer.log.index, self._writer.unwritten
            ).shown()
        return figures

    def _tell(self) -> None:
        self.news.tell()
        if self._writer is not None:
            self._writer.wake()

    def _more_is_durable(self) -> None:
        self.news.tell()
        self._wake_receivers()

    def _wake_receivers(self) -> None:
        for receiver in self._receivers:
            receiver.wake()


class _Refused(NamedTuple):
    """``held`` refuses a message with ``error``, and what came before is below ``ends``, by logs."""

    held: Deliveries
    error: StompError
    ends: Mapping[Log, int]

    @property
    def stands(self) -> bool:
        """Whether its connection has not broken since."""
        return self.held.inbox.refused is self.error


class DelayedFailure:
    """Delays the error of a message that cannot be taken until all before it is committed (contract 4 and 7).

    It is malformed, or the broker cannot deliver it. Messages of other receivers count as received before it
    if they came before it, or in the first moment after the start. Otherwise one destination's malformed
    message would end the query at every start, before the other destinations give any rows.

    ``deliveries`` are those of the receivers whose statuses are asked about, in their order, and ``streams``
    the logs of the streams among them.
    """

    def __init__(self, deliveries: Sequence[Deliveries], streams: Sequence[StreamLog] = ()) -> None:
        self._deliveries = deliveries
        self._streams = streams
        self._since: float | None = None
        self._refused: _Refused | None = None

    def failure(self, statuses: Sequence[ReceiverStatus], now: float) -> StompError | None:
        """The error with which the query fails at the monotonic time ``now``; None if it has to wait.

        If the connection is lost meanwhile, the broker redelivers the messages and the malformed one, and the
        wait begins again.
        """
        refused = self._refused
        if refused is None or not refused.stands:
            self._refused = refused = self._next(statuses, now)
            if refused is None:
                return None
        # The messages of a broken connection get no numbers: then the logs end earlier.
        ends = self._ends()
        if any(one.committed < min(end, ends.get(one, 0)) for one, end in refused.ends.items()):
            return None
        return None if refused.held.acks_pending or not refused.stands else refused.error

    def _next(self, statuses: Sequence[ReceiverStatus], now: float) -> _Refused | None:
        """One behind whose receiver's other messages it is, once the first moment is over."""
        if not any(status.refused for status in statuses):
            self._since = None
            return None
        if self._is_first_moment(statuses, now):
            return None
        for held, status in zip(self._deliveries, statuses, strict=True):
            if status.refused is not None and not held.inbox.pending:
                # Later messages do not count: under load some are always uncommitted.
                return _Refused(held, status.refused, self._ends())
        return None

    def _ends(self) -> dict[Log, int]:
        """Where each log ends once all that has come has numbers; of a stream, no later than the run."""
        ends: dict[Log, int] = {}
        for each in {one.log for one in self._deliveries}:
            with each.index.lock:
                ends[each] = each.end + sum(one.inbox.pending for one in self._deliveries if one.log is each)
        for stream in self._streams:
            # Each may change meanwhile: the log if the stream begins anew, the end with Spark's next call.
            messages, until = stream.frames, stream.until
            if until is not None and messages in ends:
                ends[messages] = min(ends[messages], until)
        return ends

    def _is_first_moment(self, statuses: Sequence[ReceiverStatus], now: float) -> bool:
        if any(not status.subscribed and not status.is_away for status in statuses):
            return False  # one has ended: only after several connections
        if not all(status.subscribed for status in statuses):
            return True
        self._since = since = self._since or now
        silence = now - max(status.last_active for status in statuses)
        return silence < QUIET_PERIOD and now - since < QUIET_PERIOD_MAX
