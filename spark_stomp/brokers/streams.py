"""Streams of RabbitMQ, which are not read: the headers that ask for one, and the errors.

A stream keeps its messages, and a subscription begins wherever it asks to. Read as a queue, it gives nothing
of what was published while no subscription was there, and nobody is told.
"""

from __future__ import annotations

from spark_stomp.errors import UnsupportedError

Headers = tuple[tuple[str, str], ...]

_TYPE, _OFFSET = "x-queue-type", "x-stream-offset"


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


def suspected(destination: str) -> UnsupportedError:
    """The error for what may be a stream, if RabbitMQ does not say whether it is."""
    return UnsupportedError(
        f"messages of {destination} have the header {_OFFSET}, as those of a stream have, and RabbitMQ does "
        "not say whether it is one. Streams are not read: what is published while no receiver is connected "
        "would never be a row. If it is a queue, and a producer sets that header: let the login configure "
        "the queue, so that RabbitMQ answers, or set allowLoss = true"
    )
