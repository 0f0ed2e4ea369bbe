"""What a query shows is what is declared and documented, can be read back, and is text for Prometheus."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse
from support.driven import Run
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.status import prometheus, read_status
from spark_stomp.status.figure import VERSION, Part
from spark_stomp.status.sink import SinkPart
from spark_stomp.status.source import SUMMED, JournalPart, QueryPart, ReceiverPart, TotalsPart

QUEUE = "/queue/a"


@pytest.fixture
def status(devbroker: DevBroker, tmp_path: Path) -> dict[str, Any]:
    """Of a run that has read five messages of two queues, and committed two of them."""
    path = tmp_path / "status.json"
    options = {"url": devbroker.url, "destination": f'["{QUEUE}", "/queue/b"]', "statusFile": str(path)}
    devbroker.publish_many(QUEUE, [b"m"] * 3)
    devbroker.publish_many("/queue/b", [b"m"] * 2)
    with Run(options, journal=tmp_path / "journal", maxMessagesPerTrigger=2) as run:
        run.batch()
        run.commit()
        wait_until(lambda: run.status.document["journal"]["end"] == 5, what="the journal")
        wait_until(lambda: run.status.document["totals"]["unacked"] == 3, what="the receipts")
    return read_status(path)


FORGED: dict[str, Any] = {"version": 1, "query": "q", "run": "r", "host": "h", "totals": {"rows": 1}}


def parsed(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Name, labels and number of all series; no two have the same name and labels."""
    assert text.endswith("\n")
    series = [(one.name, dict(one.labels), one.value) for family in parse(text) for one in family.samples]
    assert len({(name, *labels.items()) for name, labels, _ in series}) == len(series)
    return series


def names(part: type[Part]) -> set[str]:
    return {figure.key for figure in part.figures()}


class TestKeys:
    def test_what_is_shown_is_what_is_declared(self, status: dict[str, Any]) -> None:
        assert status.keys() == names(QueryPart) | {"file"}
        assert status["version"] == VERSION
        assert status["totals"].keys() == names(TotalsPart) | {figure.key for figure in SUMMED}
        assert status["journal"].keys() == names(JournalPart)
        assert status["receivers"].keys() == {f"{QUEUE}#0", "/queue/b#0"}
        for figures in status["receivers"].values():
            assert figures.keys() == names(ReceiverPart)

    def test_totals_are_those_of_all_receivers(self, status: dict[str, Any]) -> None:
        totals = status["totals"]
        assert (totals["rows"], totals["rows_waiting"]) == (2, 3)
        assert totals["delivered"] == totals["received"] == 5
        assert totals["receivers"] == totals["connected"] == 2

    def test_each_has_a_meaning_and_a_metric_of_its_own(self) -> None:
        parts = (QueryPart, TotalsPart, ReceiverPart, JournalPart, SinkPart)
        named = [(part.metric_of(one), one) for part in parts for one in part.figures() if one.kind]
        assert len(named) == len(dict(named)) >= 50
        assert all(one.meaning.endswith(".") for part in parts for one in part.figures())


class TestPrometheus:
    """A series that is there twice, or one number that is none, costs the whole scrape."""

    def test_has_every_figure(self, status: dict[str, Any]) -> None:
        text = prometheus(status)
        assert len(parsed(text)) > 50
        query = f'query="{QUEUE},/queue/b",file="{status["file"]}"'
        assert f"spark_stomp_rows_total{{{query}}} 2\n" in text
        assert f"spark_stomp_journal_end{{{query}}} 5\n" in text
        receiver = f'{query},receiver="{QUEUE}#0",destination="{QUEUE}"'
        assert f"spark_stomp_delivered_total{{{receiver}}} 3\n" in text
        assert f"spark_stomp_window_full{{{receiver}}} 0\n" in text
        written = re.search(r"spark_stomp_written_timestamp_seconds\{.*\} (.*)", text)
        assert written is not None
        assert float(written[1]) > 1.7e9

    def test_labels_are_escaped(self, status: dict[str, Any]) -> None:
        text = prometheus(status | {"query": 'a"b\\c\nd', "receivers": {}})
        assert 'spark_stomp_rows_total{query="a\\"b\\\\c\\nd",file="' in text
        assert {labels["query"] for _, labels, _ in parsed(text)} == {'a"b\\c\nd'}

    def test_of_several_queries_each_metric_is_declared_once(self, status: dict[str, Any]) -> None:
        text = prometheus(status, status | {"query": "other", "journal": None})
        assert text.count("# TYPE spark_stomp_rows_total counter\n") == 1
        assert 'spark_stomp_rows_total{query="other",' in text
        assert 'spark_stomp_journal_end{query="other",' not in text

    def test_takes_a_path_too(self, status: dict[str, Any], tmp_path: Path) -> None:
        path = tmp_path / "status.json"
        assert prometheus(path) == prometheus(str(path)) == prometheus(f"file:{path}") == prometheus(status)

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

    def test_a_run_more_changes_no_series(self, tmp_path: Path) -> None:
        path, series = tmp_path / "status.json", []
        for run in ("one", "two"):
            path.write_text(json.dumps(FORGED | {"run": run}))
            series.append([(name, labels) for name, labels, _ in parsed(prometheus(path))])
        assert series[0] == series[1]

    @pytest.mark.parametrize(
        "name", ['"', "\\", "\n", "\r", '\\"} 5\nforged 1\n#', "\ud800", "\u2028", "\0", "{}"]
    )
    def test_names_that_are_forged(self, name: str) -> None:
        one = {"destination": name, "attempts": 1}
        shown = parsed(prometheus(FORGED | {"query": name, "receivers": {name: one, f"{name}2": one}}))
        assert {name for name, _, _ in shown} == {"spark_stomp_rows_total", "spark_stomp_attempts"}

    @pytest.mark.parametrize("query", [None, 5, ["a"], True])
    def test_a_query_that_is_no_text(self, query: object) -> None:
        assert parsed(prometheus(FORGED | {"query": query}))[0][1]["query"] == str(query)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        *((content, r"status\.json is not a status file") for content in ("", "[]", "{}", "3", '{"a": 1}')),
        ('{"version": 2}', "has version 2 of the status; this release reads 1"),
    ],
)
def test_anything_but_a_status_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "status.json"
    with pytest.raises(FileNotFoundError):
        read_status(path)
    path.write_text(content)
    with pytest.raises(ValueError, match=words):
        read_status(path)
