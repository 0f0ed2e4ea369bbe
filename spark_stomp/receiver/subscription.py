"""The settings of a receiver, the subscription that it asks the broker for, and warnings about the broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_stomp.brokers import Dialect, Subscription
from spark_stomp.options import SourceOptions


@dataclass(frozen=True)
class ReceiverSettings:
    """The destination that one receiver reads, its unique ``name``, and the options of the query."""

    name: str
    destination: str
    options: SourceOptions

    @classmethod
    def of(cls, options: SourceOptions) -> list[ReceiverSettings]:
        """The settings of all receivers of a query. A name is the destination, ``#`` and a number."""
        return [
            cls(f"{destination}#{number}", destination, options)
            for destination in options.destinations
            for number in range(options.receivers)
        ]

    @property
    def connections(self) -> int:
        """How many connections all receivers of the query have together."""
        return self.options.receivers * len(self.options.destinations)

    @property
    def max_buffered_bytes(self) -> int:
        """The bytes that this receiver may hold in memory: its share of ``maxBufferedBytes``."""
        return self.options.max_buffered_bytes // self.connections

    def prefetch_for(self, mean_bytes: float | None) -> int:
        """The prefetch to ask for: the option's, but no more messages of ``mean_bytes`` than fit in memory.

        A receiver without room leaves its socket unread, and RabbitMQ closes a connection to which it could
        write nothing for two heart-beats. With the smaller prefetch of the next connection that does not
        happen again. With a journal the prefetch is not reduced: frames in the journal take no memory.
        """
        prefetch = self.options.prefetch
        if mean_bytes is None or self.options.journal is not None:
            return prefetch
        return min(prefetch, max(1, int(self.max_buffered_bytes / mean_bytes)))

    @property
    def durable(self) -> bool:
        """Whether the subscription is durable: the broker keeps messages under its name."""
        return self.options.durable_name is not None


def choose_subscription(dialect: Dialect, settings: ReceiverSettings) -> Subscription:
    """The subscription to ask a broker of this dialect for, with all headers except those for the prefetch.

    Raises UnsupportedError if the delivery contract could not be kept with it, or if the broker cannot do
    what the options ask for.
    """
    options, destination = settings.options, settings.destination
    client_id = options.connection.client_id
    selector = () if options.selector is None else (("selector", options.selector),)
    dialect.check_client_id(client_id, settings.connections)
    dialect.check_subscription(
        destination,
        selector + options.subscribe_headers,
        receivers=options.receivers,
        durable=settings.durable,
        allow_loss=options.allow_loss,
    )
    chosen = dialect.subscription(
        destination,
        options.subscribe_headers,
        durable_name=options.durable_name,
        client_id=client_id,
        selector=options.selector,
    )
    return Subscription(chosen.id, selector + chosen.headers + options.subscribe_headers)


def risks(dialect: Dialect, settings: ReceiverSettings) -> Iterator[str]:
    """Warnings about this broker and this destination, one line each."""
    options = settings.options
    unknown = dialect.unknown_kind(settings.destination, options.subscribe_headers)
    if unknown is not None and not options.allow_loss:
        yield unknown
    if dialect.redelivery_limit is not None and options.journal is None:
        yield (
            f"{dialect.name} drops or dead-letters a message after {dialect.redelivery_limit} deliveries "
            "unless configured otherwise, and each broken connection costs one or more"
        )
    if options.journal is not None and options.id_header is None and dialect.id_header is None:
        yield (
            f"messages of {dialect.name} carry no id that survives redelivery. The journal loses no message, "
            "but a message that is redelivered, after a broken connection or a restart, gives a second row. "
            "If your producers set an id, name its header in idHeader"
        )


def unmarked_warning(dialect: Dialect, settings: ReceiverSettings) -> str:
    """The warning if many messages count as redelivered although the broker did not mark them so."""
    header = settings.options.id_header or dialect.id_header
    return (
        f"many messages of {settings.destination} have the id ({header}) and the body of a message that this "
        "query has received before, and the broker did not mark them as redelivered. They count as "
        "redelivered and give no second row. That is right if the broker was killed. If it was not, "
        "different messages have one id: let the producers set a unique id, and name its header in idHeader"
    )


def may_stop_early(dialect: Dialect, settings: ReceiverSettings) -> bool:
    """Whether the broker may stop at fewer un-acked messages than the prefetch allows.

    ActiveMQ loads the messages of a queue in pages. How many it delivers un-acked depends on ``maxPageSize``,
    on other consumers of the queue, and on ACKs that came meanwhile. With ``ackAfter=journal`` this does not
    matter: ACKs do not wait for a batch, so no page limit holds messages back.
    """
    options = settings.options
    is_queue = dialect.is_queue(settings.destination, options.subscribe_headers)
    return dialect.page_size is not None and is_queue and options.ack_after == "commit"
