"""The log in a journal: only messages that are durable there can be planned and read.

:func:`recover` makes a log of what earlier runs left there. These messages have no ack handles, because a
handle ends with its connection. If their ACKs did not reach the broker, it redelivers them. Such a delivery
is attached to the message that is held already, and gives no second row.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from spark_stomp.brokers import dialect_named
from spark_stomp.errors import JournalDamaged, JournalTrimmed, StompError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.journal import Journal
from spark_stomp.logs import get_log
from spark_stomp.protocol import NEED_DATA, FrameScanner, Limits, MalformedMessage, MessageBlock
from spark_stomp.quoting import counted
from spark_stomp.receiver import DedupIndex, Log
from spark_stomp.source.journal_writer import JournalWriter
from spark_stomp.source.logs import Shares, Statuses, raise_or_log
from spark_stomp.source.offsets import JOURNAL, LogEnd
from spark_stomp.source.planning import Available
from spark_stomp.status.receivers import RowCounts

log = get_log(__name__)

# Messages that may wait for the commit with ``ackAfter=journal``, as no broker's window says how many. Half
# of it is a streaming batch. About six times the default prefetch.
_WINDOW = 250_000


class JournalLog:
    """The messages in a journal, in one order over all receivers and runs.

    ``writer`` writes into it what receivers with the names ``receivers`` have received. ``tolerant``: if the
    journal lacks messages, log that instead of raising (``failOnDataLoss=false``).
    """

    name = JOURNAL
    end_to_name = None

    def __init__(self, writer: JournalWriter, receivers: Collection[str], *, tolerant: bool) -> None:
        self.frames = self._journal = journal = writer.journal
        self.id = journal.id
        self.base = self._rows_from = journal.committed
        self._first = journal.first
        self._writer = writer
        self._receivers = receivers
        self._tolerant = tolerant

    @property
    def received_end(self) -> int:
        return self._writer.log.end + self._writer.unwritten

    @property
    def rows(self) -> RowCounts:
        messages, unwritten = self._writer.log, self._writer.unwritten
        committed = max(messages.committed, self._rows_from)
        return RowCounts(committed - self._rows_from, max(0, messages.end - committed) + unwritten)

    def begin(self, known: LogEnd | None, planned: LogEnd | None) -> None:
        journal = self._journal
        committed, given = (end.next if end and end.id == self.id else 0 for end in (known, planned))
        given = max(committed, given)
        self._rows_from = max(journal.committed, committed)
        self._warn_of_repeats(committed, given, known=known is not None and known.id == self.id)
        if given > journal.end:
            self._lost(
                JournalDamaged(
                    f"the journal ends at {journal.end}, but the checkpoint is at {given}: the end of the "
                    f"journal is gone, {given - journal.end:,} messages, or an older copy was put back"
                )
            )
            # Spark knows these positions already, so new messages must not get them.
            journal.commit(committed)
            journal.skip(given)
            self._writer.log.skip(given)
            self._rows_from = given
        elif known is not None and known.id == self.id and committed < journal.first:
            self._lost(
                JournalTrimmed(
                    f"the checkpoint is at {committed} of the journal, which begins at "
                    f"{journal.first} now: the checkpoint is an older copy, and the "
                    f"{journal.first - committed:,} messages between were committed and deleted"
                )
            )

    def _warn_of_repeats(self, committed: int, given: int, *, known: bool) -> None:
        """The checkpoint knows of fewer commits than the journal: it is not the one that went on with it."""
        ahead = self._journal.committed
        # Before the first commit a checkpoint knows only what is planned, which begins at an older commit.
        if committed < ahead if known else 0 < given <= ahead:
            log.warning(
                "the checkpoint knows of commits up to %d of the journal, the journal of commits up to %d: "
                "another copy of the checkpoint has gone on with this journal, or this one is an older copy. "
                "What lies between and is planned comes again, as a batch that the sink may not know",
                committed,
                ahead,
            )

    def _lost(self, problem: StompError) -> None:
        raise_or_log(problem, tolerant=self._tolerant)

    def available(self, low: int, statuses: Statuses) -> list[Available]:
        writer, ours = self._writer, [statuses[name] for name in self._receivers]
        # How many messages and bytes may wait for Spark's commit. With ``ackAfter=journal`` no broker waits
        # for it: messages are ACKed as soon as they are durable.
        window, window_bytes = _WINDOW, writer.max_bytes
        low = self._next(low)
        full, high = writer.full, max(writer.log.end, low)
        if not writer.ack_when_durable:
            window = sum(one.window or 0 for one in ours)
            window_bytes = sum(one.window_bytes or 0 for one in ours)
            full = full or any(one.window_full for one in ours)
        full_because = "journalMaxBytes" if writer.full else None
        sizes = (window or None, window_bytes or None)
        return [Available(JOURNAL, self._journal, low, high, full, full_because, *sizes)]

    def take(self, low: int, shares: Shares) -> int:
        count = shares.get(JOURNAL, 0)
        return self._next(low) + count if count else low

    def _next(self, low: int) -> int:
        """The first position of a batch that begins at ``low``. What is lost, and may be, gives no batch."""
        low = max(low, self._first)
        return self._journal.next_held(low) if self._tolerant else low

    def is_here(self, high: int) -> bool:
        return True

    def readable(self, low: int, high: int) -> list[tuple[int, int]]:
        """``[low, high)`` itself. Raises JournalTrimmed if the journal does not hold all of it.

        With ``failOnDataLoss=false`` this logs the error, and returns the parts that the journal holds.
        """
        parts = self._journal.held(low, high)
        if parts != [(low, high)]:
            missing = high - low - sum(end - begin for begin, end in parts)
            self._lost(
                JournalTrimmed(
                    f"Spark asks for messages [{low}, {high}) of the journal, which lacks {missing:,}: "
                    f"it holds {parts or 'none'}, and [{self._journal.first}, {self._journal.end}) in all"
                )
            )
        return parts

    def commit(self, upto: int) -> bool:
        return self._writer.commit(upto)


def recover(journal: Journal, index: DedupIndex, id_header: str | None, *, most: int) -> Log:
    """A log of the messages in ``journal``, with keys that ``index`` recognises on redelivery.

    ``id_header`` is the option ``idHeader``; without it, each frame's dialect says where its stable id is.
    All messages whose ACK is not known to be confirmed get keys, and so do the newest others, up to ``most``
    in all. An older message gives a second row if a broker forgot that it confirmed the ACK; ``index`` counts
    the older ones as evicted.
    """
    messages = Log(index, journal.id, journal.first)
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
            messages.recover(replace(batch, ends=array("q", batch.ends)), ids)
    messages.skip(journal.end)
    messages.commit(journal.committed)
    if journal.end > journal.committed:
        log.info("not committed in the journal: %s", counted(journal.end - journal.committed, "message"))
    return messages


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
