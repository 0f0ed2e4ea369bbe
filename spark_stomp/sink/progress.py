"""When a broker that confirms nothing counts as blocked, and for how long it is waited for.

Progress is a receipt, or bytes of a message that the connection took. Heart-beats are none: a broker sends
them while RabbitMQ's memory alarm or ActiveMQ's producer flow control keeps it from taking messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum


class Verdict(Enum):
    """What a silence means."""

    WAIT = "nothing yet"
    BLOCKED = "the broker counts as blocked from now on"
    TIME_IS_UP = "it is waited for no longer"


class Progress:
    """Watches a task's connection; ``blocked_seconds`` is for how long the broker was blocked in all."""

    def __init__(
        self, receipt_timeout: float, blocked_timeout: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._receipt_timeout = receipt_timeout
        self._longest = receipt_timeout + blocked_timeout
        self._clock = clock
        self._last = clock()
        self._blocked = False
        self._blocked_before = 0.0

    @property
    def silence(self) -> float:
        """Seconds since the last progress."""
        return self._clock() - self._last

    @property
    def blocked_seconds(self) -> float:
        return self._blocked_before + (self.silence if self._blocked else 0.0)

    def due_in(self) -> float:
        """Seconds until :meth:`check` has something to say; negative if it is late."""
        return (self._longest if self._blocked else self._receipt_timeout) - self.silence

    def made(self) -> float:
        """There was progress, or nothing is waited for. Returns how long the broker was blocked; 0 if not."""
        blocked = self.silence if self._blocked else 0.0
        self._blocked_before += blocked
        self._blocked = False
        self._last = self._clock()
        return blocked

    def check(self) -> Verdict:
        """What the silence so far means. Ask only after everything that had come was read."""
        if self.due_in() > 0:
            return Verdict.WAIT
        if self._blocked:
            return Verdict.TIME_IS_UP
        self._blocked = True
        return Verdict.BLOCKED
