"""Streams of RabbitMQ, which are not read: how one is recognised, and the error.

A stream keeps its messages, and a subscription begins wherever it asks to. Read as a queue, it gives nothing
of what was published while no subscription was there, and nobody is told.
"""

from __future__ import annotations

from spark_stomp.errors import DestinationRefused, UnsupportedError

Headers = tuple[tuple[str, str], ...]

_TYPE, _OFFSET = "x-queue-type", "x-stream-offset"
# RabbitMQ 3.10 to 4.x: "consumer prefetch count is not set for 'queue ...'"; only streams ask for one.
_NO_PREFETCH = "prefetch count is not set"


def check_headers(destination: str, headers: Headers) -> None:
    """Raise UnsupportedError if these headers of SUBSCRIBE ask for a stream."""
    for name, value in headers:
        if name == _OFFSET or (name, value.strip().lower()) == (_TYPE, "stream"):
            raise refused(destination, f"subscribeHeaders has {name}, so {destination} is")


def refused(destination: str, what: str = "") -> UnsupportedError:
    """The error for a stream; ``what`` begins its sentence."""
    return UnsupportedError(
        f"{what or f'{destination} is'} a stream of RabbitMQ, and these are not read: what is published "
        "while no receiver is connected would never be a row. Read from a queue that is bound to the same "
        "exchange"
    )


def says_stream(error: DestinationRefused) -> bool:
    """Whether a SUBSCRIBE without a prefetch was refused because the destination is a stream."""
    return _NO_PREFETCH in error.message
