"""spark_stomp.demo: results, samples and the proof. A proof that cannot fail proves nothing."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.waiting import wait_until

from spark_stomp.demo.broker import BrokerProcess, QueueCounts
from spark_stomp.demo.flights import Expected
from spark_stomp.demo.plot import save_plot
from spark_stomp.demo.progress import Progress
from spark_stomp.demo.publisher import publish
from spark_stomp.demo.report import checks, progress_line, result_table
from spark_stomp.demo.results import BatchResult, Statistics
from spark_stomp.demo.watch import Sample

TOTALS = {("UA", "EWR"): Counter(flights=3, departures=2, minutes=150, late=1)}
EXPECTED = Expected(flights=3, alerts={2}, totals=TOTALS)
FLIGHTS = QueueCounts(depth=0, unacked=0, enqueued=3, acked=3, redelivered=0)
ALERTS = QueueCounts(depth=0, unacked=0, enqueued=1, acked=1, redelivered=0)
END = Sample(seconds=9.0, rows=3, batches=2, alerts=1, flights_queue=FLIGHTS, alerts_queue=ALERTS, archived=1)
ARCHIVE = [json.dumps({"id": 2}).encode()]


def results(*ids: int) -> Statistics:
    statistics = Statistics()
    statistics.put(0, BatchResult(np.array(ids), TOTALS, 1))
    return statistics


class TestStatistics:
    def test_batches_add_up(self) -> None:
        statistics = results(0, 1, 2)
        statistics.put(1, BatchResult(np.array([2, 3]), {("UA", "EWR"): {"flights": 2}}, 4))
        assert (statistics.batches, statistics.rows, statistics.distinct_ids()) == (2, 5, 4)
        assert statistics.alerts == 5
        assert statistics.totals()["UA", "EWR"]["flights"] == 5

    def test_a_repeated_batch_replaces_itself(self) -> None:
        statistics = results(0, 1, 2)
        statistics.put(0, BatchResult(np.array([0, 1]), TOTALS, 0))
        assert (statistics.rows, statistics.alerts) == (2, 0)

    def test_nothing_yet(self) -> None:
        assert (Statistics().rows, Statistics().distinct_ids(), Statistics().totals()) == (0, 0, {})


class TestProof:
    def test_holds(self) -> None:
        assert all(check.holds for check in checks(END, results(0, 1, 2), EXPECTED, ARCHIVE))

    @pytest.mark.parametrize(
        ("end", "ids", "archive", "failing"),
        [
            (END, (0, 1), ARCHIVE, "sent 3 = rows 2"),
            (END, (0, 1, 1), ARCHIVE, "2 different flights"),
            (END, (0, 1, 2, 2), ARCHIVE, "rows 4"),
            (replace(END, flights_queue=replace(FLIGHTS, acked=2)), (0, 1, 2), ARCHIVE, "ACKed 2"),
            (
                replace(END, flights_queue=replace(FLIGHTS, depth=1, unacked=1)),
                (0, 1, 2),
                ARCHIVE,
                "un-acked 1",
            ),
            (replace(END, alerts_queue=replace(ALERTS, enqueued=2)), (0, 1, 2), ARCHIVE, "sent 2 = ACKed 1"),
            (replace(END, alerts_queue=replace(ALERTS, depth=1)), (0, 1, 2), ARCHIVE, "queues are empty"),
            (END, (0, 1, 2), [], "archive is complete: 0"),
            (END, (0, 1, 2), ARCHIVE * 2, "archive is complete: 2 alerts, 1 different"),
            (END, (0, 1, 2), [b'{"id": 1}'], "archive is complete"),
        ],
    )
    def test_fails(self, end: Sample, ids: tuple[int, ...], archive: list[bytes], failing: str) -> None:
        failed = [str(check) for check in checks(end, results(*ids), EXPECTED, archive) if not check.holds]
        assert any(failing in text for text in failed), failed

    def test_other_statistics_than_those_of_the_file(self) -> None:
        other = Expected(flights=3, alerts={2}, totals={})
        failed = [check.text for check in checks(END, results(0, 1, 2), other, ARCHIVE) if not check.holds]
        assert failed == ["the statistics are those of the file"]


class TestSample:
    def test_all_arrived(self) -> None:
        assert END.all_arrived
        assert not replace(END, archived=0).all_arrived
        assert not replace(END, rows=2).all_arrived
        assert not replace(END, alerts_queue=replace(ALERTS, acked=0)).all_arrived

    def test_same_state_whatever_the_time(self) -> None:
        assert END.same_state(replace(END, seconds=99.0))
        assert not END.same_state(replace(END, archived=2))


class TestText:
    def test_progress(self) -> None:
        before = replace(END, seconds=8.0, rows=1)
        line = progress_line(END, before, rows=6)
        assert "rows       3 ( 50%)" in line
        assert "      2 rows/s" in line
        assert "un-acked      0" in line

    def test_table(self) -> None:
        table = result_table(TOTALS | {("XX", "JFK"): Counter(flights=1)}, {"UA": "United"})
        head, _, _, united, unknown = table.splitlines()
        assert united.split() == ["United", "3", "75.0", "-", "-", "50%"]
        assert unknown.split() == ["XX", "1", "-", "-", "-", "-"]
        assert len(head) == len(united) == len(unknown)


def test_plot(tmp_path: Path) -> None:
    path = tmp_path / "new" / "plot.png"
    save_plot(path, TOTALS, [replace(END, seconds=0.0, rows=0), END])
    assert path.read_bytes().startswith(b"\x89PNG")


def test_flights_go_over_the_wire_to_a_broker_in_another_process() -> None:
    with BrokerProcess() as broker:
        assert publish(broker.url, "/queue/flights", (b"%d" % number for number in range(300))) == 300
        counts = broker.queue("/queue/flights")
        assert (counts.depth, counts.enqueued, counts.acked) == (300, 300, 0)
        assert broker.bodies("/queue/flights")[:2] == [b"0", b"1"]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestProgress:
    def samples(self) -> list[Sample]:
        """Nothing yet, then one of three rows, the same again, and all."""
        none = replace(END, seconds=2.0, rows=0, batches=0)
        one = replace(END, seconds=4.0, rows=1, batches=1)
        return [none, one, replace(one, seconds=5.0), END]

    def test_is_lines_where_there_is_no_terminal(self) -> None:
        out = io.StringIO()
        progress = Progress(3, out)
        with progress.waiting("Starting Spark"):
            pass
        for sample in self.samples():
            progress.show(sample)
        progress.end()
        lines = out.getvalue().splitlines()
        assert lines[0] == "Starting Spark ..."
        # A second in which nothing moved is none.
        assert [line.split()[0] for line in lines[1:]] == ["2.0", "4.0", "9.0"]
        assert "\r" not in out.getvalue() and "\x1b" not in out.getvalue()

    def test_is_a_bar_in_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("NO_COLOR", "1")
        out = Screen()
        progress = Progress(3, out)
        with progress.waiting("Starting Spark"):
            wait_until(lambda: out.getvalue().count("Starting Spark") >= 2, what="the second tick")
        for sample in self.samples():
            progress.show(sample)
        progress.end()
        *waited, begun, one, _, done, end = out.getvalue().replace("\x1b[K", "").split("\r")
        assert waited[0] == "Starting Spark ... 0.0 s"
        assert begun.startswith("\nWaiting for the first batch") and "0.0 s   3 flights sent" in begun
        assert one.startswith("██████░░░░░░░░░░░░░░  33%  1 of 3  0/s  batch 1")
        assert done == "████████████████████ 100%  3 of 3  0/s  batch 2  un-acked 0  alerts 1" and end == "\n"

    def test_the_rate_is_that_of_some_seconds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """How long Spark took to start its workers says nothing about it."""
        monkeypatch.setenv("TERM", "xterm")
        out = Screen()
        progress = Progress(30_000, out)
        for second in range(80):
            progress.show(replace(END, seconds=float(second), rows=1000 * max(0, second - 60)))
        assert out.getvalue().endswith("1,000/s  batch 2  un-acked 0  alerts 1\x1b[K\r")

    def test_ends_its_line_whatever_happens(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "xterm")
        out = Screen()
        with pytest.raises(RuntimeError), Progress(3, out).waiting("Starting Spark"):
            raise RuntimeError
        assert out.getvalue().endswith("\n")
