"""What the name of a destination says, and what names a subscription to it.

STOMP defines no durable subscriptions: each broker has its own headers for them, and its own way to name the
subscriber. The options ``durableName`` and, if it is set or needed, ``clientId`` name the subscription on all
of them.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Final, Literal

from spark_stomp.errors import UnsupportedError
from spark_stomp.protocol.frames import HeaderPairs

DestinationType = Literal["queue", "topic", "unknown"]
# Characters of a subscription's id. RabbitMQ repeats it three times in each message, so it is short: 36 bits.
_ID_LENGTH = 6


@dataclass(frozen=True)
class Naming:
    """How one kind of broker names queues and topics.

    Several receivers share the messages of a queue. Messages of a topic are lost while no subscriber is
    connected.

    Attributes:
        queue_prefixes: beginnings of destinations that are queues.
        topic_prefixes: beginnings of destinations that are topics.
        queue_infix: every destination that contains this text is a queue; None: no such text.
        otherwise: what all other destinations are. The option ``destinationType`` says it if the broker's
            names do not.
    """

    queue_prefixes: tuple[str, ...] = ("/queue/",)
    topic_prefixes: tuple[str, ...] = ("/topic/", "/temp-topic/")
    queue_infix: str | None = None
    otherwise: DestinationType = "unknown"

    def kind(self, destination: str) -> DestinationType:
        """The kind of ``destination``: queue, topic or unknown."""
        if self.is_full_name(destination):
            return "queue"
        if destination.startswith(self.topic_prefixes):
            return "topic"
        return "queue" if destination.startswith(self.queue_prefixes) else self.otherwise

    def is_full_name(self, destination: str) -> bool:
        """Whether ``destination`` names a queue together with its address."""
        return self.queue_infix is not None and self.queue_infix in destination

    def is_temporary(self, destination: str) -> bool:
        """Whether ``destination`` ends, with its messages, when the connection that declared it ends."""
        return destination.startswith(("/temp-queue/", "/remote-temp-queue/"))

    def is_short_queue_name(self, destination: str) -> bool:
        """Whether ``destination`` is known to be a queue, and is no full name."""
        return self.kind(destination) == "queue" and not self.is_full_name(destination)


BY_PREFIX: Final = Naming()
"""Names as most brokers have them: ``/queue/...`` and ``/topic/...``."""


@dataclass(frozen=True)
class Subscription:
    """The ``id`` of a SUBSCRIBE frame, the headers that name a durable subscription, and how it is ACKed.

    ``ack`` is empty if the receiver decides that.
    """

    id: str
    headers: HeaderPairs = ()
    ack: str = ""


def subscription_id(destination: str) -> str:
    """The ``id`` of the subscription to ``destination``, unless it is durable and its id is its name.

    It follows from the destination alone. So the header ``subscription`` of a message says which entry of
    the option ``destination`` it came by, also in a journal, and after a restart with other destinations.
    """
    digest = hashlib.sha256(destination.encode()).digest()
    return base64.urlsafe_b64encode(digest)[:_ID_LENGTH].decode()


@dataclass(frozen=True)
class DurableTopics:
    """How one kind of broker keeps a topic's messages for an absent subscriber.

    A durable subscription has the name "NAME@DESTINATION", so that several topics have different ones, and
    none changes if topics are added or left out.

    Attributes:
        name_header: SUBSCRIBE header with the name; None if the subscription's ``id`` is the name.
        headers: further SUBSCRIBE headers.
        needs_client_id: True if the subscription is durable only with a ``client-id``. UNSUBSCRIBE then ends
            one that nobody has open, too; of other brokers only one that is open.
        shared: True if several connections can have the subscription at once and share its messages.
        alternative: end of an error text: how several receivers can share a topic if ``shared`` is False.
        by_name_alone: True if the broker compares only names: a subscription of the same name with another
            selector would go on with the old one. So the selector becomes a part of the name.
        forbidden: text that a name must not contain.
        endless: beginnings of destinations whose durable subscriptions UNSUBSCRIBE does not end.
    """

    name_header: str | None = None
    headers: HeaderPairs = ()
    needs_client_id: bool = False
    shared: bool = False
    alternative: str = ""
    by_name_alone: bool = False
    forbidden: str | None = None
    endless: tuple[str, ...] = ()

    @property
    def deciding_header(self) -> str:
        """The SUBSCRIBE header that makes a subscription durable."""
        return self.name_header or self.headers[0][0]

    def subscription(
        self, destination: str, name: str, client_id: str | None, selector: str | None
    ) -> Subscription:
        """The subscription ``name`` of ``client_id`` to ``destination``.

        Raises UnsupportedError if a client id is missing, or the broker does not accept the name.
        """
        if self.needs_client_id and client_id is None:
            raise UnsupportedError(
                f"durableName = {name} needs clientId on this broker, which keeps a topic's messages only "
                "for a client with an id. Choose one that no other application uses"
            )
        name = f"{name}@{destination}"
        if self.name_header is None:
            return Subscription(
                self._checked(name if client_id is None else f"{client_id}.{name}"), self.headers
            )
        if self.by_name_alone and selector is not None:
            name += "?" + hashlib.sha256(selector.encode()).hexdigest()[:8]
        headers = ((self.name_header, self._checked(name)), *self.headers)
        return Subscription(subscription_id(destination), headers)

    def _checked(self, name: str) -> str:
        if self.forbidden is not None and self.forbidden in name:
            raise UnsupportedError(
                f"durableName and clientId make the name {name}, and on this broker a name must not contain "
                f"{self.forbidden}"
            )
        return name
