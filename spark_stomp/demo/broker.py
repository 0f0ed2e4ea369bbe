"""The dev broker in a process of its own, so that it has an interpreter lock of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Final

from spark_stomp.devbroker import DevBroker

_START_TIMEOUT: Final = 60.0
_STOP_TIMEOUT: Final = 10.0


@dataclass(frozen=True)
class QueueCounts:
    """What a queue held and has done; ``depth`` counts the un-acknowledged messages too."""

    depth: int
    unacked: int
    enqueued: int
    acked: int
    redelivered: int


class BrokerProcess:
    """A dev broker to connect to at ``url``, and to ask about its queues; a context manager.

    It ends with this process, however that ends: the pipe between them breaks then.
    """

    def __enter__(self) -> BrokerProcess:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), name="devbroker", daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(_START_TIMEOUT):
            raise TimeoutError(f"The dev broker did not start within {_START_TIMEOUT:.0f} s")
        self.url: str = self._pipe.recv()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.close()
        self._process.join(_STOP_TIMEOUT)
        if self._process.is_alive():
            self._process.terminate()

    def queue(self, destination: str) -> QueueCounts:
        """The counts of a queue at this moment."""
        counts: QueueCounts = self._ask("queue", destination)
        return counts

    def bodies(self, destination: str) -> list[bytes]:
        """The bodies in a queue, in order."""
        bodies: list[bytes] = self._ask("bodies", destination)
        return bodies

    def connections(self) -> int:
        """How many connections are open."""
        count: int = self._ask("connections")
        return count

    def _ask(self, what: str, *arguments: str) -> Any:
        self._pipe.send((what, *arguments))
        return self._pipe.recv()


def _serve(pipe: Connection) -> None:
    """Run a broker and answer questions about it until the other end of ``pipe`` is closed."""
    # The end of the demo, Ctrl-C included, comes as the end of the pipe.
    with DevBroker() as broker, suppress(EOFError, KeyboardInterrupt):
        pipe.send(broker.url)
        answers: dict[str, Callable[..., object]] = {
            "queue": lambda destination: _counts(broker, destination),
            "bodies": broker.bodies,
            "connections": lambda: broker.connections,
        }
        while True:
            what, *arguments = pipe.recv()
            pipe.send(answers[what](*arguments))


def _counts(broker: DevBroker, destination: str) -> QueueCounts:
    view = broker.queue(destination)
    return QueueCounts(view.depth, view.unacked, view.enqueued, view.acked, view.redelivered)
