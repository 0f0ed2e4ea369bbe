"""How long a task waits for the broker."""

from __future__ import annotations

import time


class Progress:
    """Measures the time since the last progress, and for how long the broker was blocked in all.

    Progress is a receipt, or bytes of a message that the broker took. Heart-beats are not: a broker sends
    them while RabbitMQ's memory alarm or ActiveMQ's producer flow control stops it from taking messages.

    Args:
        receipt_timeout: seconds without progress after which the broker counts as blocked.
        blocked_timeout: seconds to wait for a blocked broker.
    """

    def __init__(self, receipt_timeout: float, blocked_timeout: float) -> None:
        self._receipt_timeout = receipt_timeout
        self._longest = receipt_timeout + blocked_timeout
        self._last = time.monotonic()
        self._blocked_before = 0.0
        # Whether the broker counts as blocked: after ``receipt_timeout`` without progress.
        self.blocked = False

    @property
    def silence(self) -> float:
        """Seconds since the last progress."""
        return time.monotonic() - self._last

    @property
    def blocked_seconds(self) -> float:
        """For how many seconds the broker was blocked in all, up to now."""
        return self._blocked_before + (self.silence if self.blocked else 0.0)

    def due_in(self) -> float:
        """Seconds until the broker counts as blocked; if it is blocked already, until the task gives up.

        Negative if that moment has passed.
        """
        return (self._longest if self.blocked else self._receipt_timeout) - self.silence

    def made(self) -> float:
        """Note progress, or that there was nothing to wait for.

        Returns:
            The seconds for which the broker was blocked until now; 0 if it was not.
        """
        blocked = self.silence if self.blocked else 0.0
        self._blocked_before += blocked
        self.blocked = False
        self._last = time.monotonic()
        return blocked
