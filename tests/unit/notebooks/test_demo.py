"""notebooks/demo.py: the flights, the proof, and what it needs. A proof that cannot fail proves nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import demo
import pandas as pd
import pytest
from matplotlib.figure import Figure

from spark_stomp.devbroker import QueueView

SENT = demo.flights(900)
LATE = SENT.loc[SENT["dep_delay"] >= 120, "id"].tolist()
ALERTS = [json.dumps({"id": id_}).encode() for id_ in LATE]
END = QueueView(depth=0, unacked=0, enqueued=900, delivered=900, redelivered=0, acked=900)


class TestProof:
    def test_holds(self) -> None:
        assert all(demo.proof(SENT, received(SENT[::-1]), END, ALERTS).values())

    @pytest.mark.parametrize(
        ("table", "queue", "alerts", "failing"),
        [
            (SENT[1:], END, ALERTS, ["sent 900 = rows 899", "equal to the file"]),
            (pd.concat([SENT, SENT[:1]]), END, ALERTS, ["rows 901", "equal to the file"]),
            (pd.concat([SENT[1:], SENT[1:2]]), END, ALERTS, ["equal to the file"]),
            (SENT.assign(distance=1), END, ALERTS, ["equal to the file"]),
            (SENT, replace(END, acked=899), ALERTS, ["ACKed 899"]),
            (SENT, replace(END, depth=1), ALERTS, ["left 1"]),
            (SENT, END, ALERTS[1:], [f"alerts {len(LATE) - 1}"]),
            (SENT, END, [*ALERTS, ALERTS[0]], [f"alerts {len(LATE) + 1}"]),
            (SENT, END, [*ALERTS[1:], ALERTS[1]], [f"alerts {len(LATE)}"]),
        ],
    )
    def test_fails(
        self, table: pd.DataFrame, queue: QueueView, alerts: list[bytes], failing: list[str]
    ) -> None:
        checks = demo.proof(SENT, received(table), queue, alerts)
        failed = [text for text, holds in checks.items() if not holds]
        assert len(failed) == len(failing)
        assert all(part in text for part, text in zip(failing, failed, strict=True)), failed


def received(table: pd.DataFrame) -> pd.DataFrame:
    """The table as Arrow gives it to pandas: numbers with nulls among them are floats, texts are objects."""
    numbers = dict.fromkeys(("dep_delay", "arr_delay"), float)
    return table.astype(numbers).astype({"tailnum": object, "carrier": object})


SAMPLES = [
    *(demo.Sample(float(second), 0, 9 * second, 0) for second in range(20)),
    demo.Sample(20.0, 10, 90, 0),
    *(demo.Sample(20.0 + second, 10 + 89 * second, 90, 1) for second in range(1, 11)),
]
"""The first batch has 10 of 900 messages."""


def test_the_rate_and_the_plot_begin_when_spark_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert demo.steady_rate(SAMPLES, 900) == 89.0
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    demo.save_plot(tmp_path / "new" / "plot.png", 900, SAMPLES)
    (axes,) = drawn[0].axes
    assert axes.get_xlim() == (0.0, 10.0)
    assert axes.get_xlabel().startswith("seconds, after 20 s in which Spark has started. 20")
    legend = axes.get_legend()
    assert legend is not None
    # From the top down, as they are drawn.
    assert [text.get_text().split()[0] for text in legend.get_texts()] == ["waiting", "delivered,", "ACKed:"]
    assert [text.get_text() for text in axes.texts] == ["89 a second"]
    assert (tmp_path / "new").is_dir()


def test_the_last_sentence_says_what_came_of_it() -> None:
    said = demo.last_sentence(SAMPLES, 900, holds=True)
    begin, _, end = said.partition(": ")
    assert begin == "All 900 flights are in the table, each once, after 30 s"
    assert end == "89 a second in the 10 s after Spark had started."
    assert demo.last_sentence(SAMPLES, 900, holds=False).startswith("Something was lost")


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distributions", lambda name: [])
    with pytest.raises(FileNotFoundError, match="pip install"):
        demo.flights(1)


@pytest.mark.parametrize(
    ("says", "status", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0, 17),
        ('openjdk version "21-ea" 2023-09-19', 0, 21),
        ('openjdk version "11.0.2" 2019-01-15', 0, 11),
        ('java version "1.8.0_292"', 0, 8),
        ("Unable to locate a Java Runtime.", 0, 0),
        ('openjdk version "17.0.1"', 1, 0),
        (None, 0, 0),
    ],
)
def test_without_a_java_it_says_how_to_get_one(
    says: str | None,
    status: int,
    release: int,
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
    assert demo.java_version() == release
    if release < 17:
        assert demo.main([]) == 2
        assert "openjdk-17" in capsys.readouterr().err
