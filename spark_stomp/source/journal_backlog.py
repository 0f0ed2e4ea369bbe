"""The backlog in a journal: only messages that are durable there can be planned and read.

:func:`recover` makes a log of what earlier runs left there. These messages have no ack handles, because a
handle ends with its connection. If their ACKs did not reach the broker, it redelivers them. Such a delivery
is attached to the message that is held already, and gives no second row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from spark_stomp.brokers import dialect_named
from spark_stomp.errors import (
    JournalDamaged,
    JournalMismatch,
    JournalMissing,
    JournalTrimmed,
    RangeUnavailable,
    StompError,
)
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import RangeTicket
from spark_stomp.journal import Journal
from spark_stomp.logs import get_log
from spark_stomp.protocol import NEED_DATA, FrameScanner, Limits, MalformedMessage, MessageBlock
from spark_stomp.quoting import counted
from spark_stomp.receiver import DedupIndex, Deliveries, Log, ReceiverStatus
from spark_stomp.source.backlog import Backlog
from spark_stomp.source.journal_writer import JournalWriter
from spark_stomp.source.offsets import JOURNAL, Offset, Range, Sizes
from spark_stomp.source.planning import Available
from spark_stomp.status.receivers import RowCounts
from spark_stomp.status.source import JournalPart

log = get_log(__name__)

# Messages that may wait for the commit with ``ackAfter=journal``, as no broker's window says how many. Half
# of it is a streaming batch. A judgement, about six times the default prefetch.
_WINDOW = 250_000


class JournalBacklog(Backlog):
    """The messages in ``journal``, in one order over all receivers and runs.

    ``writer`` writes what ``receivers`` have received into it. ``tolerant``: if the journal lacks messages,
    log that instead of raising (``failOnDataLoss=false``). Methods may be called from any thread.
    """

    def __init__(
        self, journal: Journal, writer: JournalWriter, receivers: Mapping[str, Deliveries], *, tolerant: bool
    ) -> None:
        super().__init__(receivers, tolerant=tolerant)
        self._journal = journal
        self._writer = writer
        # Where reading begins if the checkpoint does not name this journal.
        self._base = journal.committed
        self._rows_from = journal.committed

    @property
    def logs(self) -> Mapping[str, Log]:
        return {JOURNAL: self._writer.log}

    @property
    def failure(self) -> StompError | None:
        return self._writer.failure

    @property
    def has_unwritten(self) -> bool:
        return self._writer.unwritten > 0

    def base(self, name: str) -> int:
        return self._base

    def available(self, start: Offset, statuses: Sequence[ReceiverStatus]) -> list[Available]:
        begin = self.begin_of(JOURNAL, start)
        window, window_bytes = self._window(statuses)
        return [
            Available(
                JOURNAL,
                self._journal,
                begin,
                max(self._writer.log.end, begin),
                full=self._writer.full or self._waits_for_commits(statuses),
                bound="journalMaxBytes" if self._writer.full else None,
                window=window,
                window_bytes=window_bytes,
            )
        ]

    def _window(self, statuses: Sequence[ReceiverStatus]) -> tuple[int | None, int | None]:
        """How many messages and bytes may wait for Spark's commit; None if that is unknown."""
        if self._writer.acks_when_durable:
            return _WINDOW, self._writer.max_bytes
        windows = [status.window for status in statuses if status.window is not None]
        sizes = [status.window_bytes for status in statuses if status.window_bytes is not None]
        return sum(windows) or None, sum(sizes) or None

    def _waits_for_commits(self, statuses: Sequence[ReceiverStatus]) -> bool:
        """Whether a broker sends no more before Spark commits.

        With ``ackAfter=journal`` none waits for that: messages are ACKed as soon as they are durable.
        """
        return not self._writer.acks_when_durable and any(status.window_full for status in statuses)

    def commit(self, committed: Offset) -> bool:
        upto = self.read_upto(JOURNAL, committed)
        return upto is not None and self._writer.commit(upto)

    def begin(self, start: Offset, planned: Offset) -> None:
        journal = self._journal
        for named in (start.get(JOURNAL), planned.get(JOURNAL)):
            if named is not None and named.id != journal.id:
                self.missing(Range(JOURNAL, named.id, named.next, named.next))
                break
        committed = self.read_upto(JOURNAL, start)
        self._rows_from = max(journal.committed, committed or 0)
        given = max(committed or 0, self.read_upto(JOURNAL, planned) or 0)
        if given > journal.end:
            self._raise_or_log(
                JournalDamaged(
                    f"the journal ends at {journal.end}, but the checkpoint is at {given}: the end of the "
                    "journal is gone, or an older copy was put back"
                )
            )
            # Spark knows these positions already, so new messages must not get them.
            journal.commit(committed or 0)
            journal.skip(given)
            self._writer.log.skip(given)
            self._rows_from = given
        elif committed is not None and committed < journal.first:
            self._raise_or_log(
                JournalTrimmed(
                    f"the checkpoint is at {committed} of the journal, which begins at "
                    f"{journal.first} now: the checkpoint is an older copy, and the messages between were "
                    "committed and deleted"
                )
            )

    def missing(self, wanted: Range) -> None:
        if wanted.name != JOURNAL:
            super().missing(wanted)
        elif self._journal.end == 0:
            self._raise_or_log(
                JournalMissing(
                    f"the checkpoint names the journal {wanted.id}, but the option journal points to an "
                    "empty one: the journal was moved away or deleted"
                )
            )
        else:
            self._raise_or_log(
                JournalMismatch(
                    f"the checkpoint names the journal {wanted.id}, but the option journal points to "
                    f"{self._journal.id}, which belongs to another query, or to another checkpoint"
                )
            )

    def readable(self, wanted: Range) -> list[Range]:
        """``wanted`` itself. Raises JournalTrimmed if the journal does not hold all of it.

        With ``failOnDataLoss=false`` this logs the error, and returns the parts that the journal holds.
        """
        parts = self._journal.held(wanted.low, wanted.high)
        if parts != [(wanted.low, wanted.high)]:
            self._raise_or_log(
                JournalTrimmed(
                    f"Spark asks for messages [{wanted.low}, {wanted.high}) of the journal, which holds "
                    f"{parts or 'none'} of these, and [{self._journal.first}, {self._journal.end}) in all"
                )
            )
        return [replace(wanted, low=low, high=high) for low, high in parts]

    def sizes(self, name: str) -> Sizes:
        return self._journal

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        if ticket.log != self._journal.id:
            raise RangeUnavailable(f"the journal here is {self._journal.id}, not {ticket.log}")
        return self._journal.batches(ticket.low, ticket.high)

    def figures(self) -> dict[str, dict[str, Any]]:
        index = self._writer.log.index
        return {JOURNAL: JournalPart(self._journal, index, self._writer.unwritten).shown()}

    @property
    def rows(self) -> RowCounts:
        held = self._writer.log
        committed = max(held.committed, self._rows_from)
        return RowCounts(committed - self._rows_from, max(0, held.end - committed) + self._writer.unwritten)

    def start(self) -> None:
        self._writer.start()

    def wake(self) -> None:
        self._writer.wake()

    def stop(self, timeout: float) -> None:
        self._writer.stop(timeout)


def recover(journal: Journal, index: DedupIndex, id_header: str | None, *, most: int) -> Log:
    """A log of the messages in ``journal``, with keys that ``index`` recognises on redelivery.

    ``id_header`` is the option ``idHeader``; without it, each frame's dialect says where its stable id is.
    All messages whose ACK is not known to be confirmed get keys, and so do the newest others, up to ``most``
    in all. An older message gives a second row if a broker forgot that it confirmed the ACK; ``index`` counts
    the older ones as evicted.
    """
    held = Log(index, journal.id, journal.first)
    with index.lock:
        index.remember_confirmed(journal.remembered_keys)
        index.take_unwritten()
    for low, high in journal.held(journal.first, journal.end):
        # Not under the lock, because this reads from the disk.
        for batch in journal.batches(low, high):
            known = batch.end > min(journal.end - most, journal.acked)
            if not known:
                with index.lock:
                    index.count_evicted(len(batch.ends))
            ids = stable_ids(batch, id_header) if known else [None] * len(batch.ends)
            held.recover(replace(batch, ends=array("q", batch.ends)), ids)
    held.skip(journal.end)
    held.commit(journal.committed)
    if journal.end > journal.committed:
        log.info("not committed in the journal: %s", counted(journal.end - journal.committed, "message"))
    return held


def stable_ids(batch: FrameBatch, id_header: str | None) -> Sequence[bytes | None]:
    """The stable ids of the frames of ``batch``, as raw bytes from the wire; None for a frame without one."""
    dialect = dialect_named(batch.dialect)
    name = id_header or dialect.id_header
    if name is None:
        return [None] * len(batch.ends)
    time = None if id_header else dialect.id_time_header
    ids: list[bytes | None] = []
    times: list[bytes | None] = []
    for data in _scannable(batch):
        block = _scanned(data, batch.version, name, time, dialect.ack_header)
        ids += block.ids
        times += block.times
    return dialect.stable_ids(ids, times) if id_header is None else [raw or None for raw in ids]


def _scannable(batch: FrameBatch) -> Iterator[bytes]:
    """Yield the frames in one piece, or malformed ones one by one, so that none gets another's id."""
    if batch.malformed is None:
        yield bytes(batch.data)
    else:
        for begin, end in pairwise((0, *map(int, batch.ends))):
            yield bytes(batch.data[begin:end])


def _scanned(
    data: bytes, version: str, id_header: str | None, time_header: str | None, ack_header: str | None
) -> MessageBlock:
    """The first block in ``data``, whose frames were all scanned before, with the same names."""
    scanner = FrameScanner(version, Limits.none(), tolerant=True)
    scanner.collect(id_header=id_header, ack_header=ack_header, time_header=time_header)
    scanner.receive_data(data)
    while not isinstance(event := scanner.next_event(), MessageBlock):
        if isinstance(event, MalformedMessage):
            return MessageBlock.of_malformed(event)
        assert event is not NEED_DATA, "EOLs may come before the frames, and nothing else"
    return event
