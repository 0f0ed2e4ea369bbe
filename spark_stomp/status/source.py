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
from spark_stomp.status.figure import VERSION, Counter, Figure, Gauge, Part, Time, Word
from spark_stomp.status.receivers import Figures, Observed, ReceiverPart, TotalsPart, UnfitBodies

if TYPE_CHECKING:
    from spark_stomp.brokers.standing import QueueAnswer
    from spark_stomp.journal import Journal
    from spark_stomp.receiver import DedupIndex


def _parent() -> str:
    """The parent's process id and, on Linux, its start (clock ticks since boot) and its PID namespace.

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
        """Below this position Spark has committed everything."""
        return self.journal.committed

    @Gauge(label="end")
    def end(self) -> int:
        """Below this position everything is durable."""
        return self.journal.end

    @Gauge(label="size")
    def bytes(self) -> int:
        """Bytes that the journal takes up."""
        return self.journal.size

    @Gauge(label="not durable yet")
    def waiting(self) -> int:
        """Messages that are not durable yet."""
        return self.unwritten

    @Gauge()
    def held(self) -> int:
        """Messages that are held, with their id in the dedup index."""
        return self.index.held

    @Gauge()
    def remembered(self) -> int:
        """Committed messages that the dedup index remembers."""
        return self.index.remembered

    @Counter()
    def evicted(self) -> int:
        """Committed messages that the dedup index had to forget; redelivered, they give a second row."""
        return self.index.evicted


@dataclass(frozen=True)
class QueuePart(Part):
    """What the broker last told of a queue that the query reads."""

    prefix = "queue_"

    answer: QueueAnswer

    @Gauge(label="ready", passing=True)
    def ready(self) -> int | None:
        """Messages that wait there; null in all figures that the broker does not know yet."""
        return self.answer.standing.ready

    @Gauge(label="un-acked", passing=True)
    def unacked(self) -> int | None:
        """Messages that consumers have and have not acknowledged."""
        return self.answer.standing.unacked

    @Gauge(label="consumers", passing=True)
    def consumers(self) -> int | None:
        """How many consumers the queue has, those of this query among them."""
        return self.answer.standing.consumers

    @Figure(passing=True)
    def alarm(self) -> str | None:
        """Why the broker takes no messages for it; null if nothing is known."""
        return self.answer.standing.alarm

    @Figure(passing=True)
    def forgetful(self) -> str | None:
        """What kind of queue it is, if the broker may not deliver again what comes back; null otherwise."""
        return self.answer.standing.forgetful or None

    @Time(passing=True)
    def told_at(self) -> float:
        """When the broker told it."""
        return self.answer.at


@dataclass(frozen=True)
class UnfitPart(Part):
    """The bodies of one destination that do not fit the fields of the schema."""

    prefix = "unfit_"

    unfit: UnfitBodies

    @Counter(label="unfit", trouble=True)
    def bodies(self) -> int:
        """How many there are."""
        return self.unfit.bodies

    @Figure()
    def reason(self) -> str:
        """Why the first of them does not fit."""
        return self.unfit.reason

    @Time(label="since")
    def first_at(self) -> float:
        """When the first of them was read."""
        return self.unfit.first

    @Time()
    def last_at(self) -> float:
        """When the last of them was read."""
        return self.unfit.last


@dataclass(frozen=True)
class QueryPart(Part):
    """The status of one source of a query. What begins with ``of_`` are its parts.

    Some keys are missing if only the sink is of this package, or if an older release wrote it.
    """

    identity: RunIdentity
    of_totals: Figures
    of_receivers: Figures
    of_journal: Figures | None
    error: StompError | None
    is_running: bool
    ended_within_batch: bool
    is_stopping: bool = False
    number: int = 1
    observed: Observed = field(default_factory=Observed)
    given_texts: tuple[tuple[str, str | None], ...] = ()
    of_queues: Figures = field(default_factory=dict)
    sharing: tuple[str, ...] = ()
    of_unfit: Figures = field(default_factory=dict)

    @Figure()
    def version(self) -> int:
        """The version of this format, 1. New keys may come without a new version."""
        return VERSION

    @Figure()
    def query(self) -> str:
        """The name of the query: the last part of `checkpointLocation`, else the destinations."""
        return self.identity.query

    @Figure()
    def source(self) -> int:
        """The number of this source in its query, from 1."""
        return self.number

    @Figure()
    def run(self) -> str:
        """A random id, new at each start."""
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
        """Identifies the driver's process: the sources of a query have the same."""
        return self.identity.driver

    @Gauge()
    def running(self) -> bool:
        """Whether the query runs; false once it has ended in order. A killed process cannot write that: see
        `written_at`."""
        return self.is_running

    @Figure()
    def stopping(self) -> bool:
        """Whether the query is being stopped: the source sends its last ACKs."""
        return self.is_running and self.is_stopping

    @Gauge()
    def unfinished(self) -> bool:
        """Whether the query ended within a batch: no commit of its last batch was seen. Its messages come
        again."""
        return self.ended_within_batch

    @Gauge()
    def failed(self) -> bool:
        """Whether an error ended the source."""
        return self.error is not None

    @Figure()
    def failure(self) -> str | None:
        """The error that ended the source; null without one."""
        return None if self.error is None else str(self.error)

    @Figure()
    def failure_code(self) -> str | None:
        """The code of `failure`."""
        return None if self.error is None else self.error.code

    @Figure(passing=True)
    def waiting_for(self) -> str | None:
        """What has to happen before the query gets on, in one sentence."""
        return None if self.observed.waiting is None else self.observed.waiting.text

    @Word(metric="waiting", label="waits for", passing=True)
    def waiting_on(self) -> str | None:
        """The same in one word, which is the metric's label `on`."""
        return None if self.observed.waiting is None else self.observed.waiting.on

    @Time()
    def waiting_since(self) -> float | None:
        """Since when the query waits for that."""
        return self.observed.since

    @Time(label="batch began")
    def batch_since(self) -> float | None:
        """When the end of the batch was chosen that Spark works on; null if Spark is in none."""
        return self.observed.batch_since

    @Time(label="last commit")
    def last_commit_at(self) -> float | None:
        """When the source last learned of a commit."""
        return self.observed.committed_at

    @Time(label="began")
    def started_at(self) -> float:
        """When this run began."""
        return self.identity.started_at

    @Time(label="written", passing=True)
    def written_at(self) -> float:
        """When this status was written."""
        return time.time()

    @Figure()
    def options(self) -> dict[str, str | None]:
        """The options that the source was given; null in place of what may be a secret."""
        return dict(self.given_texts)

    @Figure()
    def totals(self) -> Figures:
        """Figures of the whole source."""
        return self.of_totals

    @Figure()
    def receivers(self) -> Figures:
        """Figures of each receiver, by its name: what it reads, `#` and a number."""
        return self.of_receivers

    @Figure(passing=True)
    def queues(self) -> Figures:
        """What the broker tells of the first five queues, by their names; asked every 30 seconds."""
        return self.of_queues

    @Figure()
    def shares_with(self) -> list[str]:
        """Queries of the same driver that read one of its queues too: each gets a part of the messages."""
        return list(self.sharing)

    @Figure()
    def unfit(self) -> Figures:
        """Bodies that do not fit the fields of the schema, by their destinations."""
        return self.of_unfit

    @Figure()
    def journal(self) -> Figures | None:
        """Figures of the journal; null without a journal."""
        return self.of_journal

    @Figure()
    def sink(self) -> None:
        """Figures of the sink of this package, from the file beside this one."""
        return

    @Figure()
    def ended(self) -> None:
        """What ended the query, if its program called `reason(error, checkpoint)`; from a file beside this
        one."""
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
