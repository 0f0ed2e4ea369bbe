"""Show what queries are doing, from the status files that they write.

In a terminal the tables are updated until Ctrl-C; anywhere else, or with
--once, they are printed once. docs/status.md explains the figures, and says
where the file is.

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
from collections import deque
from itertools import chain
from typing import Any, Final, NoReturn

from pyarrow.fs import FileType
from rich.console import Group, RenderableType
from rich.live import Live

from spark_stomp.commands import FAILED, FINE, UsageError
from spark_stomp.commands.screen import Screen, json_line, said
from spark_stomp.commands.status_table import health, table
from spark_stomp.files import FILE_ERRORS, resolve, without_credentials
from spark_stomp.quoting import line, shown
from spark_stomp.status import prometheus, read_statuses
from spark_stomp.status.files import StatusFile

# A query counts as gone after this many missed writes of its status. A judgement, not measured.
_MISSED = 3
# Looks over which a rate is measured. The mean since the start says little: a run of 5,123 rows a second
# showed 97 for its first batch, before which Spark starts its workers (November 2026).
_LOOKS: Final = 15
# Lines of a source that are no receivers.
_OTHER_LINES: Final = 8


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
        sys.stdout.write("".join(map(json_line, statuses)) if as_json else prometheus(*statuses))
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
        self._rates: dict[str, deque[tuple[float, int]]] = {}

    def read(self, width: int, rows: int | None = None) -> None:
        """Read the status, to be shown in ``width`` columns and about ``rows`` lines, without it in any.

        Raises UsageError if there is neither a file nor a folder of this name.
        """
        self.trouble: str | None = None
        self.statuses: list[dict[str, Any]] = []
        try:
            self.statuses = read_statuses(self._name)
            room = None if rows is None else max(1, rows // len(self.statuses) - _OTHER_LINES)
            drawn = (table(one, self._silence, self._rate(one), width, room) for one in self.statuses)
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

    def _rate(self, status: dict[str, Any]) -> float | None:
        """Rows a second of this run, over the last looks; None if it is too early to say.

        Rows are committed batch by batch, so less time says little.
        """
        rows, now = (status.get("totals") or {}).get("rows"), time.monotonic()
        seen = self._rates.setdefault(str(status.get("run")), deque(maxlen=_LOOKS))
        if rows is None:
            return None
        seen.append((now, rows))
        then, before = seen[0]
        return (rows - before) / (now - then) if len(seen) > 1 else None

    def _unread(self, why: str) -> None:
        place = self._location.shown
        # Most reasons already begin with the name of the file.
        self.trouble = why if why.startswith(place) else f"{place}: {why}"
        self.statuses, self.parts, self.fine = [], [said(self.trouble, "red")], False
