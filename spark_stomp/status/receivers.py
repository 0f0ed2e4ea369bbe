"""The figures of a source's receivers, and of all together."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_stomp.status.figure import Counter, Figure, Gauge, Part, Time

if TYPE_CHECKING:
    from spark_stomp.receiver import ReceiverStatus

Figures = dict[str, Any]


@dataclass(frozen=True)
class RowCounts:
    """The rows of this run: those in committed batches, and those received and not committed."""

    committed: int
    waiting: int


@dataclass(frozen=True)
class UnfitBodies:
    """Bodies of a destination that do not fit the schema: the first one's reason, and when, since 1970."""

    bodies: int
    reason: str
    first: float
    last: float


@dataclass(frozen=True)
class Waiting:
    """The query waits ``on`` something; ``text`` says it in full. The wait is the same while ``on`` is."""

    on: str
    text: str


@dataclass(frozen=True)
class Observed:
    """What was seen of a query that runs.

    ``since`` is when the wait began, ``batch_since`` when the end of the batch was chosen in which Spark is,
    ``committed_at`` when the last commit was proved, all in seconds since 1970. ``received_per_second``
    and ``committed_per_second`` are over the last ten seconds.
    """

    waiting: Waiting | None = None
    since: float | None = None
    batch_since: float | None = None
    committed_at: float | None = None
    received_per_second: float = 0.0
    committed_per_second: float = 0.0


@dataclass(frozen=True)
class ReceiverPart(Part):
    """The figures of one receiver.

    ``since_unacked`` is when the oldest un-acked delivery came, in seconds since 1970; None without one.
    ``knows_commits``: whether what it may ACK is what Spark has committed (not with ``ackAfter=journal``).
    """

    status: ReceiverStatus
    since_unacked: float | None
    knows_commits: bool = True

    @Figure()
    def destinations(self) -> list[str]:
        """What the receiver is subscribed to."""
        return list(self.status.destinations)

    @Gauge()
    def connected(self) -> bool:
        """Whether the receiver is subscribed."""
        return self.status.connection.connected

    @Figure()
    def peer(self) -> str | None:
        """The address of the broker that it is, or was last, connected to; null before the first."""
        return self.status.connection.peer or None

    @Time()
    def connected_since(self) -> float | None:
        """Since when the receiver is subscribed."""
        return self.status.connection.since if self.status.connection.connected else None

    @Time()
    def disconnected_since(self) -> float | None:
        """Since when the receiver is not subscribed."""
        return None if self.status.connection.connected else self.status.connection.since

    @Time(passing=True)
    def heard_at(self) -> float | None:
        """When the last bytes came from the broker, heart-beats among them; null before the first."""
        return self.status.heard_at

    @Gauge()
    def attempts(self) -> int:
        """Failed attempts to connect since `disconnected_since`."""
        return self.status.connection.attempts

    @Counter(summed=True, label="reconnects", trouble=True)
    def reconnects(self) -> int:
        """How often a lost connection was replaced."""
        return self.status.connection.reconnects

    @Counter(summed=True, label="forgotten", trouble=True)
    def forgotten(self) -> int:
        """How often a connection was made anew because the broker had forgotten a subscription of it."""
        return self.status.connection.forgotten

    @Figure()
    def last_error(self) -> str | None:
        """Why the last connection was lost, or could not be made."""
        return self.status.connection.last_error

    @Figure()
    def last_error_code(self) -> str | None:
        """The code of `last_error`."""
        return self.status.connection.last_error_code

    @Time()
    def last_error_at(self) -> float | None:
        """When `last_error` happened."""
        return self.status.connection.last_error_at

    @Counter(summed=True)
    def delivered(self) -> int:
        """Messages that the broker has delivered; redelivered ones count again."""
        return self.status.counts.delivered

    @Counter(summed=True, metric="delivered_bytes")
    def bytes(self) -> int:
        """Bytes of the delivered messages, with their headers."""
        return self.status.counts.bytes

    @Gauge(summed=True, label="received", column=2)
    def received(self) -> int:
        """Messages that give a row. If a connection is lost, this falls by those that Spark does not know
        yet."""
        return self.status.received

    @Gauge(summed=True, label="committed", column=4)
    def committed(self) -> int | None:
        """Received messages whose batch is proved to be committed; null with `ackAfter=journal`."""
        return self.status.ackable if self.knows_commits else None

    @Gauge(summed=True, label="acked", column=3)
    def acked(self) -> int:
        """Received messages that need no ACK any more: it is confirmed, or their connection is gone."""
        return self.status.acked

    @Gauge(summed=True, label="un-acked", column=1)
    def unacked(self) -> int:
        """Deliveries on this connection whose ACK the broker has not confirmed."""
        return self.status.unacked

    @Time(label="oldest", column=5)
    def oldest_unacked_at(self) -> float | None:
        """When the oldest un-acked delivery came."""
        return self.since_unacked

    @Gauge(passing=True)
    def oldest_unacked_seconds(self) -> float:
        """Age of the oldest un-acked delivery, in seconds; 0 if there is none."""
        age = 0.0 if self.since_unacked is None else time.time() - self.since_unacked
        return round(max(0.0, age), 3)

    @Gauge()
    def window_full(self) -> bool:
        """Whether the un-acked window is full: the broker sends no more until an ACK."""
        return self.status.window_full

    @Gauge()
    def paused(self) -> bool:
        """Whether the receiver reads nothing because memory is full (`maxBufferedBytes`)."""
        return self.status.paused_since is not None

    @Time()
    def paused_since(self) -> float | None:
        """Since when the receiver is paused."""
        return self.status.paused_since

    @Gauge(label="held", column=6)
    def buffered_bytes(self) -> int:
        """Bytes of messages that the receiver holds."""
        return self.status.buffered

    @Counter(summed=True, label="redelivered", trouble=True, column=7)
    def redelivered(self) -> int:
        """Deliveries that the broker marked as redelivered."""
        return self.status.counts.redelivered

    @Gauge()
    def delivery_count(self) -> int:
        """The largest `x-delivery-count` so far; beyond its `delivery-limit` a quorum queue of RabbitMQ drops
        the message."""
        return self.status.counts.delivery_count

    @Counter(summed=True)
    def reattached(self) -> int:
        """Deliveries of a message that was held already; no second row."""
        return self.status.counts.reattached

    @Counter(summed=True)
    def dropped(self) -> int:
        """Deliveries of a message that was committed already; acknowledged again, no row."""
        return self.status.counts.dropped

    @Counter(summed=True, label="doubled", trouble=True)
    def doubled(self) -> int:
        """Redelivered messages without a stable id; each gives a second row."""
        return self.status.counts.doubled

    @Counter(summed=True)
    def other_body(self) -> int:
        """Messages with a known id and a different body; each gives a row."""
        return self.status.counts.other_body

    @Counter(summed=True, label="malformed", trouble=True)
    def malformed(self) -> int:
        """Messages that break the protocol or a limit."""
        return self.status.counts.malformed


SUMMED = [figure for figure in ReceiverPart.figures() if figure.summed]


@dataclass(frozen=True)
class TotalsPart(Part):
    """The figures of the whole source. ``of_receivers`` are the parts of all its receivers."""

    counted: RowCounts
    leaves_more: bool
    of_receivers: list[Figures]
    observed: Observed = field(default_factory=Observed)
    flaws: Mapping[str, int] = field(default_factory=dict)
    withheld_count: int = 0

    @Counter(label="rows")
    def rows(self) -> int:
        """Rows in batches of this run that are proved to be committed."""
        return self.counted.committed

    @Gauge(label="committed/s", passing=True)
    def rows_per_second(self) -> float:
        """`rows` a second, over the last ten seconds."""
        return round(self.observed.committed_per_second, 1)

    @Gauge(label="received/s", passing=True)
    def received_per_second(self) -> float:
        """`delivered` a second, over the last ten seconds."""
        return round(self.observed.received_per_second, 1)

    @Gauge(label="waiting")
    def rows_waiting(self) -> int:
        """Rows that were received and are not committed yet."""
        return self.counted.waiting

    @Counter(trouble=True, label="headers not text")
    def headers_not_text(self) -> int:
        """Messages that tasks have read with a header's value that is not UTF-8, or has a NUL."""
        return self.flaws.get("headers_not_text", 0)

    @Counter(trouble=True, label="bodies undecoded")
    def bodies_undecoded(self) -> int:
        """Bodies that are marked as AMQP 1.0 and cannot be decoded, or as a map of StompJMS."""
        return self.flaws.get("bodies_undecoded", 0)

    @Counter(trouble=True, label="bodies lost")
    def bodies_lost(self) -> int:
        """Messages whose headers say that the broker has left the content out."""
        return self.flaws.get("bodies_lost", 0)

    @Counter()
    def bodies_hollow(self) -> int:
        """Messages with a body, such as an empty one, that the broker sends for what it leaves out, too."""
        return self.flaws.get("bodies_hollow", 0)

    @Counter(trouble=True, label="bodies unfit")
    def bodies_unfit(self) -> int:
        """Bodies that do not fit the fields of the schema; a batch that is read again counts again."""
        return self.flaws.get("bodies_unfit", 0)

    @Gauge(label="more waiting")
    def more_waiting(self) -> bool:
        """Whether the last batch probably left messages behind."""
        return self.leaves_more

    @Gauge(label="withheld")
    def withheld(self) -> int:
        """At the end of a run: messages that wait at the broker, that nobody has, and that did not come."""
        return self.withheld_count

    @Figure()
    def receivers(self) -> int:
        """How many receivers there are."""
        return len(self.of_receivers)

    @Figure()
    def connected(self) -> int:
        """How many of them are subscribed."""
        return sum(one["connected"] for one in self.of_receivers)

    @Figure()
    def window_full(self) -> bool:
        """Whether the window of any is full."""
        return any(one["window_full"] for one in self.of_receivers)

    @Figure()
    def paused(self) -> bool:
        """Whether any is paused."""
        return any(one["paused"] for one in self.of_receivers)

    @Figure(label="oldest")
    def oldest_unacked_at(self) -> str | None:
        """The earliest of the receivers."""
        return min(
            (one["oldest_unacked_at"] for one in self.of_receivers if one["oldest_unacked_at"]), default=None
        )

    @Figure(passing=True)
    def oldest_unacked_seconds(self) -> float:
        """The largest of the receivers."""
        return max((one["oldest_unacked_seconds"] for one in self.of_receivers), default=0.0)

    def shown(self) -> Figures:
        sums = {one.key: sum(figures[one.key] or 0 for figures in self.of_receivers) for one in SUMMED}
        if any(figures["committed"] is None for figures in self.of_receivers):
            sums["committed"] = self.counted.committed
        return super().shown() | sums
