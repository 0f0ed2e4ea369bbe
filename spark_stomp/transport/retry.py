"""Whether and when a lost connection is tried again. Monotonic times are passed in."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from spark_stomp.errors import (
    BrokerError,
    ClientIdInUse,
    ConnectionLost,
    DestinationRefused,
    HeartbeatLost,
    LoginRefused,
    ReceiptTimeout,
    StompError,
    TlsRefused,
    TransportError,
)

_FIRST_DELAY = 0.25
_LONGEST_DELAY = 30.0
# After a refused login: some servers lock an account after a few of these.
FIRST_LOGIN_DELAY = 10.0
_LONGEST_LOGIN_DELAY = 120.0
# A connection that lived so long, in seconds, was a good one even if nothing came over it.
_PROVED = 10.0


def may_recover(error: StompError, *, let_in: bool) -> bool:
    """Whether another connection may succeed.

    A login that the broker never accepted is wrong. If it accepted it before (``let_in``), the password is
    probably being changed, or the server that knows it is away. A refused destination stays refused. A
    certificate that is not accepted needs somebody who looks at it, the sooner the better. Input that breaks
    the protocol or a limit would be redelivered. An ERROR frame that answers no request often comes from a
    broker that is being shut down.
    """
    if isinstance(error, ClientIdInUse):
        # The last run's connection, until the broker notices its end.
        return True
    if isinstance(error, LoginRefused):
        return let_in
    if isinstance(error, DestinationRefused | TlsRefused):
        return False
    return isinstance(error, TransportError | HeartbeatLost | ReceiptTimeout | BrokerError)


def refuses_login(error: StompError) -> bool:
    """Whether somebody has to mend the login; a ``clientId`` that is still in use becomes free by itself."""
    return isinstance(error, LoginRefused) and not isinstance(error, ClientIdInUse)


class Retry:
    """Exponential back-off with jitter, for at most ``timeout`` seconds in a row.

    ``now`` is monotonic seconds; ``chance`` gives a number in [0, 1).
    """

    def __init__(self, timeout: float, now: float, chance: Callable[[], float] = random.random) -> None:
        self._timeout = timeout
        self._chance = chance
        self._away_since = now
        self._delay = _FIRST_DELAY
        self._refused_since: float | None = None
        self._in_vain = False

    def ended(self, stood_since: float, last_active: float, now: float, *, in_vain: bool = False) -> None:
        """A connection that was subscribed since ``stood_since`` ended at ``now``.

        If it brought something, or lived long enough, delay and time limit start anew. Otherwise it counts as
        one more failure: a broker that ends every connection at once must not be tried too often, nor without
        end. ``in_vain``: what it brought was of no use. The second such one in a row is a failure too.
        """
        again, self._in_vain = in_vain and self._in_vain, in_vain
        if again and now - stood_since < self._timeout:
            return
        if last_active > stood_since or now - stood_since >= _PROVED:
            self._away_since = now
            self._delay = _FIRST_DELAY

    def next_delay(self, error: StompError, now: float) -> float | None:
        """Seconds to wait after ``error`` before the next attempt; None if the time is up."""
        longest = _LONGEST_DELAY
        if refuses_login(error):
            longest = _LONGEST_LOGIN_DELAY
            self._delay = max(self._delay, FIRST_LOGIN_DELAY)
            self._refused_since = now if self._refused_since is None else self._refused_since
        else:
            self._refused_since = None
        remaining = self._away_since + self._timeout - now
        if remaining <= 0:
            return None
        delay = min(self._delay, longest) * (0.5 + self._chance() / 2)
        self._delay = min(2 * self._delay, longest)
        return min(delay, remaining)

    def out_of_time(self, error: StompError, destination: str, now: float) -> StompError:
        """What to raise after the last attempt, which failed by ``error``."""
        if isinstance(error, ClientIdInUse):
            return error
        if self._refused_since is not None:
            since = time.gmtime(time.time() - (now - self._refused_since))
            return LoginRefused(
                f"{error.message}; the broker had accepted this login before and has refused it since "
                f"{time.strftime('%Y-%m-%d %H:%M:%S', since)} UTC, until reconnectTimeout "
                f"({self._timeout:g}s) was over"
            )
        return ConnectionLost(
            f"the connection for {destination} broke and could not be restored within reconnectTimeout "
            f"({self._timeout:g}s); the last attempt: {error}"
        )
