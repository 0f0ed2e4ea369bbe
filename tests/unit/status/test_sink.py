"""The sink's part of the status: counted over the batches of a run, and merged with that of the source."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.options import sink_options, source_options
from support.typed import misfits

from spark_stomp.status import prometheus, read_status
from spark_stomp.status.document import SinkFigures
from spark_stomp.status.files import status_file
from spark_stomp.status.sink import SinkPart, TaskFigures, report, was_reported


def figures(confirmed: int, *latencies: float) -> TaskFigures:
    made = TaskFigures(connections=1, confirmed=confirmed, resent=2, blocked_seconds=1.5)
    made.count_latencies(np.array(latencies))
    return made


def test_what_is_shown_is_what_is_declared(tmp_path: Path) -> None:
    options = sink_options("stomp://h", checkpointLocation=tmp_path / "flights")
    (tmp_path / "flights").mkdir()
    report(options, figures(3, 0.5), "run", 4)
    shown = read_status(tmp_path / "flights" / "spark_stomp" / "status.json")
    assert shown["sink"].keys() == {one.key for one in SinkPart.figures()}
    assert [*misfits(shown["sink"], SinkFigures)] == []
    assert (shown["query"], shown["run"], shown["sink"]["batch"]) == ("flights", "run", 4)
    assert shown["sink"]["receipt_p50_seconds"] == pytest.approx(0.5, rel=0.2)


def test_batches_of_a_run_are_counted_together(tmp_path: Path) -> None:
    options = sink_options("stomp://h", statusFile=tmp_path / "s.json", queryName="mine")
    report(options, figures(3, 0.5), "first", 0)
    report(options, figures(4), "first", 1)
    sink = read_status(tmp_path / "s.json")["sink"]
    assert (sink["confirmed"], sink["resent"], sink["connections"], sink["blocked_seconds"]) == (7, 4, 2, 3.0)
    assert sink["receipt_p50_seconds"] == pytest.approx(0.5, rel=0.2)
    assert sink["query"] == "mine"
    report(options, figures(1), "second", 2)
    sink = read_status(tmp_path / "s.json")["sink"]
    assert (sink["confirmed"], sink["receipt_p50_seconds"]) == (1, None)


def test_it_stands_beside_that_of_the_source(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    source = status_file(source_options("stomp://h", statusFile=path))
    assert source is not None
    document = {"version": 1, "query": "q", "running": True, "totals": {"rows": 5}, "receivers": {}}
    source.write(json.dumps({**document, "journal": None}).encode())
    report(sink_options("stomp://h", statusFile=path), figures(3, 0.5), "run", 0)
    shown = read_status(path)
    assert (shown["totals"]["rows"], shown["sink"]["confirmed"]) == (5, 3)
    text = prometheus(path)
    labels = f'query="q",file="{path}"'
    assert f'spark_stomp_rows_total{{{labels},source="1"}} 5' in text
    assert f"spark_stomp_sink_confirmed_total{{{labels}}} 3" in text
    assert f"spark_stomp_sink_receipt_p99_seconds{{{labels}}} 0." in text


def test_one_that_cannot_be_written_costs_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = sink_options("stomp://h", checkpointLocation=tmp_path / "missing")
    report(options, figures(1), "run", 0)
    report(options, figures(1), "run", 1)
    assert caplog.text.count("cannot be written") == 1
    (tmp_path / "missing").mkdir()
    report(options, figures(1), "run", 2)
    assert read_status(tmp_path / "missing/spark_stomp/status.json")["sink"]["confirmed"] == 1


@pytest.mark.parametrize("there", ["[]", "null", '{"run": "r", "confirmed": null}', "[" * 100_000])
def test_what_is_no_status_is_replaced(tmp_path: Path, there: str) -> None:
    """The batch is confirmed: nothing in a file may fail it."""
    options = sink_options("stomp://h", statusFile=tmp_path / "status.json")
    (tmp_path / "status.sink.json").write_text(there)
    assert not was_reported(options, "other")
    report(options, figures(1), "r", 0)
    assert read_status(tmp_path / "status.json")["sink"]["confirmed"] == 1


def test_nowhere_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report(sink_options("stomp://h"), figures(1), None, None)
    assert list(tmp_path.iterdir()) == []


def test_latencies_are_right_to_a_fifth() -> None:
    assert TaskFigures().latency(0.5) is None
    for seconds in (1e-6, 0.001, 0.25, 3.0, 1e9):
        within = figures(0, *[seconds] * 99, 20 * seconds)
        half, all_of_them = within.latency(0.5), within.latency(1.0)
        assert half is not None and all_of_them is not None
        if 1e-4 < seconds < 1e4:
            assert seconds <= half <= 1.2 * seconds
            assert all_of_them == pytest.approx(20 * half, rel=0.2)
