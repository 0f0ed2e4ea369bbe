"""For tests that drive a session by hand: the frames that most of them send, and what comes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spark_stomp.protocol import NEED_DATA, ClientConnection, ServerConnection, ack_headers

Headers = Iterable[tuple[str, str]]


def subscribe(
    session: ClientConnection,
    subscription: str,
    destination: str,
    *,
    ack: str = "client-individual",
    headers: Headers = (),
    receipt: str | None = None,
) -> None:
    own = (("id", subscription), ("destination", destination), ("ack", ack))
    session.request("SUBSCRIBE", (*own, *headers), receipt=receipt)


def send(
    session: ClientConnection,
    destination: str,
    body: bytes,
    *,
    headers: Headers = (),
    receipt: str | None = None,
) -> None:
    length = ("content-length", str(len(body)))
    session.request("SEND", (("destination", destination), *headers, length), body, receipt=receipt)


def ack(session: ClientConnection, subscription: str, handle: str, *, receipt: str | None = None) -> None:
    session.request("ACK", ack_headers(subscription, handle, session.version or "1.2"), receipt=receipt)


def events(session: ClientConnection | ServerConnection) -> list[Any]:
    """All that there are now."""
    found = []
    while (event := session.next_event()) is not NEED_DATA:
        found.append(event)
    return found
