"""Sends messages over one connection, with a bounded number of them unconfirmed."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from spark_stomp.arrow import OutgoingMessage
from spark_stomp.brokers import dialect_for
from spark_stomp.errors import ReceiptTimeout, StompError
from spark_stomp.logs import get_log, show
from spark_stomp.options import SinkOptions
from spark_stomp.protocol import ErrorReceived, Event, ReceiptReceived
from spark_stomp.transport import Connection, Pump, open_connection

log = get_log(__name__)

_DISCONNECT_TIMEOUT = 5.0
# While messages keep coming, they are sent in groups of this many, and the pump has nothing to do.
_FLUSH_EVERY = 64


class Sender:
    """A connection on which every SEND asks for a receipt.

    One receipt for many SENDs would be cheaper, but only says that the earlier frames were *received*
    (STOMP 1.2, "RECEIPT"): RabbitMQ confirms each SEND by itself and in any order. So each SEND has its own,
    and at most ``receiptWindow`` of them are outstanding.

    One thread calls the methods. An error between two calls is raised by the next one.
    """

    def __init__(self, options: SinkOptions) -> None:
        show(options.connection.log_level)
        self._options = options
        self._connection: Connection | None = None
        self._dialect = dialect_for(None)
        # While the pump runs, the fields below are used only with this lock held: the pump uses them too.
        self._lock = threading.Lock()
        self._pump: Pump | None = None
        self._outstanding: dict[str, str] = {}
        self._unflushed = False
        self._written = 0
        self._last_progress = time.monotonic()
        self.confirmed = 0

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_pump()
        if self._connection is not None:
            self._connection.close()

    def send(self, message: OutgoingMessage) -> None:
        """Queue ``message``; waits while ``receiptWindow`` messages are unconfirmed.

        Raises DestinationRefused if the broker says which message it refused, else BrokerError,
        ReceiptTimeout, or what the connection raises. Connects at the first call.
        """
        connection = self._connected()
        with self._lock:
            self._raise_failure()
            if len(self._outstanding) >= self._options.receipt_window:
                self._await_receipts(connection, self._options.receipt_window - 1)
            connection.require_open()
            self._queue(connection, message)
            if len(self._outstanding) % _FLUSH_EVERY == 0:
                self._poll(connection, 0)

    def finish(self) -> int:
        """Wait for every receipt, then DISCONNECT; returns how many messages the broker confirmed.

        Raises what :meth:`send` raises.
        """
        connection = self._connection
        if connection is None:
            return 0
        self._stop_pump()
        self._raise_failure()
        self._await_receipts(connection, 0)
        try:
            connection.disconnect(_DISCONNECT_TIMEOUT)
        except StompError as error:
            # Every message is confirmed. To fail here would only make Spark send all of them again.
            log.info("the sink did not end with an orderly DISCONNECT: %s", error)
        return self.confirmed

    def _queue(self, connection: Connection, message: OutgoingMessage) -> None:
        receipt = connection.session.new_receipt()
        headers = message.headers + self._dialect_headers(message)
        connection.session.send(message.destination, message.body, headers=headers, receipt=receipt)
        if not self._outstanding:
            self._last_progress = time.monotonic()
        self._outstanding[receipt] = message.destination
        self._unflushed = True

    def _dialect_headers(self, message: OutgoingMessage) -> tuple[tuple[str, str], ...]:
        """The headers that this broker needs for the destination, without those that the row sets."""
        needed = self._dialect.send_headers(message.destination)
        if not needed:
            return ()
        own = {name for name, _ in message.headers}
        return tuple((name, value) for name, value in needed if name not in own)

    def _connected(self) -> Connection:
        if self._connection is None:
            options = self._options.connection
            self._connection = open_connection(options)
            self._dialect = dialect_for(self._connection.session.server, options.broker)
            self._pump = Pump(self._connection, self._keep_alive, self._lock, "stomp-sender")
        return self._connection

    def _keep_alive(self) -> None:
        """What the pump does: send what is queued, send heart-beats, and read what the broker sends."""
        assert self._connection is not None
        self._poll(self._connection, 0)

    def _stop_pump(self) -> None:
        if self._pump is not None:
            self._pump.stop()

    def _raise_failure(self) -> None:
        """Raise what failed in the pump, if anything did."""
        if self._pump is not None and self._pump.failure is not None:
            raise self._pump.failure

    def _await_receipts(self, connection: Connection, most: int) -> None:
        """Wait until at most ``most`` messages are unconfirmed, for ``receiptTimeout`` without progress.

        Receipts that have come are read first: this process may have been suspended, so time alone proves
        nothing.
        """
        while len(self._outstanding) > most:
            remaining = self._last_progress + self._options.receipt_timeout - time.monotonic()
            if not self._poll(connection, max(0.0, remaining)) and remaining <= 0:
                raise ReceiptTimeout(
                    f"{len(self._outstanding)} message(s), the first to {self._first_destination()}, were "
                    f"not confirmed by {connection.peer} within receiptTimeout "
                    f"({self._options.receipt_timeout:g}s); the batch is not written, and may be sent again"
                )

    def _poll(self, connection: Connection, timeout: float) -> bool:
        """Write and read; wait up to ``timeout`` seconds if there is nothing. Returns whether bytes moved."""
        events = connection.poll(timeout)
        self._handle(connection, events)
        flushed = self._unflushed and connection.written > self._written
        if flushed:
            self._last_progress = time.monotonic()
        self._written = connection.written
        self._unflushed = self._unflushed and connection.has_unsent
        return flushed or bool(events)

    def _handle(self, connection: Connection, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, ReceiptReceived):
                self._outstanding.pop(event.receipt_id, None)
                self.confirmed += 1
                self._last_progress = time.monotonic()
            elif isinstance(event, ErrorReceived):
                destination = self._outstanding.get(event.receipt_id or "")
                raise connection.error_of(event, "" if destination is None else f"SEND to {destination}")

    def _first_destination(self) -> str:
        return next(iter(self._outstanding.values()), "(none)")
