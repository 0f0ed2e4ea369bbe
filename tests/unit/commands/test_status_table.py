"""The table of ``spark-stomp status``: what is in it, and what goes if there is no room."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from spark_stomp.commands.status_table import health, table
from spark_stomp.commands.terminal import Line
from spark_stomp.errors import OffsetError, StompError
from spark_stomp.receiver import ReceiverStatus
from spark_stomp.receiver.status import ConnectionStatus, Counts
from spark_stomp.status.figure import iso
from spark_stomp.status.source import QueryPart, ReceiverPart, Rows, RunIdentity, TotalsPart

PATIENCE = 30.0
NOW = 1_800_000_000.0
CONNECTED = ConnectionStatus(since=NOW - 125, connected=True, connections=1)
AWAY = ConnectionStatus(
    since=NOW - 12,
    connections=1,
    attempts=4,
    last_error="[STOMP_CONNECT_FAILED] cannot connect to b:61613",
    last_error_at=NOW - 1,
)
BACK = replace(AWAY, connected=True, connections=2, attempts=0, since=NOW - 3)
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
    *receivers: dict[str, Any], running: bool = True, error: StompError | None = None, **more: Any
) -> dict[str, Any]:
    figures = {f"/queue/a#{number}": one for number, one in enumerate(receivers or [receiver()])}
    totals = TotalsPart(Rows(4_000, 1_000), False, list(figures.values())).shown()
    identity = RunIdentity("flights", "r1", NOW - 3700)
    shown = QueryPart(identity, totals, figures, None, error, running, False).shown()
    return {**shown, "written_at": iso(NOW), **more}


def text(lines: Sequence[Line]) -> str:
    return "\n".join("".join(part for part, _ in line) for line in lines)


def shown(one: dict[str, Any], columns: int = 120, rate: float | None = None, **more: Any) -> str:
    return text(table(one, PATIENCE, rate, columns, **more))


def coloured(one: dict[str, Any], colour: str) -> str:
    return " ".join(part for line in table(one, PATIENCE, None, 120) for part, its in line if its == colour)


def test_a_query_that_runs() -> None:
    head, times, figures, blank, titles, values = shown(status(), rate=1234.5).splitlines()
    assert head.startswith("flights  running   run r1 on ")
    assert times == "began 1 h 1 min ago   written 0.0 s ago"
    assert figures == "rows 4,000   1,234 rows/s   waiting 1,000   oldest 2.0 s   un-acked 1,000"
    assert blank == ""
    columns = ["RECEIVED", "COMMITTED", "ACKED", "UN-ACKED", "OLDEST", "HELD", "REDELIVERED"]
    assert titles.split() == ["RECEIVER", "STATE", *columns]
    cells = ["5,000", "4,000", "3,000", "1,000", "2.0", "s", "0", "B", "0"]
    assert values.split() == ["/queue/a#0", "up", "2", "min", "5", "s", *cells]


@pytest.mark.parametrize(
    ("one", "colour", "words", "its_health"),
    [
        (status(), "good", ["running", "up 2 min 5 s"], "good"),
        (
            status(receiver(), receiver(AWAY)),
            "bad",
            ["running, 1 of 2 receivers not connected", "away 12 s", "4 attempts failed: [STOMP_CONNECT"],
            "bad",
        ),
        (status(receiver(replace(AWAY, attempts=1))), "bad", ["1 of 1 receiver not", "1 attempt f"], "bad"),
        (
            status(receiver(BACK, counts=Counts(redelivered=40))),
            "warn",
            ["reconnects 1   redelivered 40"],
            "good",
        ),
        (status(receiver(BACK)), "dim", ["last error 1.0 s ago: [STOMP_CONNECT_FAILED]"], "good"),
        (status(receiver(window_full=True)), "warn", ["window full"], "good"),
        (
            status(receiver(window_full=True, paused_since=NOW - 5, buffered=1_500_000)),
            "warn",
            ["paused 5.0 s"],
            "good",
        ),
        (status(running=False), "warn", ["ended"], "warn"),
        (
            status(running=False, unfinished=True),
            "bad",
            ["ended within a batch", "its last batch is not committed"],
            "bad",
        ),
        (
            status(running=False, error=OffsetError("no such offset\x1b[2J")),
            "bad",
            ["failed", "[STOMP_OFFSET_INVALID] no such offset\\x1b[2J"],
            "bad",
        ),
        (status(written_at=iso(NOW - 45)), "bad", ["gone? no sign of life for 45 s"], "bad"),
        (status(written_at=iso(NOW - 45), running=False), "warn", ["ended"], "warn"),
        (
            status(running=False, sink=FAILED_SINK),
            "bad",
            ["ended within a batch", "1 min 0 s ago: batch 42 was not finished\\x1b[2J"],
            "bad",
        ),
        (status(sink=FAILED_SINK), "bad", ["running", "1 min 0 s ago: batch 42"], "bad"),
        ({"query": "q", "sink": FAILED_SINK}, "bad", ["sink only, which failed", "1 min 0 s ago: "], "bad"),
        # In an earlier run.
        (status(sink=FAILED_SINK | {"failed_at": iso(NOW - 3701)}), "bad", [], "good"),
        ({"query": "q", "sink": SINK}, "good", ["sink only"], "good"),
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
    assert states == [["was", "up"], ["was", "away"]]


def test_a_journal_and_a_sink() -> None:
    sink = {"written_at": iso(NOW - 2), "receipt_p50_seconds": 0.0031, "resent": 7, "blocked_seconds": 12.0}
    journal = {"first": 10, "committed": 4_000, "end": 5_000, "bytes": 12_300_000, "waiting": 3}
    told = shown(status(journal=journal, sink=SINK | sink)).splitlines()
    assert told[-3:] == [
        "journal  first 10   committed 4,000   end 5,000   size 12.3 MB   not durable yet 3",
        "sink     written 2.0 s ago   batch 41   confirmed 12,345   receipts p50 3.1 ms",
        "         resent 7   blocked by the broker 12 s",
    ]


def test_a_sink_alone() -> None:
    told = shown({key: SINK[key] for key in ("version", "query", "run", "host")} | {"sink": SINK})
    assert told == "flights  sink only   run a1 on here\nsink     batch 41   confirmed 12,345"


@pytest.mark.parametrize(
    "failed",
    [{"failure": "why " * 40}, {"unfinished": True}, {"sink": FAILED_SINK | {"failure": "why " * 40}}],
)
def test_what_failed_is_read_in_a_narrow_terminal_too(failed: dict[str, Any]) -> None:
    lines = table(status(running=False, **failed), PATIENCE, None, 60)
    bad = ["".join(part for part, _ in line) for line in lines if line and line[-1][1] == "bad"]
    assert len(bad) > 1 and max(map(len, bad)) <= 60
    assert bad[-1].endswith(("why", "which"))


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 200])
def test_no_line_of_figures_is_wider_than_the_terminal(columns: int) -> None:
    lines = shown(status(receiver(), receiver(AWAY)), columns, 1234.5).splitlines()
    assert all(len(line) <= columns for line in lines[2:])
    rows = [line for line in lines if line.startswith(("RECEIVER", "/queue"))]
    assert len(rows) == 3 and len({len(row) for row in rows}) == 1
    # What matters most goes last.
    assert "UN-ACKED" in rows[0]
    assert ("RECEIVED" in rows[0]) == (columns >= 60)
    assert ("REDELIVERED" in rows[0]) == (columns >= 120)


def test_the_end_of_a_long_name_is_kept() -> None:
    told = shown(status() | {"receivers": {f"/queue/{'x' * 80}.orders#0": receiver()}}, 80)
    assert "…xxx" in told and "x.orders#0" in told


def test_receivers_for_which_there_is_no_room_are_counted() -> None:
    lines = shown(status(*[receiver()] * 50), rows=20).splitlines()
    assert len(lines) <= 20
    assert lines[-1].startswith("and ") and lines[-1].endswith(" more lines of receivers")


def test_a_status_that_lacks_what_an_older_release_did_not_write() -> None:
    told = shown(status() | {"receivers": {"/queue/a#0": {"connected": True}}, "totals": None})
    assert "/queue/a#0" in told
