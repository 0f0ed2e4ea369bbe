"""The status file: where it is, when it is written, and that the query never waits for it."""

from __future__ import annotations

import json
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.driven import Run
from support.options import source_options
from support.waiting import wait_until

from spark_stomp.cli import main
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import OptionError, RangeUnavailable
from spark_stomp.source.status import lasting
from spark_stomp.source.status_file import StatusWriter, opened
from spark_stomp.status_files import StatusFile, status_file

QUEUE = "/queue/a"


def read(path: Path) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return shown


def wait_shown(path: Path, **wanted: object) -> dict[str, Any]:
    """The status, once its totals or its own keys are these."""

    def shows() -> bool:
        shown = read(path) if path.exists() else {}
        return wanted.items() <= (shown.get("totals", {}) | shown).items()

    wait_until(shows, what=f"{wanted} in the status file")
    return read(path)


class Place:
    """A place whose writes are counted and may fail or hang."""

    def __init__(self, folder: Path) -> None:
        made = status_file(source_options("stomp://h", statusFile=folder / "status.json"))
        assert made is not None
        self.file, self.path = made, folder / "status.json"


class TestWhere:
    def test_nowhere_unless_asked_for(self) -> None:
        assert status_file(source_options("stomp://h")) is None

    def test_beside_the_checkpoint(self, tmp_path: Path) -> None:
        file = status_file(source_options("stomp://h", checkpointLocation=tmp_path))
        assert file is not None
        assert file.path == f"{tmp_path}/spark_stomp/status.json"

    def test_where_the_option_says(self, tmp_path: Path) -> None:
        options = source_options("stomp://h", checkpointLocation=tmp_path, statusFile=f"file:{tmp_path}/s")
        file = status_file(options)
        assert file is not None
        assert file.path == f"{tmp_path}/s"

    def test_a_place_that_cannot_be_is_an_error_of_the_option(self) -> None:
        with pytest.raises(OptionError, match="statusFile nosuch://place/s cannot be opened"):
            status_file(source_options("stomp://h", statusFile="nosuch://place/s"))

    def test_a_query_starts_without_one_if_a_store_does_not_answer(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        over = threading.Event()
        monkeypatch.setattr("spark_stomp.status_files.resolve", lambda _: over.wait(60.0))
        monkeypatch.setattr("spark_stomp.source.status_file._OPEN", 0.05)
        assert opened(source_options("stomp://h", statusFile="s3://bucket/s")) is None
        assert "no status is written" in caplog.text
        over.set()

    def test_in_a_store_it_is_written_more_rarely(self, tmp_path: Path) -> None:
        local = status_file(source_options("stomp://h", statusFile=tmp_path / "s"))
        mounted = status_file(source_options("stomp://h", statusFile="dbfs:/s"))
        assert local is not None
        assert mounted is not None
        assert (local.look_every, local.write_every) == (1.0, 10.0)
        assert (mounted.look_every, mounted.write_every) == (10.0, 60.0)


class TestTheFile:
    def test_is_replaced_and_for_the_user_alone(self, tmp_path: Path) -> None:
        place = Place(tmp_path / "made")
        place.file.write(b"one")
        with place.path.open("rb") as first:
            place.file.write(b"two")
            assert first.read() == b"one"
        assert place.path.read_bytes() == b"two"
        assert stat.S_IMODE(place.path.stat().st_mode) == 0o600
        assert [path.name for path in place.path.parent.iterdir()] == ["status.json"]

    def test_nothing_is_made_under_a_checkpoint_that_is_not_there(self, tmp_path: Path) -> None:
        file = status_file(source_options("stomp://h", checkpointLocation=tmp_path / "mistyped"))
        assert file is not None
        with pytest.raises(FileNotFoundError):
            file.write(b"one")
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

        writer = StatusWriter(Place(tmp_path).file, look)
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
        place = Place(tmp_path / "late" / "later")
        looks: list[bool] = []

        def look(running: bool) -> dict[str, Any]:
            looks.append(running)
            if len(looks) == 1:
                raise KeyError("a bug")
            return {"running": running}

        writer = StatusWriter(place.file, look)
        writer.start()
        wait_until(lambda: len(looks) > 10, what="attempts")
        (record,) = caplog.records
        assert "cannot be written: KeyError('a bug')" in record.getMessage()
        (tmp_path / "late").mkdir()
        wait_shown(place.path, running=True)
        writer.stop(10.0)
        assert read(place.path) == {"running": False}

    def test_what_changes_though_nothing_happens_is_no_news(self) -> None:
        one = {"oldest_unacked_seconds": 1.0, "unacked": 3}
        shown = {"written_at": "now", "totals": one, "receivers": {"a#0": one}, "journal": None}
        later = one | {"oldest_unacked_seconds": 2.0}
        assert lasting(shown) == lasting(shown | {"written_at": "then", "totals": later})
        assert lasting(shown) == lasting(shown | {"receivers": {"a#0": later}})
        assert lasting(shown) != lasting(shown | {"receivers": {"a#0": one | {"unacked": 4}}})


class TestOfAQuery:
    def test_shows_it_from_beginning_to_end(self, devbroker: DevBroker, tmp_path: Path) -> None:
        path = tmp_path / "status.json"
        devbroker.publish_many(QUEUE, [b"m"] * 5)
        with Run({"url": devbroker.url, "destination": QUEUE, "statusFile": str(path)}) as run:
            run.gather(5)
            shown = wait_shown(path, unacked=5, running=True)
            assert shown["totals"]["rows_waiting"] == 5
            run.commit()
            shown = wait_shown(path, unacked=0, rows=5)
            assert shown["totals"]["rows_waiting"] == 0
            assert shown["query"] == QUEUE
        shown = read(path)
        assert not shown["running"]
        assert shown["failure"] is None

    def test_rows_are_those_of_this_run(self, devbroker: DevBroker, tmp_path: Path) -> None:
        options = {"url": devbroker.url, "destination": QUEUE, "journal": str(tmp_path / "journal")}

        def rows(run: Run) -> tuple[int, int]:
            totals = run.status.document["totals"]
            return totals["rows"], totals["rows_waiting"]

        devbroker.publish_many(QUEUE, [b"m"] * 7)
        with Run(options, maxMessagesPerTrigger=5) as first:
            first.gather(5)
            first.commit()
            wait_until(lambda: rows(first) == (5, 2), what="the rows of the first run")
        with Run(options) as second:
            second.start = second.end = first.start
            second.gather(2)
            assert rows(second) == (0, 2)
            second.commit()
            assert rows(second) == (2, 0)

    def test_is_beside_the_checkpoint(self, devbroker: DevBroker, tmp_path: Path) -> None:
        with Run({"url": devbroker.url, "destination": QUEUE, "checkpointLocation": str(tmp_path)}) as run:
            run.idle()
            shown = wait_shown(tmp_path / "spark_stomp" / "status.json", connected=1)
            assert shown["query"] == tmp_path.name

    def test_goes_on_while_the_broker_is_down(self, tmp_path: Path) -> None:
        path = tmp_path / "status.json"
        with DevBroker() as broker:
            broker.publish_many(QUEUE, [b"m"] * 5)
            options = {"url": broker.url, "destination": QUEUE, "statusFile": str(path)}
            with Run(options, reconnectTimeout="1m") as run:
                run.gather(5)
                wait_shown(path, connected=1)
                broker.stop()
                (down,) = wait_shown(path, connected=0)["receivers"].values()
                assert down["disconnected_since"] is not None
                assert down["connected_since"] is None
                assert down["last_error"].startswith("[STOMP_CONNECT")
                wait_until(
                    lambda: next(iter(read(path)["receivers"].values()))["attempts"] > down["attempts"],
                    what="more attempts in the status file",
                )

    def test_a_failure_is_shown(self, tmp_path: Path) -> None:
        path = tmp_path / "status.json"
        with DevBroker() as broker:
            options = {"url": broker.url, "destination": QUEUE, "statusFile": str(path)}
            with Run(options, reconnectTimeout="1ms") as run:
                run.idle()
                broker.stop()
                wait_until(lambda: run.status.failure is not None, what="the end of the receiver")
                wait_shown(path, connected=0)
        assert read(path)["failure"].startswith("[STOMP_CONNECTION_LOST]")

    def test_an_error_that_spark_was_told_is_shown(self, devbroker: DevBroker, tmp_path: Path) -> None:
        path = tmp_path / "status.json"
        options = {"url": devbroker.url, "destination": QUEUE, "statusFile": str(path)}
        devbroker.publish_many(QUEUE, [b"m"] * 5)
        with Run(options) as run:
            run.gather(5)
            start = run.start
            run.commit()
            with pytest.raises(RangeUnavailable):
                run.reader.partitions(start, run.end)
        assert read(path)["failure"].startswith("[STOMP_RANGE_UNAVAILABLE]")

    @pytest.mark.parametrize("committed", [False, True])
    def test_an_end_within_a_batch_is_shown(
        self, devbroker: DevBroker, tmp_path: Path, committed: bool
    ) -> None:
        """All that a source sees if a sink fails: its process is told to end."""

        def log(name: str, content: object) -> None:
            (tmp_path / name).mkdir()
            (tmp_path / name / "0").write_text("v1\n{}\n" + json.dumps(content))

        path = tmp_path / "spark_stomp" / "status.json"
        devbroker.publish_many(QUEUE, [b"m"] * 5)
        with Run({"url": devbroker.url, "destination": QUEUE, "checkpointLocation": str(tmp_path)}) as run:
            while run.end == run.start:
                run.end = run.reader.latestOffset(run.start, None)
            log("offsets", run.end)
            run.read()
            assert not wait_shown(path, unacked=5)["unfinished"]
            if committed:
                log("commits", {})
        assert read(path)["unfinished"] is not committed
        assert main(["status", str(tmp_path), "--quiet"]) == (0 if committed else 1)

    def test_nobody_waits_for_a_write_that_hangs(
        self, devbroker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, over = threading.Event(), threading.Event()

        def hang(self: StatusFile, content: bytes) -> None:
            begun.set()
            over.wait(60.0)

        monkeypatch.setattr(StatusFile, "write", hang)
        devbroker.publish_many(QUEUE, [b"m"] * 5)
        options = {"url": devbroker.url, "destination": QUEUE, "statusFile": str(tmp_path / "status.json")}
        with Run(options) as run:
            run.gather(5)
            assert begun.wait(60.0)
            run.commit()
            wait_until(lambda: devbroker.queue(QUEUE).acked == 5, what="the ACKs")
            at = time.monotonic()
        assert time.monotonic() - at < 5.0
        over.set()
