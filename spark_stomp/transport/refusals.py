"""An ERROR frame as an exception that says what was asked for and what the broker answered."""

from __future__ import annotations

import re

from spark_stomp.errors import BrokerError, ClientIdInUse, DestinationRefused, LoginRefused
from spark_stomp.protocol import ErrorReceived

__all__ = ["broker_error", "broker_words", "connect_refused"]

_DETAIL_LENGTH = 300
# ActiveMQ: "Broker: b - Client: c already connected from tcp://..."; Artemis: "... client ID ... in use".
_IN_USE = re.compile(r"client.*\balready (been )?(connected|in use|set)|client.?id.*\bin use", re.IGNORECASE)


def broker_words(event: ErrorReceived) -> str:
    """The ``message`` header of an ERROR frame and the beginning of its body, on one line."""
    detail = " ".join(event.detail.split())
    if len(detail) > _DETAIL_LENGTH:
        detail = detail[:_DETAIL_LENGTH] + "..."
    words = " - ".join(part for part in (event.message, detail) if part)
    return words or "(no reason given)"


def connect_refused(event: ErrorReceived, peer: str, client_id: str | None) -> LoginRefused:
    """The exception for an ERROR frame in answer to CONNECT, which named ``client_id``."""
    words = broker_words(event)
    if client_id is not None and _IN_USE.search(words):
        return ClientIdInUse(f"{peer} refused CONNECT: clientId {client_id} is in use: {words}")
    return LoginRefused(f"{peer} refused CONNECT: {words}")


def broker_error(event: ErrorReceived, peer: str, what: str = "") -> BrokerError:
    """The exception for an ERROR frame on an established connection.

    ``what`` names the request that the error answers, as far as that is known (a SUBSCRIBE, a SEND).
    """
    words = broker_words(event)
    if not what:
        return BrokerError(f"the broker at {peer} reported an error and ended the connection: {words}")
    return DestinationRefused(f"the broker at {peer} refused {what}: {words}")
