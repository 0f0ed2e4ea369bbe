"""The source's part of the status, shown in the status file and in the query's progress."""

from __future__ import annotations

import os
import platform
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_stomp.errors import StompError
from spark_stomp.status.figure import VERSION, Counter, Figure, Gauge, Part, Time

if TYPE_CHECKING:
    from spark_stomp.journal import Journal
    from spark_stomp.receiver import DedupIndex, ReceiverStatus

Figures = dict[str, Any]


def _parent() -> str:
    """The parent's process id and, on Linux, its start (clock ticks since the machine's) and its ids' space.

    The id alone is not enough: in a container that starts again, the processes have the same ids.
    """
    parent = os.getppid()
    try:
        # proc(5): the name of the program, in parentheses, may contain spaces. The start is field 22.
        fields = Path(f"/proc/{parent}/stat").read_bytes().rpartition(b")")[2].split()
        return f"{parent}@{int(fields[19])}@{ids_space()}"
    except (OSError, LookupError):
        return str(parent)


def ids_space() -> str:
    """On Linux, which process ids this process sees: a container may have the host's name and its own ids."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


@dataclass(frozen=True)
class RunIdentity:
    """Identifies one run of a query.

    ``run`` is a random id. ``started_at`` is when the run began, in seconds since 1970. ``driver`` identifies
    the parent process.
    """

    query: str
    run: str = field(default_factory=lambda: secrets.token_hex(4))
    started_at: float = field(default_factory=time.time)
    driver: str = field(default_factory=_parent)


@dataclass(frozen=True)
class RowCounts:
    """The rows of this run: those in committed batches, and those received and not committed."""

    committed: int
    waiting: int


@dataclass(frozen=True)
class ReceiverPart(Part):
    """The figures of one receiver.

    ``since_unacked`` is when the oldest un-acked delivery came, in microseconds since 1970; None without one.
    """

    status: ReceiverStatus
    since_unacked: int | None

    @Figure()
    def destinations(self) -> list[str]:
        """What the receiver is subscribed to."""
        return list(self.status.destinations)

    @Gauge()
    def connected(self) -> bool:
        """Whether the receiver is subscribed."""
        return self.status.connection.connected

    @Time()
    def connected_since(self) -> float | None:
        """When the receiver was subscribed; null if it is not."""
        return self.status.connection.since if self.status.connection.connected else None

    @Time()
    def disconnected_since(self) -> float | None:
        """When the connection was lost, or when this run began; null if the receiver is subscribed."""
        return None if self.status.connection.connected else self.status.connection.since

    @Gauge()
    def attempts(self) -> int:
        """How many attempts to connect have failed since `disconnected_since`."""
        return self.status.connection.attempts

    @Counter(summed=True, label="reconnects", trouble=True)
    def reconnects(self) -> int:
        """How often a lost connection was replaced."""
        return self.status.connection.reconnects

    @Figure()
    def last_error(self) -> str | None:
        """Why the last connection was lost, or could not be made; null if neither has happened."""
        return self.status.connection.last_error

    @Time()
    def last_error_at(self) -> float | None:
        """When `last_error` happened; null without an error."""
        return self.status.connection.last_error_at

    @Counter(summed=True)
    def delivered(self) -> int:
        """Messages that the broker has delivered; a redelivered message counts again."""
        return self.status.counts.delivered

    @Counter(summed=True, metric="delivered_bytes")
    def bytes(self) -> int:
        """Bytes of the delivered messages, with their headers."""
        return self.status.counts.bytes

    @Gauge(summed=True, label="received", column=2)
    def received(self) -> int:
        """Messages that were received and give a row. If a connection is lost, this falls by the messages
        that Spark does not know yet; the broker redelivers them."""
        return self.status.received

    @Gauge(summed=True, label="committed", column=4)
    def committed(self) -> int:
        """Received messages that may be acknowledged: their batch is committed, or with `ackAfter=journal`
        they are in the journal."""
        return self.status.committed

    @Gauge(summed=True, label="acked", column=3)
    def acked(self) -> int:
        """Received messages that need no ACK any more: the broker has confirmed their ACK, or their
        connection is gone."""
        return self.status.acked

    @Gauge(summed=True, label="un-acked", column=1)
    def unacked(self) -> int:
        """Deliveries on the current connection whose ACK the broker has not confirmed."""
        return self.status.unacked

    @Gauge(label="oldest", column=5, passing=True)
    def oldest_unacked_seconds(self) -> float:
        """Age of the oldest un-acked delivery, in seconds; 0 if there is none."""
        age = 0.0 if self.since_unacked is None else time.time() - self.since_unacked / 1e6
        return round(max(0.0, age), 3)

    @Gauge()
    def window_full(self) -> bool:
        """Whether the un-acked window is full: the broker sends no more until something is acknowledged."""
        return self.status.window_full

    @Gauge()
    def paused(self) -> bool:
        """Whether the receiver reads nothing because it holds as many bytes as `maxBufferedBytes` allows."""
        return self.status.paused_since is not None

    @Time()
    def paused_since(self) -> float | None:
        """When the receiver was paused; null if it reads."""
        return self.status.paused_since

    @Gauge(label="held", column=6)
    def buffered_bytes(self) -> int:
        """Bytes of messages that the receiver holds in memory."""
        return self.status.buffered

    @Counter(summed=True, label="redelivered", trouble=True, column=7)
    def redelivered(self) -> int:
        """Deliveries that the broker marked as redelivered."""
        return self.status.counts.redelivered

    @Gauge()
    def delivery_count(self) -> int:
        """The largest `x-delivery-count` of a redelivered message since the start: how often a quorum queue
        of RabbitMQ delivered it before. Beyond its `delivery-limit` the queue drops the message."""
        return self.status.counts.delivery_count

    @Counter(summed=True)
    def reattached(self) -> int:
        """Deliveries of a message that was held already; they give no second row."""
        return self.status.counts.reattached

    @Counter(summed=True)
    def dropped(self) -> int:
        """Deliveries of a message that was committed already; they are acknowledged again and give no row."""
        return self.status.counts.dropped

    @Counter(summed=True, label="doubled", trouble=True)
    def doubled(self) -> int:
        """Redelivered messages without a stable id; each gives a second row."""
        return self.status.counts.doubled

    @Counter(summed=True)
    def other_body(self) -> int:
        """Messages with a known id and a different body; each gives a row."""
        return self.status.counts.other_body

    @Counter(summed=True, label="malformed", trouble=True)
    def malformed(self) -> int:
        """Messages that break the protocol or a limit."""
        return self.status.counts.malformed


SUMMED = [figure for figure in ReceiverPart.figures() if figure.summed]


@dataclass(frozen=True)
class TotalsPart(Part):
    """The figures of the whole source. ``of_receivers`` are the parts of all its receivers."""

    counted: RowCounts
    leaves_more: bool
    of_receivers: list[Figures]

    @Counter(label="rows")
    def rows(self) -> int:
        """Rows in batches of this run that are proved to be committed by Spark."""
        return self.counted.committed

    @Gauge(label="waiting")
    def rows_waiting(self) -> int:
        """Rows that were received and are not in a committed batch yet."""
        return self.counted.waiting

    @Gauge(label="more waiting")
    def more_waiting(self) -> bool:
        """Whether the last batch probably left messages behind, here or on the broker."""
        return self.leaves_more

    @Figure()
    def receivers(self) -> int:
        """How many receivers the source has."""
        return len(self.of_receivers)

    @Figure()
    def connected(self) -> int:
        """How many receivers are subscribed."""
        return sum(one["connected"] for one in self.of_receivers)

    @Figure()
    def window_full(self) -> bool:
        """Whether the un-acked window of any receiver is full."""
        return any(one["window_full"] for one in self.of_receivers)

    @Figure()
    def paused(self) -> bool:
        """Whether any receiver is paused."""
        return any(one["paused"] for one in self.of_receivers)

    @Figure(label="oldest", passing=True)
    def oldest_unacked_seconds(self) -> float:
        """Age of the oldest un-acked delivery of all receivers, in seconds; 0 if there is none."""
        return max((one["oldest_unacked_seconds"] for one in self.of_receivers), default=0.0)

    def shown(self) -> Figures:
        sums = {one.key: sum(figures[one.key] for figures in self.of_receivers) for one in SUMMED}
        return super().shown() | sums


@dataclass(frozen=True)
class JournalPart(Part):
    """The figures of the journal. ``unwritten``: how many messages were received and are not durable yet."""

    prefix = "journal_"

    journal: Journal
    index: DedupIndex
    unwritten: int

    @Gauge(label="first")
    def first(self) -> int:
        """The oldest position that the journal holds."""
        return self.journal.first

    @Gauge(label="committed")
    def committed(self) -> int:
        """The position below which Spark has committed everything."""
        return self.journal.committed

    @Gauge(label="end")
    def end(self) -> int:
        """The position below which everything is durable."""
        return self.journal.end

    @Gauge(label="size")
    def bytes(self) -> int:
        """Bytes that the journal takes up."""
        return self.journal.size

    @Gauge(label="not durable yet")
    def waiting(self) -> int:
        """Messages that were received and are not durable yet."""
        return self.unwritten

    @Gauge()
    def held(self) -> int:
        """Messages that are held and have their id in the dedup index."""
        return self.index.held

    @Gauge()
    def remembered(self) -> int:
        """Committed messages whose keys the dedup index remembers."""
        return self.index.remembered

    @Counter()
    def evicted(self) -> int:
        """Committed messages whose keys the dedup index had to forget; they give a second row if they are
        redelivered."""
        return self.index.evicted


@dataclass(frozen=True)
class QueryPart(Part):
    """The whole document of the source. ``of_receivers``, ``of_totals`` and ``of_journal`` are its parts."""

    identity: RunIdentity
    of_totals: Figures
    of_receivers: Figures
    of_journal: Figures | None
    error: StompError | None
    is_running: bool
    ended_within_batch: bool
    is_stopping: bool = False
    number: int = 1

    @Figure()
    def version(self) -> int:
        """The version of this format: 1. New keys may come without a new version."""
        return VERSION

    @Figure()
    def query(self) -> str:
        """The name of the query: the last part of `checkpointLocation`, else the destinations."""
        return self.identity.query

    @Figure()
    def source(self) -> int:
        """The number of this source: 1, or in a query with several sources 1, 2 and so on."""
        return self.number

    @Figure()
    def run(self) -> str:
        """A random id, new for each source at each start of the query."""
        return self.identity.run

    @Figure()
    def host(self) -> str:
        """The machine of the reader process."""
        return platform.node()

    @Figure()
    def pid(self) -> int:
        """The process id of the reader process."""
        return os.getpid()

    @Figure()
    def driver(self) -> str:
        """Identifies the driver's process on its machine: the sources of a query have the same."""
        return self.identity.driver

    @Gauge()
    def running(self) -> bool:
        """Whether the query runs; false once it has ended in order. A killed process cannot write that, so
        see `written_at` too."""
        return self.is_running

    @Figure()
    def stopping(self) -> bool:
        """Whether the query runs and is being stopped: the source sends its last ACKs."""
        return self.is_running and self.is_stopping

    @Gauge()
    def unfinished(self) -> bool:
        """Whether the query ended within a batch: `checkpointLocation` does not show its last batch as
        committed. It failed, in its sink for example, or was stopped during that batch. False without
        `checkpointLocation`."""
        return self.ended_within_batch

    @Figure()
    def failure(self) -> str | None:
        """The error that ended the source; null without one."""
        return None if self.error is None else str(self.error)

    @Time(label="began")
    def started_at(self) -> float:
        """When this run began."""
        return self.identity.started_at

    @Time(label="written", passing=True)
    def written_at(self) -> float:
        """When this status was written."""
        return time.time()

    @Figure()
    def totals(self) -> Figures:
        """Figures of the whole source."""
        return self.of_totals

    @Figure()
    def receivers(self) -> Figures:
        """Figures of each receiver, by its name: what it reads, `#` and a number."""
        return self.of_receivers

    @Figure()
    def journal(self) -> Figures | None:
        """Figures of the journal; null without a journal."""
        return self.of_journal

    @Figure()
    def sink(self) -> None:
        """Figures of the sink, from the file beside this one; null without a sink of this package."""
        return


_PASSING = {
    figure.key
    for part in (QueryPart, TotalsPart, ReceiverPart, JournalPart)
    for figure in part.figures()
    if figure.passing
}


def lasting(shown: Any) -> Any:
    """A document without the figures that change with time alone (``passing``)."""
    if not isinstance(shown, dict):
        return shown
    return {key: lasting(value) for key, value in shown.items() if key not in _PASSING}
