"""What the first query has added up: one entry per batch, so that a repeated batch replaces its first try."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Totals = dict[tuple[str, str], Counter[str]]


@dataclass(frozen=True)
class BatchResult:
    """One batch: the ids of its flights, its totals per (carrier, origin), and how many alerts it sent."""

    ids: npt.NDArray[np.int64]
    totals: Mapping[tuple[str, str], Mapping[str, int]]
    alerts: int


class Statistics:
    """Results by batch id; written by the query's thread, read by the one that reports."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[int, BatchResult] = {}

    def put(self, batch_id: int, result: BatchResult) -> None:
        """Keep the result of a batch; an earlier result of the same batch is replaced."""
        with self._lock:
            self._batches[batch_id] = result

    @property
    def batches(self) -> int:
        """How many batches there were."""
        return len(self._results())

    @property
    def rows(self) -> int:
        """How many rows there were, repeats included."""
        return sum(len(result.ids) for result in self._results())

    @property
    def alerts(self) -> int:
        """How many alerts were sent."""
        return sum(result.alerts for result in self._results())

    def distinct_ids(self) -> int:
        """How many different flights there were."""
        ids = [result.ids for result in self._results()]
        return len(np.unique(np.concatenate(ids))) if ids else 0

    def totals(self) -> Totals:
        """The totals of all batches together."""
        summed: Totals = {}
        for result in self._results():
            for key, counts in result.totals.items():
                summed.setdefault(key, Counter()).update(counts)
        return summed

    def _results(self) -> list[BatchResult]:
        with self._lock:
            return list(self._batches.values())
