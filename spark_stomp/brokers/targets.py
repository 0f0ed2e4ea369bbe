"""Destinations at which a message would be lost although it is confirmed, or that end the connection.

What each broker says of odd destinations is tried by tests/interop/test_odd_destinations.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spark_stomp.protocol.encoder import ValueRule


def _never(pattern: str, says: str) -> ValueRule:
    return ValueRule("destination", pattern, says, allowed=False)


_TEMPORARY = _never(
    "(?s:/temp-(?:queue|topic)/.*)",
    "be no temporary one, which would end with the sink's connection, and its messages with it",
)

REFUSED: Final[Mapping[str, tuple[ValueRule, ...]]] = {
    "activemq": (
        _never(
            r"(?s:(?:.*,)?[\x00-\x20]*/(?:queue|topic|remote-temp-queue|remote-temp-topic)/[\x00-\x20]*"
            r"|[\x00-\x20]*(?:\?.*)?|.*,[\x00-\x20]*,.*)",
            "have a name, each of several: ActiveMQ ends the connection without a word",
        ),
        _TEMPORARY,
    ),
    "artemis": (_TEMPORARY,),
    "rabbitmq": (
        _never(
            r"/(?:queue|reply-queue|amq/queue)/amq\.rabbitmq\.reply-to",
            "be the whole name that the request's reply-to has: RabbitMQ drops what is sent to this one",
        ),
    ),
}
"""By the name of the dialect, the destinations that the sink sends nothing to."""

REPLIES: Final = "/reply-queue/"
"""RabbitMQ sends what comes to ``/reply-queue/NAME`` to the queue of that name, and declares none."""

DIRECT_REPLIES: Final = "amq.rabbitmq.reply-to."
"""The queue of a requester that waits for a direct reply. It cannot be asked for."""
