"""Show what queries are doing, from the status files that they write.

In a terminal the tables are updated until Ctrl-C; anywhere else, or with
--once, they are printed once. docs/operate.md says where the file is, and
docs/reference.md explains the figures.

examples:
  spark-stomp status /data/checkpoints/orders /data/checkpoints/flights
  spark-stomp status s3://bucket/status/orders.json --interval 10
  spark-stomp status /data/checkpoints/orders --quiet || echo "look at orders"
  spark-stomp status /data/checkpoints/* --prometheus > spark_stomp.new

exit codes:
  0    every query runs with every receiver connected, or has ended normally;
       with --json and --prometheus: every status could be read
  1    something is wrong with a query, or there is no status
  2    the arguments are wrong, or there is no such file or folder
  130  Ctrl-C
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NoReturn

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.table import Table
from rich.text import Text

from spark_stomp.commands import FAILED, FINE, UsageError
from spark_stomp.commands.diagnosis import Diagnosis, Health, age, diagnose
from spark_stomp.commands.screen import Screen, json_line, labelled, safe_text
from spark_stomp.commands.statuses import StatusSource, Unread
from spark_stomp.quoting import counted, duration, line, listed, shown
from spark_stomp.status import QueryStatus, prometheus
from spark_stomp.status.figure import Figure, Status, Word
from spark_stomp.status.reading import is_rate
from spark_stomp.status.receivers import SUMMED, ReceiverPart, TotalsPart
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import JournalPart, QueryPart, QueuePart, UnfitPart

# Lines of a source that are no receivers.
_OTHER_LINES: Final = 14
# Columns of the terminal. They do not depend on the values, so that everything stays in its place: of a label
# with its value and of the names beside them; of a receiver's state, of one of its figures, and of all else.
_FACT_WIDTH: Final = 26
_NAMES_WIDTH: Final = 10
_STATE_WIDTH: Final = 15
_FIGURE_WIDTH: Final = 10
_OTHER_WIDTH: Final = 36
_GAP: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="status file, or folder of a checkpoint")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--quiet", action="store_true", help="print no table; the exit code says how it is")
    form.add_argument("--json", action="store_true", help="print each status as a JSON object on one line")
    form.add_argument("--prometheus", action="store_true", help="print the metrics as text for Prometheus")
    parser.add_argument("--once", "--no-progress", action="store_true", help="print the tables only once")
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="between looks (1.0)")


def run(arguments: argparse.Namespace) -> int:
    screen, queries = Screen(sys.stdout), [_Query(name) for name in arguments.files]
    for one in queries:
        one.read(screen.width)
    exported = arguments.json or arguments.prometheus
    once = arguments.once or arguments.quiet or exported or not screen.is_interactive
    if not once:
        _keep_up_to_date(screen, queries, arguments.interval)
    for trouble in (one.trouble for one in queries if one.trouble):
        sys.stderr.write(line(f"spark-stomp: {trouble}") + "\n")
    if exported:
        _export([status for one in queries for status in one.statuses], as_json=arguments.json)
        return FINE if all(one.statuses for one in queries) else FAILED
    parts = [part for one in queries if not one.trouble for part in one.parts]
    if parts and not arguments.quiet:
        screen.put(*parts)
    return FINE if all(one.fine for one in queries) else FAILED


def _keep_up_to_date(screen: Screen, queries: list[_Query], interval: float) -> NoReturn:
    try:
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            while True:
                for one in queries:
                    one.read(screen.width, screen.height // len(queries))
                parts = [part for one in queries for part in one.parts]
                live.update(Group(safe_text("Ctrl-C ends", "dim"), *parts), refresh=True)
                time.sleep(min(max(0.1, interval), 3600))
    finally:
        # The last tables stay above the prompt of the shell.
        screen.print(*(part for one in queries for part in one.parts), sep="\n")


def _export(statuses: list[QueryStatus], *, as_json: bool) -> None:
    try:
        lines = "".join(f"{json_line(one)}\n" for one in statuses)
        sys.stdout.write(lines if as_json else prometheus(*statuses))
    except ValueError as error:
        raise UsageError(str(error)) from error


class _Query:
    """The status of the sources of one query. Raises UsageError if no file system fits the name.

    Attributes:
        statuses: that of each source, as they were last read.
        parts: what is shown of them.
        trouble: why they could not be read; empty if they could.
        fine: whether the query runs normally, or has ended normally.
    """

    def __init__(self, name: str) -> None:
        self._source = StatusSource(name)
        self.statuses: list[QueryStatus] = []
        self.parts: list[RenderableType] = []
        self.trouble, self.fine = "", False

    def read(self, width: int, rows: int | None = None) -> None:
        """Read the status, to be shown in ``width`` columns and about ``rows`` lines, without it in any.

        Raises UsageError if there is neither a file nor a folder of this name.
        """
        silence = self._source.silence

        def draw(statuses: list[QueryStatus]) -> None:
            room = None if rows is None else max(1, rows // len(statuses) - _OTHER_LINES)
            drawn = (table(one, silence, width, room) for one in statuses)
            self.parts = [*chain.from_iterable(drawn)]
            self.fine = all(diagnose(one, silence).style != "red" for one in statuses)
            self.statuses, self.trouble = statuses, ""

        try:
            self._source.read(draw)
        except Unread as error:
            self.trouble = str(error)
            self.statuses, self.parts, self.fine = [], [safe_text(self.trouble, "red")], False


# --- the tables


def table(status: Status, silence: float, width: int, most: int | None = None) -> Iterator[RenderableType]:
    """What is shown of a status in ``width`` columns.

    Up to ``most`` receivers are shown, those that are not connected first; without ``most`` all of them.
    """
    found = diagnose(status, silence)
    lives = bool(status.get("running")) and found.health is not Health.GONE
    yield _head(status, found)
    yield labelled([*_parts(status, width, over=not lives), *_errors(status)], "bold", _NAMES_WIDTH)
    receivers = sorted((status.get("receivers") or {}).items(), key=lambda one: bool(one[1].get("connected")))
    if receivers:
        yield _receivers(receivers[:most], width, lives=lives)
    if rest := len(receivers[most:]) if most is not None else 0:
        yield safe_text(f"and {counted(rest, 'more receiver')}", "dim")
    yield safe_text("")


def _head(status: Status, found: Diagnosis) -> RenderableType:
    query, run = str(status.get("query")), f"run {status.get('run')} on {status.get('host')}"
    if status.get("source", 1) != 1:
        query += f", source {status['source']}"
    if status.get("pid") is not None:
        run += f", process {status['pid']}"
    words = found.headline + ("; spark-stomp why says more" if found.style == "red" else "")
    head = safe_text(shown(query), "bold").append_text(safe_text(f"  {words}", f"not bold {found.style}"))
    return head.append_text(safe_text(f"   {shown(run)}", "not bold dim"))


def _parts(status: Status, width: int, *, over: bool) -> Iterator[tuple[str, RenderableType]]:
    """The figures of the query, its journal and its sink, by the name of the part.

    Rates and waits are left out if the query is ``over``, and troubles if there are none.
    """
    queues, unfit = (status.get(name) or {} for name in ("queues", "unfit"))
    declared: list[tuple[str, str, list[Figure], Status | None]] = [
        ("query", "", QueryPart.figures(), status if "written_at" in status else None),
        ("totals", "", [*TotalsPart.figures(), *SUMMED], status.get("totals")),
        *(("queue", name, QueuePart.figures(), one) for name, one in queues.items()),
        *(("unfit", name, UnfitPart.figures(), one) for name, one in unfit.items()),
        ("journal", "", JournalPart.figures(), status.get("journal")),
        ("sink", "", SinkPart.figures(), status.get("sink")),
    ]
    for name, subject, figures, part in declared:
        facts = [
            safe_text(f"{one.label} {_value(one, part)}", "yellow" if one.trouble else "")
            for one in sorted(figures, key=lambda one: one.trouble)
            if part and one.label and (part.get(one.key) or not one.trouble) and not (over and is_rate(one))
        ]
        if facts:
            grid = _grid(facts, width - _NAMES_WIDTH - _GAP)
            yield name, Group(safe_text(shown(subject)), grid) if subject else grid


def _grid(facts: list[Text], width: int) -> Table:
    """Facts beside and below one another, each in its place."""
    grid, abreast = Table.grid(padding=(0, _GAP, 0, 0)), max(1, (width + _GAP) // (_FACT_WIDTH + _GAP))
    for _ in range(abreast):
        grid.add_column(width=_FACT_WIDTH, no_wrap=True)
    for first in range(0, len(facts), abreast):
        grid.add_row(*facts[first : first + abreast])
    return grid


def _errors(status: Status) -> Iterator[tuple[str, RenderableType]]:
    """What went wrong last, and when: for the query, its sink, its receivers; once if it is the same."""
    receivers: Mapping[str, Status] = status.get("receivers") or {}
    parts = (("query", status.get("ended")), ("sink", status.get("sink")))
    found = [(name, one.get("failure"), one.get("failed_at")) for name, one in parts if one]
    found.append(("query", status.get("failure"), status.get("written_at")))
    found += [(name, one.get("last_error"), one.get("last_error_at")) for name, one in receivers.items()]
    together: dict[str, list[tuple[str, Any]]] = {}
    for name, error, failed_at in found:
        if error:
            together.setdefault(error, []).append((name, failed_at))
    for error, which in together.items():
        ago = duration(min(age(failed_at) for _, failed_at in which))
        yield "last error", safe_text(f"{ago} ago, {listed([name for name, _ in which])}: {error}")


def _receivers(receivers: list[tuple[str, Status]], width: int, *, lives: bool) -> Table:
    # On a narrow terminal the figures with the highest numbers are left out.
    kept = [
        one
        for one in ReceiverPart.figures()
        if 0 < one.column <= (width - _OTHER_WIDTH) // (_FIGURE_WIDTH + _GAP)
    ]
    drawn = Table(box=None, header_style="dim", padding=(0, _GAP, 0, 0))
    drawn.add_column("RECEIVER", overflow="fold")
    drawn.add_column("STATE", min_width=_STATE_WIDTH, no_wrap=True)
    for figure in kept:
        drawn.add_column(figure.label.upper(), justify="right", min_width=_FIGURE_WIDTH, no_wrap=True)
    for name, one in receivers:
        drawn.add_row(
            safe_text(shown(name)),
            safe_text(*_state(one, lives=lives)),
            *(_value(figure, one).removesuffix(" ago") for figure in kept),
        )
    return drawn


def _state(one: Status, *, lives: bool) -> tuple[str, str]:
    """The state of the connection, and its style. Without a duration if the query has ended."""
    if not lives:
        return "was up" if one.get("connected") else "was away", "dim"
    if not one.get("connected"):
        return f"away {duration(age(one.get('disconnected_since')))}", "red"
    if one.get("paused"):
        return f"paused {duration(age(one.get('paused_since')))}", "yellow"
    if one.get("window_full"):
        return "window full", "yellow"
    return f"up {duration(age(one.get('connected_since')))}", "green"


def _value(figure: Figure, part: Status) -> str:
    if figure.key.endswith(("_at", "_since")):
        return f"{duration(age(part.get(figure.key)))} ago" if part.get(figure.key) else "-"
    value = part.get(figure.key)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    if isinstance(figure, Word):
        return shown(str(value))
    if figure.key.endswith("seconds"):
        return f"{value * 1000:,.1f} ms" if 0 < value < 1 else duration(value)
    return decimal(value) if figure.key.endswith("bytes") else f"{value:,}"
