"""Contract 1: which calls prove a commit, and which do not."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest
from support.waiting import PATIENCE, wait_until

from spark_stomp.errors import CheckpointMismatch
from spark_stomp.source.commits import CommitEvidence, Committer
from spark_stomp.source.offsets import MEMORY, LogEnd, Offset


def at(number: int) -> Offset:
    return Offset({MEMORY: LogEnd("e", number)})


class NoFrameServer:
    """Nobody has read anything."""

    read_at = None

    def expect(self, tickets: list[object]) -> None:
        pass


@pytest.fixture
def evidence() -> CommitEvidence:
    return CommitEvidence(call_evidence=True)


class TestCalls:
    @pytest.mark.rule("1.3")
    def test_planning_alone_proves_nothing(self) -> None:
        committed: list[Offset] = []
        committer = Committer(committed.append, frozenset(), cast("Any", NoFrameServer()), None)
        committer.planned(at(5), [])
        assert committed == []
        committer.commit_called(at(5))
        assert committed == [at(5)]

    @pytest.mark.rule("1.3")
    def test_an_older_start_does_not_prove_the_newer_plan(self, evidence: CommitEvidence) -> None:
        evidence.planned(at(5))
        evidence.planned(at(9))
        assert evidence.latest_offset_called(at(5)) == at(5)
        assert evidence.unproved() == [at(9)]


@pytest.mark.rule("1.4")
def test_a_newer_commit_of_the_checkpoint_covers_older_plans() -> None:
    evidence = CommitEvidence(call_evidence=False)
    for number in (3, 5, 9):
        evidence.planned(at(number))
    assert evidence.commit_called(at(9)) is None
    assert evidence.committed(at(5)) == at(5)
    assert evidence.unproved() == [at(9)]


@pytest.mark.parametrize("call_evidence", [True, False])
def test_planning_an_end_twice_counts_once(call_evidence: bool) -> None:
    evidence = CommitEvidence(call_evidence=call_evidence)
    evidence.planned(at(5))
    evidence.planned(at(5))
    assert evidence.unproved() == [at(5)]


def test_a_checkpoint_is_asked_with_pauses_also_while_the_query_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a store each question is a request."""
    monkeypatch.setattr("spark_stomp.source.commits._OFFSET_LOG_WAIT", 0.35)
    asked = []

    class Checkpoint:
        on_local_disk = True
        location = "s3://bucket/checkpoint"

        def batch_of(self, end: Offset) -> int | None:
            asked.append(end)
            return None

    committer = Committer(
        lambda _: None, frozenset(), cast("Any", NoFrameServer()), cast("Any", Checkpoint())
    )
    committer.stop(0.0)
    with pytest.raises(CheckpointMismatch):
        committer.planned(at(5), [])
    assert 1 <= len(asked) <= 5


class SlowFrameServer:
    """Its tasks read the batch before this one long ago, and it hears slowly of the next one."""

    def __init__(self) -> None:
        self._read_at: float | None = time.monotonic() - 100
        self.looks = 0

    @property
    def read_at(self) -> float | None:
        self.looks += 1
        return self._read_at

    def expect(self, tickets: list[object]) -> None:
        # When the second look begins, the first has had all its consequences.
        enough = self.looks + 2
        wait_until(lambda: self.looks >= enough, what="a whole look of the watcher")
        self._read_at = None


class SlowlyReadFrameServer(SlowFrameServer):
    """The next batch is planned while the watcher looks when the one before was read."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at = threading.Event()
        self.planned = threading.Event()

    @property
    def read_at(self) -> float | None:
        read_at = self._read_at
        self.looked_at.set()
        self.planned.wait(0.2)
        return read_at

    def expect(self, tickets: list[object]) -> None:
        self._read_at = None


@pytest.mark.rule("1.9")
def test_that_an_earlier_batch_was_read_is_no_reason_to_warn_of_this_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    committer = Committer(lambda end: None, frozenset(), cast("Any", SlowFrameServer()), None)
    committer.start()
    committer.planned(at(5), [])
    committer.commit_called(at(5))
    committer.stop(PATIENCE)
    assert caplog.text == ""


@pytest.mark.rule("1.9")
def test_a_batch_planned_during_a_look_is_no_reason_to_warn_either(caplog: pytest.LogCaptureFixture) -> None:
    frame_server = SlowlyReadFrameServer()
    committer = Committer(lambda end: None, frozenset(), cast("Any", frame_server), None)
    committer.start()
    assert frame_server.looked_at.wait(PATIENCE)
    committer.planned(at(5), [])
    frame_server.planned.set()
    frame_server.looked_at.clear()
    assert frame_server.looked_at.wait(PATIENCE)
    committer.commit_called(at(5))
    committer.stop(PATIENCE)
    assert caplog.text == ""
