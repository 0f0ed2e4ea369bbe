"""A steady load of numbered messages, and the audit of what became of them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from support.brokers import Broker
from support.driven import publish
from support.waiting import PATIENCE

from spark_stomp.errors import StompError

_CHUNK = 20
_PAUSE = 0.2


class Load:
    """Publishes about a hundred persistent messages a second, each once, until the context ends.

    A broker that is away costs the messages that were under way: whether it has them is not known.
    """

    def __init__(self, broker: Broker, queue: str) -> None:
        self._broker, self._queue = broker, queue
        self._confirmed: list[str] = []
        self._sent = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def confirmed(self) -> set[str]:
        """The bodies that the broker confirmed."""
        return set(self._confirmed)

    def stop(self) -> None:
        """Publish no more; everything is confirmed or given up when this returns."""
        self._over.set()
        self._thread.join(PATIENCE)

    def audit(self, rows: Sequence[str]) -> Audit:
        """What of the confirmed messages is in ``rows``, and how often."""
        counts = Counter(rows)
        unknown = [body for body in counts if not body.isdigit() or int(body) >= self._sent]
        missing = sorted(self.confirmed - counts.keys(), key=int)
        return Audit(len(self._confirmed), missing, counts.total() - len(counts), unknown, counts.total())

    def _run(self) -> None:
        while not self._over.is_set():
            bodies = [str(number) for number in range(self._sent, self._sent + _CHUNK)]
            self._sent += _CHUNK
            begun = time.monotonic()
            try:
                messages = [body.encode() for body in bodies]
                publish(self._broker.options(), self._queue, messages, *self._broker.crash_safe.items())
            except StompError:
                # Each is sent once only, or a second row would prove nothing.
                self._over.wait(_PAUSE)
                continue
            self._confirmed += bodies
            self._over.wait(max(0.0, _PAUSE - (time.monotonic() - begun)))


@dataclass(frozen=True)
class Audit:
    """``published`` counts what the broker confirmed; ``missing`` of those are not in the sink, which has
    ``rows``, among them ``duplicates`` beyond the first of each message, and ``unknown`` that nobody sent."""

    published: int
    missing: list[str]
    duplicates: int
    unknown: list[str]
    rows: int

    def __str__(self) -> str:
        return f"{self.published} messages, {len(self.missing)} lost, {self.duplicates} duplicates"
