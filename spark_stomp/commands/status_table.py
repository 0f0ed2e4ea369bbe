"""What ``spark-stomp status`` shows of one source or sink."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from rich.columns import Columns
from rich.console import RenderableType
from rich.filesize import decimal
from rich.padding import Padding
from rich.table import Table

from spark_stomp.commands.screen import duration, labelled, said
from spark_stomp.quoting import counted, shown
from spark_stomp.status.figure import Figure, Status, Time, moment
from spark_stomp.status.files import is_gone
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import SUMMED, JournalPart, QueryPart, ReceiverPart, TotalsPart

# Columns of a figure, and of the other two columns of a receiver if its name is short.
_FIGURE_WIDTH: Final = 11
_OTHER_WIDTH: Final = 36
# Most characters that are shown of a failure.
_MOST_SHOWN: Final = 500
_UNFINISHED: Final = (
    "its last batch is not committed: the query failed, in its sink for example, or was stopped just then; "
    "Spark's log says which"
)


def health(status: Status, silence: float) -> tuple[str, str]:
    """The health of a query: a style (``green``, ``yellow`` if it has ended, ``red``), and words.

    A query that has written nothing for ``silence`` seconds counts as gone, and one whose process is gone.
    """
    failed = _sink_failure(status) is not None
    if "written_at" not in status:
        # Only a sink writes this status, and only after a batch. So its silence means nothing.
        return ("red", "sink only, which failed") if failed else ("green", "sink only")
    if status.get("failure"):
        return "red", "failed"
    if not status.get("running"):
        within = failed or status.get("unfinished")
        return ("red", "ended within a batch") if within else ("yellow", "ended")
    if is_gone(status):
        return "red", "gone: its process has ended without a word"
    if (age := _age(status["written_at"])) > silence:
        return "red", f"gone? no sign of life for {duration(age)}"
    receivers = (status.get("receivers") or {}).values()
    if away := sum(not one.get("connected") for one in receivers):
        return "red", f"running, {away} of {counted(len(receivers), 'receiver')} not connected"
    return ("red" if failed or status.get("unfinished") else "green"), "running"


def table(
    status: Status, silence: float, rate: float | None, width: int, most: int | None = None
) -> Iterator[RenderableType]:
    """What is shown of a status in ``width`` columns; ``rate`` is rows a second.

    Up to ``most`` receivers are shown, those that are not connected first; without ``most`` all of them.
    """
    yield from _head(status, silence)
    yield labelled(_parts(status, rate), "bold")
    if (failure := _sink_failure(status)) is not None:
        ago = duration(_age(status["sink"].get("failed_at")))
        yield said(f"{ago} ago: {shown(failure, _MOST_SHOWN)}", "red")
    receivers = sorted((status.get("receivers") or {}).items(), key=lambda one: bool(one[1].get("connected")))
    lives = bool(status.get("running")) and not is_gone(status) and _age(status.get("written_at")) <= silence
    if receivers:
        yield _receivers(receivers[:most], width, lives=lives)
        for name, one in receivers[:most]:
            yield from _last_error(name, one)
    if rest := len(receivers[most:]) if most is not None else 0:
        yield said(f"and {counted(rest, 'more receiver')}", "dim")
    yield said("")


def _head(status: Status, silence: float) -> Iterator[RenderableType]:
    style, words = health(status, silence)
    query, run = str(status.get("query")), f"run {status.get('run')} on {status.get('host')}"
    if status.get("source", 1) != 1:
        query += f", source {status['source']}"
    if status.get("pid") is not None:
        run += f", process {status['pid']}"
    head = said(shown(query), "bold")
    yield head.append_text(said(f"  {words}", f"not bold {style}")).append_text(
        said(f"   {shown(run)}", "not bold dim")
    )
    if status.get("failure"):
        yield said(shown(str(status["failure"]), _MOST_SHOWN), "red")
    elif status.get("unfinished"):
        yield said(_UNFINISHED, "red")


def _parts(status: Status, rate: float | None) -> Iterator[tuple[str, RenderableType]]:
    """The figures of the query, its journal and its sink, by the name of the part."""
    declared = {
        "query": (QueryPart.figures(), status),
        "totals": ([*TotalsPart.figures(), *SUMMED], status.get("totals")),
        "journal": (JournalPart.figures(), status.get("journal")),
        "sink": (SinkPart.figures(), status.get("sink")),
    }
    for name, (figures, part) in declared.items():
        facts = [
            said(f"{one.label} {_value(one, part)}", "yellow" if one.trouble else "")
            for one in figures
            if part and one.label and part.get(one.key)
        ]
        if name == "totals" and rate is not None and status.get("running"):
            facts.insert(1, said(f"{rate:,.0f} rows/s"))
        if facts:
            yield name, Columns(facts, padding=(0, 3))


def _receivers(receivers: list[tuple[str, Status]], width: int, *, lives: bool) -> Table:
    # On a narrow terminal the figures with the highest numbers are left out.
    kept = [
        one for one in ReceiverPart.figures() if 0 < one.column <= (width - _OTHER_WIDTH) // _FIGURE_WIDTH
    ]
    drawn = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    drawn.add_column("RECEIVER", overflow="fold")
    drawn.add_column("STATE", no_wrap=True)
    for figure in kept:
        drawn.add_column(figure.label.upper(), justify="right", no_wrap=True)
    for name, one in receivers:
        drawn.add_row(
            said(shown(name)), said(*_state(one, lives=lives)), *(_value(figure, one) for figure in kept)
        )
    return drawn


def _state(one: Status, *, lives: bool) -> tuple[str, str]:
    """The state of the connection, and its style. Without a duration if the query has ended."""
    if not lives:
        return "was up" if one.get("connected") else "was away", "dim"
    if not one.get("connected"):
        return f"away {duration(_age(one.get('disconnected_since')))}", "red"
    if one.get("paused"):
        return f"paused {duration(_age(one.get('paused_since')))}", "yellow"
    if one.get("window_full"):
        return "window full", "yellow"
    return f"up {duration(_age(one.get('connected_since')))}", "green"


def _last_error(name: str, one: Status) -> Iterator[RenderableType]:
    if not (error := one.get("last_error")):
        return
    if one.get("connected"):
        words, style = f"last error {duration(_age(one.get('last_error_at')))} ago", "dim"
    else:
        words, style = f"{counted(one.get('attempts', 0), 'attempt')} failed", "red"
    text = f"{shown(name)}: {words}: {shown(str(error), _MOST_SHOWN)}"
    yield Padding(said(text, style), (0, 0, 0, 2))


def _sink_failure(status: Status) -> str | None:
    """Why the sink's last batch in this run was not finished; None if it was."""
    sink, began = status.get("sink") or {}, status.get("started_at")
    if began is not None and sink.get("failed_at") and moment(sink["failed_at"]) < moment(began):
        return None
    return sink.get("failure")


def _value(figure: Figure, part: Status) -> str:
    if isinstance(figure, Time):
        return f"{duration(_age(part.get(figure.key)))} ago"
    value = part.get(figure.key) or 0
    if value is True:
        return ""
    if figure.key.endswith("seconds"):
        return f"{value * 1000:,.1f} ms" if 0 < value < 1 else duration(value)
    return decimal(value) if figure.key.endswith("bytes") else f"{value:,}"


def _age(since: str | None) -> float:
    """Seconds since a time in the status; at least 0, because clocks of two machines may differ."""
    return 0.0 if since is None else max(0.0, time.time() - moment(since))
