"""``spark-stomp status``: shows the status of a query as tables, one for each source, kept up to date."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from spark_stomp.commands import FAILED, FINE, UsageError
from spark_stomp.commands.status_table import health, table
from spark_stomp.commands.terminal import Line, Rate, Terminal
from spark_stomp.files.locations import FILE_ERRORS, Location, resolve, without_credentials
from spark_stomp.quoting import line, shown
from spark_stomp.status import read_statuses
from spark_stomp.status.files import StatusFile

ABOUT: Final = """\
Show what a query is doing, from the status file that it writes: rows,
receivers and their connections, the journal, the sink. In a terminal the
table is updated until Ctrl-C; anywhere else, or with --once, it is printed
once. docs/status.md explains the figures, and says where the file is."""

MORE: Final = """\
examples:
  spark-stomp status /data/checkpoints/orders              the checkpoint of the query, or
  spark-stomp status /data/checkpoints/orders/spark_stomp/status.json
  spark-stomp status s3://bucket/status/orders.json --interval 10
  spark-stomp status /data/checkpoints/orders --once --quiet || echo "look at orders"

exit codes:
  0    the query runs, and every receiver is connected; or it has ended normally
  1    the query or its sink failed, or it ended within a batch, or it stopped writing its status, or a
       receiver is not connected, or there is no status
  2    the arguments are wrong
  130  Ctrl-C"""

# A query counts as gone after this many missed writes of its status. A judgement, not measured.
_MISSED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="status file, or the folder of the query's checkpoint")
    parser.add_argument("--once", action="store_true", help="print the table once, also in a terminal")
    parser.add_argument("--quiet", action="store_true", help="print no table; the exit code says how it is")
    parser.add_argument(
        "--interval", type=_seconds, default=1.0, metavar="SECONDS", help="how often to look (%(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    try:
        location = resolve(arguments.file)
    except ValueError as error:
        raise UsageError(f"{without_credentials(arguments.file)} cannot be opened: {error}") from error
    terminal = Terminal(sys.stdout)
    view = _View(arguments.file, location)
    if arguments.once or arguments.quiet or not terminal.interactive:
        lines = view.lines(terminal.size[0])
        if view.trouble is not None:
            sys.stderr.write(line(f"spark-stomp: {view.trouble}") + "\n")
        elif not arguments.quiet:
            terminal.write(lines)
        return FINE if view.fine else FAILED
    try:
        with terminal.screen():
            while True:
                columns, rows = terminal.size
                terminal.draw([*view.lines(columns, rows - 1), [("Ctrl-C ends", "dim")]])
                time.sleep(arguments.interval)
    finally:
        # The last table stays above the prompt of the shell.
        terminal.write(view.lines(terminal.size[0]))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("must be a number of seconds from 0.1 to 3600")
    return seconds


class _View:
    """A status file, and what it said when it was last read.

    Attributes:
        trouble: why the file could not be read; None if it could.
        fine: whether the query runs normally, or has ended normally.
    """

    def __init__(self, name: str, location: Location) -> None:
        self._name = name
        self._location = location
        self._silence = _MISSED * StatusFile(location, location.root).write_every
        self._rates: dict[str, Rate] = {}
        self.trouble: str | None = None
        self.fine = False

    def lines(self, columns: int, rows: int | None = None) -> list[Line]:
        """The lines of the table now, or the reason why there is none."""
        try:
            statuses = read_statuses(self._name)
        except FileNotFoundError:
            return self._unread(
                "there is no status file yet; a query writes one if its source has checkpointLocation or "
                "statusFile"
            )
        except (ValueError, *FILE_ERRORS) as error:
            return self._unread(self._location.words(error))
        try:
            room = None if rows is None else rows // len(statuses)
            lines: list[Line] = []
            for one in statuses:
                if lines and lines[-1]:
                    lines.append([])
                lines += table(one, self._silence, self._rate(one), columns, room)
            self.fine = all(health(one, self._silence)[0] != "bad" for one in statuses)
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
            return self._unread(f"its content is not the status of a query: {shown(str(error), 200)}")
        self.trouble = None
        return lines

    def _rate(self, status: Mapping[str, Any]) -> float | None:
        """Rows a second of this run; None if it is too early to say."""
        rows = (status.get("totals") or {}).get("rows")
        rate = self._rates.setdefault(str(status.get("run")), Rate())
        return None if rows is None else rate.of(rows, time.monotonic())

    def _unread(self, why: str) -> list[Line]:
        place = self._location.shown
        # Most reasons already begin with the name of the file.
        self.trouble = why if why.startswith(place) else f"{place}: {why}"
        self.fine = False
        return [[(place, "strong")], [(why, "bad")]]
