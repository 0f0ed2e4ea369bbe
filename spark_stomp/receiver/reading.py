"""A reading: one connection of a receiver, from SUBSCRIBE to its end.

It is made anew for each connection, so nothing has to be put back after one. It reads what there is room for,
passes blocks of raw frames and receipts to ``Deliveries``, sends the ACKs that are due, and checks deadlines;
then it begins again. It decodes no body, because tasks do that.

The header ``subscription`` of a message says which subscription it came by; all else is the connection's: ACK
queue and memory. This one reads queues and topics of a streaming query. ``StreamReading`` reads a stream, and
``LookReading`` shows what is there; each says what it does otherwise.

Invariants:

- Only the receiver's thread drives the connection.
- An ACK goes out only for what is ackable, except in streams, where it only asks for more.
- At most four groups of ACKs have no receipt yet, and messages are read while receipts are awaited.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from spark_stomp.brokers import Dialect, Subscription, dialect_for
from spark_stomp.deadline import Deadline
from spark_stomp.errors import StompError
from spark_stomp.logs import Once, get_log
from spark_stomp.protocol import (
    ErrorReceived,
    Event,
    Frame,
    MalformedMessage,
    MessageBlock,
    ReceiptReceived,
    ack_handles,
    ack_modes,
    foreign_message,
)
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.pause import BoundedReader
from spark_stomp.receiver.queue_check import QueueCheck
from spark_stomp.receiver.status import ConnectionStatus
from spark_stomp.receiver.subscription import (
    ReceiverSettings,
    Window,
    choose_subscription,
    no_handle,
    redelivery_warnings,
    risks,
)
from spark_stomp.receiver.turn_state import TurnState
from spark_stomp.receiver.turns import Ended, Turn, may_be_about_a_message
from spark_stomp.transport import Connection

log = get_log(__name__)

# The most ACKs in a group, which has one receipt, and the most groups that await their receipts at a time.
# RabbitMQ sends nothing while it reads ACKs, so messages come between the groups: 23,700 a second, and 17,000
# with groups of 10,000 (November 2026).
_ACK_GROUP = 1_000
_ACK_GROUPS = 4

DISCONNECT_TIMEOUT: Final = 5.0
"""Seconds to wait for the receipt of the DISCONNECT that ends what has all it wants."""
# The most bytes to read before that receipt. The buffers of both sockets hold less, so a broker that sends
# more ignores DISCONNECT. Without it, a hostile broker was read for 5 s (November 2026).
_DISCONNECT_MAX_BYTES = 32 << 20


class Stopping(threading.Event):
    """Set when a receiver is to end. ``deadline``: until when; None before."""

    deadline: Deadline | None = None


@dataclass
class ReceiverState:
    """What the connections of one receiver share, one after the other.

    Attributes:
        settings: what the receiver reads.
        deliveries: takes the messages.
        notify: is called whenever the status of the receiver may have changed.
        connections: how it stands with them.
        busy: how many destinations may have messages at a time, as far as memory is concerned.
        once: warns of what the log says once.
        forgetful: queues whose messages the broker may not deliver again. Another thread may add some.
    """

    settings: ReceiverSettings
    deliveries: Deliveries
    notify: Callable[[], None] = lambda: None
    stopping: Stopping = field(default_factory=Stopping)
    connections: ConnectionStatus = field(default_factory=lambda: ConnectionStatus(since=time.time()))
    busy: int = 1
    once: Once = field(default_factory=lambda: Once(log))
    forgetful: frozenset[str] = frozenset()
    reader: BoundedReader = field(init=False)
    queues: QueueCheck = field(init=False)

    def __post_init__(self) -> None:
        self.reader = BoundedReader(self.settings, self.deliveries, self.notify, self.stopping)
        self.queues = QueueCheck(self.settings.options, declares=not self.settings.of_batch)


class Reading:
    """The present or the next connection of a receiver, which reads ``turn``.

    Attributes:
        connection: None unless it is open.
        turn, turn_state: what it reads, and how far that is.
        subscriptions: the destinations by the ids of their subscriptions.
        useless: why the connection is to be given up, although it seems to be there. Any thread may set it.
        subscribed_since, last_active: when it was subscribed, and when the latest frame came, or something
            that may bring frames. Monotonic seconds.
    """

    retries = True
    """Whether another one may follow if this one ends with an error."""

    def __init__(self, state: ReceiverState, turn: Turn, before: Reading | None = None) -> None:
        self._state = state
        self._settings = state.settings
        self._options = state.settings.options
        self._deliveries = state.deliveries
        self._reader = state.reader
        self.connection: Connection | None = None
        self.turn, self.turn_state = turn, TurnState(turn)
        self.dialect: Dialect = dialect_for(None)
        self.subscriptions: dict[str, str] = {}
        self.useless: StompError | None = None
        self.subscribed_since = self._asked_at = 0.0  # the second: when messages were last asked for
        # Until it is subscribed, these are those of the last one.
        self.last_active: float = time.monotonic() if before is None else before.last_active
        self.window: Window = Window(self._options.prefetch) if before is None else before.window

    # --- any thread may ask

    @property
    def is_partial(self) -> bool:
        """Whether silence does not mean that there is nothing more."""
        return self.turn_state.count > 0 or self.turn.destinations != self._settings.destinations

    def is_full(self) -> bool:
        """Whether the broker sends no more until something is ACKed, as far as the receiver can know."""
        # With a journal a pause ends when the journal takes more. If that needs a commit, the writer says so.
        paused = self._reader.paused_since is not None and self._options.journal is None
        return paused or self.window.is_full(self._deliveries, self._quiet())

    # --- its end

    @property
    def achieved(self) -> int:
        """How many messages of this connection need nothing more."""
        return self._deliveries.acks.receipted

    @property
    def lost(self) -> list[str]:
        """The ids of the subscriptions whose messages the broker does not redeliver, or not all of them."""
        redelivers, durable, known = self.dialect.redelivers, self._settings.durable, self._state.forgetful
        return [
            name
            for name, one in self.subscriptions.items()
            if one in known or not redelivers(one, durable=durable)
        ]

    @property
    def _limits_unacked(self) -> bool:
        """Whether the broker obeys a smaller prefetch."""
        return self.dialect.limits_unacked

    def how_it_ended(self, error: StompError) -> Ended:
        """``error`` ended it."""
        acks = self._deliveries.acks
        since = time.monotonic() - self._reader.active_at(self._asked_at)
        size = acks.unacked_bytes + self.turn_state.size
        return Ended(
            unacked=acks.unacked + self.turn_state.count,
            given=acks.unacked,
            achieved=self.achieved,
            by_error=may_be_about_a_message(error, since, size),
            acks_sent=acks.awaited > 0,
            limits_unacked=self._limits_unacked,
            redelivers=not self.lost,
        )

    # --- the subscription

    def subscribe(self, connection: Connection) -> None:
        """Subscribe to the destinations of the turn. Raises StompError if the broker does not confirm it."""
        connection.require_open()
        connection.add_quotable(self._settings.destinations)
        session, self.dialect = connection.session, connection.dialect
        chosen = {one: self._subscription(one) for one in self.turn.destinations}
        version = session.version or "1.0"
        self.dialect.check_version(version)
        first = not self._state.connections.connections
        self._state.queues.begin(self.dialect, connection, [*chosen], first=first)
        # STOMP 1.0 has no client-individual: an ACK covers all earlier messages too. That is safe here,
        # because ACKs go out in the order of delivery, and only for what is committed. A redelivered message
        # that is ACKed ahead of its turn would break the order, so under 1.0 every message counts as new.
        individual = "client-individual" in ack_modes(version)
        id_header = self._id_header()
        session.collect(
            id_header=id_header,
            ack_header=self.dialect.ack_header,
            time_header=self.dialect.id_time_header,
        )
        self._choose_window()
        self.subscriptions = {subscription.id: one for one, subscription in chosen.items()}
        # Before the receipts are awaited, because messages may come before them.
        self._asked_at = time.monotonic()
        self._deliveries.connected(keyed=individual and id_header is not None)
        self._request(connection, chosen, "client-individual" if individual else "client")
        self._wake(connection)
        self.subscribed_since = self.last_active = self._asked_at = time.monotonic()

    def _request(self, connection: Connection, chosen: Mapping[str, Subscription], mode: str) -> None:
        """Ask for these subscriptions, by their destinations, and await their receipts.

        ``mode``: how messages are ACKed if a subscription does not say it.
        """
        requests: dict[str, str] = {}
        await_receipts = partial(
            connection.await_receipts,
            requests,
            self._options.connection.connect_timeout,
            partial(self._handle, connection),
            partial(self._poll_before, connection),
            lambda: self._deliveries.acks.awaited > 0,
        )
        for one, subscription in chosen.items():
            if self.dialect.orphans_subscriptions:
                await_receipts()
                requests.clear()
            receipt = connection.session.new_receipt()
            requests[receipt] = f"SUBSCRIBE to {one}"
            own = (
                ("id", subscription.id),
                ("destination", self._address(one)),
                ("ack", subscription.ack or mode),
            )
            headers = (*own, *self._prefetch_headers(one), *subscription.headers)
            connection.request("SUBSCRIBE", headers, receipt=receipt)
        await_receipts()

    def _wake(self, connection: Connection) -> None:
        """Where the broker waits for another consumer, let one come that takes nothing, and go."""
        sleeping, is_topic = self.dialect.sleeping, self.dialect.is_topic
        for name, one in self.subscriptions.items():
            # If the connection has ended with the last receipt, that is found when it is read.
            if sleeping and sleeping.search(one) and not is_topic(one) and not connection.ended:
                own = ("id", f"{name}-wake")
                connection.request("SUBSCRIBE", (own, ("destination", one), ("selector", "FALSE")))
                connection.request("UNSUBSCRIBE", (own,))

    def _address(self, destination: str) -> str:
        """How SUBSCRIBE names it."""
        return destination

    def _subscription(self, destination: str) -> Subscription:
        """The subscription to ask for, with all headers except those for the prefetch."""
        return choose_subscription(self.dialect, self._settings, destination)

    def _id_header(self) -> str | None:
        """The header by which redelivered messages are recognised; None if none are."""
        return self._options.id_header or self.dialect.id_header

    def _poll_before(self, connection: Connection, timeout: float) -> list[Event]:
        """One round before all subscriptions are confirmed.

        ACKs go out too: a receipt may lie behind more messages than there is room for (contract 5.13).
        """
        self._send_acks(connection)
        return self._reader.poll(connection, timeout)

    def _choose_window(self) -> None:
        """Choose the prefetch, from the mean size of the frames so far, and log what is risky."""
        mean = self._deliveries.inbox.mean_bytes
        self.window = Window.of(self.dialect, self._settings, self.turn, mean, busy=self._state.busy)
        if not self._state.connections.connections:
            for risk in risks(self.dialect, self._settings):
                log.warning("%s", risk)

    def _prefetch_headers(self, destination: str) -> HeaderPairs:
        """The SUBSCRIBE headers for the prefetch. Each subscription may use all of it, so none starves."""
        return self.dialect.subscribe_headers(
            destination,
            self.window.prefetch,
            frame_bytes=self._deliveries.inbox.mean_bytes,
            max_bytes=self._settings.max_buffered_bytes,
        )

    # --- frames and ACKs

    def receive(self, connection: Connection) -> None:
        """Receive until the receiver is to stop, or the turn is over."""
        # Messages may have come with the receipts of SUBSCRIBE. The first poll waits for more.
        more_acks = self._send_acks(connection)
        deliveries, most = self._deliveries, self.window.most(self.subscriptions)
        while self._state.stopping.deadline is None and not (self.turn.is_careful and self._turn_has_ended()):
            if self.useless is not None:
                raise self.useless
            timeout = 0.0 if more_acks else self.turn_state.poll_timeout()
            self._handle(connection, self._reader.poll(connection, timeout))
            if self.turn_state.count and (due := self.turn_state.take_settled(deliveries, most)):
                self._give(connection, due)
                self._state.notify()
            # The bytes of an incomplete message end a silence too.
            self.last_active = max(self.last_active, connection.last_frame_byte)
            more_acks = self._send_acks(connection)
            self._reader.check_receipts(connection, counted=self.window.bytes is None)

    def _turn_has_ended(self) -> bool:
        refused = self._deliveries.inbox.refused
        return refused is None and self.turn_state.next(self._deliveries, self.achieved, self._quiet())

    def _quiet(self) -> float:
        return time.monotonic() - self._reader.active_at(self.last_active)

    def end(self, connection: Connection) -> None:
        """End in order: send the ACKs that are due, await their receipts, DISCONNECT."""
        deadline = self._state.stopping.deadline or Deadline.after(DISCONNECT_TIMEOUT)
        while not deadline.passed:
            more_acks = self._send_acks(connection)
            if not more_acks and not self._deliveries.acks.awaited:
                break
            self._handle(connection, connection.poll(0.0 if more_acks else deadline.left()))
        disconnect(connection, self.subscriptions, deadline.left())

    def _handle(self, connection: Connection, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, MessageBlock):
                self._take(connection, event)
            elif isinstance(event, MalformedMessage):
                self._take_malformed(connection, event)
            elif isinstance(event, ReceiptReceived):
                # Before it is confirmed: then the broker has room again, and silence begins anew.
                self.last_active = self._asked_at = time.monotonic()
                self._deliveries.confirm(event.receipt_id)
                self._reader.receipt_came()
            elif isinstance(event, Frame):
                self._state.once.warning("stray", "%s", foreign_message(event))
            elif isinstance(event, ErrorReceived):
                raise connection.error_of(event)
        if events:
            self._state.notify()

    def _take_malformed(self, connection: Connection, message: MalformedMessage) -> None:
        """Take a malformed message as a row, or refuse it and take no more messages of this connection."""
        if self._options.on_malformed == "column" and message.ack:
            self._take(connection, MessageBlock.of_malformed(message))
        elif self._deliveries.inbox.refused is None:
            self._give(connection, self.turn_state.take())
            by = (message.subscription or b"").decode(errors="replace")
            error = message.as_error(self.subscriptions.get(by, self._settings.what))
            self._deliveries.refuse(error, len(message.data))
            log.warning("%s", error)

    def _take(self, connection: Connection, block: MessageBlock) -> None:
        if self._deliveries.inbox.refused is not None or self._state.stopping.deadline is not None:
            # These messages get no number and no ACK, so they stay on the broker. When the receiver ends,
            # they are read only because the receipts for the last ACKs are behind them.
            return
        version, names = connection.session.version or "1.0", [*self.subscriptions]
        only = names[0] if len(names) == 1 else ""
        block.acks = ack_handles(block.acks, block.subscriptions, version, only)
        if b"" in block.acks:
            raise no_handle(connection.peer, version, self.dialect)
        self._take_new(connection, block, version)
        self.last_active = time.monotonic()
        for subject, warning in redelivery_warnings(self.dialect, self._settings, self._deliveries):
            self._state.once.warning(subject, "%s", warning)

    def _take_new(self, connection: Connection, block: MessageBlock, version: str) -> None:
        """Take the messages of ``block``, which has their handles."""
        self._state.queues.at_messages(block)
        if self.dialect.id_separator is not None and self._options.id_header is None:
            # The broker's own ids change with each delivery, so stable ones are made of them.
            block.ids = self.dialect.stable_ids(block.ids, block.times)
        self._give(connection, self.turn_state.put(block, time.time_ns() // 1_000))

    def _give(self, connection: Connection, blocks: Sequence[tuple[MessageBlock, int]]) -> None:
        version, dialect = connection.session.version or "1.0", self.dialect.name
        for block, at in blocks:
            self._deliveries.receive(block, received_at=at, version=version, dialect=dialect)

    def _send_acks(self, connection: Connection) -> bool:
        """Send one group of the ACKs that are due, unless too many groups await their receipts.

        Returns whether a group was sent; then more may be due.
        """
        if connection.ended or self._deliveries.acks.awaited >= _ACK_GROUPS:
            return False
        acks = self._deliveries.take_acks(_ACK_GROUP)
        if acks is None:
            return False
        receipt = connection.session.new_receipt()
        connection.session.ack_raw(acks.handles, receipt=receipt)
        self._deliveries.sent(receipt, self._reader.receipt_deadline())
        return True


def disconnect(
    connection: Connection, subscriptions: Iterable[str], timeout: float = DISCONNECT_TIMEOUT
) -> None:
    """End what has all it wants: UNSUBSCRIBE if that returns the messages at no cost, DISCONNECT.

    Some brokers close the connection without the receipt of DISCONNECT. Nothing depends on it.
    """
    try:
        for name in subscriptions if connection.dialect.unsubscribe_returns else ():
            connection.request("UNSUBSCRIBE", (("id", name),))
        connection.disconnect(timeout, _DISCONNECT_MAX_BYTES)
    except StompError as error:
        # Without DISCONNECT the broker keeps the un-acked messages too.
        log.info("the connection did not end with an orderly DISCONNECT: %s", error)
