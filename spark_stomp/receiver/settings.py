"""What a receiver is told to do, and what it tells of itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_stomp.brokers import Dialect, Subscription
from spark_stomp.errors import StompError
from spark_stomp.options import ConnectionOptions
from spark_stomp.receiver.deliveries import Counts

__all__ = ["ReceiverSettings", "ReceiverStatus", "choose_subscription"]


@dataclass(frozen=True)
class ReceiverSettings:
    """What one receiver subscribes to, and how.

    ``prefetch`` is in messages, ``max_buffered_bytes`` in bytes, the timeouts in seconds;
    ``receivers`` is how many of them subscribe to the destination, ``connections`` how many the query has
    in all. ``id_header`` None leaves it to the dialect. ``durable_name`` names a durable topic subscription.
    ``journaled``: frames go to a journal.
    """

    name: str
    connection: ConnectionOptions
    destination: str
    prefetch: int
    max_buffered_bytes: int
    ack_receipt_timeout: float
    reconnect_timeout: float
    id_header: str | None = None
    selector: str | None = None
    subscribe_headers: tuple[tuple[str, str], ...] = ()
    durable_name: str | None = None
    receivers: int = 1
    connections: int = 1
    allow_loss: bool = False
    journaled: bool = False


@dataclass(frozen=True, slots=True)
class ReceiverStatus:
    """A snapshot. Sequence numbers are exclusive ends; times are monotonic seconds.

    ``received`` frames are in the window, ``committed`` ones were released for ACK, ``acked`` ones were
    confirmed by the broker, or their connection is gone. ``acks_pending``: something committed is still to be
    ACKed or confirmed. ``last_active`` is when the latest frame came, or what may bring frames: the
    subscription, or the broker's receipt for ACKs, which make room in its window.

    While a connection is being tried again, ``subscribed`` is False and ``failure`` None. ``discards`` is how
    often frames were discarded; ``received`` goes back then.
    """

    epoch: str
    subscribed: bool
    received: int
    committed: int
    acked: int
    last_active: float
    window_full: bool
    failure: StompError | None
    acks_pending: bool = False
    discards: int = 0
    reconnects: int = 0
    counts: Counts = field(default_factory=Counts)


# MERGED from subscribing.py: Which subscription a receiver asks for, once its dialect is known; pur


def choose_subscription(dialect: Dialect, settings: ReceiverSettings) -> Subscription:
    """The subscription that ``settings`` describe, with all headers but those for the prefetch.

    Raises UnsupportedError where the broker could not keep the delivery contract, or what was asked for.
    """
    client_id, durable_name = settings.connection.client_id, settings.durable_name
    selector = () if settings.selector is None else (("selector", settings.selector),)
    dialect.check_client_id(client_id, settings.connections)
    dialect.check_subscription(
        settings.destination,
        selector + settings.subscribe_headers,
        receivers=settings.receivers,
        durable=durable_name is not None,
        allow_loss=settings.allow_loss,
    )
    chosen = dialect.subscription(
        settings.destination, durable_name=durable_name, client_id=client_id, selector=settings.selector
    )
    return Subscription(chosen.id, selector + chosen.headers + settings.subscribe_headers)
