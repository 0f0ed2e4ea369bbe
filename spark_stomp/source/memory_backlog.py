"""The backlog: what was received and can be planned and read.

Without a journal (this module) it is what the receivers hold in memory. Each has its own sequence numbers,
which end with its epoch. With a journal (:mod:`~spark_stomp.source.journal_backlog`) one order covers all
receivers and all runs, and the epoch is the journal's id, which does not end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_stomp.errors import JournalError, JournalMissing, RangeUnavailable, StompError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import RangeTicket
from spark_stomp.logs import get_log
from spark_stomp.receiver import Deliveries, Offer, ReceiverStatus, offer
from spark_stomp.source.offsets import JOURNAL, Offset, Position, Range, Sizes
from spark_stomp.source.planning import Available
from spark_stomp.status.source import Rows

log = get_log(__name__)


class Backlog(Sizes, ABC):
    """Methods may be called from any thread. What is not abstract is right without a journal."""

    @property
    @abstractmethod
    def epochs(self) -> frozenset[str]:
        """The epochs whose frames are held here."""

    @property
    def failure(self) -> StompError | None:
        """The error that ended it."""
        return None

    @property
    def has_unwritten(self) -> bool:
        """Whether received frames are not available yet, but will be."""
        return False

    @abstractmethod
    def available(self, start: Offset, statuses: Sequence[ReceiverStatus]) -> list[Available]:
        """What there is beyond ``start``."""

    @abstractmethod
    def offer(self, end: Offset, seen: Sequence[Available]) -> bool:
        """Keep everything up to ``end``, which was chosen from ``seen``: Spark is about to be told of it.

        False, and nothing is kept, if frames were discarded since ``seen``: choose again.
        """

    @abstractmethod
    def received(self, statuses: Sequence[ReceiverStatus]) -> Offset:
        """The end of everything received so far."""

    def all_before(self, statuses: Sequence[ReceiverStatus]) -> Offset | None:
        """The end of what was received by then; None as long as some of it is not available."""
        return self.received(statuses)

    @abstractmethod
    def is_committed(self, end: Offset) -> bool:
        """Whether Spark has committed everything up to ``end``, except what was discarded since."""

    @abstractmethod
    def commit(self, committed: Offset) -> bool:
        """Everything up to ``committed`` is committed; False if that was known. Other epochs do not count."""

    @abstractmethod
    def begin(self, start: Offset, planned: Offset) -> None:
        """The run begins at ``start``; batches from there up to ``planned`` were planned already.

        Raises a JournalError if frames beyond ``start`` should be in a journal and are not. Called before
        anything is received, so that no new frame can be taken for a lost one.
        """

    @abstractmethod
    def missing(self, wanted: Range) -> None:
        """``wanted`` was planned, and its epoch is not held here. Raises a JournalError if a journal should
        have it."""

    @abstractmethod
    def readable(self, wanted: Range) -> list[Range]:
        """The readable parts of ``wanted``, whose epoch is held here; a StompError if not all is readable."""

    @abstractmethod
    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        """The frames of a planned range."""

    def figures(self) -> dict[str, dict[str, int]]:
        """Counters beside those of the receivers, by name."""
        return {}

    @property
    @abstractmethod
    def rows(self) -> Rows:
        """How many rows this run has brought."""

    def start(self) -> None:
        """The receivers are about to start."""

    def wake(self) -> None:
        """A receiver has news."""

    def stop(self, timeout: float) -> None:
        """No more is made available."""


@dataclass(frozen=True)
class MemoryBacklog(Backlog):
    """What ``receivers`` hold, by their names.

    ``tolerant``: if frames are in a journal that this run cannot read, log it instead of raising
    (``failOnDataLoss=false``).
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
        return all(one.committed >= min(upto, one.frames.received) for one, upto in held)

    def commit(self, committed: Offset) -> bool:
        held = [(self.receivers.get(name), position) for name, position in committed]
        # A list, because ``any`` would stop at the first receiver with news.
        news = [one.commit(at.sequence) for one, at in held if one is not None and one.epoch == at.epoch]
        return any(news)

    def begin(self, start: Offset, planned: Offset) -> None:
        """Nothing outlives a run here, but a checkpoint may name a journal although none is set."""
        position = start.get(JOURNAL) or planned.get(JOURNAL)
        if position is not None:
            self._report_missing(position.epoch)

    def missing(self, wanted: Range) -> None:
        if wanted.name == JOURNAL:
            self._report_missing(wanted.epoch)

    def _report_missing(self, journal: str) -> None:
        problem = JournalMissing(
            f"the checkpoint names the journal {journal}, but the option journal is not set: what it "
            "holds beyond the last committed batch would not be read. Set journal again, or go on "
            "without what is in it with failOnDataLoss=false"
        )
        raise_or_log(problem, tolerant=self.tolerant)

    def readable(self, wanted: Range) -> list[Range]:
        """All of it: a range that was committed and freed is an error, not empty (contract 3)."""
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
        committed = sum(receiver.committed for receiver in self.receivers.values())
        received = sum(receiver.frames.received for receiver in self.receivers.values())
        return Rows(committed, max(0, received - committed))


def raise_or_log(problem: JournalError, *, tolerant: bool) -> None:
    """Raise ``problem``, or log it if the query may go on without what is gone."""
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
