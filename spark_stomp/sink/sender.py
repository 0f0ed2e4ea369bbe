"""Sends messages over one connection, with a bounded number of them unconfirmed.

Between two messages their source may compute for long. The connection lives on then: a pump sends what is
queued, keeps the heart-beats up and takes in what the broker says.
"""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType

from spark_stomp.arrow import OutgoingMessage
from spark_stomp.brokers import dialect_for
from spark_stomp.errors import ReceiptTimeout, StompError
from spark_stomp.options import SinkOptions
from spark_stomp.protocol import ErrorReceived, Event, ReceiptReceived
from spark_stomp.sink.pump import Pump
from spark_stomp.transport import Connection, open_connection

__all__ = ["Sender"]

log = logging.getLogger(__name__)

_GOODBYE = 5.0
# While messages keep coming, they are sent in lots of this many, and the pump has nothing to do.
_FLUSH_EVERY = 64
# How often the pump looks, in seconds; so much later a message goes out at the most when no other follows.
_TICK = 0.05


class Sender:
    """A connection that confirms: every SEND asks for a receipt.

    One receipt for a whole window would be cheaper, but only says that the earlier frames were *received*
    (STOMP 1.2, "RECEIPT"): RabbitMQ confirms each SEND by itself and in any order. So each SEND has its own,
    and at most ``receiptWindow`` of them are outstanding.

    One thread calls the methods. What breaks between two calls is raised by the next one.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._connection: Connection | None = None
        self._dialect = dialect_for(None)
        # Everything below is touched under this lock only, as the pump does it as well.
        self._lock = threading.Lock()
        self._pump: Pump | None = None
        self._failure: StompError | None = None
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

        Raises DestinationRefused, ReceiptTimeout, or what the connection raises. Connects at the first call.
        """
        connection = self._connected()
        with self._lock:
            self._check()
            if len(self._outstanding) >= self._options.receipt_window:
                self._await_receipts(connection, self._options.receipt_window - 1)
            connection.require_open()
            self._queue(connection, message)
            if len(self._outstanding) % _FLUSH_EVERY == 0:
                self._round(connection, 0)

    def finish(self) -> int:
        """Wait for every receipt, then DISCONNECT; returns how many messages the broker confirmed.

        Raises what :meth:`send` raises.
        """
        connection = self._connection
        if connection is None:
            return 0
        self._stop_pump()
        self._check()
        self._await_receipts(connection, 0)
        try:
            connection.disconnect(_GOODBYE)
        except StompError as error:
            # Every message is confirmed; sending them again because of the goodbye would only double them.
            log.info("the sink did not end with an orderly DISCONNECT: %s", error)
        return self.confirmed

    def _queue(self, connection: Connection, message: OutgoingMessage) -> None:
        receipt = connection.session.new_receipt()
        headers = message.headers + self._further_headers(message)
        connection.session.send(message.destination, message.body, headers=headers, receipt=receipt)
        if not self._outstanding:
            self._last_progress = time.monotonic()
        self._outstanding[receipt] = message.destination
        self._unflushed = True

    def _further_headers(self, message: OutgoingMessage) -> tuple[tuple[str, str], ...]:
        """What this broker needs to know of the destination, unless the row says it."""
        needed = self._dialect.send_headers(message.destination)
        if not needed:
            return ()
        given = {name for name, _ in message.headers}
        return tuple((name, value) for name, value in needed if name not in given)

    def _connected(self) -> Connection:
        if self._connection is None:
            options = self._options.connection
            self._connection = open_connection(options)
            self._dialect = dialect_for(self._connection.session.server, options.broker)
            self._pump = Pump(self._look_after, f"stomp-sender-{self._connection.peer}")
        return self._connection

    def _stop_pump(self) -> None:
        if self._pump is not None:
            self._pump.stop()
            self._pump = None

    def _look_after(self) -> float | None:
        """What the pump does: one round, unless the connection is over; returns when the next one is due."""
        connection = self._connection
        assert connection is not None
        with self._lock:
            try:
                self._round(connection, 0)
            except StompError as error:
                self._failure = error
                return None
            now = time.monotonic()
            deadline = connection.session.deadline(now)
        return _TICK if deadline is None else max(0.0, min(_TICK, deadline - now))

    def _check(self) -> None:
        """Raise what broke while the pump looked after the connection."""
        if self._failure is not None:
            raise self._failure

    def _await_receipts(self, connection: Connection, most: int) -> None:
        """Until at most ``most`` messages are unconfirmed, for ``receiptTimeout`` without progress.

        Only a look at the connection shows that nothing came: this thread may have been away for longer.
        """
        while len(self._outstanding) > most:
            remaining = self._last_progress + self._options.receipt_timeout - time.monotonic()
            if not self._round(connection, max(0.0, remaining)) and remaining <= 0:
                raise ReceiptTimeout(
                    f"{len(self._outstanding)} message(s), the first to {self._first_destination()}, were "
                    f"not confirmed by {connection.peer} within receiptTimeout "
                    f"({self._options.receipt_timeout:g}s); the batch is not written, and may be sent again"
                )

    def _round(self, connection: Connection, timeout: float) -> bool:
        """Move bytes, for up to ``timeout`` seconds while there are none; whether anything moved."""
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
                destination = self._outstanding.get(event.receipt_id or "", self._first_destination())
                raise connection.error_of(event, f"SEND to {destination}")

    def _first_destination(self) -> str:
        return next(iter(self._outstanding.values()), "(none)")
