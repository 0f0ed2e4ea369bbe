"""The dialect of a broker: data, no behaviour beyond turning options into headers.

A dialect is chosen from the ``server`` header of CONNECTED, or by the ``broker`` option where a broker hides
that header. Nothing here opens a connection; the receiver and the sink ask their dialect what to send.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from spark_stomp.brokers.durable import PLAIN, DurableTopics, Subscription
from spark_stomp.errors import UnsupportedError

__all__ = ["DIALECTS", "Dialect", "dialect_for", "dialect_named"]

Headers = tuple[tuple[str, str], ...]


# What a message is taken to need on the wire before any was seen. Too high costs memory, and maxBufferedBytes
# bounds that; too low would cost throughput.
_ASSUMED_FRAME_BYTES = 4096
# Brokers read the window as a signed 32-bit number.
_MAX_WINDOW = (1 << 31) - 1


@dataclass(frozen=True)
class Dialect:
    """How one kind of broker spells what STOMP leaves open.

    Attributes
    ----------
    name : the value of the ``broker`` option.
    server_prefix : how CONNECTED's ``server`` header begins, in lower case; None never matches.
    prefetch_header : SUBSCRIBE header that bounds the un-acked messages; None where there is none.
    window_header : SUBSCRIBE header that bounds the bytes of un-acked MESSAGE frames; None without.
    page_size : the broker stops at a multiple of so many un-acked messages by default, whatever prefetch was
        asked for; None where it does not.
    id_header : MESSAGE header that names a message and survives redelivery; None where none does.
    id_separator : the part of ``id_header`` up to and with this names the delivery; None where all names the
        message.
    timestamp_unit : unit of the ``timestamp`` header of a MESSAGE.
    own_timestamp : True where ``timestamp`` is when the broker took the message, whatever its producer said.
    selectors : False where the broker does not select by the ``selector`` header.
    browse_headers : SUBSCRIBE headers that look at a queue without consuming; None where it cannot browse.
    queue_prefixes : destinations known to be queues, where several consumers share the messages.
    queue_subscribe_headers, queue_send_headers : what SUBSCRIBE and SEND need beside the destination, so that
        the broker takes it for a queue.
    topic_prefixes : destinations known to be topics: nobody keeps messages for an absent consumer.
    durable_topics : how the broker keeps a topic's messages all the same; None where that is not known.
    one_connection_per_client : True where no two connections may bear the same ``client-id``.
    redelivery_limit : deliveries after which the broker drops or dead-letters a message by default; None
        where it delivers again and again.
    unsubscribe_returns : True where what UNSUBSCRIBE gives back does not count as delivered.
    nack_requeues : True where a NACKed message is delivered again. Elsewhere it is dead-lettered or lost.
    transactional_ack : True where ACKs of an aborted transaction did not happen.
    duplicate_header : SEND header by which the broker drops a message that it already has; None without.
    """

    name: str
    server_prefix: str | None = None
    prefetch_header: str | None = None
    window_header: str | None = None
    page_size: int | None = None
    id_header: str | None = None
    id_separator: str | None = None
    timestamp_unit: Literal["ms", "s"] = "ms"
    own_timestamp: bool = False
    selectors: bool = True
    browse_headers: Headers | None = None
    queue_prefixes: tuple[str, ...] = ("/queue/",)
    queue_subscribe_headers: Headers = ()
    queue_send_headers: Headers = ()
    topic_prefixes: tuple[str, ...] = ("/topic/", "/temp-topic/")
    durable_topics: DurableTopics | None = None
    one_connection_per_client: bool = False
    redelivery_limit: int | None = None
    unsubscribe_returns: bool = False
    nack_requeues: bool = False
    transactional_ack: bool = False
    duplicate_header: str | None = None

    def subscribe_headers(
        self,
        destination: str,
        prefetch: int,
        *,
        frame_bytes: float | None = None,
        max_bytes: int | None = None,
    ) -> Headers:
        """Headers of SUBSCRIBE that let at most ``prefetch`` messages be un-acked at a time.

        Where the broker counts bytes, see :meth:`window_bytes`.
        """
        headers = self.queue_subscribe_headers if self.is_queue(destination) else ()
        if self.prefetch_header is not None:
            return (*headers, (self.prefetch_header, str(prefetch)))
        window = self.window_bytes(prefetch, frame_bytes=frame_bytes, max_bytes=max_bytes)
        if self.window_header is None or window is None:
            return headers
        return (*headers, (self.window_header, str(window)))

    def window_bytes(
        self, prefetch: int, *, frame_bytes: float | None = None, max_bytes: int | None = None
    ) -> int | None:
        """The window to ask for where the broker counts bytes; None where it counts messages.

        ``frame_bytes`` is the mean size of the MESSAGE frames that came so far, None before the first; the
        broker charges a message with the size of its frame. ``max_bytes`` bounds the result.
        A broker sends while any of the window is left, so even the smallest lets one message through.
        """
        if self.window_header is None:
            return None
        wanted = math.ceil(prefetch * (frame_bytes or _ASSUMED_FRAME_BYTES))
        return min(wanted, _MAX_WINDOW, wanted if max_bytes is None else max_bytes)

    def send_headers(self, destination: str) -> Headers:
        """Headers of SEND without which the broker would not keep the message for a queue's consumers."""
        return self.queue_send_headers if destination.startswith(self.queue_prefixes) else ()

    def stable_id(self, raw: bytes) -> bytes:
        """The part of the ``id_header`` that stays the same over redelivery, from its value on the wire."""
        return raw if self.id_separator is None else raw.rpartition(self.id_separator.encode())[2]

    def is_queue(self, destination: str) -> bool:
        """Whether several receivers on ``destination`` are known to share its messages."""
        return destination.startswith(self.queue_prefixes)

    def is_topic(self, destination: str) -> bool:
        """Whether nobody keeps what is published to ``destination`` while no subscriber is there."""
        return destination.startswith(self.topic_prefixes)

    def redelivers(self, destination: str, *, durable: bool) -> bool:
        """Whether the broker keeps what was delivered from ``destination`` and not ACKed, and delivers it
        again. ``durable``: the subscription has a name."""
        return durable or not self.is_topic(destination)

    def subscription(
        self,
        destination: str,
        *,
        durable_name: str | None = None,
        client_id: str | None = None,
        selector: str | None = None,
    ) -> Subscription:
        """Which subscription of the broker's to ask for.

        Raises UnsupportedError where ``durable_name`` is given and the broker cannot keep ``destination``
        under such a name, or need not.
        """
        if durable_name is None:
            return PLAIN
        if not self.is_topic(destination):
            raise UnsupportedError(
                f"durableName is given, but {destination} is not known to be a topic on this broker "
                f"({self.name}); a queue keeps its messages by itself. Leave durableName out"
            )
        if self.durable_topics is None:
            raise UnsupportedError(
                f"durableName is given, but how this broker ({self.name}) keeps a topic's messages is not "
                "known. Say which broker it is with the option broker, or give its own headers in "
                "subscribeHeaders, with allowLoss = true"
            )
        return self.durable_topics.subscription(destination, durable_name, client_id, selector)

    def check_subscription(
        self, destination: str, headers: Headers, *, receivers: int, durable: bool, allow_loss: bool
    ) -> None:
        """Raise UnsupportedError where this subscription could not keep the delivery contract.

        ``receivers`` subscribe to ``destination`` side by side, with these further SUBSCRIBE headers;
        ``durable``: to a subscription with a name.
        """
        self.check_selector(headers)
        self._check_headers(destination, headers)
        if receivers > 1:
            self._check_sharing(destination, receivers, durable)
        if not self.redelivers(destination, durable=durable) and not allow_loss:
            raise UnsupportedError(
                f"{destination} is a topic without a durable subscription: what is published while no "
                "receiver is connected, or not yet committed when its connection ends, is lost. "
                "Read from a queue, name a durable subscription in durableName, or accept the loss with "
                "allowLoss = true"
            )

    def check_client_id(self, client_id: str | None, connections: int) -> None:
        """Raise UnsupportedError where so many connections of one query may not bear ``client_id``."""
        if client_id is not None and connections > 1 and self.one_connection_per_client:
            raise UnsupportedError(
                f"clientId = {client_id} is given, and this query has {connections} connections (receivers "
                f"times destinations), but this broker ({self.name}) lets only one connection at a time bear "
                "it. Leave clientId out, or read with one receiver from one destination"
            )

    def _check_headers(self, destination: str, headers: Headers) -> None:
        asking = None if self.durable_topics is None else self.durable_topics.asking_header
        given = {name for name, value in headers if value not in ("", "false")}
        if asking in given and self.is_topic(destination):
            raise UnsupportedError(
                f"subscribeHeaders has {asking}, which the option durableName sets on this broker "
                f"({self.name}), with all that belongs to it"
            )

    def _check_sharing(self, destination: str, receivers: int, durable: bool) -> None:
        if self.is_queue(destination):
            return
        if not durable:
            raise UnsupportedError(
                f"receivers = {receivers}, but {destination} is not known to be a queue on this broker "
                f"({self.name}): each receiver would get every message. Use receivers = 1"
            )
        if self.durable_topics is not None and not self.durable_topics.shared:
            raise UnsupportedError(
                f"receivers = {receivers}, but only one connection at a time may have a durable subscription "
                f"on this broker ({self.name}). Use receivers = 1{self.durable_topics.alternative}"
            )

    def check_selector(self, headers: Headers) -> None:
        """Raise UnsupportedError where SUBSCRIBE asks for a selection that this broker does not make."""
        if not self.selectors and any(name == "selector" for name, _ in headers):
            raise UnsupportedError(
                f"selector is given, but this broker ({self.name}) does not select: every message would "
                "come. Filter the rows instead, or bind a queue to what you want"
            )

    def end_of_browse(self, browser: str | None) -> bool:
        """Whether a MESSAGE whose ``browser`` header is ``browser`` ends a browse."""
        return self.browse_headers is not None and browser == "end"


# Ordered: Artemis announces itself as "ActiveMQ-Artemis/...", which "ActiveMQ" would match as well.
# What is said here of RabbitMQ, ActiveMQ and Artemis is proved by tests/interop/test_dialects.py.
DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        name="devbroker",
        server_prefix="spark-stomp-devbroker",
        prefetch_header="prefetch-count",
        id_header="message-id",
        selectors=False,
        browse_headers=(("browser", "true"),),
        durable_topics=DurableTopics("durable-subscription-name", shared=True),
        nack_requeues=True,
        transactional_ack=True,
    ),
    Dialect(
        name="rabbitmq",
        server_prefix="rabbitmq",
        prefetch_header="prefetch-count",
        timestamp_unit="s",
        # It passes over the header and delivers everything.
        selectors=False,
        queue_prefixes=("/queue/", "/amq/queue/"),
        topic_prefixes=("/topic/", "/temp-topic/", "/exchange/"),
        # The queue of the subscription is named by destination and id, and dies with its connection unless
        # auto-delete is turned off as well.
        durable_topics=DurableTopics(
            headers=(("durable", "true"), ("auto-delete", "false")), shared=True, forbidden="@@"
        ),
        nack_requeues=True,
        # Kept back until COMMIT and then replayed one by one: gone with ABORT, but not all or nothing.
        transactional_ack=True,
    ),
    Dialect(
        name="artemis",
        server_prefix="activemq-artemis",
        window_header="consumer-window-size",
        # "consumer,message": another consumer, another prefix.
        id_header="message-id",
        id_separator=",",
        own_timestamp=True,
        # "browser:true" is not known there: the messages would be consumed.
        browse_headers=None,
        # Without these a destination is an address that keeps nothing, unless the acceptor has prefixes.
        queue_subscribe_headers=(("subscription-type", "ANYCAST"),),
        queue_send_headers=(("destination-type", "ANYCAST"),),
        durable_topics=DurableTopics(
            "durable-subscription-name", needs_client_id=True, shared=True, by_name_alone=True
        ),
        redelivery_limit=10,
        unsubscribe_returns=True,
        # NACK acknowledges, and an ACK in a transaction takes effect at once: neither gives anything back.
        nack_requeues=False,
        transactional_ack=False,
        duplicate_header="_AMQ_DUPL_ID",
    ),
    Dialect(
        name="activemq",
        server_prefix="activemq",
        prefetch_header="activemq.prefetchSize",
        # The destination policy's maxPageSize.
        page_size=200,
        id_header="message-id",
        browse_headers=(("browser", "true"),),
        # Without a client id the broker takes the header and keeps nothing.
        durable_topics=DurableTopics(
            "activemq.subscriptionName",
            needs_client_id=True,
            alternative=", or let several read from a queue that the broker fills from a virtual topic "
            "(/queue/Consumer.NAME.VirtualTopic.TOPIC)",
        ),
        one_connection_per_client=True,
        # To the dead letter queue.
        nack_requeues=False,
        transactional_ack=True,
    ),
    Dialect(name="generic"),
)


def dialect_named(name: str) -> Dialect:
    """The dialect of that name; KeyError for a name that options validation would have refused."""
    return {dialect.name: dialect for dialect in DIALECTS}[name]


def dialect_for(server: str | None, broker: str = "auto") -> Dialect:
    """The dialect for CONNECTED's ``server`` header, unless the ``broker`` option already names one."""
    if broker != "auto":
        return dialect_named(broker)
    announced = (server or "").lower()
    for dialect in DIALECTS:
        if dialect.server_prefix is not None and announced.startswith(dialect.server_prefix):
            return dialect
    return dialect_named("generic")
