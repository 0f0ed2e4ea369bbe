"""Whether the queue of a destination is there, of those that no SEND declares (contract S.14)."""

from __future__ import annotations

from typing import Final

from spark_stomp.errors import DestinationRefused
from spark_stomp.logs import Once, get_log
from spark_stomp.options import ConnectionOptions
from spark_stomp.transport.queues import ask_if_stream

log = get_log(__name__)

_UNKNOWN: Final = (
    "whether the queue of %s exists is not known, because the login may not read from it, or may have no "
    "second connection. If it does not exist, RabbitMQ confirms and drops messages to it"
)
# In this process.
_once = Once(log)


def ask_refusal(options: ConnectionOptions, destination: str, peer: str) -> DestinationRefused | None:
    """Why nothing can be sent to ``destination``, of which the broker at ``peer`` is asked; None if it can.

    A log line says if that is not known. Raises what :func:`ask_if_stream` raises, unless it is a refusal.
    """
    try:
        if ask_if_stream(options, destination, peer) is None:
            _once.warning(destination, _UNKNOWN, destination)
    except DestinationRefused as error:
        return error
    return None
