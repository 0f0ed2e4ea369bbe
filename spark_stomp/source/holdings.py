"""What can be planned and read: the frames in the receivers' windows, or those in the journal.

Without a journal every receiver has positions of its own, which end with its epoch. With one there is a
single order over all receivers and all runs, and an epoch that does not end: the journal's id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from spark_stomp.errors import (
    JournalDamaged,
    JournalError,
    JournalMismatch,
    JournalMissing,
    JournalTrimmed,
    RangeUnavailable,
    StompError,
)
from spark_stomp.exchange import RangeTicket
from spark_stomp.framebatch import FrameBatch
from spark_stomp.journal import Journal, JournalSettings
from spark_stomp.receiver import DedupIndex, Deliveries, Receiver, ReceiverStatus
from spark_stomp.source.journal_writer import JournalWriter
from spark_stomp.source.offsets import JOURNAL, Offset, Position
from spark_stomp.source.planning import Available, Range

__all__ = ["Backlog", "JournalBacklog", "MemoryBacklog"]

log = logging.getLogger(__name__)


class Backlog(Protocol):
    """Methods may be called from any thread."""

    @property
    def epochs(self) -> frozenset[str]:
        """The epochs whose frames are held here."""

    @property
    def failure(self) -> StompError | None:
        """What ended the holding of frames."""

    @property
    def has_unwritten(self) -> bool:
        """Whether frames were received that are not offered yet and will be, without any more coming."""

    def available(self, start: Offset) -> list[Available]:
        """What there is beyond ``start``."""

    def offer(self, end: Offset, seen: Sequence[Available]) -> bool:
        """Mark everything up to ``end``, which was chosen from ``seen``, as offered: it is kept from now on.

        False, and nothing is marked, where frames were discarded since ``seen`` was: choose again.
        """

    def received(self) -> Offset:
        """The end of everything received so far."""

    def acknowledge(self, committed: Offset) -> bool:
        """Everything up to ``committed`` is committed; False where nothing here was news.

        Positions of other epochs concern nobody here.
        """

    def begin(self, start: Offset, planned: Offset) -> None:
        """The run begins at ``start``, behind which batches up to ``planned`` were planned: raise a
        JournalError where what follows ``start`` should be in a journal and cannot be had.

        Called before anything is received, so that nothing new can be taken for what is gone.
        """

    def missing(self, wanted: Range) -> None:
        """``wanted``, of an epoch that is not held here, was planned: raise a JournalError where a journal
        should have it."""

    def readable(self, wanted: Range) -> list[Range]:
        """What of ``wanted``, of an epoch that is held here, can be read; a StompError where not all."""

    def bytes_between(self, name: str, low: int, high: int) -> int: ...

    def end_within(self, name: str, low: int, high: int, max_bytes: int) -> int: ...

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        """The frames of a planned range."""

    def figures(self) -> dict[str, dict[str, int]]:
        """Counters beside those of the receivers, by name."""

    def start(self) -> None: ...

    def stop(self, timeout: float) -> None:
        """No more is made available."""


class MemoryBacklog:
    """The receivers' own windows.

    ``tolerant``: what a journal should have and this run cannot read is logged instead of raised
    (``failOnDataLoss=false``).
    """

    failure: StompError | None = None
    has_unwritten = False

    def __init__(self, receivers: Mapping[str, Receiver], book: DedupIndex, *, tolerant: bool) -> None:
        self._receivers = receivers
        self._tolerant = tolerant
        self._book = book
        self._by_epoch = {receiver.epoch: receiver for receiver in receivers.values()}

    @property
    def epochs(self) -> frozenset[str]:
        return frozenset(self._by_epoch)

    def available(self, start: Offset) -> list[Available]:
        return [_available(name, receiver.status(), start) for name, receiver in self._receivers.items()]

    def offer(self, end: Offset, seen: Sequence[Available]) -> bool:
        with self._book.lock:
            if any(self._receivers[one.name].deliveries.discards != one.discards for one in seen):
                return False
            for _, position in end:
                receiver = self._by_epoch.get(position.epoch)
                if receiver is not None:
                    receiver.deliveries.offer(position.sequence)
            return True

    def received(self) -> Offset:
        statuses = {name: receiver.status() for name, receiver in self._receivers.items()}
        return Offset({n: Position(s.epoch, s.received) for n, s in statuses.items() if s.received})

    def acknowledge(self, committed: Offset) -> bool:
        held = [(self._by_epoch.get(position.epoch), position.sequence) for _, position in committed]
        # Every one of them, not only as far as the first with news.
        news = [receiver.acknowledge(upto) for receiver, upto in held if receiver is not None]
        return any(news)

    def begin(self, start: Offset, planned: Offset) -> None:
        """Nothing outlives a run here but what a journal that is not named any more has."""
        position = start.get(JOURNAL) or planned.get(JOURNAL)
        if position is not None:
            self._bear_without(position.epoch)

    def missing(self, wanted: Range) -> None:
        if wanted.name == JOURNAL:
            self._bear_without(wanted.epoch)

    def _bear_without(self, journal: str) -> None:
        _bear(
            JournalMissing(
                f"the checkpoint names the journal {journal}, but the option journal is not set: what it "
                "holds beyond the last committed batch would not be read. Set journal again, or go on "
                "without what is in it with failOnDataLoss=false"
            ),
            self._tolerant,
        )

    def readable(self, wanted: Range) -> list[Range]:
        """All of it: a range that was committed and freed is an error, not empty (contract 3)."""
        released = self._by_epoch[wanted.epoch].window.released
        if wanted.low < released:
            raise RangeUnavailable(
                f"Spark asks again for frames from {wanted.low} of epoch {wanted.epoch}, but those below "
                f"{released} were committed, ACKed and freed"
            )
        return [wanted]

    def bytes_between(self, name: str, low: int, high: int) -> int:
        return self._receivers[name].window.bytes_between(low, high)

    def end_within(self, name: str, low: int, high: int, max_bytes: int) -> int:
        return self._receivers[name].window.end_within(low, high, max_bytes)

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        receiver = self._by_epoch.get(ticket.epoch)
        if receiver is None:
            raise RangeUnavailable(f"no receiver here has the epoch {ticket.epoch}")
        return receiver.runs(ticket.low, ticket.high)

    def figures(self) -> dict[str, dict[str, int]]:
        return {}

    def start(self) -> None:
        """The windows are filled by their receivers."""

    def stop(self, timeout: float) -> None:
        """The windows go with their receivers."""


class JournalBacklog:
    """The journal; of the receivers only what is durable there counts.

    ``recovered`` is what earlier runs left there; ``receivers`` may be filled until :meth:`start`. See
    :class:`~spark_stomp.source.journal_writer.JournalWriter` for the rest.
    """

    def __init__(
        self,
        journal: Journal,
        recovered: Deliveries,
        book: DedupIndex,
        receivers: Mapping[str, Receiver],
        *,
        settings: JournalSettings,
        ack_when_durable: bool,
        changed: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._book = book
        self._receivers = receivers
        self._tolerant = settings.tolerant
        if ack_when_durable:
            recovered.permit()
        self._writer = JournalWriter(
            journal,
            recovered,
            book,
            max_bytes=settings.max_bytes,
            ack_when_durable=ack_when_durable,
            changed=changed,
        )
        # Where reading begins for a checkpoint that knows nothing of this journal.
        self._base = journal.committed

    @property
    def epochs(self) -> frozenset[str]:
        return frozenset({self._journal.id})

    @property
    def failure(self) -> StompError | None:
        return self._writer.failure

    @property
    def has_unwritten(self) -> bool:
        return self._writer.waiting > 0

    def available(self, start: Offset) -> list[Available]:
        position = start.get(JOURNAL)
        known = position is not None and position.epoch == self._journal.id
        offered = position.sequence if position is not None and known else self._base
        full = self._writer.full or any(one.status().window_full for one in self._receivers.values())
        return [
            Available(
                JOURNAL,
                self._journal.id,
                offered,
                max(self._journal.end, offered),
                full,
                base=0 if known else self._base,
            )
        ]

    def offer(self, end: Offset, seen: Sequence[Available]) -> bool:
        """Always: what is in the journal is never discarded."""
        return True

    def received(self) -> Offset:
        return Offset({JOURNAL: Position(self._journal.id, self._journal.end)})

    def acknowledge(self, committed: Offset) -> bool:
        position = committed.get(JOURNAL)
        if position is None or position.epoch != self._journal.id:
            return False
        return self._writer.commit(position.sequence)

    def begin(self, start: Offset, planned: Offset) -> None:
        journal = self._journal
        for position in (start.get(JOURNAL), planned.get(JOURNAL)):
            if position is not None and position.epoch != journal.id:
                self.missing(Range(JOURNAL, position.epoch, position.sequence, position.sequence))
                break
        committed = self._sequence_in(start)
        given = max(committed or 0, self._sequence_in(planned) or 0)
        if given > journal.end:
            self._bear(
                JournalDamaged(
                    f"the journal ends at {journal.end}, but the checkpoint is at {given}: the end of it is "
                    "gone, or an older copy was put back"
                )
            )
            # Those positions were given away; messages that come now must not be taken for them.
            journal.commit(committed or 0)
            journal.skip(given)
        elif committed is not None and committed < journal.first:
            self._bear(
                JournalTrimmed(
                    f"the checkpoint is at {committed} of the journal, which begins at "
                    f"{journal.first} now: the checkpoint is an older copy, and what lies between was "
                    "committed and deleted"
                )
            )

    def _sequence_in(self, offset: Offset) -> int | None:
        """Where ``offset`` is in this journal; None where it names none, or another."""
        position = offset.get(JOURNAL)
        return None if position is None or position.epoch != self._journal.id else position.sequence

    def missing(self, wanted: Range) -> None:
        if wanted.name != JOURNAL:
            return
        if self._journal.end == 0:
            self._bear(
                JournalMissing(
                    f"the checkpoint names the journal {wanted.epoch}, but where the option journal points "
                    "there is an empty one: it was moved away or deleted"
                )
            )
        else:
            self._bear(
                JournalMismatch(
                    f"the checkpoint names the journal {wanted.epoch}, but the one where the option journal "
                    f"points is {self._journal.id}: it belongs to another query, or to another checkpoint"
                )
            )

    def readable(self, wanted: Range) -> list[Range]:
        """All of it; with ``failOnDataLoss=false`` what there is."""
        parts = self._journal.held(wanted.low, wanted.high)
        if parts == [(wanted.low, wanted.high)]:
            return [wanted]
        self._bear(
            JournalTrimmed(
                f"Spark asks for messages [{wanted.low}, {wanted.high}) of the journal, which holds of these "
                f"{parts or 'none'}, and [{self._journal.first}, {self._journal.end}) in all"
            )
        )
        return [Range(wanted.name, wanted.epoch, low, high) for low, high in parts]

    def _bear(self, problem: JournalError) -> None:
        _bear(problem, self._tolerant)

    def bytes_between(self, name: str, low: int, high: int) -> int:
        return self._journal.bytes_between(low, high)

    def end_within(self, name: str, low: int, high: int, max_bytes: int) -> int:
        return self._journal.end_within(low, high, max_bytes)

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        if ticket.epoch != self._journal.id:
            raise RangeUnavailable(f"the journal here is {self._journal.id}, not {ticket.epoch}")
        return self._journal.batches(ticket.low, ticket.high)

    def figures(self) -> dict[str, dict[str, int]]:
        """Positions, bytes, and what the ledger of keys holds or had to forget."""
        journal = self._journal
        return {
            JOURNAL: {
                "first": journal.first,
                "committed": journal.committed,
                "end": journal.end,
                "bytes": journal.size,
                "waiting": self._writer.waiting,
                "held": self._book.held,
                "settled": self._book.settled,
                "evicted": self._book.evicted,
            }
        }

    def wake(self) -> None:
        """A receiver has news."""
        self._writer.wake()

    def start(self) -> None:
        self._writer.start([receiver.deliveries for receiver in self._receivers.values()])

    def stop(self, timeout: float) -> None:
        self._writer.stop(timeout)


def _bear(problem: JournalError, tolerant: bool) -> None:
    """Raise ``problem``, or log it where the query may go on without what is gone."""
    if not tolerant:
        raise problem
    log.error("failOnDataLoss=false: %s", problem)


def _available(name: str, status: ReceiverStatus, start: Offset) -> Available:
    position = start.get(name)
    offered = position.sequence if position is not None and position.epoch == status.epoch else 0
    return Available(name, status.epoch, offered, status.received, status.window_full, status.discards)
