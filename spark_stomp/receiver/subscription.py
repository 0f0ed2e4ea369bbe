"""The settings of a receiver, the subscription that it asks the broker for, and warnings about the broker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_stomp.brokers import Dialect, Subscription
from spark_stomp.errors import AcksRefused, RemoteProtocolError, StompError
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import ErrorReceived, handle_header, message_of_handle
from spark_stomp.quoting import counted, listed, quoted
from spark_stomp.receiver.deliveries import Deliveries

# The words of an ERROR, to find a handle among them. A word has no blanks, quotation marks or brackets, and
# does not end with a punctuation mark.
_WORDS = re.compile(r"[^\s'\"\[\](){}<>]*[^\s'\"\[\](){}<>.,:;]")
# This many messages that are recognised as redelivered, although the broker did not mark them, are worth a
# warning. A judgement.
_MANY_UNMARKED = 100


@dataclass(frozen=True)
class ReceiverSettings:
    """The destinations that one receiver reads, its unique ``name``, and the options of the query.

    ``of_batch``: for a batch read or a command, which may take what came as slowly as it likes.
    """

    name: str
    destinations: tuple[str, ...]
    options: SourceOptions
    of_batch: bool = False

    @classmethod
    def of(cls, options: SourceOptions) -> list[ReceiverSettings]:
        """The settings of all receivers of a query: they share the destinations out.

        If there are more receivers than destinations, some destinations have several. A name says what the
        receiver reads, and ends in ``#`` and a number.
        """
        count, destinations = options.connections, options.destinations
        shares = [destinations[i::count] or (destinations[i % len(destinations)],) for i in range(count)]
        return [cls(f"{listed(share)}#{i}", share, options) for i, share in enumerate(shares)]

    @property
    def what(self) -> str:
        """What the receiver reads, in a few words."""
        return listed(self.destinations)

    @property
    def max_buffered_bytes(self) -> int:
        """The bytes that this receiver may hold in memory: its share of ``maxBufferedBytes``."""
        return self.options.max_buffered_bytes // self.options.connections

    def receivers_of(self, destination: str) -> int:
        """How many receivers of the query read ``destination``."""
        count, all_of_them = self.options.connections, self.options.destinations
        return max(1, len(range(all_of_them.index(destination), count, len(all_of_them))))

    def prefetch_for(self, mean_bytes: float | None, *, busy: int = 1) -> int:
        """The prefetch to ask for: the option's, but no more messages of ``mean_bytes`` than fit in memory.

        A receiver without room leaves its socket unread, and RabbitMQ closes a connection to which it could
        write nothing for two heart-beats. With the smaller prefetch of the next connection that does not
        happen again, if at most ``busy`` destinations have messages. With a journal the prefetch is not
        reduced: frames in the journal take no memory.
        """
        prefetch = self.options.prefetch
        if mean_bytes is None or self.options.journal is not None:
            return prefetch
        return min(prefetch, max(1, int(self.max_buffered_bytes / mean_bytes / busy)))

    @property
    def durable(self) -> bool:
        """Whether subscriptions to topics are durable: the broker keeps messages under their names."""
        return self.options.durable_name is not None


def choose_subscription(dialect: Dialect, settings: ReceiverSettings, destination: str) -> Subscription:
    """The subscription to ask a broker of this dialect for, with all headers except those for the prefetch.

    Raises UnsupportedError if the delivery contract could not be kept with it, or if the broker cannot do
    what the options ask for.
    """
    options = settings.options
    client_id = options.connection.client_id
    selector = () if options.selector is None else (("selector", options.selector),)
    dialect.check_client_id(client_id, options.connections)
    dialect.check_subscription(
        destination,
        selector + options.subscribe_headers,
        connections=settings.receivers_of(destination),
        durable=settings.durable,
        allow_loss=options.allow_loss,
    )
    durable_name = options.durable_name
    kinds = {dialect.is_queue(one) for one in options.destinations if durable_name}
    if kinds == {True, False} and dialect.is_queue(destination):
        durable_name = None  # it is for the topics; queues keep their messages without it
    chosen = dialect.subscription(
        destination,
        durable_name=durable_name,
        client_id=client_id,
        selector=options.selector,
    )
    return Subscription(chosen.id, selector + chosen.headers + options.subscribe_headers)


def risks(dialect: Dialect, settings: ReceiverSettings) -> Iterator[str]:
    """Warnings about this broker and these destinations, one line each."""
    options = settings.options
    if dialect.unknown is not None:
        yield dialect.unknown
    for destination in settings.destinations:
        unknown = dialect.unknown_kind(destination)
        if unknown is not None and not options.allow_loss:
            yield unknown
    if dialect.orphans_subscriptions and len(settings.destinations) > 1:
        yield (
            f"if this connection is lost, {dialect.name} may keep the oldest un-acked message of each of its "
            f"{len(settings.destinations)} subscriptions until it is restarted. That is rare with one "
            f"subscription for each connection: connections = {len(options.destinations)}"
        )
    if dialect.redelivery_limit is not None and options.journal is None:
        yield (
            f"{dialect.name} drops or dead-letters a message after {dialect.redelivery_limit} deliveries "
            "unless configured otherwise, and each broken connection costs one or more"
        )
    # The first receiver speaks for the query.
    if not (dialect.id_header or options.id_header or options.of_streams) and settings.name.endswith("#0"):
        yield (
            f"messages of {dialect.name} carry no id that survives redelivery: stable_id is null in all "
            "rows, so that dropDuplicates by it keeps one row, and a redelivered message may give a second "
            "row, also with a journal. timestamp is null if the producer sets none; received_at never is. If "
            "your producers set an id, name its header in idHeader"
        )


def redelivery_warnings(
    dialect: Dialect, settings: ReceiverSettings, deliveries: Deliveries
) -> Iterator[tuple[str, str]]:
    """Subject and text of each warning about what was redelivered so far."""
    if dialect.marks_redelivered and deliveries.unmarked >= _MANY_UNMARKED:
        yield "unmarked", _unmarked_warning(dialect, settings)
    limit, count = dialect.count_limit, deliveries.delivery_count
    if limit is not None and limit // 2 <= count <= limit:
        yield (
            "count",
            f"messages of {settings.what} were redelivered {counted(count, 'time')} (x-delivery-count), and "
            "a quorum queue drops or dead-letters a message after its delivery-limit: from RabbitMQ 4.0 on "
            f"{limit} unless a policy says otherwise. Each run that ends without a commit counts, also if it "
            "was stopped in order. In other queues a producer sets that header, and it means nothing. Find "
            'out why nothing is committed, and set a policy with {"delivery-limit": -1}, or one with a '
            "dead-letter-exchange",
        )


def _unmarked_warning(dialect: Dialect, settings: ReceiverSettings) -> str:
    """The warning if many messages count as redelivered although the broker did not mark them so."""
    header = settings.options.id_header or dialect.id_header
    return (
        f"many messages of {settings.what} have the id ({header}) and the body of a message that this "
        "query has received before, and the broker did not mark them as redelivered. They count as "
        "redelivered and give no second row. That is right if the broker was killed. If it was not, "
        "different messages have one id: let the producers set a unique id, and name its header in idHeader"
    )


def acks_refused(
    settings: ReceiverSettings, times: int, handles: Sequence[bytes], event: ErrorReceived, error: StompError
) -> AcksRefused:
    """The error if ``times`` in a row ``event`` answered ACKs with these ``handles``.

    ``error`` is that of the last answer.
    """
    words = set(_WORDS.findall(event.message + " " + event.detail))
    names = [message_of_handle(handle) for handle in handles]
    named = next((f"It names {quoted(name)}" for name in names if name in words), None)
    first = f"Of {counted(len(names), 'message')} without a receipt the first is {quoted(names[0])}"
    return AcksRefused(
        f"{settings.what}: {times} times in a row the broker answered ACKs with an ERROR, so nothing can be "
        f"acknowledged. {named or first}, which is the ack or message-id header of the message. The last "
        f"answer: {error.message}"
    )


def no_handle(peer: str, version: str, dialect: Dialect) -> RemoteProtocolError:
    """The error for a message of ``peer`` that no ACK can name in this version of STOMP."""
    needed = dialect.ack_header or handle_header(version)
    rest = ". STOMP 1.1 may work: acceptVersions = 1.1" if needed == "ack" else ", or no subscription header"
    return RemoteProtocolError(
        f"{peer} sent a MESSAGE that no ACK can name over STOMP {version}: it has no {needed} header{rest}"
    )


def may_stop_early(dialect: Dialect, settings: ReceiverSettings) -> bool:
    """Whether the broker may stop at fewer un-acked messages than the prefetch allows.

    ActiveMQ loads the messages of a queue in pages. How many it delivers un-acked depends on ``maxPageSize``,
    on other consumers of the queue, and on ACKs that came meanwhile. With ``ackAfter=journal`` this does not
    matter: ACKs do not wait for a batch, so no page limit holds messages back.
    """
    options = settings.options
    if dialect.page_size is None or options.ack_after != "commit":
        return False
    return any(map(dialect.is_queue, settings.destinations))
