"""The lines of the table that ``spark-stomp status`` shows."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Mapping
from typing import Final

from spark_stomp.commands.terminal import CUT, Line, duration, size
from spark_stomp.quoting import counted, shown
from spark_stomp.status.figure import Figure, Part, Status, Time, moment
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import SUMMED, JournalPart, QueryPart, ReceiverPart, TotalsPart

# Characters: the least and the largest width of a receiver's name.
_LEAST_WIDTH: Final = 16
_NAME_WIDTH: Final = 44
# Wide enough for most states, so that the next columns do not move.
_STATE_WIDTH: Final = len("up 59 min 59 s")
# The least width of a figure.
_CELL: Final = 9
# Most lines of a failure.
_FAILURE_LINES: Final = 5
_UNFINISHED: Final = (
    "its last batch is not committed: the query failed, in its sink for example, or was stopped just then; "
    "Spark's log says which"
)


def health(status: Status, silence: float) -> tuple[str, str]:
    """The health of a query: a colour (``good``, ``warn`` if it has ended, ``bad``), and words.

    A query that has written nothing for ``silence`` seconds counts as gone.
    """
    failed = _sink_failure(status) is not None
    if "written_at" not in status:
        # Only a sink writes this status, and only after a batch. So its silence means nothing.
        return ("bad", "sink only, which failed") if failed else ("good", "sink only")
    if status.get("failure"):
        return "bad", "failed"
    if not status.get("running"):
        within = failed or status.get("unfinished")
        return ("bad", "ended within a batch") if within else ("warn", "ended")
    if (age := _age(status["written_at"])) > silence:
        return "bad", f"gone? no sign of life for {duration(age)}"
    receivers = (status.get("receivers") or {}).values()
    if away := sum(not one.get("connected") for one in receivers):
        return "bad", f"running, {away} of {counted(len(receivers), 'receiver')} not connected"
    return ("bad" if failed or status.get("unfinished") else "good"), "running"


def table(
    status: Status, silence: float, rate: float | None, columns: int, rows: int | None = None
) -> list[Line]:
    """All lines of the table, for a terminal of ``columns`` and ``rows``; ``rate`` is rows a second.

    Lines of receivers for which there is no room are only counted. Without ``rows`` all are shown.
    """
    head = [*_head(status, silence, columns), *_totals(status, rate, columns)]
    tail = [*_part("journal", JournalPart, status, columns), *_sink(status, columns)]
    lives = bool(status.get("running")) and _age(status.get("written_at")) <= silence
    receivers = [*_table(status.get("receivers") or {}, columns, lives=lives)]
    if rows is not None and len(head) + len(receivers) + len(tail) > rows:
        room = max(1, rows - len(head) - len(tail) - 1)
        rest = counted(len(receivers) - room, "more line")
        receivers = [*receivers[:room], [(f"and {rest} of receivers", "dim")]]
    return [*head, *receivers, *tail]


def _head(status: Status, silence: float, width: int) -> Iterator[Line]:
    colour, word = health(status, silence)
    run = f"run {status.get('run')} on {status.get('host')}"
    if status.get("pid") is not None:
        run += f", process {status['pid']}"
    query = str(status.get("query"))
    if status.get("source", 1) != 1:
        query += f", source {status['source']}"
    yield [(shown(query), "strong"), ("  ", ""), (word, colour), (f"   {shown(run)}", "dim")]
    yield from _facts("", _labelled(QueryPart.figures(), status), "dim", width)
    if status.get("failure"):
        yield from _wrapped(str(status["failure"]), "bad", width, _FAILURE_LINES)
    elif status.get("unfinished"):
        yield from _wrapped(_UNFINISHED, "bad", width, _FAILURE_LINES)


def _totals(status: Status, rate: float | None, width: int) -> Iterator[Line]:
    totals = status.get("totals") or {}
    facts = _labelled(TotalsPart.figures(), totals)
    if rate is not None and status.get("running"):
        facts.insert(1, f"{rate:,.0f} rows/s")
    if totals:
        facts.append(f"un-acked {totals.get('unacked') or 0:,}")
    yield from _facts("", facts, "", width)
    yield from _facts("", _labelled(SUMMED, totals, trouble=True), "warn", width)
    if totals:
        yield []


def _table(receivers: Mapping[str, Status], width: int, *, lives: bool) -> Iterator[Line]:
    if not receivers:
        return
    states = {name: _state(one, lives=lives) for name, one in receivers.items()}
    state_width = max(_STATE_WIDTH, *(len(text) for text, _ in states.values()))
    longest = min(max(map(len, receivers)), _NAME_WIDTH)
    room = width - state_width - 2 - min(longest, _LEAST_WIDTH)
    kept = [figure for figure in ReceiverPart.figures() if figure.column]
    while kept and sum(map(_width, kept)) > room:
        kept.remove(max(kept, key=lambda figure: figure.column))
    figures = sum(map(_width, kept))
    name_width = max(min(longest, width - figures - state_width - 2), min(longest, _LEAST_WIDTH), 8)
    titles = "".join(f"{figure.label.upper():>{_width(figure)}}" for figure in kept)
    yield [(f"{'RECEIVER':<{name_width}}  {'STATE':<{state_width}}{titles}", "dim")]
    for name, one in receivers.items():
        text, colour = states[name]
        cells = "".join(f"{_value(figure, one):>{_width(figure)}}" for figure in kept)
        yield [
            (f"{_ending(shown(name), name_width):<{name_width}}  ", ""),
            (f"{text:<{state_width}}", colour),
            (cells, ""),
        ]
        yield from _last_error(one, width)
    yield []


def _state(one: Status, *, lives: bool) -> tuple[str, str]:
    """The state of the connection, and its colour. Without a duration if the query has ended."""
    if not lives:
        return "was up" if one.get("connected") else "was away", "dim"
    if not one.get("connected"):
        return f"away {duration(_age(one.get('disconnected_since')))}", "bad"
    if one.get("paused"):
        return f"paused {duration(_age(one.get('paused_since')))}", "warn"
    if one.get("window_full"):
        return "window full", "warn"
    return f"up {duration(_age(one.get('connected_since')))}", "good"


def _last_error(one: Status, width: int) -> Iterator[Line]:
    if not (error := one.get("last_error")):
        return
    if one.get("connected"):
        ago = duration(_age(one.get("last_error_at")))
        yield from _wrapped(f"last error {ago} ago: {error}", "dim", width, 2)
    else:
        failed = counted(one.get("attempts", 0), "attempt")
        yield from _wrapped(f"{failed} failed: {error}", "bad", width, 2)


def _sink(status: Status, width: int) -> Iterator[Line]:
    yield from _part("sink", SinkPart, status, width)
    if (failure := _sink_failure(status)) is not None:
        ago = duration(_age(status["sink"].get("failed_at")))
        yield from _wrapped(f"{ago} ago: {failure}", "bad", width, _FAILURE_LINES)


def _sink_failure(status: Status) -> str | None:
    """Why the sink's last batch in this run was not finished; None if it was."""
    sink, began = status.get("sink") or {}, status.get("started_at")
    if began is not None and sink.get("failed_at") and moment(sink["failed_at"]) < moment(began):
        return None
    return sink.get("failure")


# --- lines made from the declarations of the figures


def _part(name: str, declared: type[Part], status: Status, width: int) -> Iterator[Line]:
    part = status.get(name) or {}
    yield from _facts(name, _labelled(declared.figures(), part), "", width)
    yield from _facts(" ", _labelled(declared.figures(), part, trouble=True), "warn", width)


def _labelled(declared: list[Figure], part: Status, *, trouble: bool = False) -> list[str]:
    """The figures with a label, as texts. With ``trouble``, only the troubles that are not 0."""
    return [
        figure.label if part[figure.key] is True else f"{figure.label} {_value(figure, part)}"
        for figure in declared
        if figure.label and figure.trouble is trouble
        if part.get(figure.key) not in ((None, False, 0) if trouble else (None, False))
    ]


def _value(figure: Figure, part: Status) -> str:
    if isinstance(figure, Time):
        return f"{duration(_age(part.get(figure.key)))} ago"
    value = part.get(figure.key) or 0
    if figure.key.endswith("seconds"):
        return f"{value * 1000:,.1f} ms" if 0 < value < 1 else duration(value)
    return size(value) if figure.key.endswith("bytes") else f"{value:,}"


def _width(figure: Figure) -> int:
    return max(len(figure.label), _CELL) + 2


def _facts(title: str, facts: list[str], colour: str, width: int) -> Iterator[Line]:
    """The facts side by side, in as many lines as they need; indented if there is a title."""
    if not facts:
        return
    indent = 9 if title else 0
    wrapper = textwrap.TextWrapper(max(width, _LEAST_WIDTH) - indent, break_on_hyphens=False)
    whole = "   ".join(fact.replace(" ", "\0") for fact in facts)
    for number, part in enumerate(wrapper.wrap(whole)):
        begin = title if number == 0 else ""
        yield [(f"{begin:<{indent}}", "strong"), (part.replace("\0", " "), colour)]


def _wrapped(text: str, colour: str, width: int, most: int) -> Iterator[Line]:
    """A sentence in at most ``most`` lines, because a screen cuts off long lines."""
    wrapper = textwrap.TextWrapper(max(width, _LEAST_WIDTH), "  ", "    ", max_lines=most, placeholder=CUT)
    for part in wrapper.wrap(shown(text, 1000)):
        yield [(part, colour)]


def _ending(text: str, width: int) -> str:
    """A name cut to ``width``. Its end is kept, because it says more than its beginning."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


def _age(since: str | None) -> float:
    """Seconds since a time in the status; at least 0, because clocks of two machines may differ."""
    return 0.0 if since is None else max(0.0, time.time() - moment(since))
