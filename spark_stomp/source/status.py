"""What a query shows of itself: one document for the status file, the query's progress and the exchange.

The keys are declared in :mod:`spark_stomp.metrics` and documented in docs/status.md.
"""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from spark_stomp.errors import StompError
from spark_stomp.locations import without_credentials
from spark_stomp.options import SourceOptions
from spark_stomp.receiver import ReceiverStatus
from spark_stomp.source.offsets import JOURNAL

Figures = dict[str, Any]

_VERSION = 1
# Figures of a receiver whose sum says something of the query.
SUMMED = (
    *("received", "committed", "acked", "unacked", "delivered", "bytes", "malformed", "redelivered"),
    *("reattached", "dropped", "other_body", "doubled", "reconnects"),
)


@dataclass(frozen=True)
class RunIdentity:
    """Which run of which query this is; ``started_at`` is seconds since 1970."""

    query: str
    run: str = field(default_factory=lambda: secrets.token_hex(4))
    started_at: float = field(default_factory=time.time)


@dataclass(frozen=True)
class Rows:
    """Rows of this run: in committed batches, and those still to come from what was received."""

    committed: int
    waiting: int


def query_name(options: SourceOptions) -> str:
    """What to call the query: the last part of its checkpoint's location, else its destinations.

    Spark does not tell a source the name that the user gave the query.
    """
    location = without_credentials(options.checkpoint_location or "").rstrip("/")
    return location.rpartition("/")[2] or ",".join(options.destinations)


def receiver_figures(status: ReceiverStatus, oldest_unacked: int | None) -> Figures:
    """The figures of one receiver. ``oldest_unacked`` is microseconds since 1970."""
    connection = status.connection
    age = 0.0 if oldest_unacked is None else time.time() - oldest_unacked / 1e6
    return {
        "destination": status.name.rpartition("#")[0],
        "connected": connection.connected,
        "connected_since": _shown(connection.since) if connection.connected else None,
        "disconnected_since": None if connection.connected else _shown(connection.since),
        "attempts": connection.attempts,
        "reconnects": connection.reconnects,
        "last_error": connection.last_error,
        "last_error_at": None if connection.last_error_at is None else _shown(connection.last_error_at),
        "received": status.received,
        "committed": status.committed,
        "acked": status.acked,
        "unacked": status.unacked,
        "oldest_unacked_seconds": round(max(0.0, age), 3),
        "window_full": status.window_full,
        "paused": status.pause.since is not None,
        "paused_since": None if status.pause.since is None else _shown(status.pause.since),
        "buffered_bytes": status.pause.buffered,
        **asdict(status.counts),
    }


def document(
    identity: RunIdentity,
    figures: Mapping[str, Figures],
    rows: Rows,
    failure: StompError | None,
    *,
    running: bool,
    unfinished: bool = False,
    more_waiting: bool = False,
) -> Figures:
    """All that is shown; ``figures`` are those of the receivers and of the journal, by name. ``unfinished``:
    the run ended within a batch."""
    receivers = {name: one for name, one in figures.items() if name != JOURNAL}
    return {
        "version": _VERSION,
        "query": identity.query,
        "run": identity.run,
        "host": platform.node(),
        "pid": os.getpid(),
        "running": running,
        "unfinished": unfinished,
        "failure": None if failure is None else str(failure),
        "started_at": _shown(identity.started_at),
        "written_at": _shown(time.time()),
        "totals": {
            "rows": rows.committed,
            "rows_waiting": rows.waiting,
            "more_waiting": more_waiting,
            **_totals(receivers.values()),
        },
        "receivers": receivers,
        "journal": figures.get(JOURNAL),
    }


def lasting(shown: Figures) -> Figures:
    """A document without what changes though nothing happens."""
    kept = {key: value for key, value in shown.items() if key != "written_at"}
    parts = [kept.get("totals", {}), *kept.get("receivers", {}).values()]
    still = [{key: value for key, value in part.items() if key != "oldest_unacked_seconds"} for part in parts]
    return kept | {"totals": still[0], "receivers": still[1:]}


def _totals(receivers: Iterable[Figures]) -> Figures:
    each = list(receivers)
    return {
        "receivers": len(each),
        "connected": sum(one["connected"] for one in each),
        "window_full": any(one["window_full"] for one in each),
        "paused": any(one["paused"] for one in each),
        "oldest_unacked_seconds": max((one["oldest_unacked_seconds"] for one in each), default=0.0),
        **{key: sum(one[key] for one in each) for key in SUMMED},
    }


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
