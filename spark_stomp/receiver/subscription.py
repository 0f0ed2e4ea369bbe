"""What a receiver is to read, what it asks the broker for, and what the user should know of that broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_stomp.brokers import Dialect, Subscription
from spark_stomp.options import SourceOptions


@dataclass(frozen=True)
class ReceiverSettings:
    """Which of a query's destinations one receiver reads, and the query's options. ``name`` is unique."""

    name: str
    destination: str
    options: SourceOptions

    @classmethod
    def of(cls, options: SourceOptions) -> list[ReceiverSettings]:
        """One entry for each receiver of a query; names say the destination and the number."""
        return [
            cls(f"{destination}#{number}", destination, options)
            for destination in options.destinations
            for number in range(options.receivers)
        ]

    @property
    def connections(self) -> int:
        """How many connections the query has in all."""
        return self.options.receivers * len(self.options.destinations)

    @property
    def max_buffered_bytes(self) -> int:
        """This receiver's share of the query's bytes in memory."""
        return self.options.max_buffered_bytes // self.connections

    def prefetch_for(self, mean_bytes: float | None) -> int:
        """The prefetch to ask for: no more than this receiver has room for if messages have ``mean_bytes``.

        A receiver without room leaves its socket unread, and RabbitMQ closes a connection of which it could
        write nothing for two heart-beats: this lets it happen once. What is in the journal takes no room.
        """
        prefetch = self.options.prefetch
        if mean_bytes is None or self.options.journal is not None:
            return prefetch
        return min(prefetch, max(1, int(self.max_buffered_bytes / mean_bytes)))

    @property
    def durable(self) -> bool:
        """Whether the subscription has a name, so that the broker keeps its messages."""
        return self.options.durable_name is not None


def choose_subscription(dialect: Dialect, settings: ReceiverSettings) -> Subscription:
    """The subscription to ask a broker of this dialect for, with all headers but those for the prefetch.

    Raises UnsupportedError if the broker could not keep the delivery contract, or not do what was asked for.
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
    """What the user should know of this broker and this destination, a line each."""
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
            f"messages of {dialect.name} carry no id that survives redelivery: with the journal none is "
            "lost, but one that is delivered again, after a broken connection or a restart, is a second row. "
            "If your producers set an id, name its header in idHeader"
        )


def unmarked_warning(dialect: Dialect, settings: ReceiverSettings) -> str:
    """What to look at if many messages were taken for redelivered ones without being marked so."""
    header = settings.options.id_header or dialect.id_header
    return (
        f"many messages of {settings.destination} have the id ({header}) and the body of a message that this "
        "query had before, and the broker did not mark them as redelivered. They count as the same messages: "
        "no second row. That is right after the broker was killed. If it was not, different messages have "
        "one id: let the producers set an id of their own, and name its header in idHeader"
    )


def may_stop_early(dialect: Dialect, settings: ReceiverSettings) -> bool:
    """Whether the broker may stop at fewer un-acked messages than the prefetch allows.

    ActiveMQ pages the messages of a queue in. How many it delivers un-acked depends on ``maxPageSize``, on
    other consumers of the queue, and on ACKs that came meanwhile. What is ACKed from the journal does not
    wait for a batch, so that a limit holds nothing back.
    """
    options = settings.options
    is_queue = dialect.is_queue(settings.destination, options.subscribe_headers)
    return dialect.page_size is not None and is_queue and options.ack_after == "commit"
