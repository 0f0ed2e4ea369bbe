"""Sends messages over one connection, with a bounded number of them unconfirmed."""

from __future__ import annotations

import logging
import time
from types import TracebackType

from spark_stomp.arrow import OutgoingMessage
from spark_stomp.dialects import dialect_for
from spark_stomp.errors import ReceiptTimeout, StompError
from spark_stomp.options import SinkOptions
from spark_stomp.protocol import ErrorReceived, Event, ReceiptReceived
from spark_stomp.transport import Connection, open_connection
from spark_stomp.transport.refusals import broker_error

__all__ = ["Sender"]

log = logging.getLogger(__name__)

_GOODBYE = 5.0
_FLUSH_EVERY = 64


class Sender:
    """A connection that confirms: every SEND asks for a receipt.

    One receipt for a whole window would be cheaper, but only says that the earlier frames were *received*
    (STOMP 1.2, "RECEIPT"): RabbitMQ confirms each SEND by itself and in any order. So each SEND has its own,
    and at most ``receiptWindow`` of them are outstanding.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._connection: Connection | None = None
        self._dialect = dialect_for(None)
        self._outstanding: dict[str, str] = {}
        self._last_receipt = time.monotonic()
        self.confirmed = 0

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def send(self, message: OutgoingMessage) -> None:
        """Queue ``message``; waits while ``receiptWindow`` messages are unconfirmed.

        Raises DestinationRefused, ReceiptTimeout, or what the connection raises. Connects at the first call.
        """
        connection = self._connected()
        while len(self._outstanding) >= self._options.receipt_window:
            self._take_receipts(connection)
        connection.require_open()
        receipt = connection.session.new_receipt()
        headers = message.headers + self._further_headers(message)
        connection.session.send(message.destination, message.body, headers=headers, receipt=receipt)
        if not self._outstanding:
            self._last_receipt = time.monotonic()
        self._outstanding[receipt] = message.destination
        if len(self._outstanding) % _FLUSH_EVERY == 0:
            self._handle(connection, connection.poll(0))

    def finish(self) -> int:
        """Wait for every receipt, then DISCONNECT; returns how many messages the broker confirmed."""
        connection = self._connection
        if connection is None:
            return 0
        while self._outstanding:
            self._take_receipts(connection)
        try:
            connection.disconnect(_GOODBYE)
        except StompError as error:
            # Every message is confirmed; sending them again because of the goodbye would only double them.
            log.info("the sink did not end with an orderly DISCONNECT: %s", error)
        return self.confirmed

    def _further_headers(self, message: OutgoingMessage) -> tuple[tuple[str, str], ...]:
        """What this broker needs to know of the destination, unless the row says it."""
        given = {name for name, _ in message.headers}
        needed = self._dialect.send_headers(message.destination)
        return tuple((name, value) for name, value in needed if name not in given)

    def _connected(self) -> Connection:
        if self._connection is None:
            options = self._options.connection
            self._connection = open_connection(options)
            self._dialect = dialect_for(self._connection.session.server, options.broker)
            self._last_receipt = time.monotonic()
        return self._connection

    def _take_receipts(self, connection: Connection) -> None:
        remaining = self._last_receipt + self._options.receipt_timeout - time.monotonic()
        if remaining <= 0:
            raise ReceiptTimeout(
                f"{len(self._outstanding)} message(s), the first to {self._first_destination()}, were not "
                f"confirmed by {connection.peer} within receiptTimeout ({self._options.receipt_timeout:g}s); "
                "the batch is not written, and may be sent again"
            )
        self._handle(connection, connection.poll(remaining))

    def _handle(self, connection: Connection, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, ReceiptReceived):
                self._outstanding.pop(event.receipt_id, None)
                self.confirmed += 1
                self._last_receipt = time.monotonic()
            elif isinstance(event, ErrorReceived):
                destination = self._outstanding.get(event.receipt_id or "", self._first_destination())
                raise broker_error(event, connection.peer, f"SEND to {destination}")

    def _first_destination(self) -> str:
        return next(iter(self._outstanding.values()), "(none)")
