"""The receiver: a thread that holds one connection with one subscription.

It reads the socket and answers heart-beats whatever Spark is doing, finds frame boundaries and ack handles,
and keeps the raw frames in its window. It never decodes a body or builds a row. ACKs are sent only for what
:meth:`Receiver.acknowledge` was told is committed.

An epoch is the life of one receiver: a random name that is never used again. Connections come and go within
it: one that breaks is replaced for as long as ``reconnectTimeout`` allows, and sequence numbers go on. What
becomes of the messages then is decided in :mod:`spark_stomp.receiver.deliveries`.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from spark_stomp.brokers import PLAIN, Dialect, Subscription, dialect_for
from spark_stomp.errors import (
    ClientIdInUse,
    ConnectionLost,
    DeliveryError,
    ReceiptTimeout,
    RemoteProtocolError,
    StompError,
)
from spark_stomp.framebatch import FrameBatch
from spark_stomp.protocol import ErrorReceived, Event, MessageBlock, MessagesScanned, ReceiptReceived
from spark_stomp.protocol.versions import ack_modes
from spark_stomp.receiver.ack_ledger import AckGroup
from spark_stomp.receiver.dedup import DedupIndex
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.frame_store import Stored
from spark_stomp.receiver.page_limit import PageLimitDetector
from spark_stomp.receiver.retry import Retry, may_recover
from spark_stomp.receiver.settings import ReceiverSettings, ReceiverStatus, choose_subscription
from spark_stomp.transport import Connection, open_connection

__all__ = ["Receiver", "new_epoch"]

log = logging.getLogger(__name__)

_POLL = 1.0
# ACKs sent with one receipt: few enough that the broker's answers keep coming while a large batch is ACKed.
_ACK_GROUP = 10_000


def new_epoch() -> str:
    """A name for the life of one receiver; random, so that no restart and no second driver can repeat it."""
    return secrets.token_hex(8)


class Receiver:
    """One epoch. ``start`` it once, ``stop`` it once; everything else may be called from any thread.

    ``changed`` is notified whenever :meth:`status` may have changed; receivers may share one. Those of one
    query share ``book``, so that a message that moves from one to another is known again. ``stored`` reads
    the journal, where there is one; ``on_news`` is called beside ``changed``.
    """

    def __init__(
        self,
        settings: ReceiverSettings,
        changed: threading.Condition | None = None,
        book: DedupIndex | None = None,
        stored: Stored | None = None,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings = settings
        self.epoch = new_epoch()
        self.deliveries = Deliveries(settings.max_buffered_bytes, book, settings.name, stored)
        self.window = self.deliveries.window
        self._connection: Connection | None = None
        self._dialect: Dialect = dialect_for(None)
        self._subscription: Subscription = PLAIN
        self._changed = changed or threading.Condition()
        self._on_news = on_news
        self._window_bytes: int | None = None
        self._cap = PageLimitDetector(None, settings.prefetch)
        self._capped = False
        self._subscribed = False
        self._connections = 0
        self._let_in: float | None = None
        self._stood_since = 0.0
        self._last_active = self._last_receipt = time.monotonic()
        self._failure: StompError | None = None
        self._stop_deadline: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stomp-receiver-{settings.name}", daemon=True)

    def start(self) -> None:
        """Connect and subscribe in the receiver's own thread; failures appear in :meth:`status`."""
        self._thread.start()

    def status(self) -> ReceiverStatus:
        """A snapshot. ``discards`` is older than ``received``, so that a discard in between is noticed."""
        deliveries = self.deliveries
        discards, received = deliveries.discards, self.window.end
        return ReceiverStatus(
            epoch=self.epoch,
            subscribed=self._subscribed,
            received=received,
            acked=deliveries.acked,
            committed=deliveries.committed,
            last_active=self._last_active,
            window_full=self._is_full(deliveries.acked, received),
            failure=self._failure,
            acks_pending=deliveries.acks_pending,
            discards=discards,
            reconnects=max(0, self._connections - 1),
            counts=deliveries.counts,
        )

    def _is_full(self, acked: int, received: int) -> bool:
        """Whether the broker sends no more until something is ACKed."""
        if self.deliveries.outstanding >= self.settings.prefetch:
            return True
        deliveries, quiet = self.deliveries, self._quiet()
        if self._cap.holds_back(deliveries.outstanding, quiet, acks_pending=deliveries.acks_pending):
            return True
        window = self._window_bytes
        return window is not None and self.window.bytes_between(acked, received) >= window

    def runs(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The raw frames [low, high); RangeUnavailable where they were committed and freed."""
        return self.window.runs(low, high)

    def acknowledge(self, upto: int) -> bool:
        """Everything below ``upto`` is committed: ACK and free it. Returns at once; False if it was known."""
        news = self.deliveries.commit(upto)
        if news:
            self.wake()
        return news

    def wake(self) -> None:
        """Something may be due to be ACKed."""
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
        self.deliveries.close()

    def _notify(self) -> None:
        self._on_news()
        with self._changed:
            self._changed.notify_all()

    # Everything below runs in the receiver's thread.

    def _run(self) -> None:
        retry = Retry(self.settings.reconnect_timeout, time.monotonic())
        try:
            while self._stop_deadline is None:
                try:
                    self._serve()
                except StompError as error:
                    self._lost(error, retry)
        except StompError as error:
            self._failure = error
            log.warning("receiver %s of %s ended: %s", self.settings.name, self.settings.destination, error)
        except Exception as error:
            # A thread that dies in silence would look like an empty queue for ever.
            self._failure = DeliveryError(f"receiver {self.settings.name} failed unexpectedly: {error!r}")
            log.exception("receiver %s failed unexpectedly", self.settings.name)
        finally:
            self._notify()

    def _serve(self) -> None:
        """One connection, from CONNECT to its end."""
        try:
            with open_connection(self.settings.connection, scan=True) as connection:
                self._connection = connection
                self._let_in = self._let_in or time.monotonic()
                self._subscribe(connection)
                self._receive(connection)
                self._end(connection)
        finally:
            self._connection = None

    def _lost(self, error: StompError, retry: Retry) -> None:
        """Wait until the next attempt; raises where there is none."""
        settings, now = self.settings, time.monotonic()
        if self._subscribed:
            retry.ended(self._stood_since, self._last_active, now)
        self._subscribed = False
        self.deliveries.disconnected(
            redelivers=self._dialect.redelivers(
                settings.destination, durable=settings.durable_name is not None
            )
        )
        self._notify()
        if not may_recover(error) or not self._may_try_again(error, now):
            raise error
        if self._stop_deadline is not None:
            log.info("receiver %s did not end in order: %s", settings.name, error)
            return
        delay = retry.next_delay(now)
        if delay is None:
            raise self._given_up(error) from error
        log.warning("receiver %s: %s; trying again in %.1fs", settings.name, error, delay)
        self._stopping.wait(delay)

    def _may_try_again(self, error: StompError, now: float) -> bool:
        """What is wrong at the very beginning is said at once; later the broker is known to be right.

        In between, where it has let us in and no subscription stood yet, there is ``connectTimeout``.
        """
        if self._connections or isinstance(error, ClientIdInUse):
            return True
        return self._let_in is not None and now - self._let_in < self.settings.connection.connect_timeout

    def _given_up(self, error: StompError) -> StompError:
        if isinstance(error, ClientIdInUse):
            return error
        return ConnectionLost(
            f"the connection for {self.settings.destination} broke and could not be had again within "
            f"reconnectTimeout ({self.settings.reconnect_timeout:g}s); the last attempt: {error}"
        )

    def _subscribe(self, connection: Connection) -> None:
        connection.require_open()
        session, settings = connection.session, self.settings
        self._dialect = dialect_for(session.server, settings.connection.broker)
        chosen = self._subscription = choose_subscription(self._dialect, settings)
        # 1.0 has no client-individual. Its cumulative ACKs do the same here, since they go out in the order
        # of delivery and never beyond what is committed. A redelivered message that is ACKed ahead of its
        # turn would break that order, so there every message counts as new.
        individual = "client-individual" in ack_modes(session.version or "1.0")
        id_header = settings.id_header or self._dialect.id_header
        if id_header is not None:
            session.collect_ids(id_header)
        headers = self._bounds() + chosen.headers
        page = self._dialect.page_size if self._dialect.is_queue(settings.destination) else None
        self._cap = PageLimitDetector(page, settings.prefetch)
        receipt = session.new_receipt()
        mode = "client-individual" if individual else "client"
        session.subscribe(chosen.id, settings.destination, ack=mode, headers=headers, receipt=receipt)
        what = f"SUBSCRIBE to {settings.destination}"
        early = connection.await_receipt(receipt, settings.connection.connect_timeout, what)
        self.deliveries.connected(keyed=individual and id_header is not None)
        self._connections += 1
        self._stood_since = self._last_active = time.monotonic()
        self._subscribed = True
        self._handle(connection, early)
        self._notify()

    def _bounds(self) -> tuple[tuple[str, str], ...]:
        """SUBSCRIBE headers for the prefetch; where the broker counts bytes, by the mean of what came."""
        settings, dialect = self.settings, self._dialect
        mean, most = self.window.mean_bytes, settings.max_buffered_bytes
        self._window_bytes = dialect.window_bytes(settings.prefetch, frame_bytes=mean, max_bytes=most)
        if not self._connections:
            self._say_what_is_not_safe()
        return dialect.subscribe_headers(
            settings.destination, settings.prefetch, frame_bytes=mean, max_bytes=most
        )

    def _say_what_is_not_safe(self) -> None:
        settings, dialect = self.settings, self._dialect
        if dialect.redelivery_limit is not None and not settings.journaled:
            log.warning(
                "%s drops or dead-letters a message after %d deliveries unless configured otherwise, and "
                "each broken connection costs one or more",
                dialect.name,
                dialect.redelivery_limit,
            )
        if settings.journaled and settings.id_header is None and dialect.id_header is None:
            log.warning(
                "messages of %s carry no id that survives redelivery: with the journal none is lost, but one "
                "that is delivered again, after a broken connection or a restart, is a second row. If your "
                "producers set an id, name its header in idHeader",
                dialect.name,
            )

    def _receive(self, connection: Connection) -> None:
        while self._stop_deadline is None:
            self._handle(connection, connection.poll(_POLL))
            self._send_acks(connection)
            self._check_receipts()
            self._cap.watch(self.deliveries.outstanding, self._quiet())

    def _quiet(self) -> float:
        return time.monotonic() - self._last_active

    def _notice_cap(self, held: int) -> None:
        """Say once that the broker holds back; such a window counts as full (contract 5)."""
        if self._capped:
            return
        self._capped = True
        log.warning(
            "%s sends no more than %d messages of %s un-acked, though prefetch is %d: this looks like its "
            "maxPageSize, which bounds every batch. Raise it in the destination policy to twice the largest "
            "batch, or acknowledge from a journal (ackAfter = journal)",
            self._dialect.name,
            held,
            self.settings.destination,
            self.settings.prefetch,
        )

    def _end(self, connection: Connection) -> None:
        """The orderly way out: outstanding ACKs, their receipts, DISCONNECT."""
        assert self._stop_deadline is not None
        self._send_acks(connection)
        while self.deliveries.receipt_deadline is not None and time.monotonic() < self._stop_deadline:
            self._handle(connection, connection.poll(max(0.0, self._stop_deadline - time.monotonic())))
        if self._dialect.unsubscribe_returns:
            connection.session.unsubscribe(self._subscription.id)
        connection.disconnect(max(0.0, self._stop_deadline - time.monotonic()))

    def _handle(self, connection: Connection, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, MessagesScanned):
                self._append(connection, event.block)
            elif isinstance(event, ReceiptReceived):
                self.deliveries.confirm(event.receipt_id)
                self._last_active = self._last_receipt = time.monotonic()
                self._cap.acks_confirmed(self._last_receipt)
            elif isinstance(event, ErrorReceived):
                raise connection.error_of(event)
        if events:
            self._notify()

    def _append(self, connection: Connection, block: MessageBlock) -> None:
        if b"" in block.acks:
            raise RemoteProtocolError(
                f"{connection.peer} sent a MESSAGE that names nothing to acknowledge it by "
                "(no ack and no message-id header); it stays un-acked on the broker"
            )
        self.deliveries.receive(
            self._named(block),
            received_at=time.time_ns() // 1_000,
            version=connection.session.version or "1.0",
            dialect=self._dialect.name,
        )
        self._last_active = time.monotonic()
        if self._cap.delivered(self.deliveries.outstanding, self._last_active):
            self._notice_cap(self._cap.learned or 0)

    def _named(self, block: MessageBlock) -> MessageBlock:
        """The block with stable ids: the dialect knows which part of its own header is stable."""
        if self._dialect.id_separator is None or self.settings.id_header is not None:
            return block
        stable = self._dialect.stable_id
        return replace(block, ids=[None if raw is None else stable(raw) for raw in block.ids])

    def _send_acks(self, connection: Connection) -> None:
        while not connection.ended and (acks := self.deliveries.due(_ACK_GROUP)) is not None:
            receipt = connection.session.new_receipt()
            connection.session.ack_raw(self._subscription.id, acks.handles, receipt=receipt)
            deadline = time.monotonic() + self.settings.ack_receipt_timeout
            self.deliveries.sent(AckGroup(acks, receipt, deadline))
            self._cap.acks_sent()

    def _check_receipts(self) -> None:
        # A large batch may take longer to be confirmed than one group of ACKs may: as long as receipts keep
        # coming, the connection is alive.
        deadline = self.deliveries.receipt_deadline
        patience = self._last_receipt + self.settings.ack_receipt_timeout
        if deadline is not None and time.monotonic() >= max(deadline, patience):
            raise ReceiptTimeout(
                f"the broker did not confirm ACKs within ackReceiptTimeout "
                f"({self.settings.ack_receipt_timeout:g}s): the connection counts as dead"
            )
