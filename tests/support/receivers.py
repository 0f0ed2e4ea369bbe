"""A receiver alone, without the rest of its query: the test reads and commits what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spark_stomp.options import SourceOptions
from spark_stomp.receiver import DedupIndex, Deliveries, Offer, Receiver, ReceiverSettings, offer


class LoneReceiver(Receiver):
    """The first receiver of a query with these options."""

    def __init__(self, options: SourceOptions, index: DedupIndex | None = None) -> None:
        settings = ReceiverSettings.of(options)[0]
        self.deliveries = Deliveries(settings.max_buffered_bytes, index, settings.name)
        self.frames = self.deliveries.frames
        super().__init__(settings, self.deliveries)

    def offer(self, upto: int) -> None:
        """Spark is told of everything below ``upto``."""
        assert offer([Offer(self.deliveries, upto, self.deliveries.discards)])

    def acknowledge(self, upto: int) -> None:
        """Everything below ``upto`` is committed."""
        if self.deliveries.commit(upto):
            self.wake()


@contextmanager
def running(options: SourceOptions) -> Iterator[LoneReceiver]:
    """A receiver that runs."""
    receiver = LoneReceiver(options)
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop(4)
