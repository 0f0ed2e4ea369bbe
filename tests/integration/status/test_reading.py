"""The status file of a query has every declared figure, and becomes text for Prometheus."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse
from support.driven import Run
from support.typed import misfits
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.status import QueryStatus, prometheus, read_status
from spark_stomp.status.figure import VERSION, Part
from spark_stomp.status.receivers import SUMMED, ReceiverPart, TotalsPart
from spark_stomp.status.source import JournalPart, QueryPart

QUEUE = "/queue/a"


@pytest.fixture
def status(devbroker: DevBroker, tmp_path: Path) -> QueryStatus:
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
        assert status["receivers"].keys() == {f"{QUEUE}#0", "/queue/b#1"}
        for figures in status["receivers"].values():
            assert figures.keys() == names(ReceiverPart)

    def test_values_are_of_the_types_that_the_document_declares(self, status: QueryStatus) -> None:
        assert [*misfits(status, QueryStatus)] == []
        assert [*misfits({**status, "pid": "1"}, QueryStatus)] == [".pid"]

    def test_totals_are_those_of_all_receivers(self, status: dict[str, Any]) -> None:
        totals = status["totals"]
        assert (totals["rows"], totals["rows_waiting"]) == (2, 3)
        assert totals["delivered"] == totals["received"] == 5
        assert totals["receivers"] == totals["connected"] == 2


class TestPrometheus:
    def test_has_every_figure(self, status: dict[str, Any]) -> None:
        text = prometheus(status)
        assert len(parsed(text)) > 50
        query = f'query="{QUEUE} and 1 more",file="{status["file"]}",source="1"'
        assert f"spark_stomp_rows_total{{{query}}} 2\n" in text
        assert f"spark_stomp_journal_end{{{query}}} 5\n" in text
        receiver = f'{query},receiver="{QUEUE}#0"'
        assert f"spark_stomp_delivered_total{{{receiver}}} 3\n" in text
        assert f"spark_stomp_window_full{{{receiver}}} 0\n" in text
        written = re.search(r"spark_stomp_written_timestamp_seconds\{.*\} (.*)", text)
        assert written is not None
        assert float(written[1]) > 1.7e9

    def test_of_several_queries_each_metric_is_declared_once(self, status: dict[str, Any]) -> None:
        text = prometheus(status, status | {"query": "other", "journal": None})
        assert text.count("# TYPE spark_stomp_rows_total counter\n") == 1
        assert 'spark_stomp_rows_total{query="other",' in text
        assert 'spark_stomp_journal_end{query="other",' not in text
