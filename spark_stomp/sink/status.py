"""The sink's part of the status of a query, written when a batch is done or given up.

Nothing of the sink lives as long as the query. So each commit reads what the one before it wrote, and counts
on. The keys are declared in :mod:`spark_stomp.metrics` and documented in docs/status.md.

A file system may hang. So a thread does all this, and Spark's commit goes on after a moment. What later
commits report waits behind it, without another thread.
"""

from __future__ import annotations

import json
import platform
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from spark_stomp.errors import OptionError
from spark_stomp.locations import FILE_ERRORS, local_path, without_credentials
from spark_stomp.logs import get_log
from spark_stomp.options import SinkOptions
from spark_stomp.sink.figures import TaskFigures
from spark_stomp.status_files import StatusFile, parsed, status_file, within

log = get_log(__name__)

_VERSION = 1
_COUNTED = ("confirmed", "resent", "dropped", "dead_lettered", "connections", "blocked_seconds")
_FIGURES = (*_COUNTED, "batch", "receipt_p50_seconds", "receipt_p99_seconds")
_TIMES = ("started_at", "written_at", "failed_at")

# Seconds that a commit waits, on a file system of this machine and on a store.
_TIMEOUT, _STORE_TIMEOUT = 0.5, 2.0
# Reports to one file.
_MOST_WAITING = 1_000

Document = dict[str, Any]

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


def report(options: SinkOptions, figures: TaskFigures, run: str | None, batch: int | None) -> None:
    """Count a batch that is done in the status. The batch does not suffer if that fails."""
    _replace(
        options,
        lambda before: document(options, figures, run, batch, before if before.get("run") == run else {}),
    )


def report_failure(options: SinkOptions, why: str) -> None:
    """Show that a batch was not finished. What was counted before stays as it is."""
    nothing = document(options, TaskFigures(), None, None, {}) | {"started_at": None, "written_at": None}
    _replace(options, lambda before: nothing | before | {"failure": why, "failed_at": _now()})


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
            file.write(json.dumps(following(_read(file)), indent=1).encode() + b"\n")
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
        for time in map(before.get, _TIMES):
            if time is not None:
                datetime.fromisoformat(time).timestamp()
    except (FileNotFoundError, ValueError, TypeError, OverflowError):
        return {}
    figures = [before.get(key) for key in _FIGURES]
    sound = all(figure is None or type(figure) in (int, float) for figure in figures)
    return before if sound and before.get("version") == _VERSION else {}


def _warn_once(options: SinkOptions, why: str) -> None:
    if options not in _failing:
        log.warning("the status of the sink cannot be written: %s; the next batch tries again", why)
    _failing.add(options)


def document(
    options: SinkOptions, figures: TaskFigures, run: str | None, batch: int | None, before: Document
) -> Document:
    """All that is shown; ``before`` is what the last batch of the same run showed."""
    now = _now()
    latencies = {
        name: before.get(name) if figures.latency(part) is None else figures.latency(part)
        for name, part in (("receipt_p50_seconds", 0.5), ("receipt_p99_seconds", 0.99))
    }
    return {
        "version": _VERSION,
        "query": query_name(options),
        "run": run,
        "host": platform.node(),
        "started_at": before.get("started_at") or now,
        "written_at": now,
        "failure": None,
        "failed_at": None,
        "batch": batch,
        **{name: round((before.get(name) or 0) + getattr(figures, name), 3) for name in _COUNTED},
        **latencies,
    }


def query_name(options: SinkOptions) -> str:
    """What to call the query: the user's name for it, else the last part of its checkpoint's location, else
    the destination."""
    checkpoint = without_credentials(options.checkpoint_location or "").rstrip("/")
    return options.query_name or checkpoint.rpartition("/")[2] or options.destination or "stomp"


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
