"""The status file as Spark's writers and readers see it."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructType
from support.options import sink_options

from spark_stomp.columns import SinkColumns
from spark_stomp.commands.main import main
from spark_stomp.errors import OptionError, SinkRowError
from spark_stomp.sink.write import TaskResult
from spark_stomp.spark.datasource import StompDataSource
from spark_stomp.spark.readers import RefusingStreamReader
from spark_stomp.spark.writers import Confirmed, StompBatchWriter, StompStreamWriter
from spark_stomp.status import read_status
from spark_stomp.status.sink import SinkPart, TaskFigures, report, was_reported

BODY = StructType().add("body", BinaryType())


def figures(confirmed: int) -> TaskFigures:
    return TaskFigures(connections=1, confirmed=confirmed)


@pytest.mark.parametrize("before", [0, 1])
def test_a_batch_that_is_not_finished(tmp_path: Path, before: int) -> None:
    options = sink_options("stomp://h", statusFile=tmp_path / "s.json", queryName="mine")
    for batch in range(before):
        report(options, figures(3), "run", batch)
    writer = StompStreamWriter(options, SinkColumns(("body",), False))
    writer.abort([Confirmed(TaskResult(figures(2)), "run"), None], before)
    sink = read_status(tmp_path / "s.json")["sink"]
    assert sink.keys() == {one.key for one in SinkPart.figures()}
    assert sink["failure"].startswith(f"batch {before} was not finished after 2 confirmed messages: Spark")
    assert (sink["query"], sink["confirmed"], sink["run"]) == ("mine", 3 * before, "run" if before else None)
    # Only a batch that is done proves the login (S.8).
    assert was_reported(options, "run") is bool(before)
    assert main(["status", str(tmp_path / "s.json"), "--quiet"]) == 1
    report(options, figures(4), "run", before)
    sink = read_status(tmp_path / "s.json")["sink"]
    assert (sink["failure"], sink["confirmed"]) == (None, 3 * before + 4)
    assert main(["status", str(tmp_path / "s.json"), "--quiet"]) == 0


def test_a_row_that_cannot_be_sent_is_the_reason(tmp_path: Path) -> None:
    options = sink_options("stomp://h", statusFile=tmp_path / "s.json")
    refused = Confirmed(TaskResult(figures(0), SinkRowError("row 7 has no body")))
    StompBatchWriter(options, SinkColumns(("body",), False)).abort([refused])
    failure = read_status(tmp_path / "s.json")["sink"]["failure"]
    assert failure == "the write was not finished: [STOMP_SINK_ROW_INVALID] row 7 has no body"


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused_at_the_start(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "there"
    place.mkdir() if kind == "folder" else os.mkfifo(place)
    options = {"url": "stomp://h", "destination": "/queue/a", "statusFile": str(place)}
    words = f"statusFile {place} is a {kind}"
    source = StompDataSource(options)
    with pytest.raises(OptionError, match=words):
        source.streamWriter(BODY, False)
    with pytest.raises(OptionError, match=words):
        source.writer(BODY, False)
    reader = source.streamReader(BODY)
    assert isinstance(reader, RefusingStreamReader)
    with pytest.raises(OptionError, match=words):
        reader.initialOffset()


def test_nobody_waits_for_a_mount_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: over.wait(60.0))
    options = {"url": "stomp://h", "statusFile": str(tmp_path / "s.json")}
    thread = threading.Thread(target=partial(StompDataSource(options).streamWriter, BODY, False), daemon=True)
    thread.start()
    thread.join(10.0)
    over.set()
    assert not thread.is_alive(), "hangs"
