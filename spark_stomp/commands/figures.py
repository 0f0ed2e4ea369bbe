"""The lines of the table that ``spark-stomp status`` shows."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from spark_stomp.quoting import counted, shown
from spark_stomp.terminal import CUT, Line, Span, duration, size

Status = Mapping[str, Any]

_NAME_WIDTH: Final = 44
_LEAST_NAME: Final = 16
_STATE_WIDTH: Final = len("up 59 min 59 s")
_FAILURE_LINES: Final = 5
_UNFINISHED: Final = (
    "its last batch is not committed: the query failed, in its sink for example, or was stopped just then; "
    "Spark's log says which"
)


class Health(enum.Enum):
    """How a query is; the value is its colour."""

    GOOD = "good"
    OVER = "warn"
    BAD = "bad"


def health(status: Status, now: float, silence: float) -> Health:
    """Whether all is well; a query that has written nothing for ``silence`` seconds is gone."""
    if status.get("failure") or status.get("unfinished") or _sink_failure(status):
        return Health.BAD
    if "written_at" not in status:
        # Of the sink alone: it writes when a batch is done, however long that takes.
        return Health.GOOD
    if not status.get("running"):
        return Health.OVER
    if not _lives(status, now, silence):
        return Health.BAD
    return Health.GOOD if all(one.get("connected") for one in _receivers(status).values()) else Health.BAD


def _lives(status: Status, now: float, silence: float) -> bool:
    """Whether what the status says of connections is true now."""
    return bool(status.get("running")) and _age(status.get("written_at"), now) <= silence


def _sink_failure(status: Status) -> str | None:
    """What became of the sink's last batch in this run, if it was not finished."""
    sink, began = _part(status, "sink"), status.get("started_at")
    if began is not None and sink.get("failed_at") and _moment(sink["failed_at"]) < _moment(began):
        return None
    return sink.get("failure")


def table(
    status: Status, now: float, silence: float, rate: float | None, columns: int, rows: int | None = None
) -> list[Line]:
    """All lines, for a terminal of so many columns; ``rate`` is rows a second.

    Receivers that do not fit into ``rows`` lines are only counted.
    """
    head, tail = (
        [*_head(status, now, silence, columns), *_totals(status, rate)],
        [*_journal(status), *_sink(status, now, columns)],
    )
    receivers = [*_table(_receivers(status), now, columns, lives=_lives(status, now, silence))]
    if rows is not None and len(head) + len(receivers) + len(tail) > rows:
        room = max(1, rows - len(head) - len(tail) - 1)
        rest = len(receivers) - room
        receivers = [*receivers[:room], [(f"and {counted(rest, 'more line')} of receivers", "dim")]]
    return [*head, *receivers, *tail]


# --- the query


def _head(status: Status, now: float, silence: float, width: int) -> Iterator[Line]:
    word, colour = _state(status, now, silence), health(status, now, silence).value
    run = f"run {status.get('run')} on {status.get('host')}"
    if status.get("pid") is not None:
        run += f", process {status['pid']}"
    line: list[Span] = [(shown(str(status.get("query"))), "strong"), ("  ", ""), (word, colour)]
    yield [*line, (f"   {shown(run)}", "dim")]
    if "written_at" in status:
        began, written = _age(status.get("started_at"), now), _age(status["written_at"], now)
        yield [(f"began {duration(began)} ago, written {duration(written)} ago", "dim")]
    if status.get("failure"):
        yield from _wrapped(str(status["failure"]), "bad", width, _FAILURE_LINES)
    elif status.get("unfinished"):
        yield from _wrapped(_UNFINISHED, "bad", width, _FAILURE_LINES)


def _state(status: Status, now: float, silence: float) -> str:
    failed = _sink_failure(status) is not None
    if "written_at" not in status:
        return "sink only, which failed" if failed else "sink only"
    if status.get("failure"):
        return "failed"
    if not status.get("running"):
        return "ended within a batch" if failed or status.get("unfinished") else "ended"
    age = _age(status["written_at"], now)
    if age > silence:
        return f"gone? no sign of life for {duration(age)}"
    receivers = _receivers(status).values()
    away = sum(not one.get("connected") for one in receivers)
    return f"running, {away} of {counted(len(receivers), 'receiver')} not connected" if away else "running"


def _totals(status: Status, rate: float | None) -> Iterator[Line]:
    totals = _part(status, "totals")
    if not totals:
        return
    facts = [f"rows {_count(totals, 'rows')}"]
    if rate is not None and status.get("running"):
        facts.append(f"{rate:,.0f} rows/s")
    facts.append(
        f"waiting {_count(totals, 'rows_waiting')}{' or more' if totals.get('more_waiting') else ''}"
    )
    facts.append(f"un-acked {_count(totals, 'unacked')}")
    if totals.get("oldest_unacked_seconds"):
        facts.append(f"oldest {duration(totals['oldest_unacked_seconds'])}")
    yield [("   ".join(facts), "")]
    rare = ("reconnects", "redelivered", "malformed")
    seen = [f"{name} {_count(totals, name)}" for name in rare if totals.get(name)]
    if seen:
        yield [("   ".join(seen), "warn")]
    yield []


# --- its receivers


@dataclass(frozen=True)
class _Column:
    """A column of figures. Those with the highest ``rank`` are left out first where there is no room."""

    title: str
    rank: int
    text: Callable[[Status], str]

    @property
    def width(self) -> int:
        return max(len(self.title), 9)


_COLUMNS: Final = (
    _Column("RECEIVED", 2, lambda one: _count(one, "received")),
    _Column("COMMITTED", 4, lambda one: _count(one, "committed")),
    _Column("ACKED", 3, lambda one: _count(one, "acked")),
    _Column("UN-ACKED", 1, lambda one: _count(one, "unacked")),
    _Column("OLDEST", 5, lambda one: duration(one["oldest_unacked_seconds"]) if one.get("unacked") else "-"),
    _Column("AGAIN", 7, lambda one: _count(one, "redelivered")),
    _Column("HELD", 6, lambda one: size(one.get("buffered_bytes", 0))),
)


def _table(receivers: Mapping[str, Status], now: float, width: int, *, lives: bool) -> Iterator[Line]:
    if not receivers:
        return
    states = {name: _connection(one, now) if lives else _last_state(one) for name, one in receivers.items()}
    # Wide enough for most, so that the columns behind it stay where they are.
    state_width = max(_STATE_WIDTH, *(len(text) for text, _ in states.values()))
    name_width = min(max(len("RECEIVER"), *map(len, receivers)), _NAME_WIDTH)
    kept = list(_COLUMNS)
    while (
        kept and min(name_width, _LEAST_NAME) + state_width + 4 + sum(one.width + 2 for one in kept) > width
    ):
        kept.remove(max(kept, key=lambda one: one.rank))
    figures = sum(one.width + 2 for one in kept)
    name_width = max(min(name_width, width - figures - state_width - 2), min(name_width, _LEAST_NAME))
    titles = "".join(f"  {one.title:>{one.width}}" for one in kept)
    yield [(f"{'RECEIVER':<{name_width}}  {'STATE':<{state_width}}{titles}", "dim")]
    for name, one in receivers.items():
        text, colour = states[name]
        cells = "".join(f"  {column.text(one):>{column.width}}" for column in kept)
        yield [
            (f"{_ending(shown(name), name_width):<{name_width}}  ", ""),
            (f"{text:<{state_width}}", colour),
            (cells, ""),
        ]
        yield from _trouble(one, now, width)
    yield []


def _connection(one: Status, now: float) -> tuple[str, str]:
    if not one.get("connected"):
        return f"away {duration(_age(one.get('disconnected_since'), now))}", "bad"
    if one.get("paused"):
        return f"paused {duration(_age(one.get('paused_since'), now))}", "warn"
    if one.get("window_full"):
        return "window full", "warn"
    return f"up {duration(_age(one.get('connected_since'), now))}", "good"


def _last_state(one: Status) -> tuple[str, str]:
    """How the connection was when a query wrote its last status: since when says nothing any more."""
    return "was up" if one.get("connected") else "was away", "dim"


def _trouble(one: Status, now: float, width: int) -> Iterator[Line]:
    """Why the connection was lost, or cannot be had, in two lines at the most."""
    error = one.get("last_error")
    if not error:
        return
    if one.get("connected"):
        colour, text = "dim", f"last error {duration(_age(one.get('last_error_at'), now))} ago: {error}"
    else:
        colour, text = "bad", f"{counted(one.get('attempts', 0), 'attempt')} failed: {error}"
    yield from _wrapped(text, colour, width, 2)


def _ending(text: str, width: int) -> str:
    """The end of a name tells more than its beginning."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


# --- journal and sink


def _journal(status: Status) -> Iterator[Line]:
    journal = _part(status, "journal")
    if not journal:
        return
    facts = (
        f"{size(journal.get('bytes', 0))}",
        f"positions {_count(journal, 'first')} to {_count(journal, 'end')}",
        f"committed {_count(journal, 'committed')}",
        f"not durable yet {_count(journal, 'waiting')}",
    )
    yield [("journal  ", "strong"), ("   ".join(facts), "")]


def _sink(status: Status, now: float, width: int) -> Iterator[Line]:
    sink = _part(status, "sink")
    if not sink:
        return
    facts = [f"confirmed {_count(sink, 'confirmed')}"]
    if sink.get("batch") is not None:
        facts.append(f"batch {sink['batch']}, {duration(_age(sink.get('written_at'), now))} ago")
    for part in ("p50", "p99"):
        seconds = sink.get(f"receipt_{part}_seconds")
        if seconds is not None:
            facts.append(f"receipts {part} {seconds * 1000:,.1f} ms")
    yield [("sink     ", "strong"), ("   ".join(facts), "")]
    rare = ("resent", "dropped", "dead_lettered")
    trouble = [f"{name.replace('_', '-')} {_count(sink, name)}" for name in rare if sink.get(name)]
    if sink.get("blocked_seconds"):
        trouble.append(f"waited {duration(sink['blocked_seconds'])} for a blocked broker")
    if trouble:
        yield [("         ", ""), ("   ".join(trouble), "warn")]
    if (failure := _sink_failure(status)) is not None:
        ago = duration(_age(sink.get("failed_at"), now))
        yield from _wrapped(f"{ago} ago: {failure}", "bad", width, _FAILURE_LINES)


# --- parts of a status


def _wrapped(text: str, colour: str, width: int, most: int) -> Iterator[Line]:
    """A sentence in ``most`` lines at the most: a screen cuts off what does not fit into a line."""
    wrapper = textwrap.TextWrapper(max(width, _LEAST_NAME), "  ", "    ", max_lines=most, placeholder=CUT)
    for part in wrapper.wrap(shown(text, 1000)):
        yield [(part, colour)]


def _part(status: Status, name: str) -> Status:
    part = status.get(name)
    return part if isinstance(part, Mapping) else {}


def _receivers(status: Status) -> Mapping[str, Status]:
    return {name: one for name, one in _part(status, "receivers").items() if isinstance(one, Mapping)}


def _count(part: Status, name: str) -> str:
    return f"{part.get(name) or 0:,}"


def _age(time: str | None, now: float) -> float:
    """Seconds since a time of the status; clocks of two machines may differ a little."""
    return 0.0 if time is None else max(0.0, now - _moment(time))


def _moment(time: str) -> float:
    """A time of the status in seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()
