"""A status file can be read back and becomes text for Prometheus, even if what it says is forged."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from spark_stomp.status import prometheus, read_status, read_statuses
from spark_stomp.status.end import EndPart
from spark_stomp.status.figure import iso
from spark_stomp.status.receivers import ReceiverPart, TotalsPart
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import JournalPart, QueryPart, QueuePart, UnfitPart

FORGED: dict[str, Any] = {"version": 1, "query": "q", "run": "r", "host": "h", "totals": {"rows": 1}}


def parsed(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Name, labels and number of all series; no two have the same name and labels."""
    assert text.endswith("\n")
    series = [(one.name, dict(one.labels), one.value) for family in parse(text) for one in family.samples]
    assert len({(name, *labels.items()) for name, labels, _ in series}) == len(series)
    return series


def test_each_key_has_a_meaning_and_its_own_metric() -> None:
    parts = (QueryPart, TotalsPart, ReceiverPart, QueuePart, UnfitPart, JournalPart, SinkPart, EndPart)
    named = [(part.metric_of(one), one) for part in parts for one in part.figures() if one.metric_type]
    assert len(named) == len(dict(named)) >= 50
    assert all(one.meaning.endswith(".") for part in parts for one in part.figures())


class TestPrometheus:
    """One series given twice, or one value that is not a number, makes the whole scrape fail."""

    def test_queries_whose_checkpoints_end_alike_are_told_apart(self, tmp_path: Path) -> None:
        places = [tmp_path / team / "orders" / "spark_stomp" / "status.json" for team in ("a", "b")]
        for place in places:
            place.parent.mkdir(parents=True)
            place.write_text(json.dumps(FORGED))
        shown = parsed(prometheus(*places))
        assert {labels["file"] for _, labels, _ in shown} == set(map(str, places))
        assert {labels["query"] for _, labels, _ in shown} == {"q"}

    def test_the_same_status_twice_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "status.json"
        path.write_text(json.dumps(FORGED))
        for twice in ((path, f"file:{path}"), (FORGED, FORGED)):
            with pytest.raises(ValueError, match='two statuses have the same labels: query="q"'):
                prometheus(*twice)

    def test_what_a_query_waits_for_is_a_label(self) -> None:
        shown = parsed(prometheus(FORGED | {"running": True, "waiting_on": 'spark"'}))
        assert ("spark_stomp_waiting", {"query": "q", "file": "", "source": "1", "on": 'spark"'}, 1) in shown
        assert "spark_stomp_waiting" not in prometheus(FORGED | {"waiting_on": None})
        with pytest.raises(ValueError, match="its waiting_on is 5"):
            prometheus(FORGED | {"waiting_on": 5})

    @pytest.mark.parametrize(("seconds", "there"), [(100, True), (200, False)])
    def test_rates_of_a_process_that_is_gone_are_not_there(self, seconds: int, there: bool) -> None:
        totals = {"rows": 5, "rows_per_second": 9.5, "received_per_second": 9.5}
        written = iso(time.time() - seconds)
        one = FORGED | {"running": True, "written_at": written, "waiting_on": "spark", "totals": totals}
        names = {name for name, _, _ in parsed(prometheus(one))}
        rates = {"spark_stomp_rows_per_second", "spark_stomp_received_per_second", "spark_stomp_waiting"}
        assert names >= {"spark_stomp_rows_total", "spark_stomp_written_timestamp_seconds"}
        assert names & rates == (rates if there else set())

    def test_a_run_more_changes_no_series(self, tmp_path: Path) -> None:
        path, series = tmp_path / "status.json", []
        for run in ("one", "two"):
            path.write_text(json.dumps(FORGED | {"run": run}))
            series.append([(name, labels) for name, labels, _ in parsed(prometheus(path))])
        assert series[0] == series[1]

    @pytest.mark.parametrize(
        "name", ['"', "\\", "\n", "\r", '\\"} 5\nforged 1\n#', "\ud800", "\u2028", "\0", "{"]
    )
    def test_names_that_are_forged(self, name: str) -> None:
        one = {"destinations": [name], "attempts": 1}
        shown = parsed(prometheus(FORGED | {"query": name, "receivers": {name: one, f"{name}2": one}}))
        assert {name for name, _, _ in shown} == {"spark_stomp_rows_total", "spark_stomp_attempts"}

    @pytest.mark.parametrize("query", [None, 5, ["a"], True])
    def test_a_query_that_is_no_text(self, query: object) -> None:
        assert parsed(prometheus(FORGED | {"query": query}))[0][1]["query"] == str(query)

    def test_the_sources_of_a_query_are_told_apart(self, tmp_path: Path) -> None:
        write(tmp_path, "status.json", source=1, receivers=RECEIVERS)
        write(tmp_path, "status-2.json", source=2, receivers=RECEIVERS)
        write(tmp_path, "status.sink.json", confirmed=5)
        shown = parsed(prometheus(tmp_path))
        attempts = [labels["source"] for name, labels, _ in shown if name == "spark_stomp_attempts"]
        assert attempts == ["1", "2"]
        sinks = [labels for name, labels, _ in shown if name.startswith("spark_stomp_sink")]
        assert sinks == [{"query": "q", "file": f"{tmp_path}/spark_stomp/status.json"}]


RECEIVERS = {"/queue/a#0": {"attempts": 1}}
TIMES = [f"2026-01-01T00:00:0{second}.000+00:00" for second in range(3)]


def write(checkpoint: Path, name: str, **keys: object) -> None:
    path = checkpoint / "spark_stomp" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(FORGED | keys))


class TestSeveralSources:
    def test_all_of_them_are_read_and_the_sink_once(self, tmp_path: Path) -> None:
        for number, name in enumerate(("status.json", "status-2.json", "status-3.json"), 1):
            write(tmp_path, name, source=number, started_at=TIMES[number - 1], driver="7@1")
        write(tmp_path, "status.sink.json", confirmed=5)
        statuses = read_statuses(tmp_path)
        assert [one["source"] for one in statuses] == [1, 2, 3]
        assert [one["sink"] and one["sink"]["confirmed"] for one in statuses] == [5, None, None]
        assert read_status(tmp_path) == statuses[0]
        # A file is that file.
        (second,) = read_statuses(tmp_path / "spark_stomp" / "status-2.json")
        assert second == statuses[1]

    def test_those_of_an_earlier_driver_are_not_shown(self, tmp_path: Path) -> None:
        """The last one that started says which driver it is; here Spark started the second source first."""
        write(tmp_path, "status.json", source=1, started_at=TIMES[0], driver="7@1")
        write(tmp_path, "status-2.json", source=2, started_at=TIMES[1], driver="7@2")
        write(tmp_path, "status.sink.json", confirmed=5)
        (only,) = read_statuses(tmp_path)
        assert (only["source"], only["sink"]["confirmed"]) == (2, 5)
        write(tmp_path, "status.json", source=1, started_at=TIMES[2], driver="7@2")
        assert [one["source"] for one in read_statuses(tmp_path)] == [1, 2]
        write(tmp_path, "status.json", source=1, started_at=TIMES[2], driver="7@2", host="other")
        assert [one["source"] for one in read_statuses(tmp_path)] == [1]

    def test_one_that_is_no_status_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, "status.json", source=1)
        write(tmp_path, "status-2.json", source=2, version=9)
        with pytest.raises(ValueError, match=r"status-2\.json has version 9"):
            read_statuses(tmp_path)

    def test_without_any(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            read_statuses(tmp_path)
        write(tmp_path, "status.sink.json", confirmed=5)
        (only,) = read_statuses(tmp_path)
        assert only.keys() == {"version", "query", "run", "host", "sink", "ended", "file"}
