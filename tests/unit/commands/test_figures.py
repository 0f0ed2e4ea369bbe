"""The table of ``spark-stomp status``: what stands in it, and what goes if there is no room."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from spark_stomp.commands.figures import Health, health, table
from spark_stomp.errors import OffsetError
from spark_stomp.receiver import ReceiverStatus
from spark_stomp.receiver.settings import ConnectionStatus, Counts, PauseStatus
from spark_stomp.source.status import Rows, RunIdentity, document, receiver_figures
from spark_stomp.terminal import Line

PATIENCE = 30.0
NOW = time.time()
CONNECTED = ConnectionStatus(since=NOW - 125, connected=True, connections=1)
AWAY = ConnectionStatus(
    since=NOW - 12,
    connections=1,
    attempts=4,
    last_error="[STOMP_CONNECT_FAILED] cannot connect to b:61613",
    last_error_at=NOW - 1,
)
SINK = {"version": 1, "query": "flights", "run": "a1", "host": "here", "batch": 41, "confirmed": 12_345}


def receiver(connection: ConnectionStatus = CONNECTED, **more: Any) -> dict[str, Any]:
    status = ReceiverStatus("/queue/a#0", "e", True, 5_000, 4_000, 3_000, 0.0, False, None, unacked=1_000)
    figures = receiver_figures(replace(status, connection=connection, **more), None)
    return figures | {"oldest_unacked_seconds": 2.0}


def status(*receivers: dict[str, Any], running: bool = True, **more: Any) -> dict[str, Any]:
    figures = {f"/queue/a#{number}": one for number, one in enumerate(receivers or [receiver()])}
    shown = document(
        RunIdentity("flights", "r1", NOW - 3700), figures, Rows(4_000, 1_000), None, running=running
    )
    return {**shown, "sink": None, **more}


def text(lines: Sequence[Line]) -> str:
    return "\n".join("".join(part for part, _ in line) for line in lines)


def shown(one: dict[str, Any], columns: int = 120, rate: float | None = None, **more: Any) -> str:
    return text(table(one, NOW, PATIENCE, rate, columns, **more))


def coloured(one: dict[str, Any], colour: str) -> str:
    return " ".join(
        part for line in table(one, NOW, PATIENCE, None, 120) for part, its in line if its == colour
    )


def test_a_query_that_runs() -> None:
    told = shown(status(), rate=1234.5)
    assert "flights  running" in told and "run r1 on " in told
    assert "began 1 h 1 min ago, written 0.0 s ago" in told
    assert "rows 4,000   1,234 rows/s   waiting 1,000   un-acked 1,000   oldest 2." in told
    heads, values = told.splitlines()[4:6]
    figures = ["RECEIVED", "COMMITTED", "ACKED", "UN-ACKED", "OLDEST", "AGAIN", "HELD"]
    assert heads.split() == ["RECEIVER", "STATE", *figures]
    assert values.split()[:6] == ["/queue/a#0", "up", "2", "min", "5", "s"]
    assert values.split()[6:10] == ["5,000", "4,000", "3,000", "1,000"]
    assert health(status(), NOW, PATIENCE) is Health.GOOD


def test_a_broker_that_is_away() -> None:
    one = status(receiver(), receiver(AWAY))
    assert "running, 1 of 2 receivers not connected" in coloured(one, "bad")
    assert "away 12 s" in coloured(one, "bad")
    assert "4 attempts failed: [STOMP_CONNECT_FAILED] cannot connect to b:61613" in coloured(one, "bad")
    assert health(one, NOW, PATIENCE) is Health.BAD


def test_one_attempt_of_one_receiver_is_not_in_the_plural() -> None:
    told = shown(status(receiver(replace(AWAY, attempts=1))))
    assert "running, 1 of 1 receiver not connected" in told
    assert "1 attempt failed: " in told


def test_a_broker_that_is_back() -> None:
    back = replace(AWAY, connected=True, connections=2, attempts=0, since=NOW - 3)
    one = status(receiver(back, counts=Counts(redelivered=40)))
    assert "up 3." in coloured(one, "good")
    assert "last error 1.0 s ago: [STOMP_CONNECT_FAILED]" in coloured(one, "dim")
    assert "reconnects 1   redelivered 40" in coloured(one, "warn")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"window_full": True}, "window full"),
        ({"window_full": True, "pause": PauseStatus(NOW - 5, 1_500_000, 500_000)}, "paused 5.0 s"),
    ],
)
def test_a_receiver_that_gets_nothing(more: dict[str, Any], words: str) -> None:
    assert words in coloured(status(receiver(**more)), "warn")


def test_a_query_that_ended() -> None:
    one = status(running=False)
    assert "flights  ended" in shown(one)
    assert health(one, NOW, PATIENCE) is Health.OVER


def test_a_query_that_ended_within_a_batch() -> None:
    one = status(running=False, unfinished=True)
    assert "flights  ended within a batch" in shown(one)
    assert "its last batch is not committed" in coloured(one, "bad")
    assert health(one, NOW, PATIENCE) is Health.BAD


def test_connections_of_a_query_that_is_over_are_past() -> None:
    """Nobody counts how long ago they stood or broke."""
    for one in (status(receiver(), receiver(AWAY), running=False), gone(receiver(), receiver(AWAY))):
        states = [line.split()[1:3] for line in shown(one).splitlines() if line.startswith("/queue/a#")]
        assert states == [["was", "up"], ["was", "away"]]


def test_a_query_that_failed() -> None:
    one = status(running=False, failure=str(OffsetError("no such offset\x1b[2J")))
    assert "flights  failed" in shown(one)
    assert "[STOMP_OFFSET_INVALID] no such offset\\x1b[2J" in coloured(one, "bad")
    assert health(one, NOW, PATIENCE) is Health.BAD


def ago(seconds: float) -> str:
    return datetime.fromtimestamp(NOW - seconds, timezone.utc).isoformat()


def gone(*receivers: dict[str, Any]) -> dict[str, Any]:
    # Half a second more than is shown, which is cut: a time in a status is rounded.
    return status(*receivers, written_at=ago(45.5))


def test_a_query_that_is_gone() -> None:
    one = gone()
    assert "gone? no sign of life for 45 s" in coloured(one, "bad")
    assert health(one, NOW, PATIENCE) is Health.BAD
    # An ended one writes no more.
    assert health({**one, "running": False}, NOW, PATIENCE) is Health.OVER


def test_a_journal_and_a_sink() -> None:
    sink = {
        **SINK,
        "written_at": ago(2),
        "receipt_p50_seconds": 0.0031,
        "resent": 7,
        "blocked_seconds": 12.0,
    }
    journal = {"first": 10, "committed": 4_000, "end": 5_000, "bytes": 12_300_000, "waiting": 3}
    one = status(journal=journal, sink=sink)
    told = shown(one)
    assert "journal  12.3 MB   positions 10 to 5,000   committed 4,000   not durable yet 3" in told
    assert "sink     confirmed 12,345   batch 41, 2.0 s ago   receipts p50 3.1 ms" in told
    assert "resent 7   waited 12 s for a blocked broker" in coloured(one, "warn")


def test_a_sink_alone() -> None:
    one = {key: SINK[key] for key in ("version", "query", "run", "host")} | {"sink": SINK}
    told = shown(one)
    assert "flights  sink only   run a1 on here" in told and "confirmed 12,345" in told
    assert "RECEIVER" not in told and "rows" not in told
    assert health(one, NOW, PATIENCE) is Health.GOOD


def test_a_sink_that_failed() -> None:
    failed = {"sink": {**SINK, "failure": "batch 42 was not finished\x1b[2J", "failed_at": ago(60.5)}}
    for one, word in (
        (status(running=False, **failed), "ended within a batch"),
        (status(**failed), "running"),
        ({"version": 1, "query": "flights", **failed}, "sink only, which failed"),
    ):
        assert f"flights  {word}  " in shown(one)
        assert "1 min 0 s ago: batch 42 was not finished\\x1b[2J" in coloured(one, "bad")
        assert health(one, NOW, PATIENCE) is Health.BAD


@pytest.mark.parametrize(
    "failed",
    [
        {"failure": "why " * 40},
        {"unfinished": True},
        {"sink": {**SINK, "failure": "why " * 40, "failed_at": ago(5)}},
    ],
)
def test_what_failed_is_read_in_a_narrow_terminal_too(failed: dict[str, Any]) -> None:
    lines = table(status(running=False, **failed), NOW, PATIENCE, None, 60)
    bad = ["".join(part for part, _ in line) for line in lines if line and line[-1][1] == "bad"]
    assert len(bad) > 1 and max(map(len, bad)) <= 60
    assert bad[-1].endswith(("why", "which"))


def test_a_sink_that_failed_in_an_earlier_run() -> None:
    one = status(sink={**SINK, "failure": "batch 42 was not finished", "failed_at": ago(3701)})
    assert "not finished" not in shown(one)
    assert health(one, NOW, PATIENCE) is Health.GOOD


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 200])
def test_no_row_of_figures_is_wider_than_the_terminal(columns: int) -> None:
    lines = table(status(receiver(), receiver(AWAY)), NOW, PATIENCE, None, columns)
    rows = ["".join(part for part, _ in line) for line in lines if text([line]).startswith(("REC", "/queue"))]
    assert len(rows) == 3
    assert all(len(row) <= columns for row in rows)
    assert len({len(row) for row in rows}) == 1
    # What matters most goes last.
    assert "UN-ACKED" in rows[0]
    assert ("RECEIVED" in rows[0]) == (columns >= 60)
    assert ("AGAIN" in rows[0]) == (columns >= 120)


def test_the_end_of_a_long_name_is_kept() -> None:
    one = status()
    one["receivers"] = {f"/queue/{'x' * 80}.orders#0": receiver()}
    assert "…xxx" in shown(one, 80)
    assert "x.orders#0" in shown(one, 80)


def test_receivers_for_which_there_is_no_room_are_counted() -> None:
    lines = shown(status(*[receiver()] * 50), rows=20).splitlines()
    assert len(lines) <= 20
    assert lines[-1].startswith("and ") and lines[-1].endswith(" more lines of receivers")


def test_a_status_that_lacks_what_an_older_release_did_not_write() -> None:
    one = status()
    one["receivers"] = {"/queue/a#0": {"connected": True}}
    one["totals"] = None
    assert "/queue/a#0" in shown(one)
