"""The backlog: the received frames that a query can plan and read.

Without a journal (this module) these are the frames that the receivers hold in memory. Each receiver has its
own sequence numbers, which end with its epoch. With a journal (:mod:`~spark_stomp.source.journal_backlog`)
one order covers all receivers and all runs, and the epoch is the journal's id, which outlives the run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_stomp.errors import JournalMissing, RangeUnavailable, StompError, StreamTruncated
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import RangeTicket
from spark_stomp.logs import get_log
from spark_stomp.receiver import Deliveries, Offer, ReceiverStatus, offer
from spark_stomp.source.offsets import JOURNAL, STREAM, Offset, Position, Range, Sizes
from spark_stomp.source.planning import Available
from spark_stomp.status.source import Rows

log = get_log(__name__)


class Backlog(Sizes, ABC):
    """The received frames that a query can plan and read. Methods may be called from any thread.

    Methods that are not abstract do what is right without a journal.
    """

    @property
    @abstractmethod
    def epochs(self) -> frozenset[str]:
        """The epochs whose frames are held here."""

    @property
    def failure(self) -> StompError | None:
        """The error that ended the backlog; None while it works."""
        return None

    @property
    def has_unwritten(self) -> bool:
        """Whether there are received frames that will become available later."""
        return False

    @abstractmethod
    def available(self, start: Offset, statuses: Sequence[ReceiverStatus]) -> list[Available]:
        """What a batch that begins at ``start`` can take."""

    @abstractmethod
    def offer(self, end: Offset, seen: Sequence[Available]) -> bool:
        """Keep the frames up to ``end``, which was chosen from ``seen``: Spark is about to get this offset.

        False if frames were discarded since ``seen``. Then nothing is kept, and the end must be chosen again.
        """

    def with_bases(self, start: Offset) -> Offset:
        """``start``, and where reading begins of what it does not name, if a restart must begin there too."""
        return start

    def bound(self, *, until_now: bool) -> None:
        """Whether a batch takes only what there is now. The first call finds out where that ends."""

    def holds(self, end: Offset) -> bool:
        """Whether everything up to ``end`` is here that can come again."""
        return True

    @abstractmethod
    def received(self, statuses: Sequence[ReceiverStatus]) -> Offset:
        """The end of everything received so far."""

    def all_before(self, statuses: Sequence[ReceiverStatus]) -> Offset | None:
        """The end of all that ``statuses`` show as received; None while some of it is not available."""
        return self.received(statuses)

    @abstractmethod
    def is_committed(self, end: Offset) -> bool:
        """Whether Spark has committed everything up to ``end`` that was not discarded since."""

    @abstractmethod
    def commit(self, committed: Offset) -> bool:
        """Everything up to ``committed`` is committed. False if that was known already.

        Positions of epochs that are not held here are ignored.
        """

    @abstractmethod
    def begin(self, start: Offset, planned: Offset) -> None:
        """The run begins at ``start``; batches from there up to ``planned`` were planned already.

        Raises a JournalError if frames after ``start`` should be in a journal and are not. Called before
        anything is received, so that no new frame is taken for a lost one.
        """

    @abstractmethod
    def missing(self, wanted: Range) -> None:
        """``wanted`` was planned, but its epoch is not held here.

        Raises a JournalError if a journal should have it.
        """

    @abstractmethod
    def readable(self, wanted: Range) -> list[Range]:
        """The readable parts of ``wanted``, whose epoch is held here. Raises a StompError if one is gone."""

    @abstractmethod
    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        """Yield the frames of a planned range."""

    def figures(self) -> dict[str, dict[str, int]]:
        """Figures of the status beside those of the receivers, by name."""
        return {}

    @property
    @abstractmethod
    def rows(self) -> Rows:
        """How many rows of this run are in committed batches, and how many wait for a batch."""

    def start(self) -> None:
        """The receivers are about to start."""

    def wake(self) -> None:
        """A receiver has new frames, or other news."""

    def stop(self, timeout: float) -> None:
        """Make nothing more available, within ``timeout`` seconds."""


@dataclass
class MemoryBacklog(Backlog):
    """The frames that ``receivers`` (by name) hold in memory.

    ``tolerant``: if the checkpoint names a journal, which this run does not read, log that instead of raising
    JournalMissing (``failOnDataLoss=false``).
    """

    receivers: Mapping[str, Deliveries]
    tolerant: bool

    @property
    def epochs(self) -> frozenset[str]:
        return frozenset(receiver.epoch for receiver in self.receivers.values())

    def _with_epoch(self, epoch: str) -> Deliveries | None:
        return next((receiver for receiver in self.receivers.values() if receiver.epoch == epoch), None)

    def available(self, start: Offset, statuses: Sequence[ReceiverStatus]) -> list[Available]:
        return [_available(status, start.get(status.name)) for status in statuses]

    def offer(self, end: Offset, seen: Sequence[Available]) -> bool:
        return offer([Offer(self.receivers[one.name], _upto(end, one), one.discards) for one in seen])

    def received(self, statuses: Sequence[ReceiverStatus]) -> Offset:
        return Offset({one.name: Position(one.epoch, one.received) for one in statuses if one.received})

    def is_committed(self, end: Offset) -> bool:
        held = [(self.receivers[name], position.sequence) for name, position in end]
        return all(one.frames.released >= min(upto, one.frames.received) for one, upto in held)

    def commit(self, committed: Offset) -> bool:
        held = [(self.receivers.get(name), position) for name, position in committed]
        # A list, because ``any`` would stop at the first receiver with news.
        news = [one.commit(at.sequence) for one, at in held if one is not None and one.epoch == at.epoch]
        return any(news)

    def begin(self, start: Offset, planned: Offset) -> None:
        """Raise or log JournalMissing if the checkpoint names a journal, which this run does not read."""
        position = start.get(JOURNAL) or planned.get(JOURNAL)
        if position is not None:
            self._report_missing(position.epoch)

    def missing(self, wanted: Range) -> None:
        report_missing_stream(wanted, tolerant=self.tolerant)
        if wanted.name == JOURNAL:
            self._report_missing(wanted.epoch)

    def _report_missing(self, journal: str) -> None:
        problem = JournalMissing(
            f"the checkpoint names the journal {journal}, but the option journal is not set: messages in "
            "it after the last committed batch would not be read. Set journal again, or set "
            "failOnDataLoss=false to go on without them"
        )
        raise_or_log(problem, tolerant=self.tolerant)

    def readable(self, wanted: Range) -> list[Range]:
        """``wanted`` itself. Raises RangeUnavailable if some of it was committed and freed (contract 3)."""
        receiver = self._with_epoch(wanted.epoch)
        released = 0 if receiver is None else receiver.frames.released
        if wanted.low < released:
            raise RangeUnavailable(
                f"Spark asks again for frames from {wanted.low} of epoch {wanted.epoch}, but those below "
                f"{released} were committed, ACKed and freed"
            )
        return [wanted]

    def bytes_between(self, name: str, low: int, high: int) -> int:
        return self.receivers[name].frames.bytes_between(low, high)

    def end_within(self, name: str, low: int, high: int, max_bytes: int) -> int:
        return self.receivers[name].frames.end_within(low, high, max_bytes)

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        receiver = self._with_epoch(ticket.epoch)
        if receiver is None:
            raise RangeUnavailable(f"no receiver here has the epoch {ticket.epoch}")
        return receiver.frames.batches(ticket.low, ticket.high)

    @property
    def rows(self) -> Rows:
        committed = sum(receiver.frames.released for receiver in self.receivers.values())
        received = sum(receiver.frames.received for receiver in self.receivers.values())
        return Rows(committed, max(0, received - committed))


def report_missing_stream(wanted: Range, *, tolerant: bool) -> None:
    """Raise StreamTruncated, or log it, if ``wanted`` is of a stream: nothing brings its messages again."""
    if wanted.name.startswith(STREAM):
        problem = StreamTruncated(
            f"an earlier run planned a batch with the offsets {wanted.low} to {wanted.high - 1} of the "
            f"stream {wanted.name.removeprefix(STREAM)}. They are gone: the query does not read the stream "
            "any more, or it was deleted and declared again. Name it again, or set failOnDataLoss = false to "
            "go on without them"
        )
        raise_or_log(problem, tolerant=tolerant)


def raise_or_log(problem: StompError, *, tolerant: bool) -> None:
    """Raise ``problem``, or log it if the query may go on without the frames (``tolerant``)."""
    if not tolerant:
        raise problem
    log.error("failOnDataLoss=false: %s", problem)


def _upto(end: Offset, seen: Available) -> int:
    position = end.get(seen.name)
    return position.sequence if position is not None and position.epoch == seen.epoch else 0


def _available(status: ReceiverStatus, position: Position | None) -> Available:
    offered = position.sequence if position is not None and position.epoch == status.epoch else 0
    return Available(
        status.name,
        status.epoch,
        offered,
        status.received,
        full=status.window_full,
        discards=status.discards,
        window=status.window,
        window_bytes=status.window_bytes,
    )
