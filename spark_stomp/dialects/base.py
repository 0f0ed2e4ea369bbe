"""The dialect of a broker: data, no behaviour beyond turning options into headers.

A dialect is chosen from the ``server`` header of CONNECTED, or by the ``broker`` option where a broker hides
that header. Nothing here opens a connection; the receiver and the sink ask their dialect what to send.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_stomp.errors import UnsupportedError

__all__ = ["DIALECTS", "Dialect", "dialect_for", "dialect_named"]

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Dialect:
    """How one kind of broker spells what STOMP leaves open.

    Attributes
    ----------
    name : the value of the ``broker`` option.
    server_prefix : how CONNECTED's ``server`` header begins, in lower case; None never matches.
    prefetch_header : SUBSCRIBE header that bounds the un-acked messages; None where there is none.
    id_header : MESSAGE header that names a message and survives redelivery; None where none does.
    timestamp_unit : unit of the ``timestamp`` header of a MESSAGE.
    browse_headers : SUBSCRIBE headers that look at a queue without consuming; None where it cannot browse.
    queue_prefixes : destinations known to be queues, where several consumers share the messages.
    topic_prefixes : destinations known to be topics: nobody keeps messages for an absent consumer.
    durable_headers : SUBSCRIBE headers that make the broker keep a topic's messages all the same.
    redelivery_limit : True where the broker drops or dead-letters after some deliveries by default.
    """

    name: str
    server_prefix: str | None = None
    prefetch_header: str | None = None
    id_header: str | None = None
    timestamp_unit: Literal["ms", "s"] = "ms"
    browse_headers: Headers | None = None
    queue_prefixes: tuple[str, ...] = ("/queue/",)
    topic_prefixes: tuple[str, ...] = ("/topic/",)
    durable_headers: frozenset[str] = frozenset()
    redelivery_limit: bool = False

    def subscribe_headers(self, prefetch: int) -> Headers:
        """Headers of SUBSCRIBE that let at most ``prefetch`` messages be un-acked at a time."""
        return () if self.prefetch_header is None else ((self.prefetch_header, str(prefetch)),)

    def is_queue(self, destination: str) -> bool:
        """Whether several receivers on ``destination`` are known to share its messages."""
        return destination.startswith(self.queue_prefixes)

    def redelivers(self, destination: str, headers: Headers) -> bool:
        """Whether the broker keeps what was delivered from ``destination`` and not ACKed, and delivers it
        again. ``headers`` are the further headers of SUBSCRIBE."""
        durable = any(name in self.durable_headers for name, _ in headers)
        return durable or not destination.startswith(self.topic_prefixes)

    def check_subscription(
        self, destination: str, headers: Headers, *, receivers: int, allow_loss: bool
    ) -> None:
        """Raise UnsupportedError where this subscription could not keep the delivery contract.

        ``receivers`` subscribe to ``destination`` side by side, with these further SUBSCRIBE headers.
        """
        if receivers > 1 and not self.is_queue(destination):
            raise UnsupportedError(
                f"receivers = {receivers}, but {destination} is not known to be a queue on this broker "
                f"({self.name}): each receiver would get every message. Use receivers = 1"
            )
        if not self.redelivers(destination, headers) and not allow_loss:
            raise UnsupportedError(
                f"{destination} is a topic without a durable subscription: what is published while no "
                "receiver is connected, or not yet committed when its connection ends, is lost. "
                "Read from a queue or a durable subscription, or accept the loss with allowLoss = true"
            )

    def end_of_browse(self, browser: str | None) -> bool:
        """Whether a MESSAGE whose ``browser`` header is ``browser`` ends a browse."""
        return self.browse_headers is not None and browser == "end"


# Ordered: Artemis announces itself as "ActiveMQ-Artemis/...", which "ActiveMQ" would match as well.
DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        name="devbroker",
        server_prefix="spark-stomp-devbroker",
        prefetch_header="prefetch-count",
        id_header="message-id",
        browse_headers=(("browser", "true"),),
    ),
    Dialect(
        name="rabbitmq",
        server_prefix="rabbitmq",
        prefetch_header="prefetch-count",
        timestamp_unit="s",
        queue_prefixes=("/queue/", "/amq/queue/"),
        topic_prefixes=("/topic/", "/exchange/"),
        durable_headers=frozenset({"durable", "x-queue-name"}),
    ),
    Dialect(
        name="artemis",
        server_prefix="activemq-artemis",
        # In bytes there; the receiver's own estimate of the message size belongs to that broker's support.
        prefetch_header=None,
        browse_headers=(("browser", "true"),),
        durable_headers=frozenset({"durable-subscription-name"}),
        redelivery_limit=True,
    ),
    Dialect(
        name="activemq",
        server_prefix="activemq",
        prefetch_header="activemq.prefetchSize",
        id_header="message-id",
        browse_headers=(("browser", "true"),),
        durable_headers=frozenset({"activemq.subscriptionName"}),
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
