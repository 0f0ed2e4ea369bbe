"""The status of a receiver: what came, the state of its connection, and how far it has come."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spark_stomp.brokers import Dialect
from spark_stomp.errors import ClientIdInUse, MessageUndeliverable, StompError, SubscriptionForgotten
from spark_stomp.quoting import listed

# Characters of a broker's error that the status shows.
_SHOWN = 1_000


def by_the_clock(at: float | None) -> float | None:
    """When the monotonic time ``at`` was by the clock of now, which may have been set since, to 10 ms."""
    return None if at is None else round(time.time() - (time.monotonic() - at), 2)


@dataclass(slots=True)
class Counts:
    """What came, and how redelivered messages were handled, counted since the start.

    ``status/receivers.py``, which shows these figures, says what each of them means.
    """

    delivered: int = 0
    bytes: int = 0
    malformed: int = 0
    redelivered: int = 0
    reattached: int = 0
    dropped: int = 0
    other_body: int = 0
    delivery_count: int = 0
    doubled: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """The state of a receiver's connection. Times are seconds since 1970.

    Attributes:
        since: when ``connected`` last changed.
        connected: whether the connection is subscribed.
        connections: how many connections were subscribed so far.
        reconnects: how many of these replaced a lost one.
        forgotten: how many connections were given up because the broker had forgotten a subscription.
        attempts: how many attempts to connect have failed since ``since``.
        last_error: why the last connection or attempt failed; None if none did.
        last_error_code: its code.
        last_error_at: when the last connection or attempt failed; None if none did.
        dialect: that of the broker; None before the first subscription.
        peer: the address of the broker; empty before the first subscription.
    """

    since: float = 0.0
    connected: bool = False
    connections: int = 0
    reconnects: int = 0
    forgotten: int = 0
    attempts: int = 0
    last_error: str | None = None
    last_error_code: str | None = None
    last_error_at: float | None = None
    dialect: Dialect | None = None
    peer: str = ""

    @property
    def newly_failed(self) -> bool:
        """Whether the last failure is the first one since the receiver was subscribed, or since its start."""
        return self.attempts == (0 if self.connections else 1)

    @property
    def is_lost(self) -> bool:
        """Whether a connection was lost, and none has replaced it yet."""
        return bool(self.connections) and not self.connected and (self.last_error_at or 0.0) >= self.since

    def may_try_again(self, error: StompError, login_accepted: float | None, timeout: float) -> bool:
        """Whether another attempt makes sense after ``error``.

        Before any login, an error most likely means a wrong setting: do not try again. From the first
        accepted login, ``login_accepted`` seconds ago (None: there was none), to the first subscription, try
        for ``timeout`` seconds. After that, after ClientIdInUse, and after an error that passes, only
        ``reconnectTimeout`` limits the attempts.
        """
        # Without a login, only the latter two lead to a second attempt.
        was_there = login_accepted is None and self.attempts > 1
        passes = error.verdict == "passes"
        if self.connections or isinstance(error, ClientIdInUse) or passes or was_there:
            return True
        return login_accepted is not None and login_accepted < timeout

    def after_turn(self, now: float) -> ConnectionStatus:
        """The status after a connection has ended with its turn, to be replaced by another one."""
        return replace(self, connected=False, since=now)

    def after_subscribe(self, now: float, dialect: Dialect, peer: str) -> ConnectionStatus:
        """The status after a connection was subscribed."""
        connections, reconnects = self.connections + 1, self.reconnects + self.is_lost
        subscribed = replace(self, connected=True, since=now, attempts=0, dialect=dialect, peer=peer)
        return replace(subscribed, connections=connections, reconnects=reconnects)

    def after_failure(self, error: StompError, now: float) -> ConnectionStatus:
        """The status after the connection was lost, or an attempt to connect failed."""
        return replace(
            self,
            connected=False,
            since=now if self.connected else self.since,
            attempts=0 if self.connected else self.attempts + 1,
            forgotten=self.forgotten + isinstance(error, SubscriptionForgotten),
            last_error=str(error)[:_SHOWN],
            last_error_code=error.code,
            last_error_at=now,
        )


@dataclass(frozen=True, slots=True)
class ReceiverStatus:
    """A snapshot of one receiver.

    Attributes:
        name: the name of the receiver: what it reads, and its number.
        subscribed: whether it has a connection with a subscription; False while it reconnects.
        pending: how many messages wait in its inbox.
        received: how many messages gave or will give a row. It falls when messages are discarded.
        ackable: how many of these may be ACKed.
        acked: how many of these need nothing more: their ACK is confirmed, or their connection is gone.
        last_active: when the latest frame came, or when something happened that may bring frames: the
            subscription, or a receipt for ACKs, which make room in the un-acked window. Monotonic seconds.
        window_full: whether the broker sends no more until something is ACKed.
        failure: the error that ended the receiver; None while it works or reconnects.
        acks_pending: whether an ACK is due, or was sent and is not confirmed.
        paused_since: when the receiver began to leave its socket unread, in seconds since 1970; None if it
            reads.
        buffered: how many bytes are in memory.
        unacked: how many deliveries on the present connection have no confirmed ACK.
        connection: the state of its connection.
        counts: what came since the start.
        refused: see ``Inbox``. The query fails once everything that was received before is committed
            (contract 4.12, 7.6).
        window: how many messages of one destination may be un-acked. If that many are un-acked in all, the
            window counts as full, although the broker may send more if several destinations have messages.
        window_bytes: how many bytes of one destination may be un-acked.
        destinations: what the receiver reads.
        heard_at: when bytes were last read, in seconds since 1970; None if none were.
        head_errors: how many ERRORs in a row may have been about the next message, if the broker cannot
            deliver it.
        missing: queues that were not there, and have brought no message: since when, in seconds since 1970,
            if they were deleted while the query ran.
        subscriptions: the destinations by the ids of the subscriptions of this connection.
        came_by: see ``UnprovedAcks``.
    """

    name: str
    subscribed: bool
    pending: int
    received: int
    ackable: int
    acked: int
    last_active: float
    window_full: bool
    failure: StompError | None
    acks_pending: bool = False
    paused_since: float | None = None
    buffered: int = 0
    unacked: int = 0
    connection: ConnectionStatus = field(default_factory=ConnectionStatus)
    counts: Counts = field(default_factory=Counts)
    refused: StompError | None = None
    window: int | None = None
    window_bytes: int | None = None
    destinations: tuple[str, ...] = ()
    heard_at: float | None = None
    head_errors: int = 0
    missing: Mapping[str, float | None] = field(default_factory=dict)
    subscriptions: Mapping[str, str] = field(default_factory=dict)
    came_by: Mapping[bytes | None, int] = field(default_factory=dict)

    def last_read(self, destination: str) -> int | None:
        """Which read of this connection brought the last message of ``destination``; 0 if none did.

        None if the connection has no such subscription.
        """
        for name, one in self.subscriptions.items():
            if one == destination:
                return self.came_by.get(name.encode(), self.came_by.get(None, 0))
        return None

    @property
    def is_away(self) -> bool:
        """Whether it has no subscription, and is about to have one: it has not ended."""
        return not self.subscribed and not isinstance(self.refused, MessageUndeliverable)

    def away_after(self, what: str) -> str:
        """Why it is away, although ``what`` is over, which limits a run."""
        text = f"the connection broke and did not come back within {what}"
        if self.head_errors:
            text = (
                f"{what} is over before it is known whether the broker can deliver the next message. That "
                "takes three attempts, with pauses of 5 and 10 seconds: raise it"
            )
        return f"{listed(self.destinations)}: {text}. The last error: {self.connection.last_error}"
