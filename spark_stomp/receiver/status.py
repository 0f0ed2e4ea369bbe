"""A receiver's status: what came, what became of its connections, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from spark_stomp.errors import StompError

# Of a broker's error, in characters.
_SHOWN = 1_000


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

    @property
    def failed_anew(self) -> bool:
        """Whether the last attempt failed, and the one before had not."""
        return self.attempts == (0 if self.connections else 1)

    def subscribed(self, now: float) -> ConnectionStatus:
        return replace(self, connected=True, since=now, attempts=0, connections=self.connections + 1)

    def failed(self, error: StompError, now: float) -> ConnectionStatus:
        """The connection ended, or could not be had."""
        return replace(
            self,
            connected=False,
            since=now if self.connected else self.since,
            attempts=0 if self.connected else self.attempts + 1,
            last_error=str(error)[:_SHOWN],
            last_error_at=now,
        )


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

    ``buffered`` bytes are in memory. ``paused_since``, in seconds since 1970, is when the receiver began to
    leave its socket unread; None if it reads.
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
    paused_since: float | None = None
    buffered: int = 0
    discards: int = 0
    unacked: int = 0
    connection: ConnectionStatus = field(default_factory=ConnectionStatus)
    counts: Counts = field(default_factory=Counts)
    refused: StompError | None = None
    window: int | None = None
    window_bytes: int | None = None
