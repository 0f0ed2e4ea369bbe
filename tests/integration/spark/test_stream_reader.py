"""The stream reader driven as Spark drives it, version by version, without Spark.

Each test is the order of calls that a Spark version was seen to make.
"""

from __future__ import annotations

import json
import logging
import pickle
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.columns import projection_of
from support.driven import QueryStatus, log_entry, status_of
from support.options import source_options
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import (
    CheckpointMismatch,
    CheckpointUnreadable,
    ConnectionLost,
    DrainTimeout,
    RangeUnavailable,
    SubscribeTimeout,
    UnsupportedError,
)
from spark_stomp.source import planning, query
from spark_stomp.source.logs import Logs, Shares
from spark_stomp.source.offsets import MEMORY, Offset
from spark_stomp.source.planning import Available, BatchLimits, Decision, Mode, Situation
from spark_stomp.source.receivers import ReceiverGroup
from spark_stomp.spark.readers import StompStreamReader

QUEUE = "/queue/a"
BODIES = [b"m%d" % number for number in range(20)]
NEW_COMMITS = "spark_stomp.source.checkpoint.Checkpoint.new_commits"

Json = dict[str, Any]


class Spark:
    """Makes the calls of one run and keeps what was returned."""

    def __init__(self, url: str, **options: Any) -> None:
        self.reader = StompStreamReader(source_options(url, **options), projection_of("body"))
        self.start: Json = self.reader.initialOffset()

    @property
    def status(self) -> QueryStatus:
        status = status_of(self.reader)
        assert status is not None
        return status

    def plan(self, start: Json | None = None) -> Json:
        """The end of the next batch, asked as Spark 4.2 does."""
        return self.reader.latestOffset(start or self.start, None)

    def read(self, start: Json, end: Json) -> list[bytes]:
        partitions = self.reader.partitions(start, end)
        # As in a task: another copy of the reader, unpickled.
        task = pickle.loads(pickle.dumps(self.reader))
        batches = [batch for partition in partitions for batch in task.read(partition)]
        return [body for batch in batches for body in batch.column("body").to_pylist()]


Planned = tuple[Spark, Json]


@pytest.fixture
def runs() -> Iterator[list[Spark]]:
    started: list[Spark] = []
    yield started
    for run in started:
        run.reader.stop()


@pytest.fixture
def broker(devbroker: DevBroker) -> DevBroker:
    devbroker.publish_many(QUEUE, BODIES)
    return devbroker


def acked(broker: DevBroker, count: int) -> None:
    wait_until(lambda: broker.queue(QUEUE).acked == count, what=f"{count} ACKs")


@pytest.mark.rule("1.1", "1.2", "5.1", "6.2")
def test_42_start_of_latest_offset_is_the_evidence(broker: DevBroker, runs: list[Spark]) -> None:
    runs.append(run := Spark(broker.url, maxMessagesPerTrigger=15))
    assert run.start == run.reader.initialOffset()
    first = run.plan()
    assert run.read(run.start, first) == BODIES[:15]
    assert broker.queue(QUEUE).acked == 0
    second = run.plan(first)
    acked(broker, 15)
    assert run.read(first, second) == BODIES[15:]
    assert run.plan(second) == second
    acked(broker, 20)
    assert run.start == run.reader.initialOffset()


def test_tasks_take_the_pair_along_and_show_nothing_of_it(broker: DevBroker, runs: list[Spark]) -> None:
    runs.append(run := Spark(broker.url, frameServerTls="true"))
    end = run.plan()
    (task,) = run.reader.partitions(run.start, end)
    assert task.value.address.key_pair is not None
    for secret in (task.value.address.token, "BEGIN", "PRIVATE"):
        assert secret not in f"{task} {task!r} {run.reader!r}"
    assert run.read(run.start, end) == BODIES


@pytest.mark.rule("1.2")
def test_40_latest_offset_after_partitions_is_the_evidence(broker: DevBroker, runs: list[Spark]) -> None:
    runs.append(run := Spark(broker.url, maxMessagesPerTrigger=15))
    first = run.reader.latestOffset()
    assert run.read(run.start, first) == BODIES[:15]
    assert broker.queue(QUEUE).acked == 0
    second = run.reader.latestOffset()
    acked(broker, 15)
    assert run.read(first, second) == BODIES[15:]


@pytest.mark.rule("1.2")
def test_40_latest_offset_without_partitions_is_no_evidence(broker: DevBroker, runs: list[Spark]) -> None:
    runs.append(run := Spark(broker.url, maxMessagesPerTrigger=15))
    run.reader.latestOffset()
    assert run.read(run.start, run.reader.latestOffset()) == BODIES
    assert broker.queue(QUEUE).acked == 0


@pytest.mark.rule("1.2", "1.3")
def test_40_partitions_of_nothing_at_a_restart_are_evidence_only_if_latest_offset_follows(
    broker: DevBroker, runs: list[Spark], tmp_path: Path
) -> None:
    options = {"journal": str(tmp_path), "maxMessagesPerTrigger": 10}
    runs.append(run := Spark(broker.url, **options))
    first = run.reader.latestOffset()
    assert run.read(run.start, first) == BODIES[:10]
    run.reader.stop()

    runs.append(run := Spark(broker.url, **options))
    assert run.read(first, first) == []
    assert run.read(run.start, first) == BODIES[:10], "it was not committed"
    assert broker.queue(QUEUE).acked == 0
    run.reader.stop()

    runs.append(run := Spark(broker.url, **options))
    assert run.read(first, first) == []
    assert run.read(first, run.reader.latestOffset()) == BODIES[10:]
    acked(broker, 10)


def test_40_the_first_call_waits_since_it_may_be_the_only_one(
    devbroker: DevBroker, runs: list[Spark]
) -> None:
    runs.append(run := Spark(devbroker.url, idleTimeout="300ms"))
    assert run.reader.latestOffset() == run.start
    devbroker.publish_many(QUEUE, BODIES)
    wait_until(lambda: run.reader.latestOffset() != run.start, what="an end")


@pytest.mark.rule("3.1", "3.2")
def test_40_after_a_restart_partitions_of_the_last_end_prove_nothing(
    broker: DevBroker, runs: list[Spark]
) -> None:
    runs.append(old := Spark(broker.url))
    end = old.reader.latestOffset()
    old.read(old.start, end)
    old.reader.stop()
    runs.append(new := Spark(broker.url))
    assert new.read(end, end) == []
    # The batch was not committed, so Spark plans it again. Its frames died with the old run: no rows.
    assert new.read(new.start, end) == []
    following = new.reader.latestOffset()
    assert broker.queue(QUEUE).acked == 0
    assert new.read(end, following) == BODIES


@pytest.mark.rule("3.1", "3.2")
def test_a_lost_range_stays_empty_if_the_new_log_has_these_numbers(
    broker: DevBroker, runs: list[Spark]
) -> None:
    runs.append(old := Spark(broker.url))
    lost = old.reader.latestOffset()
    old.reader.stop()
    runs.append(new := Spark(broker.url))
    following = new.reader.latestOffset()
    assert new.read(new.start, lost) == []
    assert new.read(lost, following) == BODIES
    assert broker.queue(QUEUE).acked == 0


@pytest.mark.rule("1.2", "2.1", "3.4", "5.1")
def test_a_range_can_be_read_again_until_it_is_committed(broker: DevBroker, runs: list[Spark]) -> None:
    runs.append(run := Spark(broker.url))
    end = run.plan()
    assert run.read(run.start, end) == run.read(run.start, end) == BODIES
    run.reader.commit(end)
    with pytest.raises(RangeUnavailable, match="are committed"):
        run.read(run.start, end)
    acked(broker, 20)


@pytest.mark.rule("6.3")
def test_with_nothing_new_the_last_end_comes_back_byte_for_byte(broker: DevBroker, runs: list[Spark]) -> None:
    runs.append(run := Spark(broker.url))
    end = run.plan()
    run.read(run.start, end)
    written = json.dumps(end)
    assert json.dumps(run.plan(json.loads(written))) == written
    # Also one whose keys are in another order.
    foreign = {"version": 2, "logs": {}}
    runs.append(idle := Spark(broker.url, destination="/queue/empty"))
    assert json.dumps(idle.plan(foreign)) == json.dumps(foreign)


class TestCheckpointNamed:
    @pytest.fixture
    def planned(self, broker: DevBroker, runs: list[Spark], tmp_path: Path) -> Planned:
        """A run whose first batch is planned, logged and read; and where the batch ends."""
        runs.append(run := Spark(broker.url, checkpointLocation=tmp_path))
        end = run.plan()
        log_entry(tmp_path, "offsets", 0, end)
        run.read(run.start, end)
        return run, end

    @pytest.mark.rule("1.4")
    def test_calls_alone_are_not_enough(self, planned: Planned, broker: DevBroker) -> None:
        run, end = planned
        run.reader.commit(end)
        assert run.plan(end) == end
        run.reader.stop()
        assert broker.queue(QUEUE).acked == 0

    @pytest.mark.rule("1.5")
    def test_at_the_end_the_checkpoint_is_read_once_more(
        self, planned: Planned, broker: DevBroker, tmp_path: Path
    ) -> None:
        log_entry(tmp_path, "commits", 0, {})
        planned[0].reader.stop()
        assert broker.queue(QUEUE).acked == 20

    @pytest.mark.rule("1.7")
    def test_a_fenced_reader_acks_nothing(
        self, planned: Planned, broker: DevBroker, runs: list[Spark], tmp_path: Path
    ) -> None:
        old, end = planned
        # A new driver took over and plans the old one's range as lost, then commits it.
        runs.append(new := Spark(broker.url, checkpointLocation=tmp_path))
        assert new.read(new.start, end) == []
        log_entry(tmp_path, "commits", 0, {})
        old.reader.stop()
        assert broker.queue(QUEUE).acked == 0

    @pytest.mark.rule("1.8")
    def test_a_file_system_that_fails_for_a_while_costs_nothing(
        self, planned: Planned, broker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run, end = planned
        error = mock.Mock(side_effect=CheckpointUnreadable("slow down"))
        with monkeypatch.context() as broken:
            broken.setattr(NEW_COMMITS, error)
            log_entry(tmp_path, "commits", 0, {})
            wait_until(lambda: error.called, what="the failure")
            assert run.plan(end) == end
        acked(broker, 20)

    @pytest.mark.rule("1.8")
    def test_a_file_system_that_goes_on_failing_fails_the_query(
        self, planned: Planned, broker: DevBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run, end = planned
        with monkeypatch.context() as broken:
            broken.setattr("spark_stomp.source.commits._UNREADABLE_AT_MOST", 0.3)
            broken.setattr(NEW_COMMITS, mock.Mock(side_effect=CheckpointUnreadable("slow down")))
            wait_until(lambda: run.status.failure, what="the end of the watch")
        with pytest.raises(CheckpointUnreadable, match="slow down"):
            run.plan(end)
        assert broker.queue(QUEUE).acked == 0

    def test_a_file_system_that_fails_at_the_end_does_not_keep_the_goodbye(
        self,
        planned: Planned,
        broker: DevBroker,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(NEW_COMMITS, mock.Mock(side_effect=RuntimeError("no such thing was expected")))
        planned[0].reader.stop()
        assert "no such thing was expected" in caplog.text
        assert broker.disconnects == 1

    @pytest.mark.rule("1.6")
    def test_another_querys_checkpoint_is_refused(
        self, broker: DevBroker, runs: list[Spark], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.source.commits._OFFSET_LOG_WAIT", 0.3)
        runs.append(run := Spark(broker.url, checkpointLocation=tmp_path))
        with pytest.raises(CheckpointMismatch, match=str(tmp_path)):
            run.reader.partitions(run.start, run.plan())

    @pytest.mark.rule("1.6")
    def test_a_log_that_leaves_out_a_batch_is_refused_by_the_name_of_the_mode(
        self, planned: Planned, broker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.source.commits._OFFSET_LOG_WAIT", 0.3)
        run, first = planned
        log_entry(tmp_path, "commits", 0, {})
        acked(broker, 20)
        broker.publish_many(QUEUE, BODIES)
        wait_until(lambda: run.status.receivers[0].received == 40, what="the next batch")
        second = run.plan(first)
        with pytest.raises(UnsupportedError, match="asyncProgressTrackingCheckpointIntervalMs=0"):
            run.reader.partitions(first, second)


@pytest.mark.rule("1.3", "1.9")
def test_the_end_without_evidence_acks_nothing_and_says_which_option_helps(
    broker: DevBroker, runs: list[Spark], caplog: pytest.LogCaptureFixture
) -> None:
    runs.append(run := Spark(broker.url))
    run.read(run.start, run.plan())
    with caplog.at_level(logging.WARNING, "spark_stomp"):
        run.reader.stop()
        run.reader.stop()
    said = [record.getMessage() for record in caplog.records if "checkpointLocation" in record.getMessage()]
    assert len(said) == 1
    assert broker.queue(QUEUE).acked == 0


@pytest.mark.rule("1.9")
def test_what_the_only_batch_of_a_run_needs_is_said_while_spark_still_reads_what_is_said(
    broker: DevBroker, runs: list[Spark], caplog: pytest.LogCaptureFixture
) -> None:
    # As Spark 4.0 and 4.1 ask, in a pipeline too: without a start, and perhaps only once.
    runs.append(run := Spark(broker.url))
    with caplog.at_level(logging.WARNING, "spark_stomp"):
        run.reader.latestOffset()
    (said,) = [record.getMessage() for record in caplog.records if "no evidence" in record.getMessage()]
    assert "checkpointLocation" in said
    assert "ackAfter = journal" in said


@pytest.mark.rule("1.9")
def test_a_read_batch_without_evidence_is_said_once(
    broker: DevBroker, runs: list[Spark], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_stomp.source.commits._NO_EVIDENCE_AFTER", 0.3)
    runs.append(run := Spark(broker.url))
    with caplog.at_level(logging.WARNING, "spark_stomp"):
        run.read(run.start, run.plan())
        wait_until(lambda: "checkpointLocation" in caplog.text, what="the warning")


@pytest.mark.rule("7.1")
def test_a_receiver_that_failed_is_an_error_and_not_no_data(broker: DevBroker, runs: list[Spark]) -> None:
    runs.append(run := Spark(broker.url, reconnectTimeout="500ms"))
    run.plan()
    broker.stop()
    with pytest.raises(ConnectionLost, match="reconnectTimeout"):
        wait_until(lambda: run.plan() is None, what="the failure")


@pytest.mark.rule("2.5")
@pytest.mark.parametrize("limit", [{}, {"maxBytesPerTrigger": "1m"}])
def test_what_is_gone_when_the_end_is_told_is_not_in_it(
    broker: DevBroker, runs: list[Spark], monkeypatch: pytest.MonkeyPatch, limit: dict[str, str]
) -> None:
    """The connection breaks after the look. No empty batch is told, which would end the run."""
    tell, planned = Logs.take_batch, list[tuple[Offset, Shares] | None]()

    def break_in_between(logs: Logs, *args: Any) -> tuple[Offset, Shares] | None:
        if not planned:
            for one in logs._logs[MEMORY]._receivers.values():  # type: ignore[attr-defined]
                one.disconnected(redelivers=True)
        planned.append(tell(logs, *args))
        if len(planned) == 1:
            broker.drop_connections()
        return planned[-1]

    monkeypatch.setattr(Logs, "take_batch", break_in_between)
    runs.append(run := Spark(broker.url, **limit))
    # As Spark 4.0 and 4.1 ask: the first answer may be the only one, so it waits for messages.
    end = run.reader.latestOffset()
    assert planned[0] is None and len(planned) == 2
    assert run.read(run.start, end) == BODIES


def test_a_message_that_becomes_durable_between_two_questions_is_seen_by_one_of_them(
    broker: DevBroker, runs: list[Spark], monkeypatch: pytest.MonkeyPatch
) -> None:
    unwritten, situations = [True], []
    available, decide = Logs.available, query.decide

    def before_it_is_durable(*args: Any) -> list[Available]:
        found = available(*args)
        unwritten[0] = False
        return found

    def watched(mode: Mode, limits: BatchLimits, situation: Situation) -> Decision:
        situations.append(situation)
        return decide(mode, limits, situation)

    monkeypatch.setattr(Logs, "available", before_it_is_durable)
    monkeypatch.setattr(ReceiverGroup, "has_unwritten", property(lambda _: unwritten[0]))
    monkeypatch.setattr(query, "decide", watched)
    runs.append(run := Spark(broker.url))
    run.plan()
    assert [situation.has_unwritten for situation in situations] == [True]


def test_the_trigger_after_a_full_window_is_not_empty(
    broker: DevBroker, runs: list[Spark], monkeypatch: pytest.MonkeyPatch
) -> None:
    # These batches take milliseconds. A busy machine needs longer for ACKs and the next messages.
    monkeypatch.setattr(planning, "REFILL_PART", 1_000_000.0)
    monkeypatch.setattr(planning, "REFILL_MAX", PATIENCE)
    runs.append(run := Spark(broker.url, prefetch=5))
    offsets = [run.start]
    for _ in range(4):
        end = run.plan(offsets[-1])
        run.read(offsets[-1], end)
        offsets.append(end)
    assert [end["logs"][MEMORY]["next"] for end in offsets[1:]] == [5, 10, 15, 20]


def test_a_task_that_reads_nothing_does_not_hold_up_the_end(broker: DevBroker, runs: list[Spark]) -> None:
    broker.publish_many(QUEUE, [b"x" * 1_000_000] * 40)
    runs.append(run := Spark(broker.url))
    run.plan()
    wait_until(lambda: run.status.receivers[0].received == 60, what="all 60 messages")
    task = run.reader.read(run.reader.partitions(run.start, run.reader.latestOffset())[-1])
    next(task)
    begun = time.monotonic()
    run.reader.stop()
    assert time.monotonic() - begun < 5
    assert broker.disconnects == 1


def test_a_tasks_copy_holds_no_secret_and_opens_nothing(broker: DevBroker) -> None:
    reader = Spark(broker.url, login="ada", password="hush").reader
    assert b"hush" not in pickle.dumps(reader)
    assert broker.connects == 0


@pytest.mark.rule("7.1")
def test_a_broker_that_does_not_answer_until_the_end_of_a_drain_is_an_error(runs: list[Spark]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"stomp://127.0.0.1:{silent.getsockname()[1]}"
        runs.append(run := Spark(url, maxDrainTime="500ms", idleTimeout="100ms"))
        run.reader._mode = Mode.DRAIN
        with pytest.raises(
            SubscribeTimeout, match="not every destination was subscribed within maxDrainTime"
        ):
            run.plan()


@pytest.mark.rule("7.1")
def test_a_broker_that_stays_away_until_the_end_of_a_drain_is_an_error(
    broker: DevBroker, runs: list[Spark]
) -> None:
    runs.append(run := Spark(broker.url, maxDrainTime="2s", idleTimeout="500ms"))
    run.reader._mode = Mode.DRAIN
    end = run.plan()
    broker.stop()
    with pytest.raises(DrainTimeout, match="maxDrainTime"):
        run.plan(end)
