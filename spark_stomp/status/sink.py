"""The sink's part of the status of a query, written when a batch is done or given up.

No process of the sink lives as long as the query. So each commit reads the file that the commit before it
wrote, and adds its own counts.

A file system may hang. So a thread reads and writes the file, and Spark's commit waits for it only a moment.
Until it is done, later reports wait for it: only one thread at a time writes a file.
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
from spark_stomp.files import FILE_ERRORS, local_path
from spark_stomp.logs import Once, get_log
from spark_stomp.options import SinkOptions
from spark_stomp.status.figure import VERSION, Counter, Figure, Gauge, Part, Time, iso
from spark_stomp.status.files import StatusFile, as_json, parsed, query_name, status_file, within

log = get_log(__name__)

Document = dict[str, Any]

# Seconds for which a commit waits, on a file system of this machine and on a store.
_TIMEOUT, _STORE_TIMEOUT = 0.5, 2.0
# Reports that wait to be written to one file; then the oldest are dropped.
_MOST_WAITING = 1_000

# Of queries, by their options, whose last write failed, in this process.
_once = Once(log)


class _Reports:
    """The reports that wait to be written to one file. The thread that writes them holds ``turn``."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], None]] = deque(maxlen=_MOST_WAITING)
        self.turn = threading.Lock()

    def write_all(self) -> bool:
        """Write all waiting reports. If another thread is writing already, it writes them.

        Always returns True, because ``within`` returns False if this takes too long.
        """
        while self.waiting and self.turn.acquire(blocking=False):
            try:
                while self.waiting:
                    self.waiting.popleft()()
            finally:
                self.turn.release()
        return True


# By location of the file, for all queries whose commits run in this process.
_reports: dict[str, _Reports] = {}


# Latencies are counted in 112 steps from 0.1 ms to 7 hours. Each step is 2 ** (1 / 4) times the one before,
# so that a quantile is exact to a fifth.
_LEAST, _STEPS, _COUNT = 1e-4, 4, 112


def _no_latencies() -> npt.NDArray[np.int64]:
    return np.zeros(_COUNT, np.int64)


@dataclass
class TaskFigures:
    """What became of the messages of one or more tasks.

    - ``connections``: connections that were made, including those lost later.
    - ``confirmed``: messages that the broker has confirmed.
    - ``resent``: messages sent again after a connection broke: at most this many arrived twice because of it.
    - ``dropped``, ``dead_lettered``: rows that cannot be sent and were left out, or became dead letters.
    - ``blocked_seconds``: how long the broker was blocked.
    """

    connections: int = 0
    confirmed: int = 0
    resent: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    blocked_seconds: float = 0.0
    _latencies: npt.NDArray[np.int64] = field(default_factory=_no_latencies, repr=False, compare=False)

    def count_latencies(self, seconds: npt.NDArray[np.float64]) -> None:
        """Count how long messages waited for their receipts, in seconds."""
        steps = np.log2(np.maximum(seconds, _LEAST) / _LEAST) * _STEPS
        self._latencies += np.bincount(np.minimum(steps.astype(np.int64), _COUNT - 1), minlength=_COUNT)

    def add(self, other: TaskFigures) -> None:
        """Add the counts of ``other``."""
        for name in (one.name for one in fields(self)):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def latency(self, fraction: float) -> float | None:
        """Seconds within which this fraction of the messages had their receipts; None without messages."""
        counted = np.cumsum(self._latencies)
        if not counted[-1]:
            return None
        step = int(np.searchsorted(counted, fraction * counted[-1]))
        return float(_LEAST * 2 ** ((step + 1) / _STEPS))


@dataclass(frozen=True)
class SinkPart(Part):
    """The sink's part after a batch. ``before`` is the part after the previous batch of the same run.

    ``spark_run`` is Spark's id of the run, ``number`` that of the batch; both are None for a batch write.
    """

    prefix = "sink_"

    sink_options: SinkOptions
    tasks: TaskFigures
    spark_run: str | None
    number: int | None
    before: Document
    now: float = field(default_factory=time.time)

    @Figure()
    def version(self) -> int:
        """The version of this part: 1."""
        return VERSION

    @Figure()
    def query(self) -> str:
        """The user's name of the query, else the last part of its checkpoint."""
        return query_name(self.sink_options)

    @Figure()
    def run(self) -> str | None:
        """Spark's id of the run; null for a batch write. Counts begin at 0 with each."""
        return self.spark_run

    @Figure()
    def host(self) -> str:
        """The machine of the process that wrote this."""
        return platform.node()

    @Figure()
    def options(self) -> dict[str, str | None]:
        """The options that the sink was given; null in place of what may be a secret."""
        return dict(self.sink_options.given_texts)

    @Time()
    def started_at(self) -> float | None:
        """When the first batch of this run was done."""
        return self.before.get("started_at") or self.now

    @Time(label="written")
    def written_at(self) -> float | None:
        """When the last batch was done."""
        return self.now

    @Figure()
    def failure(self) -> str | None:
        """Which batch was not finished, and why; null once a later one is done."""
        return None

    @Time()
    def failed_at(self) -> float | None:
        """When `failure` happened."""
        return None

    @Gauge(label="batch")
    def batch(self) -> int | None:
        """The number of the last batch that is done."""
        return self.number

    @Counter(label="confirmed")
    def confirmed(self) -> int:
        """Messages that the broker has confirmed."""
        return self.tasks.confirmed

    @Counter(label="resent", trouble=True)
    def resent(self) -> int:
        """Messages sent again after a connection broke; at most this many arrived twice."""
        return self.tasks.resent

    @Counter(label="dropped", trouble=True)
    def dropped(self) -> int:
        """Rows that were left out because they cannot be sent."""
        return self.tasks.dropped

    @Counter(label="dead-lettered", trouble=True)
    def dead_lettered(self) -> int:
        """Rows that went to the dead letter destination."""
        return self.tasks.dead_lettered

    @Counter()
    def connections(self) -> int:
        """Connections that tasks have made."""
        return self.tasks.connections

    @Counter(label="blocked", trouble=True)
    def blocked_seconds(self) -> float:
        """Seconds for which tasks waited for a blocked broker."""
        return self.tasks.blocked_seconds

    @Gauge(label="receipts p50")
    def receipt_p50_seconds(self) -> float | None:
        """Seconds within which half of the receipts came, in the last batch."""
        return self.tasks.latency(0.5) or self.before.get("receipt_p50_seconds")

    @Gauge(label="p99")
    def receipt_p99_seconds(self) -> float | None:
        """Seconds within which 99 of 100 receipts came, in the last batch."""
        return self.tasks.latency(0.99) or self.before.get("receipt_p99_seconds")

    def shown(self) -> Document:
        """The sink's part of the status document. Its counts include the earlier batches of the run."""
        batch = super().shown()
        counted = (figure.key for figure in self.figures() if isinstance(figure, Counter))
        return batch | {key: round((self.before.get(key) or 0) + batch[key], 3) for key in counted}


def report(options: SinkOptions, figures: TaskFigures, run: str | None, batch: int | None) -> None:
    """Add a finished batch to the status. Never raises: no error of the status may fail a batch."""

    def following(before: Document) -> Document:
        return SinkPart(options, figures, run, batch, before if before.get("run") == run else {}).shown()

    _replace(options, following)


def report_failure(options: SinkOptions, why: str) -> None:
    """Show in the status that a batch was not finished. The counts do not change."""
    nothing = SinkPart(options, TaskFigures(), None, None, {}).shown()
    nothing |= dict.fromkeys(("started_at", "written_at"))
    _replace(options, lambda before: nothing | before | {"failure": why, "failed_at": iso(time.time())})


def was_reported(options: SinkOptions, run: str | None) -> bool:
    """Whether a batch of this run is in the status; False if that cannot be found out in time."""
    where = _where(options)
    if run is None or where is None or (where in _reports and _reports[where].turn.locked()):
        return False

    def reported() -> bool:
        try:
            file = status_file(options)
            return file is not None and _read(file.of_sink).get("run") == run
        except Exception:  # noqa: BLE001 - no error of the status may fail a batch
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


# Everything below runs in a thread of the report.


def _write(options: SinkOptions, following: Callable[[Document], Document]) -> None:
    try:
        if (file := status_file(options)) is None:
            return
        file = file.of_sink
        try:
            file.write(as_json(following(_read(file))))
            _once.over(options)
        except FILE_ERRORS as error:
            _warn_once(options, file.location.words(error))
    except OptionError as error:
        _warn_once(options, error.message)
    except Exception as error:  # noqa: BLE001 - no error of the status may fail a batch
        _warn_once(options, repr(error))


def _read(file: StatusFile) -> Document:
    """The sink's part after the last batch; empty if no file holds a part of this version."""
    try:
        before = parsed(file.read())
        SinkPart.check(before)
    except (FileNotFoundError, ValueError):
        return {}
    return before if before.get("version") == VERSION else {}


def _warn_once(options: SinkOptions, why: str) -> None:
    _once.warning(options, "the status of the sink cannot be written: %s; the next batch tries again", why)
