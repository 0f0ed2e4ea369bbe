"""Durable subscriptions to topics, which STOMP does not define, and errors for streams read as queues.

Each broker has its own headers for a durable subscription, and its own way to name the subscriber. The
options ``durableName`` and, if it is set or needed, ``clientId`` name the subscription on all of them.

A stream of RabbitMQ keeps its messages, and each subscription says where it begins. Read like a queue, it
would silently lose what was published while no subscription was there.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from spark_stomp.errors import UnsupportedError
from spark_stomp.options.stream_positions import stream_name
from spark_stomp.protocol.frames import HeaderPairs

# Characters of a subscription's id. RabbitMQ repeats it three times in each message, so it is short: 36 bits.
_ID_LENGTH = 6


@dataclass(frozen=True)
class Subscription:
    """The ``id`` of a SUBSCRIBE frame, the headers that name a durable subscription, and how it is ACKed.

    ``ack`` is empty if the receiver says that.
    """

    id: str
    headers: HeaderPairs = ()
    ack: str = ""


def plain_subscription(destination: str) -> Subscription:
    """A subscription that ends with its connection.

    Its id follows from the destination alone. So the header ``subscription`` of a message says which entry of
    the option ``destination`` it came by, also in a journal, and after a restart with other destinations.
    """
    digest = hashlib.sha256(destination.encode()).digest()
    return Subscription(base64.urlsafe_b64encode(digest)[:_ID_LENGTH].decode())


@dataclass(frozen=True)
class DurableTopics:
    """How one kind of broker keeps a topic's messages for an absent subscriber.

    A durable subscription has the name "NAME@DESTINATION", so that several topics have different ones, and
    none changes if topics are added or left out.

    Attributes:
        name_header: SUBSCRIBE header with the name; None if the subscription's ``id`` is the name.
        headers: further SUBSCRIBE headers.
        needs_client_id: True if the subscription is durable only with a ``client-id``.
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

    @property
    def ended_by_name(self) -> bool:
        """Whether UNSUBSCRIBE ends a subscription that nobody has open; if not, only one that is open.

        Brokers that know it by client id and name do the former. RabbitMQ and the dev broker want it open.
        """
        return self.needs_client_id

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
        return Subscription(plain_subscription(destination).id, headers)

    def _checked(self, name: str) -> str:
        if self.forbidden is not None and self.forbidden in name:
            raise UnsupportedError(
                f"durableName and clientId make the name {name}, and on this broker a name must not contain "
                f"{self.forbidden}"
            )
        return name


def ends_early(destination: str) -> UnsupportedError:
    """The error for a temporary queue that is read without consent to loss."""
    return UnsupportedError(
        f"{destination} is a temporary queue, which ends with its connection: what was not committed then is "
        "lost. Read from another queue, or accept the loss with allowLoss = true"
    )


def stream_refused(destination: str) -> UnsupportedError:
    """The error for a stream that is read as a queue."""
    return UnsupportedError(
        f"{destination} is a stream of RabbitMQ, and is read as a queue: what is published while no receiver "
        f"is connected would never be a row. To read it as a stream, set destination = "
        f"/amq/queue/{stream_name(destination)} and startingOffsets = earliest or latest"
    )
