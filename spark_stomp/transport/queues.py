"""Ask RabbitMQ what the queue of ``/amq/queue/NAME`` is, without taking anything from it."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Final

from spark_stomp.errors import BrokerError, ConnectFailed, DestinationRefused, StompError
from spark_stomp.logs import get_log
from spark_stomp.options import ConnectionOptions
from spark_stomp.transport.connect import at_peer, open_connection

log = get_log(__name__)

BY_NAME: Final = "/amq/queue/"
"""The beginning of a destination to which neither SUBSCRIBE nor SEND declares a queue."""
# How RabbitMQ refuses the header below if the queue is no stream (seen with 3.10 and 4.3 in November 2026).
_NO_STREAM: Final = "invalid arg 'x-stream-offset'"
_NO_RIGHT: Final = "ACCESS_REFUSED"
# Seconds to wait for the receipt of DISCONNECT: the answer is there. A judgement, not measured.
_FAREWELL: Final = 1.0


def is_stream(options: ConnectionOptions, destination: str, peer: str = "") -> bool:
    """Whether ``destination``, a ``/amq/queue/NAME``, is a stream.

    It subscribes, on a connection of its own, behind the end of a stream. RabbitMQ refuses that if the queue
    is no stream, and delivers nothing of it. ``peer`` is the broker to ask; if it is empty, any of ``url``.

    Raises DestinationRefused if there is no such queue, or the login may not read from it; another StompError
    if RabbitMQ does not say what it is.
    """
    with open_connection(at_peer(options, peer)) as connection:
        session = connection.session
        receipt = session.new_receipt()
        headers = (("prefetch-count", "1"), ("x-stream-offset", "next"))
        session.subscribe("0", destination, ack="client", headers=headers, receipt=receipt)
        try:
            connection.await_receipts({receipt: f"SUBSCRIBE to {destination}"}, options.connect_timeout)
        except BrokerError as error:
            if _NO_STREAM in error.message:
                return False
            raise
        with suppress(StompError):
            connection.disconnect(_FAREWELL)
    return True


def require_queue(options: ConnectionOptions, destination: str, peer: str) -> None:
    """Make sure that the queue of ``destination``, a ``/amq/queue/NAME``, is there to be written to.

    If the login may not read from it, RabbitMQ does not say that: the log does.

    Raises DestinationRefused if it is not there, ConnectFailed if RabbitMQ does not answer, as while it
    starts.
    """
    try:
        is_stream(options, destination, peer)
    except DestinationRefused as error:
        if _NO_RIGHT not in error.message:
            raise
        _warn(destination)
    except StompError as error:
        raise ConnectFailed(f"{peer} cannot be asked whether {destination} exists: {error}") from error


@lru_cache(1000)  # once for each destination and process
def _warn(destination: str) -> None:
    log.warning(
        "whether the queue of %s exists is not known, because the login may not read from it. If it does not "
        "exist, RabbitMQ confirms and drops messages to it",
        destination,
    )
