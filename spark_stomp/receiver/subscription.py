"""The settings of a receiver, the subscription that it asks the broker for, and warnings about the broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace

from spark_stomp.brokers import Dialect, Subscription
from spark_stomp.brokers.rabbitmq import without_filters
from spark_stomp.errors import (
    AcksRefused,
    DeliveryError,
    MessageUndeliverable,
    RemoteProtocolError,
    StompError,
)
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import handle_header, message_of_handle
from spark_stomp.quoting import counted, listed, quoted
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.turns import Turn

# A broker that may stop before the prefetch is reached counts as stopped after this many seconds of silence
# with un-acked messages. A queue without further messages looks the same. Tested in November 2026 on ActiveMQ
# with pages of 200, 230 and 370 messages: a batch began within 3 s. What came after ACKs does not say it:
# with pages of 200 it stopped at 600, 1,000 and 3,400 messages.
_STOPPED_AFTER = 2.0
# This many messages that are recognised as redelivered, although the broker did not mark them, are worth a
# warning.
_MANY_UNMARKED = 100
# The header with the id that a broker gives a message.
_OWN_ID = "message-id"


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
        """The settings of all receivers of a query, each with the options that concern it.

        ``connections`` receivers share out the queues; if there are more of them than queues, some queues
        have several. Then each stream has one. A name says what the receiver reads, and ends in ``#`` and a
        number.
        """
        queues, streams = options.queues, options.streams
        count = options.connections if queues else 0
        each = options.max_buffered_bytes // (count + len(streams))
        given = replace(options, destinations=queues, starting_offsets=None, max_buffered_bytes=each * count)
        if streams:
            given = replace(given, subscribe_headers=without_filters(options.subscribe_headers))
        shares = [(queues[at::count] or (queues[at % len(queues)],), given) for at in range(count)]
        given = replace(options, destinations=streams, connections=len(streams), journal=None)
        given = replace(given, max_buffered_bytes=each * len(streams))
        shares += [((one,), given) for one in streams]
        return [cls(f"{listed(part)}#{at}", part, given) for at, (part, given) in enumerate(shares)]

    @property
    def of_stream(self) -> bool:
        """Whether it reads a stream."""
        return bool(self.options.streams)

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


@dataclass(frozen=True)
class Window:
    """How much of each destination may be un-acked on a connection.

    Attributes:
        prefetch: so many messages.
        bytes: so many bytes; None if the broker counts messages.
        stops_early: whether the broker may stop before that.
    """

    prefetch: int
    bytes: int | None = None
    stops_early: bool = False

    @classmethod
    def of(
        cls, dialect: Dialect, settings: ReceiverSettings, turn: Turn, mean_bytes: float | None, *, busy: int
    ) -> Window:
        """The window of ``turn``; see :meth:`ReceiverSettings.prefetch_for` for the others."""
        prefetch = settings.prefetch_for(mean_bytes, busy=busy)
        prefetch = min(prefetch, turn.prefetch or prefetch)
        most = settings.max_buffered_bytes
        window_bytes = dialect.window_bytes(prefetch, frame_bytes=mean_bytes, max_bytes=most)
        # A batch that waits for more messages than a careful turn may have does not wait for long.
        stops_early = turn.prefetch is not None or _may_stop_early(dialect, settings)
        return cls(prefetch, window_bytes, stops_early)

    def most(self, subscriptions: Sized) -> int | None:
        """How many messages may be un-acked on a connection with ``subscriptions``; None if not known."""
        return self.prefetch if len(subscriptions) == 1 and self.bytes is None else None

    def is_full(self, deliveries: Deliveries, quiet: float) -> bool:
        """Whether the broker sends no more before an ACK, as far as can be known. ``quiet``: seconds."""
        if deliveries.acks.unacked >= self.prefetch:
            return True
        if self.stops_early and deliveries.acks.unacked and quiet >= _STOPPED_AFTER:
            # Not full if ACKs are on their way: they make room.
            return not deliveries.acks_pending
        return self.bytes is not None and deliveries.acks.unacked_bytes >= self.bytes


def _may_stop_early(dialect: Dialect, settings: ReceiverSettings) -> bool:
    """Whether the broker may stop at fewer un-acked messages than the prefetch allows.

    ActiveMQ loads the messages of a queue in pages. How many it delivers un-acked depends on ``maxPageSize``,
    on other consumers of the queue, and on ACKs that came meanwhile. With ``ackAfter=journal`` this does not
    matter: ACKs do not wait for a batch, so no page limit holds messages back.
    """
    options = settings.options
    if dialect.page_size is None or options.ack_after != "commit":
        return False
    return any(map(dialect.is_queue, settings.destinations))


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


def unknowns(dialect: Dialect, destinations: Iterable[str], *, allow_loss: bool) -> Iterator[str]:
    """Warnings of what is not known about this broker and these destinations, one line each."""
    if dialect.unknown_warning is not None:
        yield dialect.unknown_warning
    if not allow_loss:
        yield from filter(None, map(dialect.unknown_kind, destinations))


def risks(dialect: Dialect, settings: ReceiverSettings) -> Iterator[str]:
    """Warnings about this broker and these destinations, one line each."""
    options = settings.options
    yield from unknowns(dialect, settings.destinations, allow_loss=options.allow_loss)
    if dialect.orphans_subscriptions and len(settings.destinations) > 1:
        yield (
            f"if this connection is lost, {dialect.name} may keep the oldest un-acked message of each of its "
            f"{len(settings.destinations)} subscriptions until it is restarted. That is rare with one "
            f"subscription for each connection: connections = {len(options.destinations)}"
        )
    if dialect.most_deliveries is not None and options.journal is None:
        yield (
            f"{dialect.name} drops or dead-letters a message after {dialect.most_deliveries} deliveries "
            "unless configured otherwise, and each broken connection costs one or more"
        )
    if settings.name.endswith("#0"):  # the first receiver speaks for the query
        yield from _risks_of_ids(dialect, settings)


def _risks_of_ids(dialect: Dialect, settings: ReceiverSettings) -> Iterator[str]:
    """Warnings about the ids by which redelivered messages are recognised."""
    options = settings.options
    if dialect.unknown_warning is not None and options.journal is not None and options.id_header == _OWN_ID:
        yield (
            "idHeader = message-id is an id of the broker's own, and whether this broker begins again with "
            "the same ids when it is restarted is not known. If it does, a new message with the id and the "
            "body of one that the journal remembers is ACKed and gives no row. Let your producers set a "
            "unique id, and name its header in idHeader"
        )
    if not (dialect.id_header or options.id_header or settings.of_stream):
        yield (
            f"messages of {dialect.name} carry no id that survives redelivery: stable_id is null, and a "
            "redelivered message may give a second row. Name a header of your producers in idHeader"
        )


def redelivery_warnings(
    dialect: Dialect, settings: ReceiverSettings, deliveries: Deliveries
) -> Iterator[tuple[str, str]]:
    """Subject and text of each warning about what was redelivered so far."""
    if dialect.marks_redelivered and deliveries.unmarked >= _MANY_UNMARKED:
        yield "unmarked", _unmarked_warning(dialect, settings)
    limit, count = dialect.quorum_delivery_limit, deliveries.delivery_count
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


def no_progress(
    dialect: Dialect, turn: Turn, handles: Sequence[bytes], error: StompError, *, of_stream: bool
) -> DeliveryError:
    """The error after too many connections in a row that read ``turn`` and achieved nothing.

    ``handles`` are those of the ACKs that the last one sent, and ``error`` is how it ended.
    """
    what, times = listed(turn.destinations), f"{turn.failures} times in a row"
    if handles:
        names = [message_of_handle(handle) for handle in handles]
        return AcksRefused(
            f"{what}: {times} the broker answered ACKs with an ERROR, so nothing can be acknowledged. Of "
            f"{counted(len(names), 'message')} without a receipt the first is {quoted(names[0])}, which is "
            f"the ack or message-id header of the message. The last answer: {error.message}"
        )
    head = "A stream keeps it: begin behind it, with startingOffsets and a new checkpoint"
    if not of_stream:
        head = f"{dialect.head_of_queue}, then start the query again"
    return MessageUndeliverable(
        f"{what}: {times} the broker took the subscription and ended the connection with an ERROR at once. "
        "It probably cannot turn the first message there into STOMP. That message is not ACKed, and those "
        f"behind it wait. {head}. The last ERROR: {error.message}"
    )


def no_handle(peer: str, version: str, dialect: Dialect) -> RemoteProtocolError:
    """The error for a message of ``peer`` that no ACK can name in this version of STOMP."""
    needed = dialect.ack_header or handle_header(version)
    rest = ". STOMP 1.1 may work: acceptVersions = 1.1" if needed == "ack" else ", or no subscription header"
    return RemoteProtocolError(
        f"{peer} sent a MESSAGE that no ACK can name over STOMP {version}: it has no {needed} header{rest}"
    )
