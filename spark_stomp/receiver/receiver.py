"""The receiver: a thread that keeps its subscriptions open, takes their messages and sends their ACKs.

Goal: messages arrive as fast as the broker sends them, whatever Spark does meanwhile, and none is lost
(contract 4, 5 and 7). Heart-beats go out in time, and a lost connection is replaced.

Plan: the thread has one connection at a time, with a subscription for each destination that it reads. The
header ``subscription`` of a message says which one it came by; all else is the connection's: ACK queue and
memory. It reads what there is room for, passes blocks of raw frames and receipts to
``Deliveries``, sends the ACKs that are due, and checks deadlines; then it begins again. It decodes no body,
because tasks do that. The rules for messages are in deliveries.py, back-pressure and deadlines for receipts
in pause.py, what the broker is asked for in subscription.py, and what streams have instead in
stream_receiver.py.

Invariants:

- Only this thread drives the connection. Others read the status, wake the thread, or stop it.
- An ACK goes out only if ``Deliveries`` says that the message is committed.
- At most four groups of ACKs have no receipt yet, and messages are read while receipts are awaited.
- The thread never ends silently: its error is in the status, and the query fails.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial

from spark_stomp.brokers import Dialect, Subscription, dialect_for
from spark_stomp.errors import (
    ConnectFailed,
    DeliveryError,
    MalformedMessageError,
    MessageUndeliverable,
    StompError,
)
from spark_stomp.logs import about, get_log, in_context
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
from spark_stomp.quoting import listed
from spark_stomp.receiver.aside import Aside
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.pause import BoundedReader
from spark_stomp.receiver.queue_check import QueueCheck
from spark_stomp.receiver.status import ConnectionStatus, ReceiverStatus
from spark_stomp.receiver.subscription import (
    ReceiverSettings,
    Window,
    choose_subscription,
    no_handle,
    no_progress,
    redelivery_warnings,
    risks,
)
from spark_stomp.receiver.turns import Ended, Turns, may_be_about_a_message
from spark_stomp.transport import Connection, open_connection
from spark_stomp.transport.retry import Retry, is_login_error, may_recover, next_attempt

log = get_log(__name__)

# Seconds that one poll waits if nothing comes and nobody wakes the thread.
_POLL = 1.0
# The most ACKs in a group, which has one receipt, and the most groups that await their receipts at a time.
# RabbitMQ sends nothing while it reads ACKs, so messages come between the groups: 23,700 a second, and 17,000
# with groups of 10,000 (November 2026).
_ACK_GROUP = 1_000
_ACK_GROUPS = 4
# Seconds for the end of a careful turn. Nothing is un-acked by then.
_END_OF_TURN = 5.0
# Seconds for which stop() waits beyond its timeout, because the thread may be in a call.
_JOIN_MARGIN = 0.5


class Receiver:
    """One connection, its subscriptions and its thread. It fills ``deliveries``.

    Call :meth:`start` once and :meth:`stop` once; the other public methods may be called from any thread.
    ``on_news`` is called whenever :meth:`status` may have changed. ``failure`` and ``refused`` are those of
    :class:`ReceiverStatus`, now.
    """

    individual = True  # each message has its own ACK
    keyed = True  # a redelivered message is recognised by its stable id

    def __init__(
        self,
        settings: ReceiverSettings,
        deliveries: Deliveries,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._options = settings.options
        self._deliveries = deliveries
        self._connection: Connection | None = None
        self._dialect: Dialect = dialect_for(None)
        self._subscriptions: dict[str, str] = {}  # the destinations by the ids of their subscriptions
        self._notify = on_news
        self._window = Window(self._options.prefetch)
        self._busy = 1  # how many destinations may have messages at a time, as far as memory is concerned
        self._warned: set[str] = set()
        self._connections = ConnectionStatus(since=time.time())
        self._login_accepted: float | None = None
        self._subscribed_since = self._asked_at = 0.0  # the second: when messages were last asked for
        self._last_active = time.monotonic()
        self._stopping = threading.Event()
        self._reader = BoundedReader(settings, deliveries, self._notify, self._stopping)
        self.failure: StompError | None = None
        self.refused: MalformedMessageError | MessageUndeliverable | None = None
        self._turns = Turns(settings.destinations)
        self._aside = Aside(self._turns.now, careful=False)
        self._queues = QueueCheck(self._options)
        self._stop_deadline: float | None = None
        self._thread = threading.Thread(
            target=in_context(self._run), name=f"stomp-receiver-{settings.name}", daemon=True
        )

    def start(self) -> None:
        """Start the thread, which connects and subscribes; failures appear in :meth:`status`."""
        self._thread.start()

    def status(self) -> ReceiverStatus:
        """A snapshot of the receiver."""
        deliveries = self._deliveries
        connection, inbox = self._connections, deliveries.inbox
        return ReceiverStatus(
            name=self._settings.name,
            subscribed=connection.connected,
            pending=inbox.pending,
            received=inbox.received,
            acked=deliveries.acked,
            committed=inbox.ackable,
            last_active=time.monotonic() if self._is_partial else self._reader.active_at(self._last_active),
            window_full=self._is_full(),
            failure=self.failure,
            acks_pending=deliveries.acks_pending,
            paused_since=self._reader.paused_since,
            buffered=inbox.memory_bytes,
            unacked=deliveries.unacked,
            connection=connection,
            counts=deliveries.counts,
            window=self._window.prefetch,
            window_bytes=self._window.bytes or self._settings.max_buffered_bytes,
            destinations=self._settings.destinations,
            heard_at=self._reader.heard_at,
            missing=self._queues.missing,
            # Read last: then all values above are from the connection that brought the malformed message.
            refused=self.refused,
        )

    @property
    def _is_partial(self) -> bool:
        """Whether silence does not mean that there is nothing more."""
        aside = self._aside
        return aside.count > 0 or aside.turn.destinations != self._settings.destinations

    def _is_full(self) -> bool:
        """Whether the broker sends no more until something is ACKed, as far as the receiver can know."""
        # With a journal a pause ends when the journal takes more. If that needs a commit, the writer says so.
        paused = self._reader.paused_since is not None and self._options.journal is None
        return paused or self._window.is_full(self._deliveries, self._quiet())

    def wake(self) -> None:
        """Wake the receiver's thread: ACKs may be due."""
        connection = self._connection
        if connection is not None:
            connection.wake()

    def stop(self, timeout: float) -> None:
        """End the receiver within ``timeout`` seconds: ACK what is committed, await receipts, DISCONNECT."""
        self._stop_deadline = time.monotonic() + timeout
        self._stopping.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join(timeout + _JOIN_MARGIN)
        self._deliveries.close()

    # Everything below runs in the receiver's thread.

    def _run(self) -> None:
        about(receiver=self._settings.name)
        retry = Retry(self._options.reconnect, self._reader.clock())
        try:
            while self._stop_deadline is None:
                try:
                    self._use_one_connection()
                    retry.ended(0.0, self._reader.clock(), achieved=True)
                except StompError as error:
                    self._wait_to_reconnect(error, retry)
        except MessageUndeliverable as error:
            self.refused = error
            log.error("ended: %s", error)
        except StompError as error:
            self.failure = error
            log.error("ended: %s", error)
        except Exception as error:
            # A thread that ends silently would look like an empty queue.
            self.failure = DeliveryError(f"receiver {self._settings.name} failed unexpectedly: {error!r}")
            log.exception("failed unexpectedly")
        finally:
            self._notify()

    def _use_one_connection(self) -> None:
        """Open a connection, subscribe, and receive until its turn or the receiver ends, or raise why not."""
        self._aside = Aside(self._turns.now, careful=self._turns.is_careful)
        try:
            with open_connection(self._options.connection, scan=True) as connection:
                self._connection = connection
                self._login_accepted = self._login_accepted or self._reader.clock()
                self._subscribe(connection)
                self._receive(connection)
                self._end(connection)
        finally:
            if self._connection is not None and self._connection.rested:
                # It was paused, and a broker may close a connection that is not read.
                self._busy = len(self._settings.destinations)
            self._connection = None
        if self._aside.is_over:
            self._turns.over()
            self._connections = self._connections.left(time.time())
            self._disconnected()

    # --- a lost connection

    def _wait_to_reconnect(self, error: StompError, retry: Retry) -> None:
        """Wait for the next attempt; re-raise ``error`` if none is left."""
        now, was_connected = self._reader.clock(), self._connections.connected
        end = self._how_it_ended(error)
        if was_connected:
            nothing_acked = (end.acks_sent and not end.achieved) or isinstance(error, ConnectFailed)
            begun = self._reader.clock(self._subscribed_since)
            retry.ended(begun, now, achieved=end.achieved > 0, nothing_acked=nothing_acked)
        turn = self._turns.ended(end) if self._subscriptions else self._aside.turn
        handles = self._deliveries.unconfirmed_acks
        self._connections = self._connections.failed(error, time.time())
        self._disconnected()
        login_accepted = None if self._login_accepted is None else now - self._login_accepted
        may_try = self._connections.may_try_again(
            error, login_accepted, self._options.connection.connect_timeout
        )
        if not may_recover(error, login_accepted=login_accepted is not None) or not may_try:
            raise error
        if turn.has_failed:
            raise no_progress(self._dialect, turn, handles, error, of_stream=self._settings.of_stream)
        if self._stop_deadline is not None:
            log.info("the connection did not end in order: %s", error)
            return
        if (delay := retry.next_delay(error, now)) is None:
            raise retry.out_of_time(error, self._settings.what, now) from None
        delay = max(delay, turn.pause)
        what = "connection lost" if was_connected else "no connection"
        level = logging.WARNING if self._connections.newly_failed or is_login_error(error) else logging.DEBUG
        log.log(level, "%s: %s; %s%s", what, error, next_attempt(error, delay), turn)
        self._stopping.wait(delay)

    def _how_it_ended(self, error: StompError) -> Ended:
        deliveries = self._deliveries
        since = time.monotonic() - self._reader.active_at(self._asked_at)
        size = deliveries.unacked_bytes + self._aside.size
        return Ended(
            unacked=deliveries.unacked + self._aside.count,
            given=deliveries.unacked,
            achieved=self._achieved,
            by_error=may_be_about_a_message(error, since, size),
            acks_sent=deliveries.receipts_awaited > 0,
            narrows=self._dialect.limits_unacked and self.individual,
            keeps=not self._lost,
        )

    @property
    def _achieved(self) -> int:
        """How many messages of this connection need nothing more."""
        return self._deliveries.confirmed

    @property
    def _lost(self) -> list[str]:
        """The ids of the subscriptions whose messages the broker does not redeliver."""
        redelivers, durable = self._dialect.redelivers, self._settings.durable
        return [name for name, one in self._subscriptions.items() if not redelivers(one, durable=durable)]

    def _disconnected(self) -> None:
        """Nothing of the connection is left. The broker redelivers what is not ACKed, if it can."""
        self._reader.resume()
        self.refused = None  # the broker redelivers it, behind the messages that are not ACKed
        lost = self._lost
        self._aside.take()
        self._deliveries.disconnected(redelivers=len(lost) < len(self._subscriptions), but=lost)
        self._subscriptions = {}
        self._notify()

    # --- the subscription

    def _subscribe(self, connection: Connection) -> None:
        connection.require_open()
        session, options = connection.session, self._options
        self._dialect = options.connection.dialect(session.server)
        chosen = {one: self._subscription(one) for one in self._aside.turn.destinations}
        self._dialect.check_version(session.version or "1.0")
        self._queues.begin(self._dialect, connection, [*chosen], first=not self._connections.connections)
        # STOMP 1.0 has no client-individual: an ACK covers all earlier messages too. That is safe here,
        # because ACKs go out in the order of delivery, and only for what is committed. A redelivered message
        # that is ACKed ahead of its turn would break the order, so under 1.0 every message counts as new.
        individual = self.individual and "client-individual" in ack_modes(session.version or "1.0")
        id_header = (options.id_header or self._dialect.id_header) if self.keyed else None
        session.collect(
            id_header=id_header,
            ack_header=self._dialect.ack_header,
            time_header=self._dialect.id_time_header,
        )
        self._choose_window()
        self._subscriptions = {subscription.id: one for one, subscription in chosen.items()}
        # Before the receipts are awaited, because messages may come before them.
        self._asked_at = time.monotonic()
        self._deliveries.connected(keyed=individual and id_header is not None)
        requests: dict[str, str] = {}
        take, poll = partial(self._handle, connection), partial(self._poll_before, connection, requests)
        for one, subscription in chosen.items():
            if self._dialect.orphans_subscriptions:
                connection.await_receipts(requests, options.connection.connect_timeout, take, poll)
                requests.clear()
            # It may have ended with the last receipt.
            connection.require_open()
            receipt = session.new_receipt()
            requests[receipt] = f"SUBSCRIBE to {one}"
            ack = subscription.ack or ("client-individual" if individual else "client")
            own = (("id", subscription.id), ("destination", one), ("ack", ack))
            headers = (*own, *self._prefetch_headers(one), *subscription.headers)
            session.request("SUBSCRIBE", headers, receipt=receipt)
        connection.await_receipts(requests, options.connection.connect_timeout, take, poll)
        self._subscribed_since = self._last_active = self._asked_at = time.monotonic()
        before, now = self._connections, time.time()
        self._connections = before.subscribed(now, self._dialect, connection.peer)
        if before.is_lost:
            log.warning("connected again after %.1f s", now - before.since)
        log.info("subscribed to %s at %s", listed([*chosen]), connection.peer)
        self._notify()

    def _subscription(self, destination: str) -> Subscription:
        """The subscription to ask for, with all headers except those for the prefetch."""
        return choose_subscription(self._dialect, self._settings, destination)

    def _poll_before(self, connection: Connection, requests: Collection[str], timeout: float) -> list[Event]:
        """One round before all subscriptions are confirmed. ``requests`` are the receipts of SUBSCRIBE.

        ACKs go out too: a receipt may lie behind more messages than there is room for (contract 5.13).
        """
        self._send_acks(connection)
        acks_wait = self._deliveries.receipts_awaited
        events = self._reader.poll(connection, timeout)
        for event in events:
            if acks_wait and isinstance(event, ErrorReceived) and event.receipt_id not in requests:
                raise connection.error_of(event)
        return events

    def _choose_window(self) -> None:
        """Choose the prefetch, from the mean size of the frames so far, and log what is risky."""
        mean = self._deliveries.inbox.mean_bytes
        self._window = Window.of(self._dialect, self._settings, self._aside.turn, mean, busy=self._busy)
        if not self._connections.connections:
            for risk in risks(self._dialect, self._settings):
                log.warning("%s", risk)

    def _prefetch_headers(self, destination: str) -> tuple[tuple[str, str], ...]:
        """The SUBSCRIBE headers for the prefetch. Each subscription may use all of it, so none starves."""
        return self._dialect.subscribe_headers(
            destination,
            self._window.prefetch,
            frame_bytes=self._deliveries.inbox.mean_bytes,
            max_bytes=self._settings.max_buffered_bytes,
        )

    def _warn_once(self, subject: str, text: str) -> None:
        if subject not in self._warned:
            self._warned.add(subject)
            log.warning("%s", text)

    # --- frames and ACKs

    def _receive(self, connection: Connection) -> None:
        # Messages may have come with the receipts of SUBSCRIBE. The first poll waits for more.
        more_acks = self._send_acks(connection)
        aside, deliveries, most = self._aside, self._deliveries, self._window.most(self._subscriptions)
        while self._stop_deadline is None and not self._turn_is_done():
            self._handle(connection, self._reader.poll(connection, 0.0 if more_acks else aside.left(_POLL)))
            if aside.count and (due := aside.due(deliveries, most)):
                self._give(due)
                self._notify()
            # The bytes of an incomplete message end a silence too.
            self._last_active = max(self._last_active, connection.last_frame_byte)
            more_acks = self._send_acks(connection)
            self._reader.check_receipts(connection, counted=self._window.bytes is None)

    def _turn_is_done(self) -> bool:
        aside = self._aside
        careful = aside.careful and self.refused is None
        return careful and aside.is_done(self._deliveries, self._achieved, self._quiet())

    def _quiet(self) -> float:
        return time.monotonic() - self._reader.active_at(self._last_active)

    def _end(self, connection: Connection) -> None:
        """End in order: send the ACKs that are due, await their receipts, DISCONNECT."""
        deadline = self._stop_deadline or time.monotonic() + _END_OF_TURN
        while time.monotonic() < deadline:
            more_acks = self._send_acks(connection)
            if not more_acks and not self._deliveries.receipts_awaited:
                break
            timeout = 0.0 if more_acks else deadline - time.monotonic()
            self._handle(connection, connection.poll(max(0.0, timeout)))
        if self._dialect.unsubscribe_returns and not connection.ended:
            for name in self._subscriptions:
                connection.session.request("UNSUBSCRIBE", [("id", name)])
        connection.disconnect(max(0.0, deadline - time.monotonic()))

    def _handle(self, connection: Connection, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, MessageBlock):
                self._take(connection, event)
            elif isinstance(event, MalformedMessage):
                self._take_malformed(connection, event)
            elif isinstance(event, ReceiptReceived):
                self._deliveries.confirm(event.receipt_id)
                self._last_active = self._asked_at = time.monotonic()
                self._reader.receipt_came()
            elif isinstance(event, Frame):
                self._warn_once("stray", foreign_message(event))
            elif isinstance(event, ErrorReceived):
                raise connection.error_of(event)
        if events:
            self._notify()

    def _take_malformed(self, connection: Connection, message: MalformedMessage) -> None:
        """Take a malformed message as a row, or refuse it and take no more messages of this connection."""
        if self._options.on_malformed == "column" and message.ack:
            self._take(connection, MessageBlock.of_malformed(message))
        elif self.refused is None:
            self._give(self._aside.take())
            by = (message.subscription or b"").decode(errors="replace")
            self.refused = message.as_error(self._subscriptions.get(by, self._settings.what))
            self._deliveries.refused(len(message.data))
            log.warning("%s", self.refused)

    def _take(self, connection: Connection, block: MessageBlock) -> None:
        if self.refused is not None or self._stop_deadline is not None:
            # These messages get no number and no ACK, so they stay on the broker. When the receiver ends,
            # they are read only because the receipts for the last ACKs are behind them.
            return
        version, names = connection.session.version or "1.0", [*self._subscriptions]
        only = names[0] if len(names) == 1 else ""
        block.acks = ack_handles(block.acks, block.subscriptions, version, only)
        if b"" in block.acks:
            raise no_handle(connection.peer, version, self._dialect)
        self._take_new(connection, block, version)
        self._last_active = time.monotonic()
        for subject, warning in redelivery_warnings(self._dialect, self._settings, self._deliveries):
            self._warn_once(subject, warning)

    def _take_new(self, connection: Connection, block: MessageBlock, version: str) -> None:
        """Take the messages of ``block``, which has their handles."""
        self._queues.at_messages(block)
        if self._dialect.id_separator is not None and self._options.id_header is None:
            # The broker's own ids change with each delivery, so stable ones are made of them.
            block.ids = self._dialect.stable_ids(block.ids, block.times)
        received_at = time.time_ns() // 1_000
        if self._aside.takes:
            self._aside.put(block, received_at)
        else:
            self._give([(block, received_at)])

    def _give(self, blocks: Sequence[tuple[MessageBlock, int]]) -> None:
        connection = self._connection
        assert connection is not None
        version, dialect = connection.session.version or "1.0", self._dialect.name
        for block, at in blocks:
            self._deliveries.receive(block, received_at=at, version=version, dialect=dialect)

    def _send_acks(self, connection: Connection) -> bool:
        """Send one group of the ACKs that are due, unless too many groups await their receipts.

        Returns whether a group was sent; then more may be due.
        """
        if connection.ended or self._deliveries.receipts_awaited >= _ACK_GROUPS:
            return False
        acks = self._deliveries.due(_ACK_GROUP)
        if acks is None:
            return False
        receipt = connection.session.new_receipt()
        connection.session.ack_raw(acks.handles, receipt=receipt)
        self._deliveries.sent(receipt, self._reader.receipt_deadline())
        return True
