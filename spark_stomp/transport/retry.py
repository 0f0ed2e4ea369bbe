"""Decides if and when a lost connection is tried again. Monotonic times are passed in."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_stomp.errors import (
    BrokerError,
    ClientIdInUse,
    ConnectionLost,
    DestinationRefused,
    HeartbeatLost,
    LoginRefused,
    PasswordUnreadable,
    ReceiptTimeout,
    StompError,
    TlsRefused,
    TransportError,
)

if TYPE_CHECKING:
    from spark_stomp.options import ReconnectOptions

# Seconds before the first attempt after a refused login: some servers lock an account after a few refusals.
# The jitter takes up to half of it away.
FIRST_LOGIN_DELAY = 60.0
# The same after a clientId that is in use: some servers bar an address that connects again too soon.
FIRST_ID_DELAY = 120.0
# Seconds of the longest pause after these two, unless ``reconnectDelayMax`` is longer.
_LONGEST_SLOW_DELAY = 120.0
# Seconds after which a connection counts as good even if nothing was achieved.
_PROVED = 10.0


def may_recover(error: StompError, *, login_accepted: bool) -> bool:
    """Whether another connection may succeed after ``error``.

    ``login_accepted`` is True if the broker has accepted this login before. These errors are tried again:

    - ClientIdInUse: the connection of the last run has the id until the broker notices its end.
    - LoginRefused, PasswordUnreadable and TlsRefused, only if ``login_accepted``: a password or a certificate
      is probably being changed, or the server that checks it is down.
    - BrokerError: an ERROR frame that answers no request often comes from a broker that is shutting down.
    - Lost connections, heart-beats and receipts.

    No other error is tried again. A refused destination stays refused. Input that breaks the protocol or a
    limit would be redelivered.
    """
    if isinstance(error, ClientIdInUse):
        return True
    if is_login_error(error):
        return login_accepted
    if isinstance(error, DestinationRefused):
        return False
    return isinstance(error, TransportError | HeartbeatLost | ReceiptTimeout | BrokerError)


def is_login_error(error: StompError) -> bool:
    """Whether somebody may have to correct login or certificate. Each such error is a warning in the log."""
    return isinstance(error, LoginRefused | PasswordUnreadable | TlsRefused)


def next_attempt(error: StompError, delay: float) -> str:
    """For the log: when the next attempt is, in ``delay`` seconds, and what a long pause is for."""
    why = ""
    if isinstance(error, ClientIdInUse):
        why = ", when the broker should have noticed the end of the last connection with this clientId"
    elif isinstance(error, LoginRefused):
        why = ", slowly because some servers lock an account after a few refusals"
    return f"trying again, next in {delay:.1f} s{why}"


class Retry:
    """Exponential back-off with jitter, for at most ``reconnectTimeout`` in a row.

    ``now`` is in seconds of a monotonic clock. ``chance`` returns a number in [0, 1).
    """

    def __init__(
        self, options: ReconnectOptions, now: float, chance: Callable[[], float] = random.random
    ) -> None:
        self._options = options
        self._timeout = options.timeout
        self._chance = chance
        self._away_since = now
        self._delay = options.first_delay
        self._refused_since: float | None = None
        self._nothing_acked = False

    def ended(
        self, subscribed_since: float, now: float, *, achieved: bool, nothing_acked: bool = False
    ) -> None:
        """Note that a connection that was subscribed since ``subscribed_since`` ended at ``now``.

        If it ``achieved`` something, or lived for ``_PROVED`` seconds, the delay and the time limit begin
        again. Otherwise it counts as one more failed attempt: a broker that ends every connection at once
        must not be tried too often, nor without end.

        ``nothing_acked`` means that ACKs were sent and none was confirmed, or that it ended before a message
        could be taken. The second such connection in a row also counts as a failed attempt, unless it lived
        for ``timeout`` seconds.
        """
        again, self._nothing_acked = nothing_acked and self._nothing_acked, nothing_acked
        lived = now - subscribed_since
        if (achieved or lived >= _PROVED) and not (again and lived < self._timeout):
            self._away_since = now
            self._delay = self._options.first_delay

    def leave_out(self, seconds: float) -> None:
        """There was a connection for so long, which achieved nothing: this is no time without one."""
        self._away_since += seconds

    def next_delay(self, error: StompError, now: float) -> float | None:
        """Seconds to wait after ``error`` before the next attempt; None if ``timeout`` has passed."""
        longest = self._options.longest_delay
        refused, in_use = isinstance(error, LoginRefused), isinstance(error, ClientIdInUse)
        if refused:
            longest = max(longest, _LONGEST_SLOW_DELAY)
            self._delay = max(self._delay, FIRST_ID_DELAY if in_use else FIRST_LOGIN_DELAY)
        if in_use or not refused:
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = now
        remaining = self._away_since + self._timeout - now
        if remaining <= 0:
            return None
        delay = min(self._delay, longest) * (0.5 + self._chance() / 2)
        self._delay = min(2 * self._delay, longest)
        return min(delay, remaining)

    def out_of_time(self, error: StompError, what: str, now: float) -> StompError:
        """The error to raise after the last attempt, which failed with ``error``.

        ``what`` says what the connection is for.
        """
        if isinstance(error, ClientIdInUse):
            return error
        if isinstance(error, TlsRefused):
            return TlsRefused(
                f"{error.message}; TLS with the broker succeeded before, and was refused until the end of "
                f"reconnectTimeout ({self._timeout:g}s). Files of certificates are read before each attempt"
            )
        if self._refused_since is not None:
            since = time.gmtime(time.time() - (now - self._refused_since))
            return LoginRefused(
                f"{error.message}; the broker accepted this login before and has refused it since "
                f"{time.strftime('%Y-%m-%d %H:%M:%S', since)} UTC, until the end of reconnectTimeout "
                f"({self._timeout:g}s). If the password has changed, start again with the new one; "
                "a file (passwordFile) is read before each attempt"
            )
        return ConnectionLost(
            f"the connection for {what} broke and could not be restored within reconnectTimeout "
            f"({self._timeout:g}s); the last attempt: {error}"
        )
