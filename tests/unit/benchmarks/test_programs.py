"""The arithmetic of the benchmarks, and what their cases are called."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path

import pytest
from benchmarks import costs, latency, memory, plots, real, streams, usage
from benchmarks.bare import Peer
from benchmarks.brokers import BenchmarkBroker
from benchmarks.results import Case, Results


def test_percentiles_are_values_that_occurred() -> None:
    ordered = [float(number) for number in range(1, 101)]
    assert (latency.percentile(ordered, 50), latency.percentile(ordered, 99)) == (51, 100)
    assert latency.percentile([7.0], 99) == 7


def test_the_warm_up_of_latency_does_not_count() -> None:
    seen = latency.Latencies()
    seen.found = [(100.0, 9.0), (104.9, 8.0), (105.0, 0.3), (106.0, 0.2)]
    assert seen.after(5.0) == pytest.approx([200, 300])


def test_the_steady_part_is_without_the_edges() -> None:
    streamed = streams.Streamed(10.0, [1, 9, 10, 30, 20, 40, 3], {"worker s": 5.0})
    assert streamed.steady == [30, 20, 40]
    figures = streamed.figures()
    assert (figures["smallest batch"], figures["median batch"], figures["cores busy"]) == (20, 30, 0.5)
    assert streams.Streamed(1.0, [5], {}).steady == [5]


def test_when_a_query_subscribed_is_read_from_its_status(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    assert streams.connected_since(file) == 0
    file.write_text('{"version": 1, "query": "a", "receivers": {"a": {"connected_since": null}}}')
    assert streams.connected_since(file) == 0
    times = ("2026-03-01T09:30:12.480+00:00", "2026-03-01T09:30:11.000+00:00")
    receivers = ", ".join(f'"{name}": {{"connected_since": "{name}"}}' for name in times)
    file.write_text(f'{{"version": 1, "query": "a", "receivers": {{{receivers}}}}}')
    assert streams.connected_since(file) == datetime(2026, 3, 1, 9, 30, 11, tzinfo=timezone.utc).timestamp()


def test_memory_is_compared_early_and_late() -> None:
    samples = memory.Samples()
    samples.taken = [(count, {"JVM": 100.0 + count}) for count in range(0, 101, 5)]
    assert samples.figures("JVM") == {"value": 195, "second tenth": 115, "largest": 200}
    assert samples.figures("worker")["largest"] == 0
    assert samples.series("JVM")[-1] == [100 / 1e6, 200]


def test_processor_time_is_a_difference() -> None:
    assert usage.difference({"JVM s": 5.0, "worker s": 1.0, "x s": 2.0}, {"JVM s": 2.0, "x s": 2.0}) == {
        "JVM s": 3.0,
        "worker s": 1.0,
    }
    assert "foreachBatch" in usage.Processes().by_role()


def test_loads_are_bounded_in_bytes_and_named_by_what_they_are() -> None:
    large = real.Load("1 MB", "4 receivers", persistent=True)
    assert (large.messages(1_000_000), large.messages(50)) == (1_000, 10)
    goal = real.Load("235 B", "1 receiver", persistent=False)
    assert (goal.messages(1_000_000), goal.rounds(None), goal.rounds(2)) == (1_000_000, 5, 2)
    assert real.Load("235 B", "4 receivers", persistent=False).messages(1_000_000) == 200_000
    assert large.tuned == {"prefetch": "256"}
    assert goal.tuned == {"prefetch": "100000"}
    assert real.as_case("artemis", large).section == "artemis, persistent"
    assert not real.as_case("artemis", large).goals


def test_what_the_plot_shows_is_measured() -> None:
    arguments = argparse.Namespace(cases="", kinds="transient", meanwhile=False)
    shown = [load for load in real.loads(arguments) if load.name == plots.SHOWN]
    assert [real.as_case("rabbitmq", load).section for load in shown] == ["rabbitmq, not persistent"]
    assert real.as_case("rabbitmq", shown[0]).goals
    with pytest.raises(SystemExit, match="no such case: 7 B"):
        real.loads(argparse.Namespace(cases="7 B", kinds="transient", meanwhile=False))


def test_artemis_is_asked_for_bytes() -> None:
    broker = BenchmarkBroker("artemis", Peer("127.0.0.1", 1, "spark", "secret"), ())
    assert broker.prefetch(10, 235) == {"consumer-window-size": "5850"}
    assert broker.options("/queue/a")["password"] == "secret"
    other = BenchmarkBroker("rabbitmq", Peer("127.0.0.1", 1), ())
    assert other.prefetch(10, 235) == {"prefetch-count": "10"}


def test_rounds_are_measured_kept_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, values = Results("real", tmp_path, {}), iter([1.0, 2.0, 3.0])
    case = Case("section", "name", "ms")
    for rounds, fresh in ((2, False), (1, True)):
        arguments = argparse.Namespace(rounds=rounds, fresh=fresh)
        results.measure(case, arguments, lambda: ({"p50": {"value": next(values)}}, {}))
    assert [one.values("p50") for one in results.cases] == [[3.0]]
    assert capsys.readouterr().out.count("section, name") == 3


def test_costs_double_what_they_name() -> None:
    for what, sizes in costs.doubled(1_000).items():
        numbers = [int(name.split()[0].replace(",", "")) for name in sizes]
        assert [numbers[0] * 2**n for n in range(len(numbers))] == numbers, what
