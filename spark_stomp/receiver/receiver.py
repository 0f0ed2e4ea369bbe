"""The receiver: a thread that holds one connection with one subscription.

It reads the socket and answers heart-beats whatever Spark is doing, finds frame boundaries and ack handles,
and keeps the raw frames in its window. It never decodes a body or builds a row. ACKs are sent only for what
:meth:`Receiver.acknowledge` was told is committed.

An epoch is the life of one receiver: a random name that is never used again. When the connection ends, so
does the receiver; what it offered stays readable, and what was not ACKed comes again to the next one.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from spark_stomp.dialects import Dialect, dialect_for
from spark_stomp.errors import ReceiptTimeout, RemoteProtocolError, StompError
from spark_stomp.options import ConnectionOptions
from spark_stomp.protocol import ErrorReceived, Event, MessageBlock, MessagesScanned, ReceiptReceived
from spark_stomp.protocol.versions import ack_modes
from spark_stomp.receiver.ledger import AckGroup, AckLedger
from spark_stomp.receiver.window import FrameRun, Window
from spark_stomp.transport import Connection, open_connection
from spark_stomp.transport.refusals import broker_error

__all__ = ["Receiver", "ReceiverSettings", "ReceiverStatus", "new_epoch"]

log = logging.getLogger(__name__)

_SUBSCRIPTION = "0"
_POLL = 1.0
# ACKs sent with one receipt: few enough that the broker's answers keep coming while a large batch is ACKed.
_ACK_GROUP = 10_000


def new_epoch() -> str:
    """A name for the life of one receiver; random, so that no restart and no second driver can repeat it."""
    return secrets.token_hex(8)


@dataclass(frozen=True)
class ReceiverSettings:
    """What one receiver subscribes to, and how.

    ``prefetch`` is in messages, ``max_buffered_bytes`` in bytes, ``ack_receipt_timeout`` in seconds;
    ``receivers`` is how many of them subscribe to the destination.
    """

    name: str
    connection: ConnectionOptions
    destination: str
    prefetch: int
    max_buffered_bytes: int
    ack_receipt_timeout: float
    selector: str | None = None
    subscribe_headers: tuple[tuple[str, str], ...] = ()
    receivers: int = 1
    allow_loss: bool = False


@dataclass(frozen=True, slots=True)
class ReceiverStatus:
    """A snapshot. Sequence numbers are exclusive ends; times are monotonic seconds.

    ``received`` frames are in the window, ``committed`` ones were released for ACK, ``acked`` ones were
    confirmed by the broker. ``last_active`` is when the latest frame came, or what may bring frames: the
    subscription, or the broker's receipt for ACKs, which make room in its window.
    """

    epoch: str
    subscribed: bool
    received: int
    committed: int
    acked: int
    last_active: float
    window_full: bool
    failure: StompError | None


class Receiver:
    """One epoch. ``start`` it once, ``stop`` it once; everything else may be called from any thread.

    ``changed`` is notified whenever :meth:`status` may have changed; receivers may share one.
    """

    def __init__(self, settings: ReceiverSettings, changed: threading.Condition | None = None) -> None:
        self.settings = settings
        self.epoch = new_epoch()
        self.window = Window(settings.max_buffered_bytes)
        self._ledger = AckLedger()
        self._connection: Connection | None = None
        self._dialect: Dialect = dialect_for(None)
        self._changed = changed or threading.Condition()
        self._window_bytes: int | None = None
        self._subscribed = False
        self._committed = 0
        self._last_active = time.monotonic()
        self._failure: StompError | None = None
        self._stop_deadline: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"stomp-receiver-{settings.name}", daemon=True)

    def start(self) -> None:
        """Connect and subscribe in the receiver's own thread; failures appear in :meth:`status`."""
        self._thread.start()

    def status(self) -> ReceiverStatus:
        """A snapshot; takes no lock that the socket's work holds for long."""
        received, acked = self.window.end, self._ledger.confirmed
        return ReceiverStatus(
            epoch=self.epoch,
            subscribed=self._subscribed,
            received=received,
            committed=self._committed,
            acked=acked,
            last_active=self._last_active,
            window_full=self._is_full(acked, received),
            failure=self._failure,
        )

    def _is_full(self, acked: int, received: int) -> bool:
        """Whether the broker sends no more until something is ACKed."""
        if received - acked >= self.settings.prefetch:
            return True
        window = self._window_bytes
        return window is not None and self.window.bytes_between(acked, received) >= window

    def runs(self, low: int, high: int) -> Iterator[FrameRun]:
        """The raw frames [low, high); RangeUnavailable where they were committed and freed."""
        return self.window.runs(low, high)

    def acknowledge(self, upto: int) -> None:
        """Everything below ``upto`` is committed: ACK it and free it. Returns at once."""
        with self._changed:
            if upto <= self._committed:
                return
            self._committed = upto
        self.window.release(upto)
        self._wake()

    def stop(self, timeout: float) -> None:
        """ACK what is committed, await its receipts, DISCONNECT, and end, all within ``timeout`` seconds."""
        self._stop_deadline = time.monotonic() + timeout
        self._wake()
        if self._thread.is_alive():
            self._thread.join(timeout + 0.5)
        self.window.close()

    def _wake(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.wake()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # Everything below runs in the receiver's thread.

    def _run(self) -> None:
        try:
            with open_connection(self.settings.connection, scan=True) as connection:
                self._connection = connection
                self._subscribe(connection)
                self._receive(connection)
                self._end(connection)
        except StompError as error:
            self._failure = error
            log.warning("receiver %s of %s ended: %s", self.settings.name, self.settings.destination, error)
        finally:
            self._connection = None
            self._notify()

    def _subscribe(self, connection: Connection) -> None:
        session, settings = connection.session, self.settings
        self._dialect = dialect_for(session.server, settings.connection.broker)
        selector = () if settings.selector is None else (("selector", settings.selector),)
        further = selector + settings.subscribe_headers
        self._dialect.check_subscription(
            settings.destination,
            further,
            receivers=settings.receivers,
            allow_loss=settings.allow_loss,
        )
        headers = self._bounds() + further
        receipt = session.new_receipt()
        # 1.0 has no client-individual. Its cumulative ACKs do the same here, since they go out in the order
        # of delivery and never beyond what is committed.
        mode = "client-individual" if "client-individual" in ack_modes(session.version or "1.0") else "client"
        session.subscribe(_SUBSCRIPTION, settings.destination, ack=mode, headers=headers, receipt=receipt)
        what = f"SUBSCRIBE to {settings.destination}"
        early = connection.await_receipt(receipt, settings.connection.connect_timeout, what)
        self._last_active = time.monotonic()
        self._subscribed = True
        self._handle(connection, early)
        self._notify()

    def _bounds(self) -> tuple[tuple[str, str], ...]:
        """SUBSCRIBE headers for the prefetch; where the broker counts bytes, by the mean of what came."""
        settings, dialect = self.settings, self._dialect
        mean, most = self.window.mean_bytes, settings.max_buffered_bytes
        self._window_bytes = dialect.window_bytes(settings.prefetch, frame_bytes=mean, max_bytes=most)
        if dialect.redelivery_limit is not None:
            log.warning(
                "%s drops or dead-letters a message after %d deliveries unless configured otherwise, and "
                "each broken connection costs one or more",
                dialect.name,
                dialect.redelivery_limit,
            )
        return dialect.subscribe_headers(
            settings.destination, settings.prefetch, frame_bytes=mean, max_bytes=most
        )

    def _receive(self, connection: Connection) -> None:
        while self._stop_deadline is None:
            self._handle(connection, connection.poll(_POLL))
            self._send_acks(connection)
            self._check_receipts()

    def _end(self, connection: Connection) -> None:
        """The orderly way out: outstanding ACKs, their receipts, DISCONNECT."""
        assert self._stop_deadline is not None
        self._send_acks(connection)
        while self._ledger.next_deadline is not None and time.monotonic() < self._stop_deadline:
            self._handle(connection, connection.poll(max(0.0, self._stop_deadline - time.monotonic())))
        if self._dialect.unsubscribe_returns:
            connection.session.unsubscribe(_SUBSCRIPTION)
        connection.disconnect(max(0.0, self._stop_deadline - time.monotonic()))

    def _handle(self, connection: Connection, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, MessagesScanned):
                self._append(connection, event.block)
            elif isinstance(event, ReceiptReceived):
                self._ledger.confirm(event.receipt_id)
                self._last_active = time.monotonic()
            elif isinstance(event, ErrorReceived):
                raise broker_error(event, connection.peer)
        if events:
            self._notify()

    def _append(self, connection: Connection, block: MessageBlock) -> None:
        if b"" in block.acks:
            raise RemoteProtocolError(
                f"{connection.peer} sent a MESSAGE that names nothing to acknowledge it by "
                "(no ack and no message-id header); it stays un-acked on the broker"
            )
        first = self.window.append(
            block.data,
            block.ends,
            received_at=time.time_ns() // 1_000,
            version=connection.session.version or "1.0",
            dialect=self._dialect.name,
        )
        self._ledger.add(first, block.acks)
        self._last_active = time.monotonic()

    def _send_acks(self, connection: Connection) -> None:
        with self._changed:
            committed = self._committed
        while self._ledger.sent < committed:
            upto = min(committed, self._ledger.sent + _ACK_GROUP)
            handles = self._ledger.take(upto)
            receipt = connection.session.new_receipt()
            connection.session.ack_raw(_SUBSCRIPTION, handles, receipt=receipt)
            deadline = time.monotonic() + self.settings.ack_receipt_timeout
            self._ledger.await_receipt(AckGroup(upto, receipt, deadline))

    def _check_receipts(self) -> None:
        deadline = self._ledger.next_deadline
        if deadline is not None and time.monotonic() >= deadline:
            raise ReceiptTimeout(
                f"the broker did not confirm ACKs within ackReceiptTimeout "
                f"({self.settings.ack_receipt_timeout:g}s): the connection counts as dead"
            )
