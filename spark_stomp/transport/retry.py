"""Whether and when a lost connection is tried again. Times are passed in."""

from __future__ import annotations

import random
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
# A connection that lived so long, in seconds, was a good one even if nothing came over it.
_PROVED = 10.0


def may_recover(error: StompError) -> bool:
    """Whether another connection may succeed.

    A refused login or destination stays refused, and further attempts could lock the account. A certificate
    that is not accepted needs somebody who looks at it, the sooner the better. Input that
    breaks the protocol or a limit would come again. An ERROR frame that answers no request often comes from a
    broker that is being shut down.
    """
    if isinstance(error, ClientIdInUse):
        # The last run's connection, until the broker notices its end.
        return True
    if isinstance(error, LoginRefused | DestinationRefused | TlsRefused):
        return False
    return isinstance(error, TransportError | HeartbeatLost | ReceiptTimeout | BrokerError)


def out_of_time(error: StompError, destination: str, timeout: float) -> StompError:
    """What ends a receiver that could not connect again within ``timeout`` seconds, at last by ``error``."""
    if isinstance(error, ClientIdInUse):
        return error
    return ConnectionLost(
        f"the connection for {destination} broke and could not be had again within reconnectTimeout "
        f"({timeout:g}s); the last attempt: {error}"
    )


class Retry:
    """Exponential back-off with jitter, for at most ``timeout`` seconds in a row.

    ``now`` is monotonic seconds; ``chance`` gives a number in [0, 1).
    """

    def __init__(self, timeout: float, now: float, chance: Callable[[], float] = random.random) -> None:
        self._timeout = timeout
        self._chance = chance
        self._away_since = now
        self._delay = _FIRST_DELAY

    def ended(self, stood_since: float, last_active: float, now: float) -> None:
        """A connection that was subscribed since ``stood_since`` ended at ``now``.

        If it brought something, or lived long enough, delay and time limit start anew. Otherwise it counts as
        one more failure: a broker that ends every connection at once must not be tried too often, nor for
        ever.
        """
        if last_active > stood_since or now - stood_since >= _PROVED:
            self._away_since = now
            self._delay = _FIRST_DELAY

    def next_delay(self, now: float) -> float | None:
        """Seconds to wait before the next attempt; None if the time is up."""
        remaining = self._away_since + self._timeout - now
        if remaining <= 0:
            return None
        delay = self._delay * (0.5 + self._chance() / 2)
        self._delay = min(2 * self._delay, _LONGEST_DELAY)
        return min(delay, remaining)
