"""The status of a query, for whoever watches it: :func:`read_status` and :func:`prometheus`.

Every key of the status is declared here once, with its meaning and its metric; docs/status.md shows them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from spark_stomp.locations import resolve
from spark_stomp.quoting import shown
from spark_stomp.status_files import LARGEST_NUMBER, StatusFile, parsed

__all__ = ["prometheus", "read_status"]

VERSION = 1
"""The version of the status that is read here. Further keys do not change it."""

Status: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Key:
    """A key of the status. If it is a metric, ``kind`` is that of Prometheus; ``metric`` is its name there,
    without what all of them begin with."""

    name: str
    meaning: str
    kind: Literal["counter", "gauge"] | None = None
    metric: str = ""

    @property
    def metric_name(self) -> str:
        name = self.metric or self.name
        return f"spark_stomp_{name}_total" if self.kind == "counter" else f"spark_stomp_{name}"

    @property
    def is_time(self) -> bool:
        return self.metric.endswith("_timestamp_seconds")


def _counter(name: str, meaning: str, metric: str = "") -> Key:
    return Key(name, meaning, "counter", metric)


def _gauge(name: str, meaning: str, metric: str = "") -> Key:
    return Key(name, meaning, "gauge", metric)


QUERY = (
    Key("version", "Of this format: 1. New keys may come without a new version."),
    Key("query", "The last part of `checkpointLocation`, else the destinations."),
    Key("run", "Random, another one for each start of the query."),
    Key("host", "The machine of the reader process."),
    Key("pid", "The reader process."),
    _gauge("running", "False once the query has ended in order. See `written_at` too."),
    _gauge(
        "unfinished",
        "Whether it ended within a batch: `checkpointLocation` does not show its last one as committed. It "
        "failed, in its sink for example, or was stopped just then. False without `checkpointLocation`.",
    ),
    Key("failure", "The error that ended the source, or null."),
    _gauge("started_at", "When this run began.", "started_timestamp_seconds"),
    _gauge("written_at", "When this was written.", "written_timestamp_seconds"),
    Key("totals", "Figures of the whole query."),
    Key("receivers", "Figures of each receiver, by its name: the destination, `#` and a number."),
    Key("journal", "Figures of the journal; null without one."),
    Key("sink", "Figures of the sink; null without one."),
)

TOTALS = (
    _counter("rows", "Rows in batches of this run that Spark has committed, as far as is proved."),
    _gauge("rows_waiting", "Rows to come: received, and not in a committed batch yet."),
    _gauge("more_waiting", "Whether the last batch probably left messages behind, here or on the broker."),
    Key("receivers", "How many receivers there are."),
    Key("connected", "How many of them are subscribed."),
    Key("window_full", "Whether the window of any receiver is full."),
    Key("paused", "Whether any receiver is paused."),
    Key("oldest_unacked_seconds", "The largest of the receivers."),
)

RECEIVERS = (
    Key("destination", "What it is subscribed to."),
    _gauge("connected", "Whether it is subscribed."),
    _gauge("connected_since", "When that began; null if it is not.", "connected_since_timestamp_seconds"),
    _gauge(
        "disconnected_since",
        "When the connection was lost, or this run began; null if it is subscribed.",
        "disconnected_since_timestamp_seconds",
    ),
    _gauge("attempts", "How many attempts to connect have failed since then."),
    _counter("reconnects", "How often a lost connection was replaced."),
    Key("last_error", "Why a connection last ended or could not be had; null if that never happened."),
    _gauge("last_error_at", "When that was.", "last_error_timestamp_seconds"),
    _counter("delivered", "Messages that the broker has delivered; one that comes again counts again."),
    _counter("bytes", "Bytes of these messages, with their headers.", "delivered_bytes"),
    _gauge(
        "received",
        "Messages that were taken for a row of their own. Goes back if a lost connection "
        "takes messages with it that Spark does not know of; they come again.",
    ),
    _gauge(
        "committed",
        "Those of them that may be acknowledged: their batch is committed, or with "
        "`ackAfter=journal` they are in the journal.",
    ),
    _gauge(
        "acked",
        "Those of them that the broker has no claim to: it confirmed their ACK, or their connection is gone.",
    ),
    _gauge("unacked", "Deliveries on the living connection whose ACK the broker has not confirmed."),
    _gauge("oldest_unacked_seconds", "The age of the oldest of these; 0 if there is none."),
    _gauge("window_full", "Whether the broker sends no more until something is acknowledged."),
    _gauge("paused", "Whether it reads nothing because it holds as much as `maxBufferedBytes` allows."),
    _gauge("paused_since", "When that began; null if it reads.", "paused_since_timestamp_seconds"),
    _gauge("buffered_bytes", "Bytes of messages that it holds in memory."),
    _counter("redelivered", "Deliveries that the broker marked as redelivered."),
    _counter("reattached", "Deliveries of a message that was held already: no second row."),
    _counter("dropped", "Deliveries of a message that was committed already: acknowledged again, no row."),
    _counter("doubled", "Messages without a stable id that came again: a second row."),
    _counter("other_body", "Messages with a known id and another body: a row of their own."),
    _counter("malformed", "Messages that break the protocol or a limit."),
)

JOURNAL = (
    _gauge("first", "The oldest position that it holds.", "journal_first"),
    _gauge("committed", "Spark has committed everything below this position.", "journal_committed"),
    _gauge("end", "Everything below this position is durable.", "journal_end"),
    _gauge("bytes", "What it takes up.", "journal_bytes"),
    _gauge("waiting", "Messages that were received and are not durable yet.", "journal_waiting"),
    _gauge("held", "Messages in the dedup index.", "journal_held"),
    _gauge("settled", "Committed messages that the dedup index remembers.", "journal_remembered"),
    _counter("evicted", "Those that it had to forget.", "journal_evicted"),
)


SINK = (
    Key("version", "Of this part: 1."),
    Key("query", "The name that the user gave the query, else the last part of its checkpoint's location."),
    Key("run", "Spark's id of the run; null for a batch write. Counts begin at 0 with each run."),
    Key("host", "The machine of the process that wrote this."),
    _gauge("started_at", "When the first batch of this run was done.", "sink_started_timestamp_seconds"),
    _gauge("written_at", "When the last batch was done.", "sink_written_timestamp_seconds"),
    Key("failure", "What became of a batch that was not finished; null again once a later one is done."),
    _gauge("failed_at", "When that was.", "sink_failed_timestamp_seconds"),
    _gauge("batch", "The last batch that is done; null for a batch write.", "sink_batch"),
    _counter("confirmed", "Messages that the broker confirmed.", "sink_confirmed"),
    _counter(
        "resent",
        "Messages that were sent once more after a connection broke: at most so many came twice.",
        "sink_resent",
    ),
    _counter("dropped", "Rows that cannot be sent and were left out.", "sink_dropped"),
    _counter(
        "dead_lettered",
        "Rows that cannot be sent and went to the dead letter destination.",
        "sink_dead_lettered",
    ),
    _counter("connections", "Connections of tasks.", "sink_connections"),
    _counter("blocked_seconds", "How long tasks waited for a blocked broker.", "sink_blocked_seconds"),
    _gauge(
        "receipt_p50_seconds",
        "Within so many seconds half of the receipts came, in the last batch with messages.",
        "sink_receipt_p50_seconds",
    ),
    _gauge("receipt_p99_seconds", "The same for 99 of 100.", "sink_receipt_p99_seconds"),
)


_PARTS: Mapping[str, tuple[Key, ...]] = {"totals": TOTALS, "journal": JOURNAL, "sink": SINK}


def read_status(location: str | os.PathLike[str]) -> dict[str, Any]:
    """The status in this file, a path or a URI; its keys are those of docs/status.md.

    The part of the sink is in a file beside it. Of a query without a source of this package nothing else is
    there: then the status has the keys ``version``, ``query``, ``run``, ``host``, ``sink`` and ``file`` only.

    Raises OSError if neither file can be read, and ValueError if one holds no status of a known version.
    """
    place = resolve(os.fspath(location))
    file = StatusFile(place, place.root)
    sink = None
    with contextlib.suppress(FileNotFoundError):
        sink = _read(file.of_sink, SINK)
    try:
        status = _read(file, QUERY)
    except FileNotFoundError:
        if sink is None:
            raise
        status = {key: sink.get(key) for key in ("version", "query", "run", "host")}
    return {**status, "sink": sink, "file": place.root if place.is_local else place.shown}


def _read(file: StatusFile, keys: tuple[Key, ...]) -> dict[str, Any]:
    content, where = file.read(), file.path if file.location.is_local else file.location.shown
    try:
        status = parsed(content)
        version = status["version"]
        if version == VERSION:
            _check(status, keys)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{where} is not a status file of spark_stomp: {_reason(error)}") from None
    if version != VERSION:
        raise ValueError(
            f"{where} has version {shown(repr(version), 20)} of the status; this release reads {VERSION}"
        )
    return status


def _reason(error: ValueError | KeyError) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else shown(str(error), 200)


def _check(status: Status, keys: tuple[Key, ...] = QUERY) -> None:
    """Whether every figure is one: whoever may write the file decides what is in it.

    Raises:
        ValueError: a figure or a part is something else.
        KeyError: the status has no ``query``.
    """
    _ = status["query"]
    _check_figures(status, keys)
    if keys is not QUERY:
        return
    for part, part_keys in _PARTS.items():
        _check_figures(_mapping(status.get(part), part), part_keys)
    for name, one in _mapping(status.get("receivers"), "receivers").items():
        _check_figures(_mapping(one, name), RECEIVERS)


def _check_figures(figures: Status, keys: Iterable[Key]) -> None:
    for key in keys:
        figure = figures.get(key.name)
        if key.kind is not None and figure is not None:
            try:
                _number(key, figure)
            except (ValueError, OverflowError):
                raise ValueError(f"its {key.name} is {shown(repr(figure), 40)}") from None


def _mapping(part: Any, name: str) -> Status:
    if part is not None and not isinstance(part, Mapping):
        raise ValueError(f"its {name} is {shown(repr(part), 40)}")
    return part or {}


def prometheus(*statuses: str | os.PathLike[str] | Status) -> str:
    """The metrics of one or more queries in the text format of Prometheus; raises as :func:`read_status`.

    Each is a status, or where its file is. Raises ValueError too if two of them cannot be told apart: they
    come from the same file, or from none and have the same ``query``.
    """
    read = [one if isinstance(one, Mapping) else read_status(one) for one in statuses]
    declared = (*QUERY, *TOTALS, *RECEIVERS, *JOURNAL, *SINK)
    samples: dict[Key, dict[str, str]] = {key: {} for key in declared if key.kind}
    for status in read:
        _check(status)
        # Checkpoints of several queries may have the same last part: the file tells them apart.
        labels = {"query": status["query"], "file": status.get("file", "")}
        _sample(samples, QUERY, status, labels)
        for part, keys in _PARTS.items():
            _sample(samples, keys, status.get(part) or {}, labels)
        for name, figures in (status.get("receivers") or {}).items():
            own = {"receiver": name, "destination": figures.get("destination", "")}
            _sample(samples, RECEIVERS, figures, labels | own)
    return "".join(_metric(key, series) for key, series in samples.items() if series)


def _sample(
    samples: dict[Key, dict[str, str]], keys: Iterable[Key], figures: Status, labels: Mapping[str, object]
) -> None:
    named = ",".join(f'{name}="{_escaped(str(text))}"' for name, text in labels.items())
    for key in keys:
        figure = figures.get(key.name)
        if key.kind is None or figure is None:
            continue
        if named in samples[key]:
            # Prometheus would drop everything.
            raise ValueError(f"two statuses have the same labels: {shown(named, 300)}")
        samples[key][named] = _number(key, figure)


def _metric(key: Key, series: Mapping[str, str]) -> str:
    meaning = key.meaning.replace("\\", "\\\\")
    lines = (f"{key.metric_name}{{{named}}} {number}\n" for named, number in series.items())
    return "".join(
        (f"# HELP {key.metric_name} {meaning}\n", f"# TYPE {key.metric_name} {key.kind}\n", *lines)
    )


def _number(key: Key, figure: object) -> str:
    """A number as it is, a truth as 0 or 1, a time as seconds since 1970; ValueError if it is none."""
    if key.is_time and isinstance(figure, str):
        return repr(datetime.fromisoformat(figure).timestamp())
    if key.is_time or not isinstance(figure, int | float) or not -LARGEST_NUMBER < figure < LARGEST_NUMBER:
        raise ValueError("no figure")
    return repr(int(figure) if isinstance(figure, bool) else figure)


def _escaped(text: str) -> str:
    # Half a surrogate pair, which JSON can hold, is in no text.
    text = text.encode(errors="backslashreplace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
