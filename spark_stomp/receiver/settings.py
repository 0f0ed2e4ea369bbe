"""A receiver's settings and its status."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_stomp.errors import StompError
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


@dataclass(slots=True)
class Counts:
    """What came, and how redelivered messages were handled, counted since the start. What each means
    is in ``status/source.py``, which shows them."""

    delivered: int = 0
    bytes: int = 0
    malformed: int = 0
    redelivered: int = 0
    reattached: int = 0
    dropped: int = 0
    other_body: int = 0
    doubled: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """What became of a receiver's connections. Times are seconds since 1970.

    ``since`` is when ``connected``, that is subscribed, became what it is; ``attempts`` is how many failed
    since then. ``connections`` counts those that were subscribed.
    """

    since: float = 0.0
    connected: bool = False
    connections: int = 0
    attempts: int = 0
    last_error: str | None = None
    last_error_at: float | None = None

    @property
    def reconnects(self) -> int:
        return max(0, self.connections - 1)


@dataclass(frozen=True, slots=True)
class PauseStatus:
    """How many bytes a receiver holds in memory, and since when it leaves its socket unread, in seconds since
    1970; None if it reads."""

    since: float | None = None
    buffered: int = 0


@dataclass(frozen=True, slots=True)
class ReceiverStatus:
    """A snapshot. Sequence numbers are exclusive ends; times are monotonic seconds.

    Frames below ``received`` were received, those below ``committed`` may be ACKed, and those below ``acked``
    were confirmed by the broker, or their connection is gone. ``acks_pending``: something committed is still
    to be ACKed or confirmed. ``last_active`` is when the latest frame came, or when something happened that
    may bring frames: the subscription, or a receipt for ACKs, which make room in the broker's window.

    While a lost connection is tried again, ``subscribed`` is False and ``failure`` None. ``discards`` is how
    often frames were discarded; ``received`` goes back then. ``unacked`` is how many deliveries of the living
    connection the broker has no confirmed ACK of. ``refused`` is the error of a malformed message, if this
    connection met one: the receiver takes no more messages from it, and the query fails once everything
    received before is committed (contract 7). So many messages and bytes as ``window`` and ``window_bytes``
    say may be held un-acked.
    """

    name: str
    epoch: str
    subscribed: bool
    received: int
    committed: int
    acked: int
    last_active: float
    window_full: bool
    failure: StompError | None
    acks_pending: bool = False
    pause: PauseStatus = PauseStatus()
    discards: int = 0
    unacked: int = 0
    connection: ConnectionStatus = field(default_factory=ConnectionStatus)
    counts: Counts = field(default_factory=Counts)
    refused: StompError | None = None
    window: int | None = None
    window_bytes: int | None = None
