"""Reads the status of a query from its files, and writes it as text for Prometheus."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from spark_stomp.quoting import shown
from spark_stomp.status.document import QueryStatus
from spark_stomp.status.end import EndPart
from spark_stomp.status.figure import VERSION, Figure, Part, Status, Time, Word, moment
from spark_stomp.status.files import StatusFile, is_gone, parsed, status_at
from spark_stomp.status.receivers import ReceiverPart, TotalsPart
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import JournalPart, QueryPart, QueuePart, UnfitPart

if TYPE_CHECKING:
    from spark_stomp.status.document import EndFigures, SinkFigures

# Seconds without a write after which a process counts as gone, as for the alert StompQueryGone.
_SILENT: Final = 180.0

# Parts of which there are several, and the label that tells their metrics apart.
_SEVERAL: Final = (
    ("receivers", ReceiverPart, "receiver"),
    ("queues", QueuePart, "queue"),
    ("unfit", UnfitPart, "destination"),
)


def read_status(location: str | os.PathLike[str]) -> QueryStatus:
    """The status of a query; of its first source, if it has several. docs/reference.md explains the keys.

    ``location`` is a path or URI of the status file or of the query's checkpoint. The sink's part is read
    from the file beside it, and so is what ended the query. If only these files exist, because the source is
    not of this package or has never started, the status has only the keys ``version``, ``query``, ``run``,
    ``host``, ``sink``, ``ended`` and ``file``.

    Raises OSError if neither file can be read, and ValueError if one holds no status of a known version.

    Example::

        totals = read_status("checkpoint")["totals"]
        print(totals["connected"], totals["received"])
    """
    return read_statuses(location)[0]


def read_statuses(location: str | os.PathLike[str]) -> list[QueryStatus]:
    """The status of each source of a query, as :func:`read_status` returns that of the first.

    Only the first has the sink's part. If ``location`` is a status file, the list has only what is there.

    Example::

        received = sum(status["totals"]["received"] for status in read_statuses("checkpoint"))
    """
    return read_owned(location)[0]


def read_owned(location: str | os.PathLike[str]) -> tuple[list[QueryStatus], bool]:
    """The same, and whether surely this user has written every file that had a say in it."""
    first, in_checkpoint = status_at(os.fspath(location))
    owned: list[bool] = []

    def read(file: StatusFile, check: Callable[[Status], None]) -> dict[str, Any]:
        content, own = file.read_owned()
        owned.append(own)
        return _checked(file, content, check)

    statuses = _read_all(first, read, several=in_checkpoint)
    return statuses, all(owned)


def _read_all(
    first: StatusFile,
    read: Callable[[StatusFile, Callable[[Status], None]], dict[str, Any]],
    *,
    several: bool,
) -> list[QueryStatus]:
    def beside(file: StatusFile, check: Callable[[Status], None]) -> dict[str, Any] | None:
        with contextlib.suppress(FileNotFoundError):
            return read(file, check)
        return None

    sink, ended = beside(first.of_sink, SinkPart.check), beside(first.of_end, EndPart.check)
    statuses: list[QueryStatus] = []
    try:
        for file in first.of_sources() if several else [first]:
            own = {**read(file, _check), "sink": None, "ended": None, "file": file.shown}
            statuses.append(cast("QueryStatus", own))
    except FileNotFoundError:
        if not statuses:
            if (one := sink or ended) is None:
                raise
            shared = {key: one.get(key) for key in ("version", "query", "run", "host")}
            own = {**shared, "sink": sink, "ended": _end_after(sink or {}, "written_at", ended)}
            own["file"] = first.shown
            return [cast("QueryStatus", own)]
    # A source that has not started again yet still shows its last run, under another driver.
    latest = max(statuses, key=lambda one: one.get("started_at") or "")
    statuses = [one for one in statuses if _driver(one) == _driver(latest)]
    statuses[0]["sink"] = cast("SinkFigures | None", sink)
    statuses[0]["ended"] = cast("EndFigures | None", _end_after(latest, "started_at", ended))
    return statuses


def _end_after(status: Status, key: str, ended: dict[str, Any] | None) -> dict[str, Any] | None:
    """What ended the run of ``status``, in which ``key`` is a time of the run; None if it is of another."""
    began, at = status.get(key), (ended or {}).get("failed_at")
    return None if at is None or (began is not None and moment(at) < moment(began)) else ended


def _driver(status: Status) -> tuple[object, object]:
    """Identifies the driver under which a source ran."""
    return status.get("host"), status.get("driver")


def prometheus(*statuses: str | os.PathLike[str] | Status) -> str:
    """The metrics of one or more queries in the text format of Prometheus.

    Each of ``statuses`` is a status, or a location as for :func:`read_statuses`.

    Raises OSError if a file cannot be read. Raises ValueError if one holds no status of a known version, or
    if two statuses have the same labels: the same file, or no file and the same ``query`` and ``source``.

    Example::

        text = prometheus("checkpoints/orders", "checkpoints/trains")
    """
    metrics: defaultdict[str, dict[str, str]] = defaultdict(dict)
    every = (
        status for one in statuses for status in ([one] if isinstance(one, Mapping) else read_statuses(one))
    )
    for status in every:
        # Checkpoints of several queries may have the same last part. The file tells them apart.
        labels = {"query": status["query"], "file": status.get("file", "")}
        abandoned = nobody_writes(status)
        for part, figures, own in _parts(status):
            for figure, number in part.numbers(figures):
                if abandoned and is_rate(figure):
                    continue
                word = {"on": figures[figure.key]} if isinstance(figure, Word) else {}
                every_label = (labels | own | word).items()
                named = ",".join(f'{name}="{_escaped(str(text))}"' for name, text in every_label)
                name = part.metric_of(figure)
                meaning = figure.meaning.replace("\\", "\\\\")
                series = metrics[f"# HELP {name} {meaning}\n# TYPE {name} {figure.metric_type}\n"]
                if named in series:
                    # Prometheus would refuse the whole text.
                    raise ValueError(f"two statuses have the same labels: {shown(named, 300)}")
                series[named] = f"{name}{{{named}}} {number!r}\n"
    return "".join(head + "".join(series.values()) for head, series in metrics.items())


def nobody_writes(status: Status) -> bool:
    """Whether nobody writes this status any more: the query has ended, or its process was killed."""
    written = status.get("written_at")
    silent = written is not None and time.time() - moment(written) > _SILENT
    return not status.get("running") or silent or is_gone(status)


def is_rate(figure: Figure) -> bool:
    """Whether it would stay for ever as it was, once nobody writes the status any more."""
    return figure.passing and not isinstance(figure, Time)


def _parts(status: Status) -> Iterator[tuple[type[Part], Status, dict[str, object]]]:
    """Yield each part of ``status``: its class, its values, and the labels of its metrics."""
    source = {"source": status.get("source", 1)}
    yield QueryPart, status, source
    yield TotalsPart, _mapping(status, "totals"), source
    for several, part, label in _SEVERAL:
        named = _mapping(status, several)
        for name in named:
            yield part, _mapping(named, name), source | {label: name}
    yield JournalPart, _mapping(status, "journal"), source
    yield SinkPart, _mapping(status, "sink"), {}
    yield EndPart, _mapping(status, "ended"), {}


def _mapping(status: Status, name: str) -> Status:
    part = status.get(name)
    if part is not None and not isinstance(part, Mapping):
        raise ValueError(f"its {name} is {shown(repr(part), 40)}")
    return part or {}


def _checked(file: StatusFile, content: bytes, check: Callable[[Status], None]) -> dict[str, Any]:
    """The status that the ``file`` holds. Raises ValueError if it holds none of a known version."""
    try:
        status = parsed(content)
        version = status["version"]
        if version == VERSION:
            _ = status["query"]
            check(status)
            return status
    except (ValueError, KeyError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else shown(str(error), 200)
        raise ValueError(f"{file.shown} is not a status file of spark_stomp: {why}") from None
    raise ValueError(
        f"{file.shown} has version {shown(repr(version), 20)} of the status; this release reads {VERSION}"
    )


def _check(status: Status) -> None:
    """Raise ValueError if a metric of any part is no number."""
    for part, figures, _ in _parts(status):
        part.check(figures)


def _escaped(text: str) -> str:
    # JSON can hold half a surrogate pair, which UTF-8 cannot express.
    text = text.encode(errors="backslashreplace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
