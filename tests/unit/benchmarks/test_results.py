"""What the benchmarks found: kept, merged, rendered."""

from __future__ import annotations

from pathlib import Path

from benchmarks.plots import SHOWN, draw
from benchmarks.report import render
from benchmarks.results import Case, Goal, Results, describe_round

MACHINE = {"processor": "2 x fast", "spark-stomp": "0.1.0"}


def found(folder: Path, machine: dict[str, str] | None = None) -> Results:
    return Results("real", folder, machine or MACHINE)


def small(name: str = SHOWN, **settings: object) -> Case:
    goals = [Goal("default", "bare socket", at_least=0.55)]
    return Case("rabbitmq, not persistent", name, "messages/s", "bare socket", goals, **settings)  # type: ignore[arg-type]


def figures(bare: float, default: float) -> dict[str, dict[str, float]]:
    return {"bare socket": {"value": bare}, "default": {"value": default, "broker s": bare / 100}}


def test_rounds_of_several_runs_are_merged(tmp_path: Path) -> None:
    found(tmp_path).add(small(), figures(100, 50))
    found(tmp_path).add(small("1 MB"), figures(10, 9))
    found(tmp_path).add(small(), figures(200, 160))
    first, second = found(tmp_path).cases
    assert (first.name, second.name) == (SHOWN, "1 MB")
    assert first.values("default") == [50, 160]
    assert first.values("default", "broker s") == [1, 2]
    assert first.ratios("default") == [0.5, 0.8]


def test_a_ratio_is_made_within_a_round(tmp_path: Path) -> None:
    results = found(tmp_path)
    results.add(small(), {"bare socket": {"value": 100}})
    case = results.add(small(), figures(200, 100))
    assert case.ratios("default") == [0.5]
    assert case.candidates == ["bare socket", "default"]


def test_another_machine_begins_anew(tmp_path: Path) -> None:
    found(tmp_path).add(small(), figures(100, 50))
    assert found(tmp_path, {"processor": "another"}).cases == []
    assert len(found(tmp_path).cases) == 1


def test_a_case_is_measured_anew(tmp_path: Path) -> None:
    results = found(tmp_path)
    results.add(small(), figures(100, 50))
    results.forget("rabbitmq, not persistent", SHOWN)
    results.add(small(), figures(100, 70))
    (case,) = found(tmp_path).cases
    assert case.values("default") == [70]


def test_the_page_has_medians_spread_ratios_goals_and_machine(tmp_path: Path) -> None:
    results = found(tmp_path)
    for default in (50, 60, 40):
        results.add(small(note="Filled before."), figures(100, default))
    page = render([results])
    assert "processor 2 x fast" in page
    assert "Filled before." in page
    assert "| messages/s (x bare socket) | bare socket | default | rounds |" in page
    assert f"| {SHOWN} | 100<br>100 to 100 | 50 (0.50 x)<br>40 to 60 | 3 |" in page
    assert f"| rabbitmq, not persistent, {SHOWN} | default by bare socket | 0.50 | at least 0.55 |" in page
    assert "| 3 | **no** |" in page
    assert f"| {SHOWN} | default | 1 |" in page


def test_the_goal_may_be_an_upper_bound() -> None:
    goal = Goal("p50", "micro-batch", at_most=1.7)
    assert goal.met(1.7) and not goal.met(1.71)


def test_a_terminal_is_told_of_a_round() -> None:
    text = describe_round(small(), figures(100, 50))
    assert "default" in text and "0.50 x" in text and "broker s 1" in text


def test_both_plots_are_drawn_from_results(tmp_path: Path) -> None:
    real, memory = found(tmp_path), Results("memory", tmp_path, MACHINE)
    real.add(small(), figures(100, 50))
    lines = {"driver Python": [[0.0, 90.0], [1.0, 95.0]], "JVM": [[0.0, 700.0], [1.0, 800.0]]}
    memory.add(Case("memory", "without a journal", "MiB"), {"JVM": {"value": 800}}, lines)
    plots = draw({"real": real, "memory": memory}, tmp_path)
    assert [plot.name for plot in plots] == ["throughput.png", "memory.png"]
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)


def test_what_was_not_measured_is_not_drawn(tmp_path: Path) -> None:
    assert draw({"real": found(tmp_path)}, tmp_path) == []
