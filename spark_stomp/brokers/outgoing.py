"""What each broker makes of a SEND: how it spells what a message is like, and what it sets on a delivery."""

from __future__ import annotations

from dataclasses import dataclass

# Headers that say something of a delivery (STOMP 1.2, "MESSAGE") or of the SEND before it, not the message.
# RabbitMQ and Artemis hand a producer's ``receipt`` to consumers. RabbitMQ refuses a ``message-id`` on SEND;
# Artemis puts it in the place of the delivery's. ``persistent`` says how the last broker kept the message;
# whether this one does is for the sink to say.
_DELIVERY = frozenset(
    {
        "ack",
        "content-length",
        "destination",
        "message-id",
        "persistent",
        "receipt",
        "redelivered",
        "subscription",
    }
)


@dataclass(frozen=True)
class Outgoing:
    """How one kind of broker takes messages.

    Attributes
    ----------
    expires_header : SEND header with the time at which the message expires, in ms since the epoch; None if
        there is none.
    ttl_header : SEND header with how long the message lives, in ms; None if there is none.
    text_without_length : a SEND without ``content-length`` is a text message, any other has bytes.
    dedup_header : SEND header by which copies of a message are to be recognised, by the broker or by others.
    delivery_headers : headers of a MESSAGE that say nothing of the next message with its body.
    """

    expires_header: str | None = None
    ttl_header: str | None = None
    text_without_length: bool = False
    dedup_header: str = "dedup-id"
    delivery_headers: frozenset[str] = _DELIVERY


GENERIC = Outgoing()
DEVBROKER = Outgoing(delivery_headers=_DELIVERY | {"browser", "delivery-count"})
RABBITMQ = Outgoing(ttl_header="expiration")
ACTIVEMQ = Outgoing(expires_header="expires", text_without_length=True)
ARTEMIS = Outgoing(
    expires_header="expires",
    text_without_length=True,
    # It drops a message whose value it has seen at that address, among the last id-cache-size ones.
    dedup_header="_AMQ_DUPL_ID",
    # What was a queue's may go on to a topic.
    delivery_headers=_DELIVERY | {"destination-type"},
)
