"""The logs of a query, by the names that offsets give them: what can be planned of them, read and committed.

Each kind of log is a class that has all of :class:`SourceLog`: the messages of queues are in memory
(``MemoryLog``), or in a journal (``JournalLog``); a stream of RabbitMQ is a log of its own (``StreamLog``). A
query may read queues and streams. :class:`Logs` does the arithmetic of offsets for all kinds.

The log in memory ends with its run, the others do not. The numbers of a stream are the broker's offsets. So a
batch of it that an earlier run has planned can be read again: the subscription begins where that batch does.

Invariants:

- A log that the checkpoint names and the run does not have goes on in its offsets, unchanged. If something of
  it is planned, that is an error, or logged with ``failOnDataLoss=false``; of a log in memory it is a lost
  range. A journal is missed at the start already.
- The base of a log is written once, with its first end.
- A batch's shares are chosen and taken in one step, in which no connection of a queue breaks.
- The end of a log grows only by what was taken of it.
- A batch begins in no gap between the offsets of a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from spark_stomp.errors import (
    JournalMismatch,
    JournalMissing,
    RangeUnavailable,
    StompError,
    StreamTruncated,
)
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import RangeTicket
from spark_stomp.journal import Journal
from spark_stomp.logs import get_log
from spark_stomp.receiver import Deliveries, Log, ReceiverStatus
from spark_stomp.source.offsets import JOURNAL, STREAM, LogEnd, Offset, Range, Sizes, plan
from spark_stomp.source.planning import Available, BatchLimits, shares_of
from spark_stomp.status.receivers import RowCounts

log = get_log(__name__)

Shares = Mapping[str, int]
"""How many messages a batch takes, by the names of :class:`~spark_stomp.source.planning.Available`."""

Statuses = Mapping[str, ReceiverStatus]
"""What the receivers do, by their names."""


class SourceLog(Protocol):
    """One log of a query. Methods may be called from any thread. There is no base class and no default.

    Attributes:
        name: what offsets call it.
        id: its random id, which no other run has, if it does not survive the run.
        base: where reading begins if the checkpoint does not name it.
        frames: what reads its messages, and knows their sizes.
        received_end: the end of what has come, as it will be if no connection breaks; None if not known.
        rows: how many rows of this run are in committed batches, and how many wait for one.
        end_to_name: the end to name although nothing was taken, because a restart must begin there too.
    """

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def base(self) -> int: ...
    @property
    def frames(self) -> Log | Journal: ...
    @property
    def received_end(self) -> int | None: ...
    @property
    def rows(self) -> RowCounts: ...
    @property
    def end_to_name(self) -> LogEnd | None: ...

    def begin(self, known: LogEnd | None, planned: LogEnd | None) -> None:
        """The run begins at ``known``; batches from there up to ``planned`` were planned already.

        Called before anything is received, so that no new message is taken for a lost one. Raises a
        JournalError if messages after ``known`` should be in a journal and are not.
        """

    def available(self, low: int, statuses: Statuses) -> list[Available]:
        """What a batch that begins at ``low`` can take."""

    def take(self, low: int, shares: Shares) -> int | None:
        """The end of a batch that begins at ``low`` and takes these shares. It is kept from now on.

        None if that is not there any more. The lock of :class:`Logs` is held, so there is no I/O here.
        """

    def is_here(self, high: int) -> bool:
        """Whether everything below ``high`` is here that can come again."""

    def readable(self, low: int, high: int) -> list[tuple[int, int]]:
        """The parts of a planned range that have messages. Raises RangeUnavailable or a JournalError."""

    def commit(self, upto: int) -> bool:
        """Everything below ``upto`` is committed. False if that was known already."""


class Logs:
    """All logs of a query. Methods may be called from any thread.

    While ``lock`` is held, no connection breaks that would take messages of a log with it. ``tolerant``: if
    messages of an earlier run are gone, log that instead of raising (``failOnDataLoss=false``).
    """

    def __init__(
        self, logs: Iterable[SourceLog], lock: AbstractContextManager[object], *, tolerant: bool
    ) -> None:
        self._logs = {one.name: one for one in logs}
        self._lock = lock
        self._tolerant = tolerant

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the logs that are here."""
        return frozenset(one.id for one in self._logs.values())

    # --- planning

    def available(self, start: Offset, statuses: Sequence[ReceiverStatus]) -> list[Available]:
        """What a batch that begins at ``start`` can take."""
        by_name = {one.name: one for one in statuses}
        return [part for one in self._logs.values() for part in one.available(_low(one, start), by_name)]

    def take_batch(
        self, start: Offset, available: Sequence[Available], limits: BatchLimits
    ) -> tuple[Offset, Shares] | None:
        """Take a batch that begins at ``start``, of what was ``available``: its end, and its shares.

        It is kept from now on. None if it is not there any more: then look again.
        """
        ends = dict[str, int]()
        with self._lock:
            shares = shares_of(available, limits)
            # With a limit of bytes, what is gone has no size: then the shares are empty.
            if not any(shares.values()):
                return None
            for name, one in self._logs.items():
                low = _low(one, start)
                if (end := one.take(low, shares)) is None:
                    return None
                if end > low:
                    ends[name] = end
        return self.offset(start, ends), shares

    def offset(self, start: Offset, ends: Mapping[str, int]) -> Offset:
        """``start`` with these ends, and with the ends that have to be named although nothing was taken."""
        # What this run does not read goes on too: a later run may name it again.
        found = dict(start.ends)
        for name, one in self._logs.items():
            known = _known(one, start)
            if name in ends:
                found[name] = LogEnd(one.id, ends[name], 0 if known else one.base)
            elif known is None and (end := one.end_to_name) is not None:
                found[name] = end
        return Offset(found)

    def received_end(self) -> Offset:
        """The end of everything received so far, as it will be if no connection breaks."""
        return Offset(
            {name: LogEnd(one.id, end) for name, one in self._logs.items() if (end := one.received_end)}
        )

    # --- a batch is read, and committed

    def begin(self, start: Offset, planned: Offset) -> None:
        """The run begins at ``start``; batches from there up to ``planned`` were planned already.

        Raises a JournalError if messages after ``start`` should be in a journal and are not. Called before
        anything is received.
        """
        known, last = start.get(JOURNAL), planned.get(JOURNAL)
        for named in (known, last):
            if named is not None and named.id not in self.ids:
                high = last.next if last is not None and last.id == named.id else named.next
                low = known.next if known is not None and known.id == named.id else named.base
                self.refuse_missing(Range(JOURNAL, named.id, low, high))
                break
        for name, one in self._logs.items():
            one.begin(start.get(name), planned.get(name))

    def refuse_missing(self, absent: Range) -> bool:
        """The log of a planned range is not here. Of a journal or a stream that is an error, or logged.

        Any other has ended with its run. Then this is a lost range, which nobody was told to keep: True.
        """
        if absent.name.startswith(STREAM):
            raise_or_log(_stream_is_gone(absent), tolerant=self._tolerant)
        elif absent.name == JOURNAL:
            raise_or_log(_journal_is_gone(absent, self._logs.get(JOURNAL)), tolerant=self._tolerant)
        else:
            return True
        return False

    def are_here(self, end: Offset) -> bool:
        """Whether everything up to ``end`` is here that can come again."""
        return all(one.is_here(upto.next) for one, upto in self._of(end))

    def ranges(self, start: Offset, end: Offset) -> tuple[list[tuple[Range, Sizes]], list[Range]]:
        """What a batch reads, each range with its sizes; and the ranges whose log is not here."""
        here, lost = list[tuple[Range, Sizes]](), list[Range]()
        for whole in plan(start, end):
            one = self._logs.get(whole.name)
            if one is not None and one.id == whole.id:
                here.append((whole, one.frames))
            else:
                lost.append(whole)
        return here, lost

    def tickets(self, part: Range) -> list[RangeTicket]:
        """What a task reads of ``part``, whose log is here.

        Raises RangeUnavailable if some of it is committed (contract 3), JournalTrimmed if it is not whole.
        """
        one = self._logs[part.name]
        return [RangeTicket(one.id, low, high) for low, high in one.readable(part.low, part.high)]

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        """Yield the frames of a planned range."""
        for one in self._logs.values():
            if one.id == ticket.log:
                return one.frames.batches(ticket.low, ticket.high)
        raise RangeUnavailable(f"no log here has the id {ticket.log}")

    def commit(self, committed: Offset) -> bool:
        """Everything up to ``committed`` is committed. False if that was known already.

        Logs that are not here are ignored.
        """
        news = [one.commit(upto.next) for one, upto in self._of(committed)]
        return any(news)

    @property
    def rows(self) -> RowCounts:
        """How many rows of this run are in committed batches, and how many wait for a batch."""
        rows = [one.rows for one in self._logs.values()]
        return RowCounts(sum(one.committed for one in rows), sum(one.waiting for one in rows))

    def _of(self, offset: Offset) -> Iterator[tuple[SourceLog, LogEnd]]:
        """The logs that are here and in ``offset``, each with its end there."""
        for one in self._logs.values():
            if (end := _known(one, offset)) is not None:
                yield one, end


def _known(one: SourceLog, offset: Offset) -> LogEnd | None:
    """How far ``offset`` has read a log; None if it does not name that log."""
    end = offset.get(one.name)
    return None if end is None or end.id != one.id else end


def _low(one: SourceLog, start: Offset) -> int:
    """The number with which a batch begins in a log."""
    known = _known(one, start)
    return one.base if known is None else known.next


def raise_or_log(problem: StompError, *, tolerant: bool) -> None:
    """Messages of an earlier run are gone. ``tolerant``: the query goes on without them."""
    if not tolerant:
        raise problem
    log.error("failOnDataLoss=false: %s", problem)


def _stream_is_gone(lost: Range) -> StompError:
    return StreamTruncated(
        f"an earlier run planned a batch with the offsets {lost.low} to {lost.high - 1} of the stream "
        f"{lost.name.removeprefix(STREAM)}. They are gone: the query does not read the stream any more, or "
        "it was deleted and declared again. Name it again, or set failOnDataLoss = false to go on without "
        "them"
    )


def _journal_is_gone(absent: Range, here: SourceLog | None) -> StompError:
    text = (
        f"the checkpoint names the journal {absent.id} up to message {absent.high:,}, "
        f"{absent.high - absent.low:,} of them in a batch that is not committed, but the option journal"
    )
    if here is None:
        return JournalMissing(
            f"{text} is not set: messages in it after the last committed batch would not be read. Read "
            "the queues again with journal, or set failOnDataLoss=false to go on without them"
        )
    if not here.received_end:
        return JournalMissing(f"{text} points to an empty one: the journal was moved away or deleted")
    return JournalMismatch(
        f"{text} points to {here.id}, which belongs to another query, or to another checkpoint"
    )


def row_counts(receivers: Iterable[Deliveries]) -> RowCounts:
    """How many rows that these have received are in committed batches, and how many wait for a batch."""
    inboxes = [one.inbox for one in receivers]
    committed = sum(inbox.ackable for inbox in inboxes)
    return RowCounts(committed, max(0, sum(inbox.received for inbox in inboxes) - committed))
