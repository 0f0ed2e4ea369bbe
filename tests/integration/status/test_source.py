"""What a query writes into its status file, from its beginning to its end."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.driven import Run, log_entry
from support.waiting import wait_until

from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import RangeUnavailable
from spark_stomp.source.receivers import ReceiverGroup
from spark_stomp.status.figure import moment
from spark_stomp.status.files import StatusFile

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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "status.json"


@pytest.fixture
def options(devbroker: DevBroker, path: Path) -> dict[str, str]:
    """Of a query whose queue has five messages."""
    devbroker.publish_many(QUEUE, [b"m"] * 5)
    return {"url": devbroker.url, "destination": QUEUE, "statusFile": str(path)}


class TestOfAQuery:
    def test_shows_it_from_beginning_to_end(self, options: dict[str, str], path: Path) -> None:
        with Run(options) as run:
            run.gather(5)
            shown = wait_shown(path, unacked=5, running=True)
            assert shown["totals"]["rows_waiting"] == 5
            assert [one["heard_at"] is not None for one in shown["receivers"].values()] == [True]
            given = {"url": options["url"], "destination": QUEUE, "statusFile": str(path)}
            assert given.items() <= shown["options"].items()
            run.commit()
            shown = wait_shown(path, unacked=0, rows=5)
            assert shown["totals"]["rows_waiting"] == 0
            assert shown["query"] == QUEUE
        shown = read(path)
        assert not shown["running"]
        assert shown["failure"] is None

    @pytest.mark.parametrize("step", [-7200.0, 7200.0])
    def test_a_clock_that_is_set_changes_no_age(
        self,
        options: dict[str, str],
        path: Path,
        devbroker: DevBroker,
        monkeypatch: pytest.MonkeyPatch,
        step: float,
    ) -> None:
        clock, set_by = time.time, 0.0
        monkeypatch.setattr("time.time", lambda: clock() + set_by)
        began = clock()
        with Run(options) as run:
            run.gather(5)
            run.batch()
            set_by = step
            devbroker.publish(QUEUE, b"later")
            wait_shown(path, unacked=6)

            def ages() -> list[float]:
                shown = read(path)
                figure = (shown["totals"] | shown).get
                moments = map(figure, ("oldest_unacked_at", "batch_since", "waiting_since"))
                return [moment(shown["written_at"]) - moment(at) for at in moments if at]

            def are_right() -> bool:
                return len(found := ages()) == 3 and all(-0.1 < age < clock() - began for age in found)

            wait_until(are_right, what="the ages")
            assert 0 < read(path)["totals"]["oldest_unacked_seconds"] < clock() - began

    def test_rows_are_those_of_this_run(self, options: dict[str, str], tmp_path: Path) -> None:
        options["journal"] = str(tmp_path / "journal")

        def rows(run: Run) -> tuple[int, int]:
            totals = run.status.document["totals"]
            return totals["rows"], totals["rows_waiting"]

        with Run(options, maxMessagesPerTrigger=3) as first:
            first.gather(3)
            first.commit()
            wait_until(lambda: rows(first) == (3, 2), what="the rows of the first run")
        with Run(options) as second:
            second.start = second.end = first.start
            second.gather(2)
            assert rows(second) == (0, 2)
            second.commit()
            assert rows(second) == (2, 0)

    def test_a_failure_is_shown(self, options: dict[str, str], path: Path, devbroker: DevBroker) -> None:
        with Run(options, reconnectTimeout="1ms") as run:
            run.gather(5)
            devbroker.stop()
            wait_until(lambda: run.status.failure is not None, what="the end of the receiver")
            wait_shown(path, connected=0)
        assert read(path)["failure"].startswith("[STOMP_CONNECTION_LOST]")

    def test_an_error_that_spark_was_told_is_shown(self, options: dict[str, str], path: Path) -> None:
        with Run(options) as run:
            run.gather(5)
            start = run.start
            run.commit()
            with pytest.raises(RangeUnavailable):
                run.reader.partitions(start, run.end)
        assert read(path)["failure"].startswith("[STOMP_RANGE_UNAVAILABLE]")

    @pytest.mark.parametrize("committed", [False, True])
    def test_an_end_within_a_batch_is_shown(
        self, options: dict[str, str], tmp_path: Path, committed: bool
    ) -> None:
        """All that a source sees if a sink fails: its process is told to end."""

        path = tmp_path / "spark_stomp" / "status.json"
        del options["statusFile"]
        with Run(options, checkpointLocation=tmp_path) as run:
            while run.end == run.start:
                run.end = run.reader.latestOffset(run.start, None)
            log_entry(tmp_path, "offsets", 0, run.end)
            run.read()
            assert not wait_shown(path, unacked=5)["unfinished"]
            if committed:
                log_entry(tmp_path, "commits", 0, {})
        assert read(path)["unfinished"] is not committed
        assert main(["status", str(tmp_path), "--quiet"]) == (0 if committed else 1)

    @pytest.mark.parametrize("ended", ["committed", "within a batch", "within a batch of a journal"])
    def test_without_a_checkpoint_a_call_that_never_came_shows_it(
        self, options: dict[str, str], path: Path, tmp_path: Path, ended: str
    ) -> None:
        """The messages of that batch come again, but for those that a journal has ACKed before."""
        if ended == "within a batch of a journal":
            options |= {"journal": str(tmp_path / "journal"), "ackAfter": "journal"}
        with Run(options) as run:
            run.gather(5)
            if ended == "committed":
                run.commit()
        status = read(path)
        assert status["unfinished"] is (ended == "within a batch")
        assert (status["last_commit_at"] is not None) is (ended == "committed")
        assert status["waiting_for"] is status["batch_since"] is None

    def test_of_durable_messages_that_are_acked_none_counts_as_committed(
        self, options: dict[str, str], tmp_path: Path
    ) -> None:
        with Run(options, journal=tmp_path / "journal", ackAfter="journal") as run:
            run.gather(5)
            wait_until(lambda: run.counters()[0]["acked"] == 5, what="the ACKs")
            assert run.status.document["totals"]["committed"] == 0
            assert run.counters()[0]["committed"] is None
            run.commit()
            assert run.status.document["totals"]["committed"] == 5

    def test_nobody_waits_for_a_write_that_hangs(
        self, options: dict[str, str], devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, over = threading.Event(), threading.Event()

        def hang(self: StatusFile, content: bytes) -> None:
            begun.set()
            over.wait(60.0)

        monkeypatch.setattr(StatusFile, "write", hang)
        with Run(options) as run:
            run.gather(5)
            assert begun.wait(60.0)
            run.commit()
            wait_until(lambda: devbroker.queue(QUEUE).acked == 5, what="the ACKs")
            at = time.monotonic()
        assert time.monotonic() - at < 5.0
        over.set()


class TestOfTwoSources:
    """Of one query, so with the same checkpoint, and here with all options alike."""

    def test_the_exit_code_is_that_of_the_worst(
        self, devbroker: DevBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = {"url": devbroker.url, "destination": QUEUE, "checkpointLocation": str(tmp_path)}
        with Run(options) as one, DevBroker() as broker:
            one.idle()
            with Run({**options, "url": broker.url}) as two:
                two.idle()
                broker.stop()
                wait_shown(tmp_path / "spark_stomp" / "status.json", connected=1)
                wait_shown(tmp_path / "spark_stomp" / "status-2.json", connected=0)
                assert main(["status", str(tmp_path), "--quiet"]) == 1
                assert main(["status", str(tmp_path / "spark_stomp" / "status.json"), "--quiet"]) == 0
                assert main(["status", str(tmp_path)]) == 1
                assert "1 of 1 receiver not connected" in capsys.readouterr().out

    def test_a_run_takes_the_file_of_one_that_is_being_stopped(
        self, devbroker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Spark does not wait until a source has ended, and a broker may keep it waiting."""
        options = {"url": devbroker.url, "destination": QUEUE, "checkpointLocation": str(tmp_path)}
        path = tmp_path / "spark_stomp" / "status.json"
        over, stop = threading.Event(), ReceiverGroup.stop

        def slow(self: ReceiverGroup, timeout: float) -> None:
            over.wait(60.0)
            stop(self, timeout)

        monkeypatch.setattr(ReceiverGroup, "stop", slow)
        with Run(options) as old:
            old.idle()
            ending = threading.Thread(target=old.reader.stop)
            ending.start()
            shown = wait_shown(path, stopping=True)
            assert shown["running"]
            try:
                with Run(options) as new:
                    new.idle()
                    later = wait_shown(path, stopping=False)
                    assert (later["source"], later["run"] != shown["run"]) == (1, True)
                    over.set()
                    ending.join(60.0)
                    assert read(path)["run"] == later["run"]
            finally:
                over.set()
        assert not path.with_name("status-2.json").exists()
