"""spark_stomp.demo: results, samples and the proof. A proof that cannot fail proves nothing."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from spark_stomp.demo import __main__ as demo
from spark_stomp.demo.flights import Expected
from spark_stomp.demo.queries import BatchResult, Statistics
from spark_stomp.demo.report import Sample, checks
from spark_stomp.devbroker import QueueView

TOTALS = {("UA", "EWR"): Counter(flights=3, departures=2, minutes=150, late=1)}
EXPECTED = Expected(flights=3, alerts={2}, totals=TOTALS)
FLIGHTS = QueueView(depth=0, unacked=0, enqueued=3, delivered=3, redelivered=0, acked=3)
ALERTS = QueueView(depth=0, unacked=0, enqueued=1, delivered=1, redelivered=0, acked=1)
END = Sample(seconds=9.0, rows=3, batches=2, flights=FLIGHTS, alerts=ALERTS, archived=1)
ARCHIVE = [json.dumps({"id": 2}).encode()]


def results(*ids: int) -> Statistics:
    statistics = Statistics()
    statistics.put(0, BatchResult(list(ids), TOTALS))
    return statistics


class TestProof:
    def test_holds(self) -> None:
        assert all(check.holds for check in checks(END, results(0, 1, 2), EXPECTED, ARCHIVE))

    @pytest.mark.parametrize(
        ("end", "ids", "archive", "failing"),
        [
            (END, (0, 1), ARCHIVE, "sent 3 = rows 2"),
            (END, (0, 1, 1), ARCHIVE, "2 different flights"),
            (END, (0, 1, 2, 2), ARCHIVE, "rows 4"),
            (replace(END, flights=replace(FLIGHTS, acked=2)), (0, 1, 2), ARCHIVE, "ACKed 2"),
            (replace(END, flights=replace(FLIGHTS, depth=1, unacked=1)), (0, 1, 2), ARCHIVE, "un-acked 1"),
            (replace(END, alerts=replace(ALERTS, enqueued=2)), (0, 1, 2), ARCHIVE, "sent 2 = ACKed 1"),
            (replace(END, alerts=replace(ALERTS, depth=1)), (0, 1, 2), ARCHIVE, "queues are empty"),
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
        assert failed == ["the statistics agree with the file"]


class TestSample:
    def test_complete(self) -> None:
        assert END.complete(EXPECTED)
        assert not replace(END, archived=0).complete(EXPECTED)
        assert not replace(END, rows=2).complete(EXPECTED)
        assert not replace(END, alerts=replace(ALERTS, acked=0)).complete(EXPECTED)


@pytest.mark.parametrize(
    ("says", "status", "found"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0, True),
        ('openjdk version "21-ea" 2023-09-19', 0, True),
        ('openjdk version "11.0.2" 2019-01-15', 0, False),
        ('java version "1.8.0_292"', 0, False),
        ("Unable to locate a Java Runtime.", 0, False),
        ('openjdk version "17.0.1"', 1, False),
        (None, 0, False),
    ],
)
def test_without_a_java_it_says_how_to_get_one(
    says: str | None,
    status: int,
    found: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if says is not None:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n", encoding="utf-8")
        java.chmod(0o755)
    assert demo.has_java() is found
    if not found:
        assert demo.main([]) == demo.CANNOT_RUN != 0
        assert "openjdk-17" in capsys.readouterr().err
