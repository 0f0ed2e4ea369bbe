"""The status file: where it is, how it is replaced, and when the source's is written."""

from __future__ import annotations

import json
import os
import platform
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.options import sink_options, source_options
from support.waiting import wait_until

from spark_stomp.errors import OptionError
from spark_stomp.status.files import StatusFile, StatusWriter, is_gone, status_at, status_file
from spark_stomp.status.source import RunIdentity, lasting


def place(**options: object) -> StatusFile:
    file = status_file(source_options("stomp://h", **options))
    assert file is not None
    return file


class TestWhere:
    def test_where_the_options_say(self, tmp_path: Path) -> None:
        beside = f"{tmp_path}/spark_stomp/status.json"
        assert status_file(source_options("stomp://h")) is None
        assert place(checkpointLocation=tmp_path).path == beside
        assert place(checkpointLocation=tmp_path, statusFile=f"file:{tmp_path}/s").path == f"{tmp_path}/s"
        of_sink = sink_options("stomp://h", checkpointLocation=tmp_path)
        assert place(checkpointLocation=tmp_path) == status_file(of_sink)
        for checkpoint in (str(tmp_path), f"file:{tmp_path}/"):
            first, in_checkpoint = status_at(checkpoint)
            assert (first.path, in_checkpoint) == (beside, True)
        named, in_checkpoint = status_at(beside)
        assert (named.path, in_checkpoint) == (beside, False)

    def test_the_sink_has_a_file_beside_it(self) -> None:
        for named, of_sink in {
            "/s.json": "/s.sink.json",
            "/s": "/s.sink",
            "/a.b.json": "/a.b.sink.json",
        }.items():
            assert place(statusFile=named).of_sink.path == of_sink

    def test_in_a_store_it_is_written_more_rarely(self, tmp_path: Path) -> None:
        local, mounted = place(statusFile=tmp_path / "s"), place(statusFile="dbfs:/s")
        assert (local.look_every, local.write_every) == (1.0, 10.0)
        assert (mounted.look_every, mounted.write_every) == (10.0, 60.0)


class TestTheFile:
    def test_is_replaced_and_for_the_user_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "made" / "status.json"
        file = place(statusFile=path)
        with pytest.raises(FileNotFoundError):
            file.read()
        file.write(b"one")
        with path.open("rb") as first:
            file.write(b"two")
            assert first.read() == b"one"
        assert file.read() == b"two"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [path.name for path in path.parent.iterdir()] == ["status.json"]

    def test_nothing_is_made_under_a_checkpoint_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            place(checkpointLocation=tmp_path / "mistyped").write(b"one")
        assert list(tmp_path.iterdir()) == []


class TestWriter:
    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(StatusFile, "look_every", 0.01)

    def test_writes_news_and_now_and_then_a_sign_of_life(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writes: list[bytes] = []
        monkeypatch.setattr(StatusFile, "write", lambda self, content: writes.append(content))
        looks: list[bool] = []

        def look(running: bool) -> dict[str, Any]:
            looks.append(running)
            return {"written_at": str(len(looks)), "running": running}

        writer = StatusWriter(source_options("stomp://h", statusFile=tmp_path / "s"), look)
        writer.start()
        wait_until(lambda: len(looks) > 20, what="looks")
        assert len(writes) == 1
        monkeypatch.setattr(StatusFile, "write_every", 0.05)
        wait_until(lambda: len(writes) > 2, what="signs of life")
        monkeypatch.setattr(StatusFile, "write_every", 100.0)
        writer.stop(10.0)
        assert json.loads(writes[-1])["running"] is False

    def test_a_failing_write_is_said_once_and_tried_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "late" / "later" / "status.json"
        looks: list[bool] = []

        def look(running: bool) -> dict[str, Any]:
            looks.append(running)
            if len(looks) == 1:
                raise KeyError("a bug")
            return {"running": running}

        writer = StatusWriter(source_options("stomp://h", statusFile=path), look)
        writer.start()
        wait_until(lambda: len(looks) > 10, what="attempts")
        (record,) = caplog.records
        assert "cannot be written: KeyError('a bug')" in record.getMessage()
        (tmp_path / "late").mkdir()
        wait_until(path.exists, what="the file")
        writer.stop(10.0)
        assert json.loads(path.read_text()) == {"running": False}

    def test_what_changes_though_nothing_happens_is_no_news(self) -> None:
        one = {"oldest_unacked_seconds": 1.0, "unacked": 3}
        shown = {"written_at": "now", "totals": one, "receivers": {"a#0": one}, "journal": None}
        later = one | {"oldest_unacked_seconds": 2.0}
        assert lasting(shown) == lasting(shown | {"written_at": "then", "totals": later})
        assert lasting(shown) == lasting(shown | {"receivers": {"a#0": later}})
        assert lasting(shown) != lasting(shown | {"receivers": {"a#0": one | {"unacked": 4}}})


class Source:
    """The status of a source that runs in this process; ``changed`` are keys with another value."""

    def __init__(self, run: str, receivers: tuple[str, ...] = ("/queue/a#0",), **options: object) -> None:
        self.changed: dict[str, object] = {}
        self._run = run
        self._receivers = receivers
        self.writer = StatusWriter(source_options("stomp://h", **options), self.shown)

    def shown(self, running: bool) -> dict[str, Any]:
        shown = {"run": self._run, "host": "here", "driver": "7@1", "pid": os.getpid(), "stopping": False}
        shown |= {"running": running, "source": self.writer.number}
        return shown | {"receivers": dict.fromkeys(self._receivers)} | self.changed

    def __enter__(self) -> int:
        self.writer.start()
        return self.writer.number

    def __exit__(self, *_: object) -> None:
        self.writer.stop(10.0)


def runs(folder: Path) -> dict[str, str]:
    """The run in each file of the folder."""
    return {path.name: json.loads(path.read_text())["run"] for path in folder.iterdir()}


def dead() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


class TestSeveralSources:
    """Sources of one query, which starts them one after the other."""

    def test_each_has_its_file(self, tmp_path: Path) -> None:
        options, folder = {"checkpointLocation": tmp_path}, tmp_path / "spark_stomp"
        sources = [Source(run, **options) for run in ("a", "b", "c")]
        with sources[0] as one, sources[1] as two, sources[2] as three:
            assert (one, two, three) == (1, 2, 3)
            # Written before the next one looks, whatever the times between two writes are.
            expected = {"status.json": "a", "status-2.json": "b", "status-3.json": "c"}
            assert runs(folder) == expected
            assert [json.loads((folder / name).read_text())["source"] for name in expected] == [1, 2, 3]
        assert runs(folder) == expected
        assert place(**options).of_sink.path not in map(str, folder.iterdir())

    def test_each_has_its_file_again_in_whatever_order_they_start(self, tmp_path: Path) -> None:
        options = {"checkpointLocation": tmp_path}
        with Source("1", ("a#0", "b#1"), **options), Source("2", ("c#0",), **options):
            pass
        with (
            Source("3", ("c#0",), **options) as later,
            Source("4", ("other#0",), **options) as first,
            Source("5", ("c#0",), **options) as further,
        ):
            assert (later, first, further) == (2, 1, 3)

    def test_one_file_that_the_option_names_stays_that_file(self, tmp_path: Path) -> None:
        options = {"checkpointLocation": tmp_path, "statusFile": tmp_path / "s.json"}
        with Source("a", **options) as one, Source("b", **options) as two:
            assert (one, two) == (1, 1)
        assert [path.name for path in tmp_path.iterdir()] == ["s.json"]

    @pytest.mark.parametrize(
        ("changed", "number"),
        [
            ({}, 2),
            ({"receivers": {"/queue/b#0": None}}, 2),
            ({"running": False}, 1),
            ({"stopping": True}, 1),
            ({"host": "elsewhere"}, 1),
            ({"driver": "7@2"}, 1),
            ({"pid": dead}, 1),
            ({"pid": None}, 1),
            ({"pid": "7"}, 1),
            ({"pid": 1 << 80}, 1),
            ({"driver": [], "receivers": 5}, 1),
        ],
    )
    def test_a_file_is_taken_by_a_running_source_of_this_driver(
        self, tmp_path: Path, changed: dict[str, Any], number: int
    ) -> None:
        options = {"checkpointLocation": tmp_path}
        values = {key: value() if callable(value) else value for key, value in changed.items()}
        first = Source("a", **options)
        path = tmp_path / "spark_stomp" / "status.json"
        path.parent.mkdir()
        path.write_text(json.dumps(first.shown(running=True) | values))
        with Source("b", **options) as other:
            assert other == number

    @pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000])
    def test_what_is_no_status_is_replaced(self, tmp_path: Path, content: str) -> None:
        path = tmp_path / "spark_stomp" / "status.json"
        path.parent.mkdir()
        path.write_text(content)
        with Source("a", checkpointLocation=tmp_path) as number:
            assert number == 1
        assert runs(path.parent) == {"status.json": "a"}

    def test_a_source_that_is_being_stopped_leaves_the_file_to_the_next_run(self, tmp_path: Path) -> None:
        options, path = {"checkpointLocation": tmp_path}, tmp_path / "spark_stomp" / "status.json"
        old = Source("old", **options)
        with old:
            old.changed = {"stopping": True}
            old.writer.write_soon()
            wait_until(lambda: json.loads(path.read_text())["stopping"], what="the end in the file")
            with Source("new", **options) as number:
                assert number == 1
                old.writer.stop(10.0)
                shown = json.loads(path.read_text())
                assert (shown["run"], shown["running"]) == ("new", True)

    def test_a_query_waits_only_a_while_for_its_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        over = threading.Event()
        read = StatusFile.read
        monkeypatch.setattr(StatusFile, "read", lambda self: over.wait(60.0) and read(self))
        monkeypatch.setattr("spark_stomp.status.files._OPEN", 0.05)
        with Source("a", checkpointLocation=tmp_path):
            assert "the file system of the status file has not answered" in caplog.text
            over.set()
            wait_until((tmp_path / "spark_stomp" / "status.json").exists, what="the file")

    def test_a_place_that_cannot_be_fails_the_start(self) -> None:
        source = Source("a", statusFile="nosuch://place/s")
        for act in (source.writer.start, lambda: place(statusFile="nosuch://place/s")):
            with pytest.raises(OptionError, match="statusFile nosuch://place/s cannot be opened"):
                act()


def test_a_process_is_gone_only_if_its_ids_are_those_of_this_process() -> None:
    gone = {"host": platform.node(), "driver": RunIdentity("q").driver, "pid": dead()}
    assert is_gone(gone)
    # Process 1 is there, but perhaps of another user.
    others = ({"pid": os.getpid()}, {"pid": 1}, {"host": "other"}, {"driver": "7@1@pid:[1]"}, {"driver": 5})
    assert [other for other in others if is_gone(gone | other)] == []
