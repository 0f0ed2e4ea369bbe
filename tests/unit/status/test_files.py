"""The status file: where it is, how it is replaced, and when the source's is written."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from support.options import sink_options, source_options
from support.waiting import wait_until

from spark_stomp.errors import OptionError
from spark_stomp.status.files import StatusFile, StatusWriter, opened, status_at, status_file
from spark_stomp.status.source import lasting


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
        assert place(checkpointLocation=tmp_path) == status_file(
            sink_options("stomp://h", checkpointLocation=tmp_path)
        )
        assert status_at(str(tmp_path)).path == status_at(f"file:{tmp_path}/").path == beside
        assert status_at(beside).path == beside

    @pytest.mark.parametrize(
        ("named", "of_sink"),
        [("s.json", "s.sink.json"), ("status", "status.sink"), ("a.b.json", "a.b.sink.json")],
    )
    def test_the_sink_has_a_file_beside_it(self, tmp_path: Path, named: str, of_sink: str) -> None:
        assert place(statusFile=tmp_path / named).of_sink.path == str(tmp_path / of_sink)

    def test_a_place_that_cannot_be_is_an_error_of_the_option(self) -> None:
        with pytest.raises(OptionError, match="statusFile nosuch://place/s cannot be opened"):
            place(statusFile="nosuch://place/s")

    def test_a_query_starts_without_one_if_a_store_does_not_answer(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        over = threading.Event()
        monkeypatch.setattr("spark_stomp.status.files.resolve", lambda _: over.wait(60.0))
        monkeypatch.setattr("spark_stomp.status.files._OPEN", 0.05)
        assert opened(source_options("stomp://h", statusFile="s3://bucket/s")) is None
        assert "no status is written" in caplog.text
        over.set()

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

        writer = StatusWriter(place(statusFile=tmp_path / "s"), look)
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

        writer = StatusWriter(place(statusFile=path), look)
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
