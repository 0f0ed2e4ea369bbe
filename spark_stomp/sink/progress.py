"""How long a task waits for the broker, and for how long it was without one."""

from __future__ import annotations

import time

from spark_stomp.options import ReconnectOptions
from spark_stomp.quoting import counted
from spark_stomp.transport.retry import Retry


class ProgressTimer:
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


class Outage:
    """The time from the end of a connection to the first receipt on the next one.

    An outage also begins if the first connection fails. A connection without a receipt does not end it, but
    its time does not count for ``reconnectTimeout``: it may be a broker that was blocked for long.

    Args:
        options: for how long, and how often, to connect again.
        now: monotonic seconds.
        unconfirmed: how many messages have to be sent again.
        lost: whether there was a connection before.
    """

    def __init__(self, options: ReconnectOptions, now: float, unconfirmed: int, *, lost: bool) -> None:
        self.retry = Retry(options, now)
        self._began = self._ended = now
        self._unconfirmed = unconfirmed
        self._lost = lost
        self._connected = False

    def connected(self, now: float) -> None:
        """A new connection is open."""
        self._ended, self._connected = now, True

    def failed(self, now: float) -> None:
        """The connection has ended without a receipt, or none could be had."""
        if self._connected:
            self.retry.leave_out(now - self._ended)
            self._connected = False

    def summary(self) -> str:
        """The log line at the end of the outage."""
        words = "connected again" if self._lost else "connected"
        again = f", {counted(self._unconfirmed, 'message')} to send again" if self._unconfirmed else ""
        return f"{words} after {self._ended - self._began:.1f} s{again}"
