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

from spark_stomp.commands.diagnosis import _LAST as RUN
from spark_stomp.commands.diagnosis import Diagnosis, Health, diagnose
from spark_stomp.commands.screen import Screen
from spark_stomp.commands.status import table
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
BACK = replace(AWAY, connected=True, connections=2, reconnects=1, attempts=0, since=NOW - 3)
WAITING = Waiting("spark", "Spark, in batch 12 of 1,000 messages")
OBSERVED = Observed(WAITING, NOW - 21, received_per_second=4600.0, committed_per_second=1234.5)
UNFIT = {"bodies": 12, "reason": "price is a string", "first_at": iso(NOW - 600), "last_at": iso(NOW)}
SINK = {"version": 1, "query": "flights", "run": "a1", "host": "here", "batch": 41, "confirmed": 12_345}
FAILED_SINK = {**SINK, "failure": "batch 42 was not finished\x1b[2J", "failed_at": iso(NOW - 60)}


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)


def receiver(connection: ConnectionStatus = CONNECTED, **more: Any) -> dict[str, Any]:
    status = ReceiverStatus("/queue/a#0", True, 1_000, 5_000, 4_000, 3_000, 0.0, False, None, unacked=1_000)
    return ReceiverPart(replace(status, connection=connection, **more), NOW - 2).shown()


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


def diagnosed(one: dict[str, Any]) -> Diagnosis:
    return diagnose(one, PATIENCE)


def test_a_query_that_runs() -> None:
    head, *facts, titles, values = shown(status(), 180).splitlines()
    assert head.startswith("flights  running   run r1 on ")
    assert [line.split("  ")[0] for line in facts] == ["query", "totals", ""]
    assert cells(facts) == [
        *("waits for spark", "batch began -", "last commit -", "began 1 h 1 min ago", "written 0.0 s ago"),
        *("rows 4,000", "committed/s 1,234.5", "received/s 4,600.0", "waiting 1,000", "more waiting no"),
        *("withheld 0", "oldest 2.0 s ago", "received 5,000", "committed 4,000", "acked 3,000"),
        "un-acked 1,000",
    ]
    columns = ["RECEIVED", "COMMITTED", "ACKED", "UN-ACKED", "OLDEST", "HELD", "REDELIVERED"]
    assert titles.split() == ["RECEIVER", "STATE", *columns]
    figures = ["5,000", "4,000", "3,000", "1,000", "2.0", "s", "0", "bytes", "0"]
    assert values.split() == ["/queue/a#0", "up", "2", "min", "5", "s", *figures]


def cells(lines: list[str]) -> list[str]:
    """The labels with their values, without the names of the parts."""
    return [cell for line in lines for cell in re.split(" {2,}", line[12:].strip())]


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_everything_stays_in_its_place(columns: int) -> None:
    """Whatever the values are."""
    later = receiver(replace(CONNECTED, since=NOW - 86_000), received=98_765_432)
    full = status(later, batch_since=iso(NOW - 90_000), last_commit_at=iso(NOW - 4_000))
    full["totals"] |= {"rows": 123_456_789, "received_per_second": 123_456.7}
    empty = status(receiver(received=0, acked=0, ackable=0, unacked=0), waiting_on=None)
    empty["totals"] = dict.fromkeys(empty["totals"], 0)
    before, after = (shown(one, columns).splitlines() for one in (empty, full))
    assert len(before) == len(after)
    labels = ("batch began", "rows", "committed/s", "received/s", "waiting", "un-acked", "RECEIVED", "OLDEST")
    for label in labels:
        places = [[line.find(label) for line in lines if label in line] for lines in (before, after)]
        assert places[0] == places[1] and (places[0] or columns < 100), label


def test_what_went_wrong_last_and_when() -> None:
    other = replace(AWAY, last_error="[STOMP_HEARTBEAT_LOST] nothing came", last_error_at=NOW - 700)
    text = shown(status(receiver(), receiver(AWAY), receiver(BACK), receiver(other), sink=FAILED_SINK), 120)
    assert re.findall(r"^last error +(.*)$", text, re.MULTILINE) == [
        r"1 min 0 s ago, sink: batch 42 was not finished\x1b[2J",
        "1.0 s ago, /queue/a#1 and 1 more: [STOMP_CONNECT_FAILED] cannot connect to b:61613",
        "11 min 40 s ago, /queue/a#3: [STOMP_HEARTBEAT_LOST] nothing came",
    ]
    failed = status(running=False, error=OffsetError("no such offset"))
    assert "last error  0.0 s ago, query: [STOMP_OFFSET_INVALID] no such offset" in shown(failed)
    kept = {"failure": "OSError: it is full", "failed_at": iso(NOW - 3)}
    assert "last error  3.0 s ago, query: OSError: it is full" in shown(status(running=False, ended=kept))


@pytest.mark.parametrize(
    ("one", "health", "style", "headline", "text"),
    [
        (
            status(),
            Health.FINE,
            "green",
            "running",
            "it has waited for 21 s for Spark, in batch 12 of 1,000 messages",
        ),
        (
            status(unfit={"/queue/a": UNFIT}),
            Health.FINE,
            "green",
            "running",
            "it has waited for 21 s for Spark, in batch 12 of 1,000 messages. 12 bodies of /queue/a since "
            "2027-01-15 07:50 UTC do not fit, the first: price is a string",
        ),
        (
            status(receiver(), unfit={"/queue/b": {**UNFIT, "bodies": 1}, "/queue/a#": UNFIT}),
            Health.FINE,
            "green",
            "running",
            "it has waited for 21 s for Spark, in batch 12 of 1,000 messages. 12 bodies of /queue/a# since "
            "2027-01-15 07:50 UTC do not fit, the first: price is a string, and bodies of 1 other "
            "destination",
        ),
        (
            status(
                {**receiver(), "destinations": ["/queue/a"]}, unfit={"/queue/a": {**UNFIT, "bodies": 100}}
            ),
            Health.FINE,
            "green",
            "running",
            "it has waited for 21 s for Spark, in batch 12 of 1,000 messages. 2 % of the bodies of /queue/a "
            "since 2027-01-15 07:50 UTC do not fit, the first: price is a string",
        ),
        (
            status(receiver(paused_since=NOW - 5)),
            Health.SLOW,
            "green",
            "running",
            "it has waited for 21 s for Spark, in batch 12 of 1,000 messages",
        ),
        (
            status(batch_since=iso(NOW - 1_900)),
            Health.SLOW,
            "green",
            "running",
            "it has waited for 21 s for Spark, in batch 12 of 1,000 messages",
        ),
        (
            status(
                waiting_on="acks", waiting_for="the broker: receipts of ACKs", waiting_since=iso(NOW - 40)
            ),
            Health.BLOCKED,
            "green",
            "running",
            "it has waited for 40 s for the broker: receipts of ACKs",
        ),
        (
            status(waiting_on="acks", waiting_for="the broker: receipts of ACKs"),
            Health.FINE,
            "green",
            "running",
            "it has waited for 21 s for the broker: receipts of ACKs",
        ),
        (
            status(waiting_on="queue", waiting_for="the broker: a first message in /queue/ordrs"),
            Health.QUEUE,
            "green",
            "running",
            "it has waited for 21 s for the broker: a first message in /queue/ordrs",
        ),
        (
            status(receiver(heard_at=NOW - 44)),
            Health.FINE,
            "green",
            "running",
            "it has waited for 21 s for Spark, in batch 12 of 1,000 messages. Nothing was heard from the "
            "broker for 44 s",
        ),
        (status(waiting_for=None), Health.FINE, "green", "running", "it works, with 4,600 messages a second"),
        (
            status(receiver(), receiver(AWAY)),
            Health.CONNECTION,
            "red",
            "running, 1 of 2 receivers not connected",
            "no connection for /queue/a#1 for 12 s, 4 attempts failed: [STOMP_CONNECT_FAILED] cannot connect "
            "to b:61613",
        ),
        (
            status(running=False),
            Health.FINE,
            "yellow",
            "ended",
            f"{RUN} ended in order 0.0 s ago. 1,000 messages in no committed batch: the next run gets them "
            "again",
        ),
        (
            status(running=False, totals={"withheld": 201}),
            Health.WITHHELD,
            "red",
            "ended, and messages wait",
            f"{RUN} ended 0.0 s ago without 201 messages that wait at the broker, that nobody has, "
            "and that did not come",
        ),
        (
            status(waiting_on="withheld", waiting_for="the broker: 201 messages that wait there"),
            Health.WITHHELD,
            "green",
            "running",
            "it has waited for 21 s for the broker: 201 messages that wait there",
        ),
        (
            status(running=False, unfinished=True, totals={}),
            Health.UNFINISHED,
            "red",
            "ended within a batch",
            f"{RUN} ended 0.0 s ago, and no commit of its last batch was seen: the query failed, in its sink "
            "for example, or was stopped just then; or a one-time run had no checkpointLocation to look at",
        ),
        (
            status(running=False, error=OffsetError("no such offset")),
            Health.FAILED,
            "red",
            "failed",
            f"{RUN} failed 0.0 s ago: [STOMP_OFFSET_INVALID] no such offset",
        ),
        (
            status(written_at=iso(NOW - 45), pid=7, host="there"),
            Health.GONE,
            "red",
            "gone? no sign of life for 45 s",
            f"{RUN}: its process 7 on there was killed, or the machine is away. It wrote its last status 45 "
            "s ago, when it waited for Spark, in batch 12 of 1,000 messages. What was not committed comes "
            "again at the next start",
        ),
        (
            status(running=False, sink=FAILED_SINK, totals={}),
            Health.UNFINISHED,
            "red",
            "ended within a batch",
            "1 min 0 s ago batch 42 was not finished\x1b[2J",
        ),
        (
            status(sink=FAILED_SINK),
            Health.UNFINISHED,
            "red",
            "running",
            "1 min 0 s ago batch 42 was not finished\x1b[2J. Now it waits for Spark, in batch 12 of 1,000 "
            "messages",
        ),
        # In an earlier run.
        (
            status(sink=FAILED_SINK | {"failed_at": iso(NOW - 3701)}),
            Health.FINE,
            "green",
            "running",
            "it has waited for 21 s for Spark, in batch 12 of 1,000 messages",
        ),
        (
            {"query": "q", "sink": FAILED_SINK},
            Health.UNFINISHED,
            "red",
            "sink only, which failed",
            "1 min 0 s ago batch 42 was not finished\x1b[2J",
        ),
        (
            {"query": "q", "sink": SINK | {"written_at": iso(NOW - 5)}},
            Health.FINE,
            "green",
            "sink only",
            "only its sink writes a status, and that finished batch 41 5.0 s ago",
        ),
    ],
)
def test_how_a_query_is(one: dict[str, Any], health: Health, style: str, headline: str, text: str) -> None:
    assert replace(diagnosed(one), code=None) == Diagnosis(health, style, headline, text)
    assert headline in coloured(one, style)
    assert ("spark-stomp why says more" in shown(one)) == (style == "red")


@pytest.mark.parametrize(
    ("one", "colour", "words"),
    [
        (status(), "green", "up 2 min 5 s"),
        (status(receiver(), receiver(AWAY)), "red", "away 12 s"),
        (status(receiver(BACK, counts=Counts(redelivered=4))), "yellow", "reconnects 1 redelivered 4"),
        (status(receiver(window_full=True)), "yellow", "window full"),
        (status(receiver(window_full=True, paused_since=NOW - 5)), "yellow", "paused 5.0 s"),
    ],
)
def test_what_is_coloured(one: dict[str, Any], colour: str, words: str) -> None:
    assert words in re.sub(" +", " ", coloured(one, colour))


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
    assert diagnosed(gone).headline == "gone: its process has ended without a word"
    assert "was up" in shown(gone)
    assert not re.search("/s |waits for", shown(gone))
    assert diagnosed(gone | {"host": "other"}).headline == "running"
    assert diagnosed(gone | {"running": False}).headline == "ended"


def test_a_journal_and_a_sink() -> None:
    sink = {"written_at": iso(NOW - 2), "receipt_p50_seconds": 0.0031, "resent": 7, "blocked_seconds": 12.0}
    journal = {"first": 10, "committed": 4_000, "end": 5_000, "bytes": 12_300_000, "waiting": 3}
    rows = shown(status(journal=journal, sink=SINK | sink), 180).splitlines()
    assert cells(rows[4:7]) == [
        *(
            "first 10",
            "committed 4,000",
            "end 5,000",
            "size 12.3 MB",
            "not durable yet 3",
            "written 2.0 s ago",
        ),
        *("batch 41", "confirmed 12,345", "receipts p50 3.1 ms", "p99 -", "resent 7", "blocked 12 s"),
    ]


def test_a_sink_alone() -> None:
    text = shown({key: SINK[key] for key in ("version", "query", "run", "host")} | {"sink": SINK}, 180)
    head, facts = text.splitlines()
    assert head == "flights  sink only   run a1 on here"
    assert cells([facts]) == ["written -", "batch 41", "confirmed 12,345", "receipts p50 -", "p99 -"]


def test_cells_do_not_touch() -> None:
    text = shown(status(sink=SINK | {"confirmed": 10**19}), 80)
    assert re.search(r"confirmed 10,000,000\S+  receipts p50 -", text), text


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
    text = shown(status() | {"receivers": {f"/queue/{'x' * 80}.orders#0": receiver()}}, 80)
    names = [line.split("  ")[0] for line in text.partition("RECEIVER")[2].splitlines()[1:]]
    assert "".join(names) == f"/queue/{'x' * 80}.orders#0"


def test_receivers_for_which_there_is_no_room_are_counted() -> None:
    lines = shown(status(*[receiver()] * 50), most=20).splitlines()
    assert sum(line.startswith("/queue/a#") for line in lines) == 20
    assert lines[-1] == "and 30 more receivers"


def test_a_status_that_lacks_what_an_older_release_did_not_write() -> None:
    text = shown(status() | {"receivers": {"/queue/a#0": {"connected": True}}, "totals": None})
    assert "/queue/a#0" in text
