from __future__ import annotations

import pickle

import numpy as np
import pytest

from spark_stomp.sink.figures import TaskFigures


def test_figures_of_tasks_are_added() -> None:
    both = TaskFigures(1, 2, 3, 4, 5, 6.0)
    both.add(TaskFigures(10, 20, 30, 40, 50, 60.0))
    assert both == TaskFigures(11, 22, 33, 44, 55, 66.0)


@pytest.mark.parametrize("seconds", [1e-6, 0.001, 0.25, 3.0, 1e9])
def test_latencies_are_right_to_a_fifth(seconds: float) -> None:
    figures = TaskFigures()
    assert figures.latency(0.5) is None
    figures.count_latencies(np.array([seconds] * 99 + [20 * seconds]))
    within = figures.latency(0.5)
    assert within is not None
    if 1e-4 < seconds < 1e4:
        assert seconds <= within <= 1.2 * seconds
        assert figures.latency(1.0) == pytest.approx(20 * within, rel=0.2)


def test_they_come_through_a_pickle() -> None:
    figures = TaskFigures()
    figures.count_latencies(np.array([1.0]))
    assert pickle.loads(pickle.dumps(figures)).latency(0.5) == figures.latency(0.5)
