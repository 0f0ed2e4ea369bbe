"""A receiver alone, without the rest of its query: the test reads and commits what it holds."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from spark_stomp.deadline import Deadline
from spark_stomp.errors import StompError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.options import SourceOptions
from spark_stomp.receiver import DedupIndex, Deliveries, Log, Receiver, ReceiverSettings
from support.by_hand import of_queues
from support.options import source_options
from support.tcp import stomp_server
from support.waiting import wait_until


class Frames:
    """What a receiver that has a log to itself holds, numbered in the order of receipt."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._log, self._inbox = deliveries.log, deliveries.inbox

    @property
    def received(self) -> int:
        return self._log.end + self._inbox.pending

    @property
    def committed(self) -> int:
        return self._log.committed

    @property
    def memory_bytes(self) -> int:
        return self._inbox.memory_bytes

    @property
    def mean_bytes(self) -> float | None:
        return self._inbox.mean_bytes

    def batches(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames [low, high), also those that Spark was not told about."""
        end = self._log.end
        yield from self._log.batches(low, min(high, end)) if low < end else ()
        for block in self._inbox.all[len(self._inbox.numbered) :]:
            batch, end = replace(block.batch, first_number=end), end + len(block)
            if batch.first_number < high and batch.end > low:
                yield batch.part(low, high)


class LoneReceiver(Receiver):
    """The first receiver of a query with these options."""

    def __init__(self, options: SourceOptions, index: DedupIndex | None = None) -> None:
        settings = ReceiverSettings.of(options)[0]
        log = None if index is None else Log(index)
        self.deliveries = of_queues(log, settings.name, settings.max_buffered_bytes)
        self.frames = Frames(self.deliveries)
        super().__init__(settings, self.deliveries)

    def offer(self, upto: int) -> None:
        """Spark is told of everything below ``upto``."""
        with self.deliveries.lock:
            held = self.deliveries
            held.number(min(max(0, upto - held.log.end), held.inbox.pending))

    def acknowledge(self, upto: int) -> None:
        """Everything below ``upto`` is committed."""
        self.offer(upto)
        if self.deliveries.log.commit(upto):
            self.wake()

    def wait_received(self, count: int) -> None:
        wait_until(lambda: self.status().received >= count, what=f"{count} frames")

    def wait_subscribed(self) -> None:
        wait_until(lambda: self.status().subscribed, what="the subscription")

    def wait_paused(self) -> None:
        wait_until(lambda: self.status().paused_since is not None, what="a pause")

    def wait_failed(self) -> StompError:
        """Wait until it has failed; returns why."""
        wait_until(lambda: self.status().failure is not None, what="the failure")
        failure = self.status().failure
        assert failure is not None
        return failure


_Receiver = TypeVar("_Receiver", bound=Receiver)


@contextmanager
def started(receiver: _Receiver) -> Iterator[_Receiver]:
    """The receiver while it runs."""
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop(Deadline.after(4))


def running(options: SourceOptions) -> AbstractContextManager[LoneReceiver]:
    """A receiver that runs."""
    return started(LoneReceiver(options))


@contextmanager
def receiving(
    where: str | Callable[[socket.socket], None],
    destination: str | Sequence[str] = "/queue/a",
    **options: Any,
) -> Iterator[LoneReceiver]:
    """A receiver that runs, of the broker at this URL, or of one that a test scripts.

    Several destinations have one connection.
    """
    if not isinstance(destination, str):
        destination, options = json.dumps([*destination]), {"connections": 1, **options}
    with ExitStack() as stack:
        url = where if isinstance(where, str) else stack.enter_context(stomp_server(where))
        yield stack.enter_context(running(source_options(url, destination, **options)))
