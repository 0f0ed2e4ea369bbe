"""What ``spark-stomp why`` says of each state of a query, from its files alone."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from spark_stomp.commands.diagnosis import Health
from spark_stomp.commands.main import main
from spark_stomp.errors import DestinationRefused, JournalFull, LoginRefused, OffsetError, StompError
from spark_stomp.status.end import JVM_ENDED, keep_end
from spark_stomp.status.figure import iso

NOW = 1_800_000_000.0
AGO = iso(NOW - 40)
LAST = "its last run (a new one shows here up to a minute after its start)"
AGAIN = "then start the query again: what was not committed comes again"
UI = "Spark's UI (port 4040 of there, Structured Streaming) shows what the batch does"
RUNS = {"running": True, "waiting_since": AGO}
SILENT = {**RUNS, "waiting_on": "broker", "waiting_for": "the broker: nothing un-acked and nothing new"}
UP = {"connected": True, "destinations": ["/queue/a"]}
ENDED = {"running": False, "started_at": iso(NOW - 900)}
REFUSED = LoginRefused("b:61613 refused CONNECT: Bad CONNECT. Correct login and password")
DENIED = DestinationRefused("the broker at b:61613 refused SEND to /queue/dead: access refused")
NOT_READ = DestinationRefused("the broker at b:61613 refused SUBSCRIBE to /queue/a: access refused")
SINK = {"version": 1, "query": "orders", "run": "r", "host": "there", "batch": 41}


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``orders`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders" / "spark_stomp").mkdir(parents=True)
    return Path("orders")


def write(checkpoint: Path, name: str = "status.json", **keys: object) -> None:
    (checkpoint / "spark_stomp" / name).write_text(json.dumps(keys))


def of_source(**keys: object) -> dict[str, object]:
    receivers = {"/queue/a#0": {"connected": True, "destinations": ["/queue/a"]}}
    base = {"version": 1, "query": "orders", "host": "there", "pid": 7, "written_at": iso(NOW - 1)}
    return {**base, "receivers": receivers, **keys}


def failed(error: StompError, **keys: object) -> dict[str, object]:
    return {**ENDED, "failed": True, "failure": str(error), "failure_code": error.code, **keys}


def says(capsys: pytest.CaptureFixture[str], checkpoint: Path) -> tuple[int, str, str]:
    """The exit code, the first line and the third."""
    capsys.readouterr()
    code = main(["why", str(checkpoint), "--offline"])
    facts = dict(re.findall(r"^(\w+) +(.*)$", capsys.readouterr().out, re.MULTILINE))
    assert facts["broker"].startswith("not asked: ")
    return code, facts["why"].removeprefix("orders: "), facts["next"]


STATES: dict[str, tuple[dict[str, Any], Health, str, str]] = {
    "works": (
        {"running": True, "totals": {"received_per_second": 4_600.0}},
        Health.FINE,
        "it works, with 4,600 messages a second",
        "nothing; spark-stomp status orders shows how it goes on",
    ),
    "Spark has not asked yet": (
        {**RUNS, "waiting_on": "spark", "waiting_for": "Spark, which has asked for no batch yet"},
        Health.FINE,
        "it has waited for 40 s for Spark, which has asked for no batch yet",
        "nothing, it is starting; spark-stomp status orders shows how it goes on",
    ),
    "in a batch": (
        {
            **RUNS,
            "waiting_on": "spark",
            "waiting_for": "Spark, in batch 12 of 9 messages",
            "batch_since": AGO,
        },
        Health.FINE,
        "it has waited for 40 s for Spark, in batch 12 of 9 messages",
        UI,
    ),
    "in a batch for long": (
        {**RUNS, "waiting_on": "spark", "waiting_for": "Spark, in batch 12", "batch_since": iso(NOW - 3600)},
        Health.SLOW,
        "it has waited for 40 s for Spark, in batch 12",
        UI,
    ),
    "between batches": (
        {**RUNS, "waiting_on": "trigger", "waiting_for": "Spark's next trigger: 7 messages wait for it"},
        Health.FINE,
        "it has waited for 40 s for Spark's next trigger: 7 messages wait for it",
        "nothing, or set a shorter trigger",
    ),
    "a minimum": (
        {**RUNS, "waiting_on": "messages", "waiting_for": "990 more messages"},
        Health.FINE,
        "it has waited for 40 s for 990 more messages",
        "nothing, or set a shorter maxTriggerDelay",
    ),
    "no evidence": (
        {**RUNS, "waiting_on": "commit", "waiting_for": "the commit of the last batch"},
        Health.FINE,
        "it has waited for 40 s for the commit of the last batch",
        "set checkpointLocation of the source to the checkpoint of the query",
    ),
    "the journal is slow": (
        {**RUNS, "waiting_on": "journal", "waiting_for": "the journal", "options": {"journal": "/my disk/j"}},
        Health.FINE,
        "it has waited for 40 s for the journal",
        "df -h '/my disk/j'  # on there, the journal's disk: it is slow, or journalMaxBytes is reached",
    ),
    "a queue that was not there": (
        {**RUNS, "waiting_on": "queue", "waiting_for": "the broker: a first message in /queue/ordrs"},
        Health.QUEUE,
        "it has waited for 40 s for the broker: a first message in /queue/ordrs",
        "correct the name in load(...), start again, and delete the queue that the mistake made",
    ),
    "a queue that was deleted": (
        {**RUNS, "waiting_on": "deleted", "waiting_for": "the broker: a first message in /queue/a"},
        Health.QUEUE,
        "it has waited for 40 s for the broker: a first message in /queue/a",
        "stop the query, delete the queue that it has made, declare it as it was, and start again",
    ),
    "no receipts": (
        {**RUNS, "waiting_on": "acks", "waiting_for": "the broker: receipts of ACKs"},
        Health.BLOCKED,
        "it has waited for 40 s for the broker: receipts of ACKs",
        "its memory or disk may be full: read its log",
    ),
    "messages that do not come": (
        {**RUNS, "waiting_on": "withheld", "waiting_for": "the broker: 5 messages"},
        Health.WITHHELD,
        "it has waited for 40 s for the broker: 5 messages",
        "look at the queue in the broker's management: ",
    ),
    "nothing has come": (
        {**SILENT, "receivers": {"/queue/a#0": {**UP, "received": 0}}},
        Health.FINE,
        "it has waited for 40 s for the broker: nothing un-acked and nothing new",
        "nothing has come in this run: if something should have, check the name; spark-stomp status orders "
        "shows how it goes on",
    ),
    "all that came is committed": (
        {**SILENT, "receivers": {"/queue/a#0": {**UP, "received": 7}}},
        Health.FINE,
        "it has waited for 40 s for the broker: nothing un-acked and nothing new",
        "nothing; spark-stomp status orders shows how it goes on",
    ),
    "bodies that do not fit": (
        {**SILENT, "unfit": {"/queue/a": {"bodies": 3, "reason": "id is a string", "first_at": AGO}}},
        Health.FINE,
        "it has waited for 40 s for the broker: nothing un-acked and nothing new. 3 bodies of /queue/a since "
        "2027-01-15 07:59 UTC do not fit, the first: id is a string",
        "group the rows by malformed to see the reasons",
    ),
    "away": (
        {
            **RUNS,
            "receivers": {
                "/queue/a#0": {"disconnected_since": AGO, "attempts": 3, "last_error": str(REFUSED)}
            },
            "options": {"url": "stomp://b", "login": "ada"},
        },
        Health.CONNECTION,
        f"no connection for /queue/a#0 for 40 s, 3 attempts failed: {REFUSED}",
        "spark-stomp probe stomp://b --login ada",
    ),
    "ended in order": (
        ENDED,
        Health.FINE,
        f"{LAST} ended in order 1.0 s ago",
        "start the query again, and it goes on where it was; if it was just started, wait a minute",
    ),
    "ended without messages that wait": (
        {**ENDED, "totals": {"withheld": 5}},
        Health.WITHHELD,
        f"{LAST} ended 1.0 s ago without 5 messages that wait at the broker, that nobody has, and that did "
        "not come",
        "look at the queue in the broker's management: ",
    ),
    "ended within a batch": (
        {**ENDED, "unfinished": True},
        Health.UNFINISHED,
        f"{LAST} ended 1.0 s ago, and no commit of its last batch was seen: the query failed, in its sink "
        "for example, or was stopped just then; or a one-time run had no checkpointLocation to look at",
        "read the error where the program printed it, or query.exception(); "
        f"spark_stomp.reason(error, 'orders') in it would have kept it for this line; {AGAIN}",
    ),
    "killed": (
        {**RUNS, "written_at": iso(NOW - 90), "waiting_for": "Spark, in batch 12"},
        Health.GONE,
        f"{LAST}: its process 7 on there was killed, or the machine is away. It wrote its last status 1 min "
        "30 s ago, when it waited for Spark, in batch 12. What was not committed comes again at the next "
        "start",
        "dmesg -T | grep -i 'killed process'  # on there: out of memory",
    ),
    "refused": (
        failed(REFUSED, options={"url": "stomp://b", "login": "ada"}),
        Health.FAILED,
        f"{LAST} failed 1.0 s ago: {REFUSED}",
        f"spark-stomp probe stomp://b --login ada; {AGAIN}",
    ),
    "a SEND that is refused": (
        failed(DENIED, options={"url": "stomp://b", "login": "ada"}),
        Health.FAILED,
        f"{LAST} failed 1.0 s ago: {DENIED}",
        f"give its login the right to write to /queue/dead, or name another queue; {AGAIN}",
    ),
    "a SUBSCRIBE that is refused": (
        failed(NOT_READ, options={"url": "stomp://b", "login": "ada"}),
        Health.FAILED,
        f"{LAST} failed 1.0 s ago: {NOT_READ}",
        f"spark-stomp probe stomp://b --login ada; {AGAIN}",
    ),
    "a full disk": (
        failed(JournalFull("/j: 914 bytes were wanted, and 100 are free"), options={"journal": "/j"}),
        Health.FAILED,
        f"{LAST} failed 1.0 s ago: [STOMP_JOURNAL_FULL] /j: 914 bytes were wanted, and 100 are free",
        f"df -h /j  # on there, the journal's disk: make room for what it wanted; {AGAIN}",
    ),
    "another error": (
        failed(OffsetError("no such offset")),
        Health.FAILED,
        f"{LAST} failed 1.0 s ago: [STOMP_OFFSET_INVALID] no such offset",
        f"correct what the error says; {AGAIN}",
    ),
    "an error without a code, which quotes others": (
        {**ENDED, "failure": "[STOMP_LOGIN_REFUSED] No space left"},
        Health.FAILED,
        f"{LAST} failed 1.0 s ago: [STOMP_LOGIN_REFUSED] No space left",
        f"correct what the error says; {AGAIN}",
    ),
    "shared": (
        {"running": True, "shares_with": ["odd"]},
        Health.FINE,
        "it works, with 0 messages a second. Another source of its program (query odd) reads a queue of it "
        "too: each gets a part of the messages",
        "read the queue once: one DataFrame in one query, foreachBatch, or a table that others read",
    ),
}


@pytest.mark.parametrize(("keys", "health", "why", "step"), STATES.values(), ids=STATES)
def test_what_it_says(
    checkpoint: Path,
    capsys: pytest.CaptureFixture[str],
    keys: dict[str, Any],
    health: Health,
    why: str,
    step: str,
) -> None:
    write(checkpoint, **of_source(**keys))
    code, text, following = says(capsys, checkpoint)
    assert (code, text) == (health.value, why)
    # Two end in what the broker is like.
    assert following == step or (following.startswith(step) and health in (Health.WITHHELD, Health.GONE))


class TestWhatTheProgramHasKept:
    """``reason(error, checkpoint)`` in the program: Spark tells nobody else why a query failed."""

    ERROR = "OSError: [Errno 28] No space left on device: '/tables/orders'"

    def test_an_error_of_any_sink(self, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(checkpoint, **of_source(**ENDED, unfinished=True))
        keep_end(str(checkpoint), self.ERROR, None)
        expected = f"{LAST} failed 0.0 s ago: {self.ERROR}", f"correct what the error says; {AGAIN}"
        assert says(capsys, checkpoint) == (Health.FAILED.value, *expected)

    def test_the_sinks_own_words_say_less(self, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(checkpoint, **of_source(**ENDED, unfinished=True))
        sink = {**SINK, "failure": "batch 42 was not finished: Spark's log says why", "failed_at": AGO}
        write(checkpoint, "status.sink.json", **sink)
        code, why, _ = says(capsys, checkpoint)
        assert (code, why) == (Health.UNFINISHED.value, f"40 s ago {sink['failure']}")
        keep_end(str(checkpoint), str(REFUSED), REFUSED.code)
        code, why, step = says(capsys, checkpoint)
        assert (code, why) == (Health.FAILED.value, f"{LAST} failed 0.0 s ago: {REFUSED}")
        assert step.startswith("spark-stomp probe ")

    def test_the_jvm_has_ended(self, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(checkpoint, **of_source(**ENDED, unfinished=True))
        keep_end(str(checkpoint), JVM_ENDED, None)
        code, why, step = says(capsys, checkpoint)
        assert (code, why) == (Health.GONE.value, f"{LAST} failed 0.0 s ago: {JVM_ENDED}")
        assert step.startswith("dmesg -T | grep -i 'killed process'  # on there: ")

    def test_the_login_of_a_sink(self, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(checkpoint, **of_source(**ENDED, unfinished=True))
        write(checkpoint, "status.sink.json", **SINK, options={"login": "eve"})
        keep_end(str(checkpoint), str(DENIED), DENIED.code)
        _, _, step = says(capsys, checkpoint)
        assert step.startswith("give eve the right to write to /queue/dead, or name another queue; ")

    def test_it_failed_before_its_source(self, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
        keep_end(str(checkpoint), self.ERROR, None)
        assert main(["why", str(checkpoint)]) == Health.FAILED.value
        printed = capsys.readouterr().out
        assert "broker  not asked: the query failed before its source had started\n" in printed

    def test_a_query_that_has_never_run(self, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
        keep_end(str(checkpoint), self.ERROR, None)
        code, why, _ = says(capsys, checkpoint)
        assert (code, why) == (Health.FAILED.value, f"{LAST} failed 0.0 s ago: {self.ERROR}")

    @pytest.mark.parametrize("began", [NOW + 1, NOW - 9], ids=["the next one", "one that goes on"])
    def test_a_run_that_it_has_not_ended(
        self, checkpoint: Path, capsys: pytest.CaptureFixture[str], began: float
    ) -> None:
        keep_end(str(checkpoint), self.ERROR, None)
        write(checkpoint, **of_source(running=True, started_at=iso(began)))
        assert says(capsys, checkpoint)[0] == Health.FINE.value

    def test_the_next_run_ended_in_order(self, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
        keep_end(str(checkpoint), self.ERROR, None)
        write(checkpoint, **of_source(running=False, started_at=iso(NOW + 1)))
        assert says(capsys, checkpoint)[0] == Health.FINE.value

    def test_a_later_batch_of_the_sink(self, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
        keep_end(str(checkpoint), self.ERROR, None)
        write(checkpoint, "status.sink.json", **SINK, written_at=iso(NOW + 1))
        assert says(capsys, checkpoint)[0] == Health.FINE.value

    def test_nothing_is_made_where_nothing_is(self, tmp_path: Path) -> None:
        keep_end(str(tmp_path / "not there"), self.ERROR, None)
        assert [*tmp_path.iterdir()] == []

    def test_a_place_that_cannot_be_written(self, checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
        (checkpoint / "spark_stomp" / "status.end.json").mkdir()
        keep_end(str(checkpoint), self.ERROR, None)
        assert "the status at orders does not get the error: " in caplog.text
