"""The plots of the benchmarks: what is written on them is what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.plots import draw, draw_endurance
from benchmarks.results import Case, Results, Round
from matplotlib.figure import Figure

MACHINE = {"spark-stomp": "0.3.0", "pyspark": "4.3.0", "processor": "2 x Z80"}
FOOT = "2026-11-29, spark-stomp 0.3.0, pyspark 4.3.0, 2 x Z80"
AT = "2026-11-29T10:00:00+00:00"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    return figures


def results(benchmark: str, *cases: Case) -> dict[str, Results]:
    found = Results(benchmark, Path("/nowhere"), MACHINE)
    found.cases = [*cases]
    return {benchmark: found}


def texts(figure: Figure) -> list[str]:
    from matplotlib.text import Text

    return [text for one in figure.findobj(Text) if (text := one.get_text())]  # type: ignore[attr-defined]


def test_a_bar_has_its_rate_and_the_range_of_its_rounds(drawn: list[Figure], tmp_path: Path) -> None:
    rates = (31_747, 40_346, 40_656), (37_167, 39_816, 46_677)
    rounds = [
        Round(AT, "c", {"bare socket": {"value": bare}, "default": {"value": own}})
        for bare, own in zip(*rates, strict=True)
    ]
    draw(results("real", Case("rabbitmq", "235 B", "messages/s", rounds=rounds)), tmp_path)
    (axes,) = drawn[0].axes
    assert [patch.get_height() for patch in axes.patches] == [40.346, 39.816]
    assert [text.get_text() for text in axes.texts] == ["40", "40"]
    ranges = [tuple(path.vertices[:, 1]) for one in axes.collections for path in one.get_paths()]
    assert ranges == [(31.747, 40.656), (37.167, 46.677)]
    assert axes.get_xlabel().startswith(FOOT) and "median of 3 rounds" in axes.get_title()


def test_a_line_of_memory_says_what_it_is(drawn: list[Figure], tmp_path: Path) -> None:
    series = {"worker": [[0.0, 400.0], [3.0, 430.0]], "JVM": [[0.0, 500.0], [3.0, 700.0]]}
    case = Case("3,000,000 messages", "without a journal", "MiB", rounds=[Round(AT, "c", {}, series)])
    draw(results("memory", case), tmp_path)
    (axes,) = drawn[0].axes
    places = {text.get_text().split()[0]: tuple(text.xy) for text in axes.texts}  # type: ignore[attr-defined]
    assert places == {"tasks": (3.0, 430.0), "Spark": (3.0, 700.0)}
    assert {FOOT, "Memory levels off, however many messages are read"} <= {*texts(drawn[0])}


def test_a_long_run_has_two_panels_and_every_line_a_name(drawn: list[Figure], tmp_path: Path) -> None:
    begin = 1_795_946_400.0  # 2026-11-29 10:00 UTC
    samples = [
        {"at": begin + 60 * minute, **{kind: {"memory": 300.0} for kind in ("JVM", "readers", "workers")}}
        for minute in range(11)
    ]
    batches = [{"at": begin + second, "rows": 1, "p50": 1.0 + second % 10} for second in range(600)]
    recorded = {"samples": samples, "faults": [(begin + 90, "a cut"), (begin + 400, "a restart")]}
    draw_endurance(recorded, batches, MACHINE, tmp_path / "endurance.png")
    memory, latency = drawn[0].axes
    for axes in (memory, latency):
        legend = axes.get_legend()
        assert legend is not None
        named = [text.get_text() for text in legend.get_texts()]
        assert len(named) == len(axes.lines) + len(axes.collections) and "a fault" in named
    (median, faults) = latency.lines
    assert [*median.get_ydata()] == [6.0] * 10
    assert [*faults.get_xdata()] == [1.5, pytest.approx(400 / 60)]
    said = texts(drawn[0])
    assert FOOT in said and any("10 minutes, 2 faults" in one for one in said)
