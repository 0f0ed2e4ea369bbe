"""The receiver: a thread that holds one connection with one subscription.

It reads the socket and sends heart-beats whatever Spark is doing, finds frame boundaries and ack handles,
and gives the raw frames to its :class:`~spark_stomp.receiver.deliveries.Deliveries`. It never decodes a body
or builds a row. It sends ACKs only for messages that are committed by its deliveries' marks.

An epoch is the life of one receiver, with a random name never used again. Connections come and go within it:
a lost one is replaced for as long as ``reconnectTimeout`` allows, and sequence numbers go on.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from spark_stomp.brokers import PLAIN, Dialect, Subscription, dialect_for
from spark_stomp.errors import (
    AcksRefused,
    ClientIdInUse,
    DeliveryError,
    MalformedMessageError,
    RemoteProtocolError,
    StompError,
)
from spark_stomp.logs import about, get_log, in_context
from spark_stomp.protocol import (
    ErrorReceived,
    Event,
    MalformedMessage,
    MessageBlock,
    MessageReceived,
    MessagesScanned,
    ReceiptReceived,
    ack_modes,
)
from spark_stomp.quoting import counted, quoted
from spark_stomp.receiver.ack_ledger import AckGroup
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.pause import BoundedReader
from spark_stomp.receiver.status import ConnectionStatus, ReceiverStatus
from spark_stomp.receiver.stream_check import StreamCheck, StreamInDoubt
from spark_stomp.receiver.subscription import (
    ReceiverSettings,
    choose_subscription,
    may_stop_early,
    risks,
    unmarked_warning,
)
from spark_stomp.transport import Connection, open_connection
from spark_stomp.transport.broker_errors import says_stop
from spark_stomp.transport.retry import Retry, may_recover, refuses_login

log = get_log(__name__)

_POLL = 1.0
# ACKs sent with one receipt, and how many such groups may wait for theirs. A broker that has the ACKs of a
# whole batch to read sends nothing meanwhile; so it gets them bit by bit, and messages come in between.
_ACK_GROUP = 1_000
_ACK_GROUPS = 4
# So many times in a row an ERROR may answer ACKs. Each time costs every un-acked message one delivery, and
# some brokers drop a message after ten.
_MOST_REFUSED_ACKS = 3
# What a broker may quote: all but blanks, quotation marks, brackets, and what ends a sentence.
_WORDS = re.compile(r"[^\s'\"\[\](){}<>]*[^\s'\"\[\](){}<>.,:;]")
# Where a broker may stop before the prefetch is reached, silence of so many seconds with un-acked messages is
# taken for that. A queue that has exactly so many messages looks the same.
_STOPPED_AFTER = 2.0
# So many messages that were taken for redelivered ones, and not marked so, are worth a warning.
_MANY_UNMARKED = 100


class Receiver:
    """Fills ``deliveries``. ``start`` it once, ``stop`` it once; other methods may be called from any thread.

    ``changed`` is notified whenever :meth:`status` may have changed; receivers may share one. ``on_news`` is
    called just before that.
    """

    def __init__(
        self,
        settings: ReceiverSettings,
        deliveries: Deliveries,
        changed: threading.Condition | None = None,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._options = settings.options
        self._deliveries = deliveries
        self._connection: Connection | None = None
        self._dialect: Dialect = dialect_for(None)
        self._subscription: Subscription = PLAIN
        self._changed = changed or threading.Condition()
        self._on_news = on_news
        self._prefetch = self._options.prefetch
        self._window_bytes: int | None = None
        self._may_stop_early = False
        self._warned: set[str] = set()
        self._connections = ConnectionStatus(since=time.time())
        self._let_in: float | None = None
        self._subscribed_since = 0.0
        self._last_active = time.monotonic()
        self._stopping = threading.Event()
        self._reader = BoundedReader(settings, deliveries, self._notify, self._stopping)
        self._failure: StompError | None = None
        self._refused: MalformedMessageError | None = None
        self._refused_acks = 0
        self._acks_confirmed = False
        self._streams = StreamCheck(settings.options, settings.destination)
        self._stop_deadline: float | None = None
        self._thread = threading.Thread(
            target=in_context(self._run), name=f"stomp-receiver-{settings.name}", daemon=True
        )

    def start(self) -> None:
        """Connect and subscribe in the receiver's own thread; failures appear in :meth:`status`."""
        self._thread.start()

    def status(self) -> ReceiverStatus:
        """A snapshot. ``discards`` is read before ``received``, so that a discard in between is noticed."""
        deliveries = self._deliveries
        discards, received = deliveries.discards, deliveries.frames.received
        connection = self._connections
        return ReceiverStatus(
            name=self._settings.name,
            epoch=deliveries.epoch,
            subscribed=connection.connected,
            received=received,
            acked=deliveries.acked,
            committed=deliveries.committed,
            last_active=self._reader.active_at(self._last_active),
            window_full=self._is_full(deliveries.acked, received),
            failure=self._failure,
            acks_pending=deliveries.acks_pending,
            paused_since=self._reader.paused_since,
            buffered=deliveries.frames.memory_bytes,
            discards=discards,
            unacked=deliveries.unacked,
            connection=connection,
            counts=deliveries.counts,
            window=self._prefetch,
            window_bytes=self._window_bytes or self._settings.max_buffered_bytes,
            # Read last: if it is set, the connection of these numbers still stood.
            refused=self._refused,
        )

    def _is_full(self, acked: int, received: int) -> bool:
        """Whether the broker sends no more until something is ACKed."""
        deliveries = self._deliveries
        # With a journal a pause lasts until it takes more, and it says itself if that needs a commit.
        paused = self._reader.paused_since is not None and self._options.journal is None
        if paused or deliveries.unacked >= self._prefetch:
            return True
        if self._may_stop_early and deliveries.unacked and self._quiet() >= _STOPPED_AFTER:
            # ACKs that are due are about to make room.
            return not deliveries.acks_pending
        window = self._window_bytes
        return window is not None and deliveries.frames.bytes_between(acked, received) >= window

    def wake(self) -> None:
        """Wake the receiver's thread: ACKs may be due."""
        connection = self._connection
        if connection is not None:
            connection.wake()

    def stop(self, timeout: float) -> None:
        """ACK what is committed, await its receipts, DISCONNECT, and end, all within ``timeout`` seconds."""
        self._stop_deadline = time.monotonic() + timeout
        self._stopping.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join(timeout + 0.5)
        self._deliveries.close()

    def _notify(self) -> None:
        self._on_news()
        with self._changed:
            self._changed.notify_all()

    # Everything below runs in the receiver's thread.

    def _run(self) -> None:
        about(receiver=self._settings.name)
        retry = Retry(self._options.reconnect_timeout, self._reader.clock())
        try:
            while self._stop_deadline is None:
                try:
                    self._use_one_connection()
                except StompError as error:
                    self._wait_to_reconnect(error, retry)
        except StompError as error:
            self._failure = error
            log.error("ended: %s", error)
        except Exception as error:
            # A thread that dies in silence would look like an empty queue for ever.
            self._failure = DeliveryError(f"receiver {self._settings.name} failed unexpectedly: {error!r}")
            log.exception("failed unexpectedly")
        finally:
            self._notify()

    def _use_one_connection(self) -> None:
        """One connection, from CONNECT to its end."""
        try:
            with open_connection(self._options.connection, scan=True) as connection:
                self._connection = connection
                self._let_in = self._let_in or self._reader.clock()
                self._subscribe(connection)
                self._receive(connection)
                self._end(connection)
        finally:
            self._connection = None

    # --- a lost connection

    def _wait_to_reconnect(self, error: StompError, retry: Retry) -> None:
        """Wait for the next attempt; raise if there is none."""
        settings, now = self._settings, self._reader.clock()
        was_connected = self._connections.connected
        if was_connected:
            # Messages came, and yet it served nobody: they will come again.
            unconfirmed = self._deliveries.receipts_awaited and not self._acks_confirmed
            in_vain = bool(unconfirmed) or isinstance(error, StreamInDoubt)
            begun = self._reader.clock(self._subscribed_since)
            retry.ended(begun, now - self._quiet(), now, in_vain=in_vain)
        self._reader.resume()
        self._refused = None  # it comes again, after those messages that are not ACKed
        self._connections = self._connections.failed(error, time.time())
        self._deliveries.disconnected(
            redelivers=self._dialect.redelivers(
                settings.destination, self._options.subscribe_headers, durable=settings.durable
            )
        )
        self._notify()
        let_in = self._let_in is not None
        if not may_recover(error, let_in=let_in) or not self._may_try_again(error, now):
            raise error
        if self._stop_deadline is not None:
            log.info("the connection did not end in order: %s", error)
            return
        delay = retry.next_delay(error, now)
        if delay is None:
            raise retry.out_of_time(error, settings.destination, now) from None
        text = "%s: %s; trying again, next in %.1f s"
        what = "connection lost" if was_connected else "no connection"
        # Each refusal of a login is shown: somebody has to mend it.
        is_news = self._connections.newly_failed or refuses_login(error)
        log.log(logging.WARNING if is_news else logging.DEBUG, text, what, error, delay)
        self._stopping.wait(delay)

    def _may_try_again(self, error: StompError, now: float) -> bool:
        """Whether to try again at all.

        Until the broker has let us in once, an error is most likely a wrong setting: no. Then, until the
        first subscription, the limit is ``connectTimeout``; after that there is none here.
        """
        if self._connections.connections or isinstance(error, ClientIdInUse):
            return True
        return self._let_in is not None and now - self._let_in < self._options.connection.connect_timeout

    # --- the subscription

    def _subscribe(self, connection: Connection) -> None:
        connection.require_open()
        session, options, destination = connection.session, self._options, self._settings.destination
        self._dialect = dialect_for(session.server, options.connection.broker)
        self._subscription = choose_subscription(self._dialect, self._settings)
        self._dialect.check_version(session.version or "1.0")
        self._streams.at_start(self._dialect, connection.peer)
        # 1.0 has no client-individual. Its cumulative ACKs do the same here, since they go out in the order
        # of delivery and never beyond what is committed. A redelivered message that is ACKed ahead of its
        # turn would break that order, so under 1.0 every message counts as new.
        individual = "client-individual" in ack_modes(session.version or "1.0")
        id_header = options.id_header or self._dialect.id_header
        session.collect(
            id_header=id_header,
            ack_header=self._dialect.ack_header,
            time_header=self._dialect.id_time_header,
        )
        headers = self._prefetch_headers() + self._subscription.headers
        self._may_stop_early = may_stop_early(self._dialect, self._settings)
        receipt = session.new_receipt()
        mode = "client-individual" if individual else "client"
        session.subscribe(self._subscription.id, destination, ack=mode, headers=headers, receipt=receipt)
        # Messages may come before the receipt.
        self._deliveries.connected(keyed=individual and id_header is not None)
        timeout, what = options.connection.connect_timeout, f"SUBSCRIBE to {destination}"
        take, poll = partial(self._handle, connection), partial(self._reader.poll, connection)
        connection.await_receipt(receipt, timeout, what, take, poll)
        self._acks_confirmed = False
        self._subscribed_since = self._last_active = time.monotonic()
        before, now = self._connections, time.time()
        self._connections = before.subscribed(now)
        if before.connections:
            log.warning("connected again after %.1f s", now - before.since)
        log.info("subscribed to %s at %s", destination, connection.peer)
        self._notify()

    def _prefetch_headers(self) -> tuple[tuple[str, str], ...]:
        """SUBSCRIBE headers for the prefetch; if the broker counts bytes, by the mean size so far."""
        dialect, mean = self._dialect, self._deliveries.frames.mean_bytes
        most = self._settings.max_buffered_bytes
        self._prefetch = prefetch = self._settings.prefetch_for(mean)
        self._window_bytes = dialect.window_bytes(prefetch, frame_bytes=mean, max_bytes=most)
        if not self._connections.connections:
            for risk in risks(dialect, self._settings):
                log.warning("%s", risk)
        destination = self._settings.destination
        return dialect.subscribe_headers(destination, prefetch, frame_bytes=mean, max_bytes=most)

    def _warn_once(self, subject: str, text: str) -> None:
        if subject not in self._warned:
            self._warned.add(subject)
            log.warning("%s", text)

    # --- frames and ACKs

    def _receive(self, connection: Connection) -> None:
        more_acks = False
        while self._stop_deadline is None:
            self._handle(connection, self._reader.poll(connection, 0.0 if more_acks else _POLL))
            # A message that is on the wire is no silence, however long it takes.
            self._last_active = max(self._last_active, connection.last_frame_byte)
            more_acks = self._send_acks(connection)
            self._reader.check_receipts(connection, counted=self._window_bytes is None)

    def _quiet(self) -> float:
        return time.monotonic() - self._reader.active_at(self._last_active)

    def _end(self, connection: Connection) -> None:
        """The orderly way out: ACKs that are due, their receipts, DISCONNECT."""
        deadline = self._stop_deadline
        assert deadline is not None
        while time.monotonic() < deadline:
            more_acks = self._send_acks(connection)
            if not more_acks and not self._deliveries.receipts_awaited:
                break
            timeout = 0.0 if more_acks else deadline - time.monotonic()
            self._handle(connection, connection.poll(max(0.0, timeout)))
        if self._dialect.unsubscribe_returns:
            connection.session.unsubscribe(self._subscription.id)
        connection.disconnect(max(0.0, deadline - time.monotonic()))

    def _handle(self, connection: Connection, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, MessagesScanned):
                self._take(connection, event.block)
            elif isinstance(event, MalformedMessage):
                self._take_malformed(connection, event)
            elif isinstance(event, ReceiptReceived):
                self._deliveries.confirm(event.receipt_id)
                self._refused_acks = 0
                self._acks_confirmed = True
                self._last_active = time.monotonic()
                self._reader.receipt_came()
            elif isinstance(event, MessageReceived):
                self._warn_once("stray", event.stray)
            elif isinstance(event, ErrorReceived):
                raise self._error_of(connection, event)
        if events:
            self._notify()

    def _error_of(self, connection: Connection, event: ErrorReceived) -> StompError:
        """The error for an ERROR frame; AcksRefused if such a frame answered the last few ACKs, too."""
        error, handles = connection.error_of(event), self._deliveries.unconfirmed_acks
        if not handles or says_stop(event):
            return error
        self._refused_acks += 1
        if self._refused_acks < _MOST_REFUSED_ACKS:
            return error
        words = set(_WORDS.findall(event.message + " " + event.detail))
        names = [handle.decode(errors="replace") for handle in handles]
        named = next((f"It names {quoted(name)}" for name in names if name in words), None)
        first = f"Of {counted(len(names), 'message')} without a receipt the first is {quoted(names[0])}"
        return AcksRefused(
            f"{self._settings.destination}: {self._refused_acks} times in a row the broker answered ACKs "
            f"with an ERROR, so that nothing can be acknowledged. {named or first}, which is the ack or "
            f"message-id header of the message. The last answer: {error.message}"
        )

    def _take_malformed(self, connection: Connection, message: MalformedMessage) -> None:
        """Take the message with its reason, or refuse it: no more is taken from this connection."""
        if self._options.on_malformed == "column" and message.ack:
            self._take(connection, MessageBlock.of_malformed(message))
        elif self._refused is None:
            self._refused = message.as_error(self._settings.destination)
            self._deliveries.refused(len(message.data))
            log.warning("%s", self._refused)

    def _take(self, connection: Connection, block: MessageBlock) -> None:
        if self._refused is not None or self._stop_deadline is not None:
            # Not numbered and not ACKed, so these messages stay on the broker. At the end they are read only
            # because the receipts for the last ACKs are behind them.
            return
        if b"" in block.acks:
            raise RemoteProtocolError(
                f"{connection.peer} sent a MESSAGE that names nothing to acknowledge it by "
                "(no ack and no message-id header); it stays un-acked on the broker"
            )
        self._streams.at_messages(self._dialect, connection.peer, block.data)
        self._deliveries.receive(
            self._with_stable_ids(block),
            received_at=time.time_ns() // 1_000,
            version=connection.session.version or "1.0",
            dialect=self._dialect.name,
        )
        self._last_active = time.monotonic()
        if self._dialect.marks_redelivered and self._deliveries.unmarked >= _MANY_UNMARKED:
            self._warn_once("unmarked", unmarked_warning(self._dialect, self._settings))

    def _with_stable_ids(self, block: MessageBlock) -> MessageBlock:
        """The block with stable ids: the dialect knows what of its own headers is stable."""
        if self._dialect.id_separator is None or self._options.id_header is not None:
            return block
        return replace(block, ids=self._dialect.stable_ids(block.ids, block.times))

    def _send_acks(self, connection: Connection) -> bool:
        """Send a group of the ACKs that are due, if there is room for one; whether to come again at once."""
        if connection.ended or self._deliveries.receipts_awaited >= _ACK_GROUPS:
            return False
        acks = self._deliveries.due(_ACK_GROUP)
        if acks is None:
            return False
        receipt = connection.session.new_receipt()
        connection.session.ack_raw(self._subscription.id, acks.handles, receipt=receipt)
        self._deliveries.sent(AckGroup(acks, receipt, self._reader.receipt_deadline()))
        return True
