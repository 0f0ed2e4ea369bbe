"""A status must not stop, delay or crash a query, and no content of its file crashes who reads it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.options import sink_options, source_options
from support.waiting import wait_until

from spark_stomp.commands.main import main
from spark_stomp.errors import OptionError
from spark_stomp.status import prometheus, read_status
from spark_stomp.status import sink as sink_status
from spark_stomp.status.files import StatusFile
from spark_stomp.status.sink import TaskFigures, report, report_failure, was_reported

NO_FILE = ("/", "s3://", "s3://bucket/", "gs://bucket?x=/y", "hdfs://h:8020", ".", "a/..", "a/")
HEAD = {"version": 1, "query": "q", "run": "r", "host": "h"}
SINK = HEAD | {"confirmed": 1}
SOURCE = HEAD | {
    "written_at": "2026-01-01T00:00:00+00:00",
    "totals": {"rows": 1},
    "receivers": {"/queue/a#0": {"destinations": ["/queue/a"], "connected": True}},
}
NO_NUMBERS = ("1" + "0" * 400, "1" + "0" * 5000, "1e999", "NaN", "-Infinity", '"x"', "[]", "[1]", "{}")
KEYS = ("rows", "confirmed", "attempts", "unacked", "oldest_unacked_seconds", "bytes", "connected")
NO_PARTS = (1, "x", True, [], None, {"a": 1}, {"a": {"connected": None}})
NO_TIMES = ("now", "0001-01-01T00:00:00", "9999-12-31T23:59:59.9+00:00", "2026-01-01")


SECTIONS, TIMES = ("totals", "receivers", "journal"), ("written_at", "started_at")
PARTS = (*SOURCE, "journal", "failure", "started_at", "running", "pid")


def with_figure(section: str, key: str, value: str) -> bytes:
    forged: dict[str, Any] = {key: "FORGED"}
    if section == "receivers":
        forged = {"a#0": {"destinations": ["/queue/a"], **forged}}
    shown = SINK | forged if section == "sink" else SOURCE | {section: forged}
    return json.dumps(shown).replace('"FORGED"', value).encode()


FORGED = {
    "s.sink.json": [with_figure("sink", key, value) for key in KEYS for value in NO_NUMBERS],
    "s.json": [
        b'{"version": 1, "query": "\xff\x00"}',
        *(with_figure(*where, value) for where in product(SECTIONS, KEYS) for value in NO_NUMBERS),
        *(json.dumps(SOURCE | {key: part}).encode() for key, part in product(PARTS, NO_PARTS)),
        *(json.dumps(SOURCE | {key: time}).encode() for key, time in product(TIMES, NO_TIMES)),
    ],
}


def quick(work: Any) -> None:
    """``work`` in its own thread, which may hang: it has to end within some seconds."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive(), "hangs"


def one_row() -> TaskFigures:
    return TaskFigures(connections=1, confirmed=1)


class TestWhatCannotBeAStatusFile:
    @pytest.mark.parametrize("place", NO_FILE)
    @pytest.mark.parametrize("parsed", [sink_options, source_options])
    def test_is_refused_by_its_name(self, place: str, parsed: Any) -> None:
        with pytest.raises(OptionError, match=r"statusFile .*must name a file, such as"):
            parsed("stomp://h", statusFile=place)

    @pytest.mark.parametrize("place", ["s3://user:secret@bucket", "s3://bucket/?secret_key=secret"])
    def test_shows_no_credentials(self, place: str) -> None:
        with pytest.raises(OptionError) as error:
            sink_options("stomp://h", statusFile=place)
        assert "user:secret" not in str(error.value) and "=secret" not in str(error.value)

    def test_a_file_is_none_of_these(self) -> None:
        for place in ("s", "/s", "file:/a/s.json", "dbfs:/s", "s3://b/s", "s3://k:s@b/a/s?x=y/"):
            assert sink_options("stomp://h", statusFile=place).status_file == place


@pytest.fixture
def over() -> Iterator[threading.Event]:
    """Ends what hangs."""
    event = threading.Event()
    yield event
    event.set()
    wait_until(
        lambda: not any(reports.turn.locked() for reports in sink_status._reports.values()),
        what="the end of the reports",
    )


class TestTheSink:
    @pytest.mark.rule("S.12")
    def test_does_not_wait_for_a_file_system_that_hangs(
        self, tmp_path: Path, over: threading.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(StatusFile, "read", lambda self: over.wait(60.0) and b"{}")
        options = sink_options("stomp://h", statusFile=tmp_path / "s.json")
        begun = time.monotonic()
        for batch in range(20):
            report(options, one_row(), "run", batch)
        assert not was_reported(options, "run")
        assert time.monotonic() - begun < 5.0
        assert sum(thread.name == "stomp-aside" for thread in threading.enumerate()) <= 2
        monkeypatch.undo()
        over.set()
        path = tmp_path / "s.json"
        wait_until(lambda: (tmp_path / "s.sink.json").exists(), what="the status")
        wait_until(lambda: read_status(path)["sink"]["batch"] == 19, what="all that waited")
        assert read_status(path)["sink"]["confirmed"] == 20

    @pytest.mark.rule("S.12")
    def test_one_that_hangs_is_told_of_and_keeps_no_other_from_its_file(
        self,
        tmp_path: Path,
        over: threading.Event,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        read = StatusFile.read
        monkeypatch.setattr(
            StatusFile, "read", lambda self: over.wait(60.0) and b"{}" if "stuck" in self.path else read(self)
        )
        for name in ("stuck", "healthy"):
            report(sink_options("stomp://h", statusFile=tmp_path / f"{name}.json"), one_row(), "run", 0)
        assert read_status(tmp_path / "healthy.json")["sink"]["confirmed"] == 1
        assert caplog.text.count("does not answer") == 1

    @pytest.mark.parametrize("part", ["s.sink.json", "s.json"])
    def test_a_pipe_in_the_place_of_its_file(
        self, tmp_path: Path, part: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        os.mkfifo(tmp_path / part)
        options = sink_options("stomp://h", statusFile=tmp_path / "s.json")
        quick(lambda: report(options, one_row(), "run", 0))
        assert (tmp_path / part).is_fifo()
        assert caplog.text.count("cannot be written") == 1

    @pytest.mark.rule("S.12")
    def test_an_error_that_nobody_thought_of(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(StatusFile, "write", lambda *_: {}["a bug"])
        report(sink_options("stomp://h", statusFile=tmp_path / "s.json"), one_row(), "run", 0)
        assert "KeyError('a bug')" in caplog.text

    @pytest.mark.parametrize("value", ["5", '"now"', "[]", "{}", "true", '"9999-12-31T23"', '"0001-01-01"'])
    @pytest.mark.parametrize("key", [*TIMES, "failed_at", "batch", "version", "failure", "run"])
    def test_what_was_forged_is_not_shown_again(self, tmp_path: Path, key: str, value: str) -> None:
        """Not even by a batch that is not finished, which keeps what was counted before it."""
        part, options = tmp_path / "s.sink.json", sink_options("stomp://h", statusFile=tmp_path / "s.json")
        for again in (lambda: report(options, one_row(), "r", 0), lambda: report_failure(options, "no")):
            part.write_text(json.dumps(SINK | {key: json.loads(value)}))
            again()
            assert read_status(tmp_path / "s.json")["sink"]["failure"] in (None, "no")

    @pytest.mark.parametrize(
        "number", ["1" + "0" * 400, "1e400", "-Infinity", "NaN", "1" + "0" * 5000, "true"]
    )
    def test_a_figure_that_is_no_number_starts_from_zero(self, tmp_path: Path, number: str) -> None:
        part = tmp_path / "s.sink.json"
        for name in ("confirmed", "blocked_seconds", "receipt_p50_seconds"):
            part.write_text(f'{{"version": 1, "query": "q", "run": "r", "host": "h", "{name}": {number}}}')
            report(sink_options("stomp://h", statusFile=tmp_path / "s.json"), one_row(), "r", 0)
            assert read_status(tmp_path / "s.json")["sink"]["confirmed"] == 1


class TestReading:
    """Whoever may write to the folder decides what is in the file."""

    @pytest.mark.parametrize("kind", ["folder", "pipe", "part a pipe"])
    def test_what_is_no_file(self, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
        place = tmp_path / ("s.sink.json" if kind == "part a pipe" else "s.json")
        place.mkdir() if kind == "folder" else os.mkfifo(place)
        with pytest.raises(OSError, match=r"no regular file|not a regular file|Is a directory|No such file"):
            read_status(tmp_path / "s.json")
        quick(lambda: main(["status", str(tmp_path / "s.json")]))
        assert capsys.readouterr().err.count("\n") == 1

    def test_a_file_without_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("spark_stomp.status.files._LARGEST", 1000)
        (tmp_path / "s.json").write_bytes(b" " * 1001)
        with pytest.raises(OSError, match="more than 1,000 bytes"):
            read_status(tmp_path / "s.json")

    @pytest.mark.parametrize("name", FORGED)
    def test_whatever_is_in_it(self, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """A table, or one line that names the file; and text for Prometheus, or a ValueError."""
        path = tmp_path / "s.json"
        for content in FORGED[name]:
            (tmp_path / name).write_bytes(content)
            code = main(["status", str(path)])
            out, err = capsys.readouterr()
            assert (err.count("\n"), err.count(str(path)) > 0, out) == (1, True, "") if err else out, content
            assert code in (0, 1) and max(map(len, out.splitlines()), default=0) < 300, content
            try:
                text = prometheus(path)
            except ValueError as error:
                assert str(path.with_suffix("")) in str(error), content
            else:
                numbers = [line.rpartition(" ")[2] for line in text.splitlines() if line[0] != "#"]
                assert all(-1e19 < float(number) < 1e19 for number in numbers), content

    def test_the_part_that_is_at_fault_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "s.json").write_text(json.dumps(SOURCE))
        (tmp_path / "s.sink.json").write_text("[]")
        with pytest.raises(
            ValueError, match=r"s\.sink\.json is not a status file of spark_stomp: it is no J"
        ):
            read_status(tmp_path / "s.json")
