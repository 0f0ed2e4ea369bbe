"""What a receiver is told to do, and what it tells of itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_stomp.errors import StompError
from spark_stomp.options import ConnectionOptions
from spark_stomp.receiver.deliveries import Counts

__all__ = ["ReceiverSettings", "ReceiverStatus"]


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
