"""Puts the flights into their queue: one connection, one receipt for each message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spark_stomp.arrow import OutgoingMessage
from spark_stomp.options import parse_sink_options
from spark_stomp.sink.sender import Sender

_HEADERS: Final = (("content-type", "application/json"), ("persistent", "true"))
_WINDOW: Final = "5000"


def publish(url: str, destination: str, bodies: Iterable[bytes]) -> int:
    """SEND every body; returns how many the broker has confirmed: all of them.

    Raises:
        StompError: the broker did not take them.
    """
    options = parse_sink_options({"url": url, "destination": destination, "receiptWindow": _WINDOW})
    with Sender(options) as sender:
        for body in bodies:
            sender.send(OutgoingMessage(destination, _HEADERS, body))
        return sender.finish()
