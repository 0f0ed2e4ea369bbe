"""The query's checkpoint as evidence, on files as Spark writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from spark_stomp.errors import CheckpointMismatch, CheckpointUnreadable
from spark_stomp.source.checkpoint import Checkpoint
from spark_stomp.source.offsets import MEMORY, LogEnd, Offset

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def at(number: int) -> Offset:
    return Offset({MEMORY: LogEnd("e", number)})


class Log:
    """Writes what Spark writes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def plan(self, batch: int, *sources: str) -> None:
        self._write("offsets", batch, "\n".join(["v1", METADATA, *sources]))

    def commit(self, batch: int) -> None:
        self._write("commits", batch, 'v1\n{"nextBatchWatermarkMs":0}')

    def _write(self, log: str, batch: int, text: str) -> None:
        (self.root / log).mkdir(parents=True, exist_ok=True)
        (self.root / log / str(batch)).write_text(text)
        (self.root / log / f".{batch}.crc").write_bytes(b"crc")


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "checkpoint")


def committed(checkpoint: Checkpoint, *ends: Offset) -> Offset | None:
    return checkpoint.committed_end(checkpoint.new_commits(), ends)


@pytest.mark.rule("1.4")
def test_a_planned_batch_is_not_committed_before_the_commit_log_has_it(log: Log) -> None:
    checkpoint = Checkpoint(str(log.root))
    log.plan(0, at(5).to_json())
    assert checkpoint.batch_of(at(5)) is not None
    assert committed(checkpoint, at(5)) is None
    log.commit(0)
    assert committed(checkpoint, at(5)) == at(5)


@pytest.mark.parametrize(
    "sources",
    [['{"logOffset":3}', at(5).to_json(), "-"], [json.dumps({"source-a": at(5).to_json()})]],
    ids=["among others", "as a string in JSON"],
)
def test_our_offset_is_found_and_a_batch_is_examined_once(log: Log, sources: list[str]) -> None:
    checkpoint = Checkpoint(str(log.root))
    log.plan(0, *sources)
    log.commit(0)
    assert committed(checkpoint, at(5)) == at(5)
    assert checkpoint.new_commits() == []


@pytest.mark.rule("1.4")
def test_another_querys_commits_prove_nothing(log: Log) -> None:
    checkpoint = Checkpoint(str(log.root))
    log.plan(0, Offset({MEMORY: LogEnd("other", 5)}).to_json())
    log.commit(0)
    assert committed(checkpoint, at(5)) is None
    assert checkpoint.batch_of(at(5)) is None


@pytest.mark.rule("1.4")
def test_commits_of_earlier_runs_are_not_looked_at(log: Log) -> None:
    log.plan(7, at(5).to_json())
    log.commit(7)
    checkpoint = Checkpoint(str(log.root))
    assert checkpoint.new_commits() == []


def test_ten_sorts_after_nine(log: Log) -> None:
    checkpoint = Checkpoint(str(log.root))
    for batch in (9, 10):
        log.plan(batch, at(batch).to_json())
        log.commit(batch)
    assert checkpoint.new_commits() == [10, 9]
    assert committed(checkpoint, at(9), at(10)) == at(10)


def test_an_offset_log_entry_purged_meanwhile_is_no_error(log: Log) -> None:
    checkpoint = Checkpoint(str(log.root))
    log.commit(3)
    assert committed(checkpoint, at(5)) is None


@pytest.mark.rule("1.7")
def test_a_fence_bars_its_log_only(log: Log) -> None:
    old, new = Checkpoint(str(log.root)), Checkpoint(str(log.root))
    assert not old.fenced(["e1", "e2"])
    new.fence(["e1"])
    assert old.fenced(["e1", "e2"])
    assert not old.fenced(["e2"])


@pytest.mark.rule("1.7")
def test_fences_of_batches_that_spark_has_deleted_do_not_stay(log: Log) -> None:
    checkpoint = Checkpoint(str(log.root))
    for number in range(120):
        checkpoint.fence([f"e{number}"])
        os.utime(log.root / "spark_stomp" / "fences" / f"e{number}", (number, number))
    assert not checkpoint.fenced([f"e{number}" for number in range(19)])
    assert all(checkpoint.fenced([f"e{number}"]) for number in range(19, 120))


def test_credentials_are_not_shown() -> None:
    with pytest.raises(CheckpointMismatch, match=r"nosuchfs://\*\*\*@bucket") as caught:
        Checkpoint("nosuchfs://AKIA:tops3cret@bucket/x")
    assert "tops3cret" not in str(caught.value)


class TestFileErrors:
    @pytest.mark.rule("1.8")
    def test_a_batch_that_could_not_be_read_is_examined_again(
        self, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        checkpoint = Checkpoint(str(log.root))
        log.plan(0, at(5).to_json())
        log.commit(0)
        with monkeypatch.context() as broken:
            broken.setattr(checkpoint, "_files", Throttled(checkpoint._files))
            with pytest.raises(CheckpointUnreadable, match="slow down"):
                committed(checkpoint, at(5))
        assert committed(checkpoint, at(5)) == at(5)

    def test_listing_and_fences(self, log: Log) -> None:
        checkpoint = Checkpoint("/proc/self/mem")
        with pytest.raises(CheckpointUnreadable, match="/proc/self/mem"):
            checkpoint.fence(["e"])


class Throttled:
    """A file system that lists and does not read."""

    def __init__(self, files: Any) -> None:
        self.get_file_info = files.get_file_info

    def open_input_file(self, path: str) -> Any:
        raise OSError("slow down")
