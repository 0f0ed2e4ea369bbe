"""Batches larger than the un-acked window, and runs that end with less than all there is (contract 5)."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest
from support.driven import Json, Run
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.receiver import Deliveries
from spark_stomp.source.offsets import Offset
from spark_stomp.source.planning import Mode, Situation
from spark_stomp.source.query import QueryRuntime

QUEUE = "/queue/a"
BODIES = [b"%d" % number + b"x" * 200 for number in range(600)]


@pytest.fixture
def options(devbroker: DevBroker, tmp_path: Path) -> dict[str, str]:
    """A backlog of 60 windows; the journal is enough for an ACK."""
    devbroker.publish_many(QUEUE, BODIES)
    return {
        "url": devbroker.url,
        "destination": QUEUE,
        "prefetch": "10",
        "journal": str(tmp_path / "journal"),
        "ackAfter": "journal",
    }


def once(run: Run) -> list[bytes]:
    """The bodies of the only batch, asked for as Spark 4.0 and 4.1 do."""
    run.end = run.reader.latestOffset()
    return [row["body"] for row in run.read()]


class TestTheFirstBatch:
    """With the option ``drain``."""

    @pytest.mark.rule("5.8")
    @pytest.mark.parametrize("start", [None, {"version": 2, "logs": {}}], ids=["4.0", "4.2"])
    def test_takes_all_there_is(
        self,
        options: dict[str, str],
        devbroker: DevBroker,
        caplog: pytest.LogCaptureFixture,
        start: Json | None,
    ) -> None:
        with (
            caplog.at_level(logging.INFO, "spark_stomp"),
            Run(options, drain=True, idleTimeout="500ms", maxBufferedBytes="4k") as run,
        ):
            run.end = run.reader.latestOffset(start, None)
            assert [row["body"] for row in run.read()] == BODIES
            assert devbroker.queue(QUEUE).acked == len(BODIES)
            assert not run.status.more_waiting
        assert caplog.text.count("ended because of idleTimeout") == 1
        assert "more messages are probably waiting" not in caplog.text

    @pytest.mark.rule("5.8", "5.9")
    @pytest.mark.parametrize(
        ("limit", "reason"),
        [
            ({"maxMessagesPerTrigger": 50}, "maxMessagesPerTrigger"),
            ({"journalMaxBytes": "64k"}, "journalMaxBytes"),
        ],
    )
    def test_ends_at_a_bound_and_says_so(
        self, options: dict[str, str], caplog: pytest.LogCaptureFixture, limit: Json, reason: str
    ) -> None:
        with Run(options, drain=True, idleTimeout="20s", **limit) as run:
            assert 0 < len(once(run)) < len(BODIES)
            assert run.status.more_waiting
            assert run.status.document["totals"]["more_waiting"]
        assert f"ended because of {reason}" in caplog.text
        assert "more messages are probably waiting" in caplog.text

    @pytest.mark.rule("5.9")
    def test_on_42_does_not_say_that_more_is_left_since_the_run_goes_on(
        self, options: dict[str, str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """AvailableNow there takes the rest in further batches."""
        with (
            caplog.at_level(logging.INFO, "spark_stomp"),
            Run(options, drain=True, idleTimeout="500ms", maxMessagesPerTrigger=500) as run,
        ):
            run.reader._mode = Mode.DRAIN  # what Spark 4.2 asks for, before any other call
            rows = []
            while (end := run.reader.latestOffset(run.start, None)) != run.start:
                run.end = end
                rows += [row["body"] for row in run.read()]
                run.commit()
            assert rows == BODIES
        assert "ended because of maxMessagesPerTrigger" in caplog.text
        assert "more messages are probably waiting" not in caplog.text

    @pytest.mark.rule("5.8", "J.9")
    def test_takes_more_messages_than_are_remembered(
        self, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.source.receivers.MAX_REMEMBERED", 50)
        with Run(options, drain=True, idleTimeout="500ms") as run:
            assert once(run) == BODIES

    @pytest.mark.rule("1.2", "5.1", "5.8")
    def test_of_the_next_run_goes_on_from_a_full_journal(self, options: dict[str, str]) -> None:
        """On 4.0 and 4.1 no call of a one-time trigger proves its only batch."""
        options["journalMaxBytes"] = "64k"
        with Run(options, drain=True, idleTimeout="20s") as run:
            rows = once(run)
        assert 0 < len(rows) < len(BODIES)
        with Run(options, drain=True, idleTimeout="20s", maxDrainTime="30s") as again:
            again.start = run.end
            assert list(again.reader.partitions(run.end, run.end)) == []
            more = once(again)
        assert more
        assert rows + more == BODIES[: len(rows) + len(more)]

    @pytest.mark.rule("5.8")
    def test_has_all_its_time_after_a_batch_of_the_last_run_was_read_again(
        self, options: dict[str, str], devbroker: DevBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        with Run(options, drain=True, idleTimeout="500ms") as run:
            planned = once(run)
        caplog.clear()
        with (
            caplog.at_level(logging.INFO, "spark_stomp"),
            Run(options, drain=True, idleTimeout="500ms", maxDrainTime="3s") as again,
        ):
            again.end = run.end
            began = time.monotonic()
            assert [row["body"] for row in again.read()] == planned
            wait_until(lambda: time.monotonic() - began > 3.0, what="a replay longer than maxDrainTime")
            devbroker.publish_many(QUEUE, [b"one more"])
            wait_until(lambda: again.counters()[0]["received"] > 0, what="one more message")
            again.start = run.end
            assert once(again) == [b"one more"]
        assert "ended because of idleTimeout" in caplog.text


class TestOneBatch:
    """A run of Trigger.Once, and of AvailableNow before Spark 4.2: one call."""

    @pytest.mark.rule("5.9")
    def test_that_leaves_more_on_the_broker_says_how_to_get_it(
        self, devbroker: DevBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        devbroker.publish_many(QUEUE, BODIES)
        with Run({"url": devbroker.url, "destination": QUEUE, "prefetch": "100"}) as run:
            assert len(once(run)) == 100
            assert run.status.more_waiting
            assert run.status.document["totals"]["more_waiting"]
            # Not only at the end, when Spark no longer reads what the process writes.
            assert "more messages are probably waiting" in caplog.text
            assert "drain = true" in caplog.text
        # One that takes everything says nothing.
        caplog.clear()
        with Run({"url": devbroker.url, "destination": QUEUE}) as run:
            assert len(once(run)) == len(BODIES)
            assert not run.status.more_waiting
        assert "more messages" not in caplog.text


@pytest.mark.rule("5.5")
def test_a_receipt_begins_the_silence_anew(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it comes the window is full. Spark's thread looks as soon as it is confirmed."""
    devbroker.publish_many(QUEUE, BODIES[:10])
    confirm, look, looked = Deliveries.confirm, QueryRuntime._situation, threading.Event()

    def confirmed(deliveries: Deliveries, receipt: str) -> None:
        pending = deliveries.acks_pending
        confirm(deliveries, receipt)
        if pending and not deliveries.acks_pending:
            looked.clear()
            looked.wait(PATIENCE)

    def looking(runtime: QueryRuntime, start: Offset, mode: Mode) -> Situation:
        found = look(runtime, start, mode)
        looked.set()
        return found

    monkeypatch.setattr(Deliveries, "confirm", confirmed)
    monkeypatch.setattr(QueryRuntime, "_situation", looking)
    with Run({"url": devbroker.url, "destination": QUEUE}, prefetch=5, idleTimeout="1s") as run:
        run.reader._mode = Mode.DRAIN
        rows: list[bytes] = []
        while (end := run.reader.latestOffset(run.start, None)) != run.start:
            run.end = end
            rows += [row["body"] for row in run.read()]
            wait_until(lambda: _silence(run) > 1.0, what="a batch that takes longer than idleTimeout")
            run.commit()
    assert rows == BODIES[:10]


def _silence(run: Run) -> float:
    return time.monotonic() - run.status.receivers[0].last_active
