"""The Flight server beside the receivers. It serves raw frames and decides nothing."""

from __future__ import annotations

import hmac
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from spark_stomp.errors import StompError
from spark_stomp.exchange.wire import AUTHORIZATION, SCHEMA, ExchangeAddress, RangeTicket, to_record
from spark_stomp.framebatch import FrameBatch

_CLOSE = 0.5
_LOOPBACK = "127.0.0.1"
# An address for documentation only (RFC 5737): outside the machine, and no host has it.
_ELSEWHERE = ("192.0.2.1", 9)

ReadRange = Callable[[RangeTicket], Iterator[FrameBatch]]
Status = Callable[[], dict[str, Any]]


class ExchangeServer:
    """Serves ``do_get(range)`` and the action ``status`` to every client that presents the token.

    ``read_range`` returns the frames of a ticket or raises a StompError, whose text reaches the task.
    """

    def __init__(self, host: str, token: str, read_range: ReadRange, status: Status) -> None:
        self._lock = threading.Lock()
        self._unread: set[RangeTicket] = set()
        self._read_at: float | None = None
        location = ExchangeAddress(host, 0, token).location
        middleware = {"token": _TokenMiddlewareFactory(token)}
        self._flight = _Flight(location, read_range, status, self._served, middleware)
        self.address = ExchangeAddress(host, self._flight.port, token)

    def expect(self, tickets: Iterable[RangeTicket]) -> None:
        """From now on :attr:`read_at` refers to these."""
        with self._lock:
            self._unread, self._read_at = set(tickets), None

    @property
    def read_at(self) -> float | None:
        """When the last of the expected tickets was read to its end, monotonic; None if not all were."""
        return self._read_at

    def _served(self, ticket: RangeTicket) -> None:
        with self._lock:
            self._unread.discard(ticket)
            if not self._unread and self._read_at is None:
                self._read_at = time.monotonic()

    def close(self) -> None:
        """Stop serving. Does not wait for a task that holds a read open and takes nothing."""
        closing = threading.Thread(target=self._flight.shutdown, name="stomp-exchange-close", daemon=True)
        closing.start()
        closing.join(_CLOSE)


class _Flight(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow ships no types
    def __init__(
        self,
        location: str,
        read_range: ReadRange,
        status: Status,
        on_served: Callable[[RangeTicket], None],
        middleware: dict[str, flight.ServerMiddlewareFactory],
    ) -> None:
        super().__init__(location, middleware=middleware)
        self._read_range = read_range
        self._status = status
        self._on_served = on_served

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        wanted = _parsed(ticket.ticket)
        try:
            batches = self._read_range(wanted)
        except StompError as error:
            raise flight.FlightServerError(str(error)) from error
        return flight.GeneratorStream(SCHEMA, self._records(wanted, batches))

    def _records(self, wanted: RangeTicket, batches: Iterator[FrameBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield to_record(batch)
        self._on_served(wanted)

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[flight.Result]:
        if action.type != "status":
            raise flight.FlightServerError(f"no such action: {action.type}; there is: status")
        return [flight.Result(pa.py_buffer(json.dumps(self._status()).encode()))]

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        return [("status", "the receivers' counters as JSON")]


def _parsed(raw: bytes) -> RangeTicket:
    try:
        return RangeTicket.from_bytes(raw)
    except (ValueError, TypeError) as error:
        raise flight.FlightServerError("the ticket is not a range of frames") from error


class _TokenMiddlewareFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}"

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str]]) -> None:
        presented = next((values[0] for key, values in headers.items() if key.lower() == AUTHORIZATION), "")
        # Compared in constant time: only the token protects the messages.
        if not hmac.compare_digest(presented.encode(), self._expected.encode()):
            raise flight.FlightUnauthenticatedError("the exchange token is missing or wrong")


def exchange_host(option: str | None) -> str:
    """The ``exchangeHost`` option, else ``SPARK_LOCAL_IP``, else the machine's own address, else loopback.

    This follows what Spark does for its own services: the tasks that reach the driver's block manager reach
    the exchange as well.
    """
    chosen = option or os.environ.get("SPARK_LOCAL_IP")
    if chosen:
        return chosen
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        return _LOOPBACK
    # Debian gives a machine's name the address 127.0.1.1, which no other machine reaches.
    return _outward_address() if named.startswith("127.") else named


def _outward_address() -> str:
    """The source address of packets that leave this machine; loopback if none can leave."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket chooses its source address and sends nothing.
            probe.connect(_ELSEWHERE)
            address: str = probe.getsockname()[0]
    except OSError:
        return _LOOPBACK
    return address
