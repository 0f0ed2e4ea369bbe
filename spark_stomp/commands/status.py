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
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, NoReturn

from pyarrow.fs import FileType
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.padding import Padding
from rich.table import Table

from spark_stomp.commands import FAILED, FINE, UsageError
from spark_stomp.commands.screen import Screen, json_line, labelled, said
from spark_stomp.files import FILE_ERRORS, resolve, without_credentials
from spark_stomp.quoting import counted, duration, line, shown
from spark_stomp.status import prometheus, read_statuses
from spark_stomp.status.figure import Figure, Status, moment
from spark_stomp.status.files import StatusFile, is_gone
from spark_stomp.status.receivers import SUMMED, ReceiverPart, TotalsPart
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import JournalPart, QueryPart

# A query counts as gone after this many missed writes of its status. A judgement, not measured.
_MISSED = 3
# Lines of a source that are no receivers.
_OTHER_LINES: Final = 9
# Columns of a figure, and of the other two columns of a receiver if its name is short.
_FIGURE_WIDTH: Final = 11
_OTHER_WIDTH: Final = 36
# Most characters that are shown of a failure.
_MOST_SHOWN: Final = 500
_UNFINISHED: Final = (
    "no commit of its last batch was seen: the query failed, in its sink for example, or was stopped just "
    "then, and Spark's log says which; or a one-time run had no checkpointLocation to look at"
)


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
                live.update(Group(said("Ctrl-C ends", "dim"), *parts), refresh=True)
                time.sleep(min(max(0.1, interval), 3600))
    finally:
        # The last tables stay above the prompt of the shell.
        screen.print(*(part for one in queries for part in one.parts), sep="\n")


def _export(statuses: list[dict[str, Any]], *, as_json: bool) -> None:
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
        trouble: why they could not be read; None if they could.
        fine: whether the query runs normally, or has ended normally.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        try:
            self._location = resolve(name)
        except ValueError as error:
            raise UsageError(f"{without_credentials(name)} cannot be opened: {error}") from error
        self._silence = _MISSED * StatusFile(self._location, self._location.root).write_every

    def read(self, width: int, rows: int | None = None) -> None:
        """Read the status, to be shown in ``width`` columns and about ``rows`` lines, without it in any.

        Raises UsageError if there is neither a file nor a folder of this name.
        """
        self.trouble: str | None = None
        self.statuses: list[dict[str, Any]] = []
        try:
            self.statuses = read_statuses(self._name)
            room = None if rows is None else max(1, rows // len(self.statuses) - _OTHER_LINES)
            drawn = (table(one, self._silence, width, room) for one in self.statuses)
            self.parts: list[RenderableType] = [*chain.from_iterable(drawn)]
            self.fine = all(health(one, self._silence)[0] != "red" for one in self.statuses)
        except FileNotFoundError:
            place = self._location
            if place.files.get_file_info(place.root).type is FileType.NotFound:
                raise UsageError(f"{place.shown}: there is no such file or folder") from None
            self._unread(
                "there is no status file yet; a source writes one with checkpointLocation or statusFile"
            )
        except FILE_ERRORS as error:
            self._unread(self._location.words(error))
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
            words = shown(self._location.words(error), 200)
            self._unread(words if "status" in words else f"its content is not the status of a query: {words}")

    def _unread(self, why: str) -> None:
        place = self._location.shown
        # Most reasons already begin with the name of the file.
        self.trouble = why if why.startswith(place) else f"{place}: {why}"
        self.statuses, self.parts, self.fine = [], [said(self.trouble, "red")], False


# --- the tables


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


def table(status: Status, silence: float, width: int, most: int | None = None) -> Iterator[RenderableType]:
    """What is shown of a status in ``width`` columns.

    Up to ``most`` receivers are shown, those that are not connected first; without ``most`` all of them.
    """
    lives = bool(status.get("running")) and not is_gone(status) and _age(status.get("written_at")) <= silence
    yield from _head(status, silence, lives=lives)
    yield labelled(_parts(status), "bold")
    if (failure := _sink_failure(status)) is not None:
        ago = duration(_age(status["sink"].get("failed_at")))
        yield said(f"{ago} ago: {shown(failure, _MOST_SHOWN)}", "red")
    receivers = sorted((status.get("receivers") or {}).items(), key=lambda one: bool(one[1].get("connected")))
    if receivers:
        yield _receivers(receivers[:most], width, lives=lives)
        for name, one in receivers[:most]:
            yield from _last_error(name, one)
    if rest := len(receivers[most:]) if most is not None else 0:
        yield said(f"and {counted(rest, 'more receiver')}", "dim")
    yield said("")


def _head(status: Status, silence: float, *, lives: bool) -> Iterator[RenderableType]:
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
    if lives and status.get("waiting_for"):
        since = duration(_age(status.get("waiting_since")))
        yield said(f"for {since} waiting for {shown(str(status['waiting_for']), _MOST_SHOWN)}")
    left = (status.get("totals") or {}).get("rows_waiting")
    if left and not status.get("running"):
        yield said(
            f"{counted(left, 'message')} in no committed batch: the next run gets them again", "yellow"
        )


def _parts(status: Status) -> Iterator[tuple[str, RenderableType]]:
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
            said(shown(name)),
            said(*_state(one, lives=lives)),
            *(_value(figure, one).removesuffix(" ago") for figure in kept),
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
    if figure.key.endswith(("_at", "_since")):
        return f"{duration(_age(part.get(figure.key)))} ago" if part.get(figure.key) else "-"
    value = part.get(figure.key) or 0
    if value is True:
        return ""
    if figure.key.endswith("seconds"):
        return f"{value * 1000:,.1f} ms" if 0 < value < 1 else duration(value)
    return decimal(value) if figure.key.endswith("bytes") else f"{value:,}"


def _age(since: str | None) -> float:
    """Seconds since a time in the status; at least 0, because clocks of two machines may differ."""
    return 0.0 if since is None else max(0.0, time.time() - moment(since))
