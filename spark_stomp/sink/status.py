"""The sink's part of the status of a query, written when a batch is done or given up.

Nothing of the sink lives as long as the query. So each commit reads what the one before it wrote, and counts
on. The keys are declared in :mod:`spark_stomp.metrics` and documented in docs/status.md.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from spark_stomp.errors import OptionError
from spark_stomp.locations import FILE_ERRORS, without_credentials
from spark_stomp.logs import get_log
from spark_stomp.options import SinkOptions
from spark_stomp.sink.figures import TaskFigures
from spark_stomp.status_files import StatusFile, status_file

log = get_log(__name__)

_VERSION = 1
_COUNTED = ("confirmed", "resent", "dropped", "dead_lettered", "connections", "blocked_seconds")

Document = dict[str, Any]

# Whose files could not be written, in this process, since they last could.
_failing: set[SinkOptions] = set()


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


def _replace(options: SinkOptions, following: Callable[[Document], Document]) -> None:
    try:
        file = status_file(options)
    except OptionError as error:
        _warn_once(options, error.message)
        return
    if file is None:
        return
    file = file.of_sink
    try:
        file.write(json.dumps(following(_read(file)), indent=1).encode() + b"\n")
        _failing.discard(options)
    except FILE_ERRORS as error:
        _warn_once(options, file.location.words(error))


def was_reported(options: SinkOptions, run: str | None) -> bool:
    """Whether a batch of this run was counted; False if it is not known."""
    try:
        file = status_file(options)
        return file is not None and run is not None and _read(file.of_sink).get("run") == run
    except (OptionError, *FILE_ERRORS):
        return False


def _read(file: StatusFile) -> Document:
    """What the last batch showed; nothing if that cannot be counted on."""
    try:
        before = json.loads(file.read())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    sound = isinstance(before, dict) and all(isinstance(before.get(key, 0), int | float) for key in _COUNTED)
    return before if sound else {}


def _warn_once(options: SinkOptions, why: str) -> None:
    if options not in _failing:
        log.warning("the status of the sink cannot be written: %s; the next batch tries again", why)
    _failing.add(options)


def document(
    options: SinkOptions, figures: TaskFigures, run: str | None, batch: int | None, before: Document
) -> Document:
    """All that is shown; ``before`` is what the last batch of the same run showed."""
    now = _now()
    checkpoint = without_credentials(options.checkpoint_location or "").rstrip("/")
    latencies = {
        name: before.get(name) if figures.latency(part) is None else figures.latency(part)
        for name, part in (("receipt_p50_seconds", 0.5), ("receipt_p99_seconds", 0.99))
    }
    return {
        "version": _VERSION,
        "query": options.query_name or checkpoint.rpartition("/")[2] or options.destination or "stomp",
        "run": run,
        "host": platform.node(),
        "started_at": before.get("started_at") or now,
        "written_at": now,
        "failure": None,
        "failed_at": None,
        "batch": batch,
        **{name: round(before.get(name, 0) + getattr(figures, name), 3) for name in _COUNTED},
        **latencies,
    }


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
