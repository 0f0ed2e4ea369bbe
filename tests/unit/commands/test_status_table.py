"""The table of ``spark-stomp status``: what is in it, and what goes if there is no room."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest
from rich.color import ColorSystem

from spark_stomp.commands.screen import Screen
from spark_stomp.commands.status import health, table
from spark_stomp.errors import OffsetError
from spark_stomp.receiver import ReceiverStatus
from spark_stomp.receiver.status import ConnectionStatus, Counts
from spark_stomp.status.figure import iso
from spark_stomp.status.receivers import Observed, ReceiverPart, RowCounts, TotalsPart, Waiting
from spark_stomp.status.source import QueryPart, RunIdentity

PATIENCE = 30.0
NOW = 1_800_000_000.0
CONNECTED = ConnectionStatus(since=NOW - 125, connected=True, connections=1)
LAST = {"last_error": "[STOMP_CONNECT_FAILED] cannot connect to b:61613", "last_error_at": NOW - 1}
AWAY = ConnectionStatus(since=NOW - 12, connections=1, attempts=4, **LAST)
BACK = replace(AWAY, connected=True, connections=2, attempts=0, since=NOW - 3)
WAITING = Waiting("spark", "Spark, in batch 12 of 1,000 messages")
OBSERVED = Observed(WAITING, NOW - 21, received=4600.0, committed=1234.5)
SINK = {"version": 1, "query": "flights", "run": "a1", "host": "here", "batch": 41, "confirmed": 12_345}
FAILED_SINK = {**SINK, "failure": "batch 42 was not finished\x1b[2J", "failed_at": iso(NOW - 60)}


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)


def receiver(connection: ConnectionStatus = CONNECTED, **more: Any) -> dict[str, Any]:
    status = ReceiverStatus("/queue/a#0", True, 1_000, 5_000, 4_000, 3_000, 0.0, False, None, unacked=1_000)
    since = int((NOW - 2) * 1e6)
    return ReceiverPart(replace(status, connection=connection, **more), since).shown()


def status(
    *receivers: dict[str, Any], running: bool = True, error: Any = None, **more: Any
) -> dict[str, Any]:
    figures = {f"/queue/a#{number}": one for number, one in enumerate(receivers or [receiver()])}
    totals = TotalsPart(RowCounts(4_000, 1_000), False, list(figures.values()), OBSERVED).shown()
    identity = RunIdentity("flights", "r1", NOW - 3700)
    observed = OBSERVED if running else Observed()
    shown = QueryPart(identity, totals, figures, None, error, running, False, observed=observed).shown()
    return {**shown, "written_at": iso(NOW), **more}


def drawn(one: dict[str, Any], columns: int = 120, most: int | None = None) -> str:
    """As it is drawn in a terminal, in colour."""
    screen = Screen(io.StringIO())
    screen.width = columns
    screen._force_terminal, screen._color_system = True, ColorSystem.STANDARD
    with screen.capture() as what:
        screen.print(*table(one, PATIENCE, columns, most), sep="\n")
    return what.get()


def shown(one: dict[str, Any], *arguments: Any, **more: Any) -> str:
    lines = re.sub("\x1b\\[[0-9;]*m", "", drawn(one, *arguments, **more)).splitlines()
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


def coloured(one: dict[str, Any], colour: str) -> str:
    """All that is drawn in this colour."""
    code = {"red": 31, "green": 32, "yellow": 33, "dim": 2}[colour]
    return " ".join(re.findall(f"\x1b\\[{code}m(.*?)\x1b\\[0m", drawn(one)))


def test_a_query_that_runs() -> None:
    head, waits, times, figures, titles, values = shown(status(), 180).splitlines()
    assert head.startswith("flights  running   run r1 on ")
    assert times == "query   began 1 h 1 min ago   written 0.0 s ago"
    assert waits == "for 21 s waiting for Spark, in batch 12 of 1,000 messages"
    totals = ["rows 4,000", "committed/s 1,234.5", "received/s 4,600.0", "waiting 1,000", "oldest 2.0 s ago"]
    sums = ["received 5,000", "committed 4,000", "acked 3,000", "un-acked 1,000"]
    assert figures == "totals  " + "   ".join([*totals, *sums])
    columns = ["RECEIVED", "COMMITTED", "ACKED", "UN-ACKED", "OLDEST", "HELD", "REDELIVERED"]
    assert titles.split() == ["RECEIVER", "STATE", *columns]
    cells = ["5,000", "4,000", "3,000", "1,000", "2.0", "s", "0", "bytes", "0"]
    assert values.split() == ["/queue/a#0", "up", "2", "min", "5", "s", *cells]


@pytest.mark.parametrize(
    ("one", "colour", "words", "its_health"),
    [
        (status(), "green", ["running", "up 2 min 5 s"], "green"),
        (
            status(receiver(), receiver(AWAY)),
            "red",
            ["running, 1 of 2 receivers not connected", "away 12 s", "4 attempts failed: [STOMP_CONNECT"],
            "red",
        ),
        (status(receiver(replace(AWAY, attempts=1))), "red", ["1 of 1 receiver not", "1 attempt f"], "red"),
        (
            status(receiver(BACK, counts=Counts(redelivered=4))),
            "yellow",
            ["reconnects 1", "redelivered 4"],
            "green",
        ),
        (status(receiver(BACK)), "dim", ["last error 1.0 s ago: [STOMP_CONNECT_FAILED]"], "green"),
        (status(receiver(window_full=True)), "yellow", ["window full"], "green"),
        (status(receiver(window_full=True, paused_since=NOW - 5)), "yellow", ["paused 5.0 s"], "green"),
        (
            status(running=False),
            "yellow",
            ["ended", "1,000 messages in no committed batch: the next run gets them again"],
            "yellow",
        ),
        (
            status(running=False, unfinished=True),
            "red",
            ["within a batch", "no commit of its last batch w"],
            "red",
        ),
        (
            status(running=False, error=OffsetError("no such offset\x1b[2J")),
            "red",
            ["failed", "[STOMP_OFFSET_INVALID] no such offset\\x1b[2J"],
            "red",
        ),
        (status(written_at=iso(NOW - 45)), "red", ["gone? no sign of life for 45 s"], "red"),
        (status(written_at=iso(NOW - 45), running=False), "yellow", ["ended"], "yellow"),
        (
            status(running=False, sink=FAILED_SINK),
            "red",
            ["ended within a batch", "1 min 0 s ago: batch 42 was not finished\\x1b[2J"],
            "red",
        ),
        (status(sink=FAILED_SINK), "red", ["running", "1 min 0 s ago: batch 42"], "red"),
        ({"query": "q", "sink": FAILED_SINK}, "red", ["sink only, which failed", "1 min 0 s ago: "], "red"),
        # In an earlier run.
        (status(sink=FAILED_SINK | {"failed_at": iso(NOW - 3701)}), "red", [], "green"),
        ({"query": "q", "sink": SINK}, "green", ["sink only"], "green"),
    ],
)
def test_how_a_query_is(one: dict[str, Any], colour: str, words: list[str], its_health: str) -> None:
    told = coloured(one, colour)
    assert health(one, PATIENCE)[0] == its_health
    assert all(word in told for word in words), told
    assert words or not told


@pytest.mark.parametrize("over", [{"running": False}, {"written_at": iso(NOW - 45)}])
def test_connections_of_a_query_that_is_over_are_past(over: dict[str, Any]) -> None:
    lines = shown(status(receiver(), receiver(AWAY)) | over).splitlines()
    states = [line.split()[1:3] for line in lines if line.startswith("/queue/a#")]
    assert states == [["was", "away"], ["was", "up"]]


def test_a_process_that_is_gone_is_not_waited_for() -> None:
    """The status was written a moment ago."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    gone = status(pid=process.pid)
    assert health(gone, PATIENCE) == ("red", "gone: its process has ended without a word")
    assert "was up" in shown(gone)
    assert health(gone | {"host": "other"}, PATIENCE) == ("green", "running")
    assert health(gone | {"running": False}, PATIENCE) == ("yellow", "ended")


def test_a_journal_and_a_sink() -> None:
    sink = {"written_at": iso(NOW - 2), "receipt_p50_seconds": 0.0031, "resent": 7, "blocked_seconds": 12.0}
    journal = {"first": 10, "committed": 4_000, "end": 5_000, "bytes": 12_300_000, "waiting": 3}
    told = shown(status(journal=journal, sink=SINK | sink), 180).splitlines()
    assert told[4:6] == [
        "journal  first 10   committed 4,000   end 5,000   size 12.3 MB   not durable yet 3",
        "sink     written 2.0 s ago   batch 41   confirmed 12,345   resent 7   blocked by the broker 12 s   "
        "receipts p50 3.1 ms",
    ]


def test_a_sink_alone() -> None:
    told = shown({key: SINK[key] for key in ("version", "query", "run", "host")} | {"sink": SINK})
    assert told == "flights  sink only   run a1 on here\nsink  batch 41   confirmed 12,345"


@pytest.mark.parametrize(
    "failed",
    [{"failure": "why " * 40}, {"unfinished": True}, {"sink": FAILED_SINK | {"failure": "why " * 40}}],
)
def test_what_failed_is_read_in_a_narrow_terminal_too(failed: dict[str, Any]) -> None:
    told = shown(status(running=False, **failed), 60)
    assert max(map(len, told.splitlines())) <= 60
    assert "why\n" in told or "to look at\n" in told


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    lines = shown(status(receiver(), receiver(AWAY)), columns).splitlines()
    assert all(len(line) <= columns for line in lines)
    rows = [line for line in lines if line.startswith(("RECEIVER", "/queue"))]
    # Those that need help come first, and what matters most goes last.
    assert [row.split()[:2] for row in rows[1:]] == [["/queue/a#1", "away"], ["/queue/a#0", "up"]]
    assert ("UN-ACKED" in rows[0]) == (columns >= 47)
    assert ("RECEIVED" in rows[0]) == (columns >= 60)
    assert ("REDELIVERED" in rows[0]) == (columns >= 120)


def test_a_long_name_is_shown_whole() -> None:
    told = shown(status() | {"receivers": {f"/queue/{'x' * 80}.orders#0": receiver()}}, 80)
    names = [line.split("  ")[0] for line in told.partition("RECEIVER")[2].splitlines()[1:]]
    assert "".join(names) == f"/queue/{'x' * 80}.orders#0"


def test_receivers_for_which_there_is_no_room_are_counted() -> None:
    lines = shown(status(*[receiver()] * 50), most=20).splitlines()
    assert sum(line.startswith("/queue/a#") for line in lines) == 20
    assert lines[-1] == "and 30 more receivers"


def test_a_status_that_lacks_what_an_older_release_did_not_write() -> None:
    told = shown(status() | {"receivers": {"/queue/a#0": {"connected": True}}, "totals": None})
    assert "/queue/a#0" in told
