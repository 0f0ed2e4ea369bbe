"""Samples the running demonstration once a second until everything has arrived."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_stomp.demo.broker import BrokerProcess, QueueCounts
from spark_stomp.demo.queries import ALERTS, ARCHIVE, FLIGHTS
from spark_stomp.demo.results import Statistics

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQueryManager

_EVERY: Final = 1
_STALLED: Final = 120.0


@dataclass(frozen=True)
class Sample:
    """How far everything was ``seconds`` after the start."""

    seconds: float
    rows: int
    batches: int
    alerts: int
    flights_queue: QueueCounts
    alerts_queue: QueueCounts
    archived: int

    def same_state(self, other: Sample) -> bool:
        """Whether nothing has moved between the two."""
        return (self.rows, self.flights_queue, self.alerts_queue, self.archived) == (
            other.rows,
            other.flights_queue,
            other.alerts_queue,
            other.archived,
        )

    @property
    def all_arrived(self) -> bool:
        """Whether all messages sent so far have arrived everywhere."""
        flights, alerts = self.flights_queue, self.alerts_queue
        return (
            flights.acked == flights.enqueued == self.rows
            and alerts.acked == alerts.enqueued == self.alerts == self.archived
        )


class Watch:
    """Samples of a running demonstration; ``samples`` keeps them for the plot."""

    def __init__(
        self, broker: BrokerProcess, results: Statistics, publishing: Future[int], start: float
    ) -> None:
        self._broker = broker
        self._results = results
        self._publishing = publishing
        self._start = start
        self.samples: list[Sample] = []

    def until_all_arrived(self, queries: StreamingQueryManager, show: Callable[[Sample], None]) -> bool:
        """Watch until everything has arrived (True) or nothing has moved for two minutes (False).

        Raises:
            StreamingQueryException: one of the ``queries`` has failed.
            StompError: the flights could not be published.
        """
        for sample in self._each_second(queries):
            show(sample)
            if self._publishing.done() and self._publishing.result() == sample.rows and sample.all_arrived:
                return True
            if self._stalled(sample):
                return False
        return False

    def _each_second(self, queries: StreamingQueryManager) -> Iterator[Sample]:
        while True:
            self.samples.append(self.take())
            yield self.samples[-1]
            # Waits a second; raises what ended a query, if something did.
            if queries.awaitAnyTermination(_EVERY):
                return

    def _stalled(self, sample: Sample) -> bool:
        recent = [past for past in self.samples if past.seconds > sample.seconds - _STALLED]
        return len(recent) < len(self.samples) and all(past.same_state(sample) for past in recent)

    def take(self) -> Sample:
        """How far everything is now."""
        return Sample(
            seconds=time.monotonic() - self._start,
            rows=self._results.rows,
            batches=self._results.batches,
            alerts=self._results.alerts,
            flights_queue=self._broker.queue(FLIGHTS),
            alerts_queue=self._broker.queue(ALERTS),
            archived=self._broker.queue(ARCHIVE).enqueued,
        )
