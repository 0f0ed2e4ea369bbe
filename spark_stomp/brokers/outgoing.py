"""How a broker treats a SEND, and what several brokers have in common there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spark_stomp.protocol.encoder import HeaderNames, ValueRule

# Headers that describe a delivery (STOMP 1.2, "MESSAGE") or the SEND before it, and not the message itself.
# A row has them if it was read from a broker.
#
# - RabbitMQ passes ``receipt`` and ``transaction`` of a SEND on to consumers, Artemis passes on ``receipt``.
# - RabbitMQ refuses ``message-id`` on a SEND. Artemis puts it in place of the delivery's.
# - ``persistent`` says how the last broker kept the message. The sink decides how this one keeps it.
# - ``timestamp`` is the time at which the last broker took the message, in that broker's unit.
DELIVERY = frozenset(
    {
        "ack",
        "content-length",
        "destination",
        "message-id",
        "persistent",
        "receipt",
        "redelivered",
        "subscription",
        "timestamp",
        "transaction",
    }
)

# Names that begin with JMS are reserved for brokers, and ActiveMQ obeys them: JMSExpiration, JMSDeliveryMode,
# JMSXGroupSeq. The group of a message belongs to the message itself.
JMS = "JMS"
GROUPS = frozenset({"JMSXGroupID", "_AMQ_GROUP_ID"})

# Brokers end the connection, often without an ERROR, if they cannot read one of these values.
PRIORITY = ValueRule("priority", "0*[0-9]", "be from 0 to 9")
# A signed number of 64 bits. A time in ns since 1970 has 19 digits.
_LONG = "[0-9]{1,18}|[1-8][0-9]{18}"
TIMESTAMP = ValueRule("timestamp", _LONG, "be a whole number from 0 to 9e18")
# 0 means that the message never expires.
EXPIRES = ValueRule("expires", _LONG, "be a time in ms, or 0")


def never_to(pattern: str, says: str) -> ValueRule:
    """The sink sends nothing to these destinations: a message would be lost although it is confirmed, or the
    connection would end. What brokers say of odd destinations is tried by
    tests/interop/test_odd_destinations.py.
    """
    return ValueRule("destination", pattern, says, allowed=False)


NOT_TEMPORARY = never_to(
    "(?s:/temp-(?:queue|topic)/.*)",
    "be no temporary one, which would end with the sink's connection, and its messages with it",
)


@dataclass(frozen=True)
class Outgoing:
    """How one kind of broker treats a SEND.

    Attributes:
        left_out: headers of rows that are not sent: those that describe an earlier delivery, and those that
            command this broker, which only options may do.
        values: rules for the values of some headers, the destination among them, whether options or rows set
            them.
        expires_header: SEND header with the time at which the message expires, in ms since the epoch; None:
            no such header.
        ttl_header: SEND header with the time to live, in ms; None: no such header.
        text_without_length: True if a SEND without ``content-length`` becomes a text message, and any other
            SEND a message of bytes.
        dedup_header: SEND header by which the broker, or a consumer, can recognise copies of a message.
        max_header_line: bytes of the longest header line that the broker accepts.
        max_header_name: bytes of the longest header name that it accepts.
        frame_limit: what to say of the largest frame that the broker accepts by default, in bytes, if it
            closes the connection without a reason after a larger one; None if it says the reason.
        joins_messages: True if a frame may be sent over WebSocket as several messages.
        silent_refusal: why the broker may end the connection without a reason; empty if nothing is known.
        undeclared: the name by which to ask for the queue of a destination if it has to exist, because a SEND
            does not declare it, and the broker confirms and drops what is sent to any other; None for other
            destinations. None if there are none such.
        reply_name: regular expression for a ``reply-to`` of a MESSAGE. Its first group is sent, because
            clients of other protocols understand only that. Empty if there is none.
        body_claim: a header, its value, and how a body begins that is what this header says. With any other
            body the header is misleading. None: no such header.
        unescapes_always: True if the broker unescapes headers even in STOMP 1.0 and in CONNECT, which have no
            escapes.
    """

    left_out: HeaderNames
    values: tuple[ValueRule, ...]
    expires_header: str | None = None
    ttl_header: str | None = None
    text_without_length: bool = False
    dedup_header: str = "dedup-id"
    max_header_line: int = sys.maxsize
    max_header_name: int = sys.maxsize
    frame_limit: tuple[int, str] | None = None
    silent_refusal: str = ""
    undeclared: Callable[[str], str | None] | None = None
    joins_messages: bool = False
    reply_name: str = ""
    body_claim: tuple[str, str, bytes] | None = None
    unescapes_always: bool = False


NOTHING_KNOWN: Final = Outgoing(HeaderNames(frozenset()), ())
"""Of a broker of which nothing is known."""
