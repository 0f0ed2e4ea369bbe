"""A steady load of numbered messages, and the audit of what became of them."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from support.brokers import Broker
from support.driven import send_messages
from support.waiting import PATIENCE

from spark_stomp.errors import StompError

_CHUNK = 20
_PAUSE = 0.2
ID_HEADER = "load-id"
"""The header of each message with an id of its own, for the option ``idHeader``."""


class Load:
    """Publishes about a hundred persistent messages a second, each once, until the context ends.

    The destinations take turns. A broker that is away costs the messages that were under way: whether it has
    them is not known.
    """

    def __init__(self, broker: Broker, *destinations: str) -> None:
        self._destinations = destinations
        # Without another attempt, or a second row would prove nothing.
        self._options = broker.options(sendHeaders=json.dumps(broker.crash_safe), reconnectTimeout="1ms")
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
                send_messages(self._options, map(self._message, bodies))
            except StompError:
                self._over.wait(_PAUSE)
                continue
            self._confirmed += bodies
            self._over.wait(max(0.0, _PAUSE - (time.monotonic() - begun)))

    def _message(self, body: str) -> tuple[str, bytes, tuple[tuple[str, str], ...]]:
        """Where the message goes, its body, and its headers."""
        destination = self._destinations[int(body) % len(self._destinations)]
        return destination, body.encode(), ((ID_HEADER, body),)


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
