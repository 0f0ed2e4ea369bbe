"""The sink's part of the status of a query, written when a batch is done or given up.

Nothing of the sink lives as long as the query. So each commit reads what the one before it wrote, and counts
on.

A file system may hang. So a thread does all this, and Spark's commit goes on after a moment. What later
commits report waits behind it, without another thread.
"""

from __future__ import annotations

import platform
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_stomp.errors import OptionError
from spark_stomp.files.locations import FILE_ERRORS, local_path
from spark_stomp.logs import get_log
from spark_stomp.options import SinkOptions
from spark_stomp.status.figure import VERSION, Counter, Figure, Gauge, Part, Time, iso
from spark_stomp.status.files import StatusFile, as_json, parsed, query_name, status_file, within

log = get_log(__name__)

Document = dict[str, Any]

# Seconds that a commit waits, on a file system of this machine and on a store.
_TIMEOUT, _STORE_TIMEOUT = 0.5, 2.0
# Reports to one file.
_MOST_WAITING = 1_000

# Whose files could not be written, in this process, since they last could.
_failing: set[SinkOptions] = set()


class _Reports:
    """What is to be written to one file; ``turn`` is held by the thread that does it."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], None]] = deque(maxlen=_MOST_WAITING)
        self.turn = threading.Lock()

    def write_all(self) -> bool:
        # If another thread is at it, it writes this too.
        while self.waiting and self.turn.acquire(blocking=False):
            try:
                while self.waiting:
                    self.waiting.popleft()()
            finally:
                self.turn.release()
        return True


# By the file, of all queries whose commits are in this process.
_reports: dict[str, _Reports] = {}


# Latencies are counted in steps of 2 ** (1 / 4), about a fifth, from 0.1 ms to several hours.
_LEAST, _STEPS, _COUNT = 1e-4, 4, 112


def _no_latencies() -> npt.NDArray[np.int64]:
    return np.zeros(_COUNT, np.int64)


@dataclass
class TaskFigures:
    """What became of the messages of one or more tasks.

    Attributes
    ----------
    connections : connections that stood, the replaced ones too.
    confirmed : messages that the broker confirmed.
    resent : messages sent once more after a connection broke; the most that came twice because of it.
    dropped, dead_lettered : rows that could not be sent: left out, or sent to the dead letter destination.
    blocked_seconds : for how long the broker was blocked.
    """

    connections: int = 0
    confirmed: int = 0
    resent: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    blocked_seconds: float = 0.0
    _latencies: npt.NDArray[np.int64] = field(default_factory=_no_latencies, repr=False, compare=False)

    def count_latencies(self, seconds: npt.NDArray[np.float64]) -> None:
        """Note how long messages waited for their receipts."""
        steps = np.log2(np.maximum(seconds, _LEAST) / _LEAST) * _STEPS
        self._latencies += np.bincount(np.minimum(steps.astype(np.int64), _COUNT - 1), minlength=_COUNT)

    def add(self, other: TaskFigures) -> None:
        """Count the messages of ``other`` too."""
        for name in (one.name for one in fields(self)):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def latency(self, part: float) -> float | None:
        """Within how many seconds this part of the messages had their receipts; None without any."""
        counted = np.cumsum(self._latencies)
        if not counted[-1]:
            return None
        step = int(np.searchsorted(counted, part * counted[-1]))
        return float(_LEAST * 2 ** ((step + 1) / _STEPS))


@dataclass(frozen=True)
class SinkPart(Part):
    """A batch that is done; ``before`` is what the last one of the same run showed."""

    prefix = "sink_"

    options: SinkOptions
    tasks: TaskFigures
    spark_run: str | None
    number: int | None
    before: Document
    now: float = field(default_factory=time.time)

    @Figure()
    def version(self) -> int:
        """Of this part: 1."""
        return VERSION

    @Figure()
    def query(self) -> str:
        """The name that the user gave the query, else the last part of its checkpoint's location."""
        return query_name(self.options)

    @Figure()
    def run(self) -> str | None:
        """Spark's id of the run; null for a batch write. Counts begin at 0 with each run."""
        return self.spark_run

    @Figure()
    def host(self) -> str:
        """The machine of the process that wrote this."""
        return platform.node()

    @Time()
    def started_at(self) -> float | str:
        """When the first batch of this run was done."""
        return self.before.get("started_at") or self.now

    @Time(label="written")
    def written_at(self) -> float:
        """When the last batch was done."""
        return self.now

    @Figure()
    def failure(self) -> None:
        """What became of a batch that was not finished; null again once a later one is done."""
        return

    @Time()
    def failed_at(self) -> None:
        """When that was."""
        return

    @Gauge(label="batch")
    def batch(self) -> int | None:
        """The last batch that is done; null for a batch write."""
        return self.number

    @Counter(label="confirmed")
    def confirmed(self) -> int:
        """Messages that the broker confirmed."""
        return self.tasks.confirmed

    @Counter(label="resent", trouble=True)
    def resent(self) -> int:
        """Messages that were sent once more after a connection broke: at most so many came twice."""
        return self.tasks.resent

    @Counter(label="dropped", trouble=True)
    def dropped(self) -> int:
        """Rows that cannot be sent and were left out."""
        return self.tasks.dropped

    @Counter(label="dead-lettered", trouble=True)
    def dead_lettered(self) -> int:
        """Rows that cannot be sent and went to the dead letter destination."""
        return self.tasks.dead_lettered

    @Counter()
    def connections(self) -> int:
        """Connections of tasks."""
        return self.tasks.connections

    @Counter(label="blocked by the broker", trouble=True)
    def blocked_seconds(self) -> float:
        """How long tasks waited for a blocked broker."""
        return self.tasks.blocked_seconds

    @Gauge(label="receipts p50")
    def receipt_p50_seconds(self) -> float | None:
        """Within so many seconds half of the receipts came, in the last batch with messages."""
        return self.tasks.latency(0.5) or self.before.get("receipt_p50_seconds")

    @Gauge(label="p99")
    def receipt_p99_seconds(self) -> float | None:
        """The same for 99 of 100."""
        return self.tasks.latency(0.99) or self.before.get("receipt_p99_seconds")

    def shown(self) -> Document:
        """What is counted goes on from the batch before."""
        batch = super().shown()
        counted = (figure.key for figure in self.figures() if isinstance(figure, Counter))
        return batch | {key: round((self.before.get(key) or 0) + batch[key], 3) for key in counted}


def report(options: SinkOptions, figures: TaskFigures, run: str | None, batch: int | None) -> None:
    """Count a batch that is done in the status. The batch does not suffer if that fails."""
    _replace(
        options,
        lambda before: SinkPart(
            options, figures, run, batch, before if before.get("run") == run else {}
        ).shown(),
    )


def report_failure(options: SinkOptions, why: str) -> None:
    """Show that a batch was not finished. What was counted before stays as it is."""
    nothing = SinkPart(options, TaskFigures(), None, None, {}).shown() | {
        "started_at": None,
        "written_at": None,
    }
    _replace(options, lambda before: nothing | before | {"failure": why, "failed_at": iso(time.time())})


def was_reported(options: SinkOptions, run: str | None) -> bool:
    """Whether a batch of this run was counted; False if it is not known."""
    where = _where(options)
    if run is None or where is None or (where in _reports and _reports[where].turn.locked()):
        return False

    def reported() -> bool:
        try:
            file = status_file(options)
            return file is not None and _read(file.of_sink).get("run") == run
        except Exception:  # noqa: BLE001 - whatever it is, the batch is not to suffer from it
            return False

    return within(_timeout_of(options), reported, False)


def _replace(options: SinkOptions, following: Callable[[Document], Document]) -> None:
    where = _where(options)
    if where is None:
        return
    reports = _reports.setdefault(where, _Reports())
    reports.waiting.append(lambda: _write(options, following))
    if not within(_timeout_of(options), reports.write_all, False):
        _warn_once(options, "the file system does not answer")


def _where(options: SinkOptions) -> str | None:
    return options.status_file or options.checkpoint_location


def _timeout_of(options: SinkOptions) -> float:
    return _STORE_TIMEOUT if local_path(_where(options) or "") is None else _TIMEOUT


# In a thread of its own:


def _write(options: SinkOptions, following: Callable[[Document], Document]) -> None:
    try:
        if (file := status_file(options)) is None:
            return
        file = file.of_sink
        try:
            file.write(as_json(following(_read(file))))
            _failing.discard(options)
        except FILE_ERRORS as error:
            _warn_once(options, file.location.words(error))
    except OptionError as error:
        _warn_once(options, error.message)
    except Exception as error:  # noqa: BLE001 - whatever it is, the batch is not to suffer from it
        _warn_once(options, repr(error))


def _read(file: StatusFile) -> Document:
    """What the last batch showed; nothing if that cannot be counted on, or shown again."""
    try:
        before = parsed(file.read())
        SinkPart.check(before)
    except (FileNotFoundError, ValueError):
        return {}
    return before if before.get("version") == VERSION else {}


def _warn_once(options: SinkOptions, why: str) -> None:
    if options not in _failing:
        log.warning("the status of the sink cannot be written: %s; the next batch tries again", why)
    _failing.add(options)
