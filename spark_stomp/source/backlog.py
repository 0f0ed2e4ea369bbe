"""The backlog: the messages that a query can plan and read, by the names that offsets give to its logs.

A query on queues without a journal has one log, in memory, which ends with the run. Logs in a journal
(:mod:`~spark_stomp.source.journal_backlog`) and of streams of RabbitMQ outlive it. The numbers in a stream's
log are the broker's offsets, and its id is not changed by a restart. So a batch that an earlier run has
planned can be read again: the subscription begins where that batch does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from spark_stomp.brokers.rabbitmq import stream_name
from spark_stomp.errors import JournalMissing, RangeUnavailable, StompError, StreamTruncated
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import RangeTicket
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.receiver import Deliveries, Log, ReceiverStatus, StreamDeliveries, begin_of, stream_ends
from spark_stomp.source.offsets import JOURNAL, MEMORY, STREAM, LogEnd, Offset, Range, Sizes
from spark_stomp.source.planning import Available
from spark_stomp.status.receivers import RowCounts
from spark_stomp.transport.retry import Retry, may_recover

log = get_log(__name__)

Shares = Mapping[str, int]
"""How many messages a batch takes, by the names of :class:`~spark_stomp.source.planning.Available`."""


class Backlog:
    """The messages that a query can plan and read. Methods may be called from any thread.

    ``receivers`` (by name) have what was received. ``tolerant``: if messages of an earlier run are gone, log
    that instead of raising (``failOnDataLoss=false``).
    """

    def __init__(self, receivers: Mapping[str, Deliveries], *, tolerant: bool) -> None:
        self._receivers = receivers
        self._tolerant = tolerant

    @property
    def logs(self) -> Mapping[str, Log]:
        """The logs by their names in offsets."""
        raise NotImplementedError

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the logs."""
        return frozenset(one.id for one in self.logs.values())

    @property
    def failure(self) -> StompError | None:
        """The error that ended the backlog; None while it works."""
        return None

    @property
    def has_unwritten(self) -> bool:
        """Whether there are received messages that will become available later."""
        return False

    # --- planning

    def available(self, start: Offset, statuses: Sequence[ReceiverStatus]) -> list[Available]:
        """What a batch that begins at ``start`` can take."""
        raise NotImplementedError

    def choose_end(self, start: Offset, choose: Callable[[], Shares]) -> Offset | None:
        """The end of a batch that begins at ``start`` and takes what ``choose`` says. It is kept from now on.

        None if that is not there any more: then look again.
        """
        return self._end(start, choose())

    def _end(self, start: Offset, shares: Shares) -> Offset:
        # What this run does not read goes on too: a later run may name it again.
        ends = dict(self.with_bases(start))
        for name, count in shares.items():
            if count:
                base = 0 if self.read_upto(name, start) is not None else self.base(name)
                ends[name] = LogEnd(self.logs[name].id, self.begin_of(name, start) + count, base)
        return Offset(ends)

    def base(self, name: str) -> int:
        """Where reading of a log begins if the checkpoint does not name it."""
        return 0

    def read_upto(self, name: str, start: Offset) -> int | None:
        """How far ``start`` has read a log; None if it does not name that log."""
        end = start.get(name)
        return None if end is None or end.id != self.logs[name].id else end.next

    def begin_of(self, name: str, start: Offset) -> int:
        """The number with which a batch begins in a log."""
        upto = self.read_upto(name, start)
        return self.base(name) if upto is None else upto

    def with_bases(self, start: Offset) -> Offset:
        """``start``, and where reading begins of what it does not name, if a restart must begin there too."""
        return start

    def bound(self, *, until_now: bool) -> None:
        """Whether a batch takes only what there is now. The first call finds out where that ends."""

    def received(self) -> Offset:
        """The end of everything received so far, as it will be if no connection breaks."""
        waiting = sum(one.inbox.pending for one in self._receivers.values())
        ends = {name: (one.id, one.end + waiting) for name, one in self.logs.items()}
        return Offset({name: LogEnd(one, end) for name, (one, end) in ends.items() if end})

    # --- a batch is read, and committed

    def begin(self, start: Offset, planned: Offset) -> None:
        """The run begins at ``start``; batches from there up to ``planned`` were planned already.

        Raises a JournalError if messages after ``start`` should be in a journal and are not. Called before
        anything is received, so that no new message is taken for a lost one.
        """
        named = start.get(JOURNAL) or planned.get(JOURNAL)
        if named is not None:
            self._report_missing_journal(named.id)

    def holds(self, end: Offset) -> bool:
        """Whether everything up to ``end`` is here that can come again."""
        return True

    def missing(self, wanted: Range) -> None:
        """The log of the planned range ``wanted`` is not here. Raises or logs what is lost with it."""
        if wanted.name.startswith(STREAM):
            self._raise_or_log(
                StreamTruncated(
                    f"an earlier run planned a batch with the offsets {wanted.low} to {wanted.high - 1} of "
                    f"the stream {wanted.name.removeprefix(STREAM)}. They are gone: the query does not read "
                    "the stream any more, or it was deleted and declared again. Name it again, or set "
                    "failOnDataLoss = false to go on without them"
                )
            )
        elif wanted.name == JOURNAL:
            self._report_missing_journal(wanted.id)

    def _report_missing_journal(self, journal: str) -> None:
        self._raise_or_log(
            JournalMissing(
                f"the checkpoint names the journal {journal}, but the option journal is not set: messages in "
                "it after the last committed batch would not be read. Set journal again, or set "
                "failOnDataLoss=false to go on without them"
            )
        )

    def _raise_or_log(self, problem: StompError) -> None:
        if not self._tolerant:
            raise problem
        log.error("failOnDataLoss=false: %s", problem)

    def readable(self, wanted: Range) -> list[Range]:
        """The parts of ``wanted``, whose log is here, that have messages.

        Raises RangeUnavailable if some of it is committed (contract 3).
        """
        held = self.logs[wanted.name]
        if wanted.low < held.committed:
            raise RangeUnavailable(
                f"Spark asks again for messages from {wanted.low} of {wanted.name}, but those below "
                f"{held.committed} are committed"
            )
        return [Range(wanted.name, wanted.id, *part) for part in held.held(wanted.low, wanted.high)]

    def sizes(self, name: str) -> Sizes:
        """The sizes of the messages in a log."""
        return self.logs[name]

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        """Yield the frames of a planned range."""
        for one in self.logs.values():
            if one.id == ticket.log:
                return one.batches(ticket.low, ticket.high)
        raise RangeUnavailable(f"no log here has the id {ticket.log}")

    def commit(self, committed: Offset) -> bool:
        """Everything up to ``committed`` is committed. False if that was known already.

        Logs that are not here are ignored.
        """
        ends = [(one, self.read_upto(name, committed)) for name, one in self.logs.items()]
        news = [one.commit(upto) for one, upto in ends if upto is not None]
        return any(news)

    # --- while it runs

    def figures(self) -> dict[str, dict[str, int]]:
        """Figures of the status beside those of the receivers, by name."""
        return {}

    @property
    def rows(self) -> RowCounts:
        """How many rows of this run are in committed batches, and how many wait for a batch."""
        inboxes = [one.inbox for one in self._receivers.values()]
        committed = sum(inbox.ackable for inbox in inboxes)
        return RowCounts(committed, max(0, sum(inbox.received for inbox in inboxes) - committed))

    def start(self) -> None:
        """The receivers are about to start."""

    def wake(self) -> None:
        """A receiver has new messages, or other news."""

    def stop(self, timeout: float) -> None:
        """Make nothing more available, within ``timeout`` seconds."""


class MemoryBacklog(Backlog):
    """Messages of queues in memory. ``receivers`` share one log."""

    def __init__(self, receivers: Mapping[str, Deliveries], *, tolerant: bool) -> None:
        super().__init__(receivers, tolerant=tolerant)
        self._log = next(iter(receivers.values())).log

    @property
    def logs(self) -> Mapping[str, Log]:
        return {MEMORY: self._log}

    def available(self, start: Offset, statuses: Sequence[ReceiverStatus]) -> list[Available]:
        begin = self.begin_of(MEMORY, start)
        if self._log.end > begin:
            # Spark was told about these, and asks again from before them.
            return [Available(MEMORY, self._log, begin, self._log.end, full=True)]
        return [
            Available(
                status.name,
                self._receivers[status.name].inbox,
                0,
                status.pending,
                full=status.window_full,
                window=status.window,
                window_bytes=status.window_bytes,
            )
            for status in statuses
        ]

    def choose_end(self, start: Offset, choose: Callable[[], Shares]) -> Offset | None:
        with self._log.index.lock:
            shares = choose()
            if MEMORY in shares:
                return self._end(start, shares)
            gone = any(self._receivers[name].inbox.pending < count for name, count in shares.items())
            # With a limit of bytes, what is gone has no size: then the shares are empty.
            if gone or not any(shares.values()):
                return None
            for name, count in shares.items():
                self._receivers[name].number(count)
            return self._end(start, {MEMORY: self._log.end - self.begin_of(MEMORY, start)})


class StreamBacklog(Backlog):
    """The messages of ``streams``, by destination, in memory. They are in the order of the receivers."""

    def __init__(self, options: SourceOptions, streams: Mapping[str, StreamDeliveries]) -> None:
        super().__init__(streams, tolerant=not options.fail_on_data_loss)
        self._options = options
        self._streams = {STREAM + stream_name(one): held for one, held in streams.items()}
        self._ends: dict[str, int] | None = None

    @property
    def logs(self) -> Mapping[str, Log]:
        return {name: held.log for name, held in self._streams.items()}

    def begin(self, start: Offset, planned: Offset) -> None:
        super().begin(start, planned)
        for destination, (name, held) in zip(self._options.destinations, self._streams.items(), strict=True):
            known = start.get(name)
            end = planned.get(name) or known
            if end is None:
                held.begin_at(begin_of(self._options, destination))
            else:
                resumed = known is not None and known.id == end.id
                low = known.next if known is not None and resumed else end.base
                held.begin_at(low, end.id, wanted=end.next)

    def bound(self, *, until_now: bool) -> None:
        if not until_now:
            self._ends = None
        elif self._ends is None:
            ends = self._find_ends()
            self._ends = {STREAM + stream_name(one): end for one, end in ends.items()}

    def _find_ends(self) -> dict[str, int]:
        """Where the streams end. A broken connection is tried again, as those of the receivers are."""
        retry = Retry(self._options.reconnect, time.monotonic())
        while True:
            try:
                return stream_ends(self._options, self._options.destinations)
            except StompError as error:
                delay = retry.next_delay(error, time.monotonic())
                # This is the first that connects, or about the first: a refused login is a mistake.
                if delay is None or not may_recover(error, let_in=False):
                    raise
                log.warning("%s; asking again where the streams end, in %.1f s", error, delay)
                time.sleep(delay)

    def base(self, name: str) -> int:
        return self._streams[name].base or 0

    def begin_of(self, name: str, start: Offset) -> int:
        """Behind a gap in the offsets, so that the first of these offsets is a message."""
        return self.logs[name].next_held(super().begin_of(name, start))

    def with_bases(self, start: Offset) -> Offset:
        """``start``, and the end that each stream had when a query with ``startingOffsets=latest`` began.

        A restart before the first message must begin there too.
        """
        found = {
            name: LogEnd(held.log.id, held.base, held.base)
            for name, held in self._streams.items()
            if held.begin == "latest" and held.base is not None and start.get(name) is None
        }
        return Offset({**start.ends, **found}) if found else start

    def available(self, start: Offset, statuses: Sequence[ReceiverStatus]) -> list[Available]:
        return [
            self._available(name, held, status, start)
            for (name, held), status in zip(self._streams.items(), statuses, strict=True)
        ]

    def _available(
        self, name: str, held: StreamDeliveries, status: ReceiverStatus, start: Offset
    ) -> Available:
        received, complete = held.next or 0, None
        if self._ends is not None:
            end = self._ends.get(name, 0)
            complete = received == end or (received > end and (held.end_is_known or held.begin == "latest"))
            # Nothing came from the time in startingOffsets on.
            complete = complete or (held.next is None and held.end_is_known and held.begin != "first")
            received = min(received, end)
        begin = self.begin_of(name, start)
        return Available(
            name,
            held.log,
            begin,
            max(begin, received),
            full=status.window_full,
            window_bytes=status.window_bytes,
            complete=complete,
        )

    def received(self) -> Offset:
        ends = {name: (held.log.id, held.next) for name, held in self._streams.items()}
        return Offset({name: LogEnd(one, end) for name, (one, end) in ends.items() if end is not None})

    def holds(self, end: Offset) -> bool:
        upto = {name: self.read_upto(name, end) or 0 for name in self._streams}
        return not any((held.next or 0) < upto[name] for name, held in self._streams.items())
