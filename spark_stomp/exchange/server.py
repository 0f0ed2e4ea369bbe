"""The Flight server beside the receivers. It serves raw frames and decides nothing."""

from __future__ import annotations

import hmac
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from spark_stomp.errors import StompError
from spark_stomp.exchange.pair import Pair
from spark_stomp.exchange.wire import AUTHORIZATION, SCHEMA, ExchangeAddress, RangeTicket, to_record
from spark_stomp.framebatch import FrameBatch, joined

_CLOSE = 0.5

ReadRange = Callable[[RangeTicket], Iterator[FrameBatch]]
Status = Callable[[], dict[str, Any]]


class ExchangeServer:
    """Serves ``do_get(range)`` and the action ``status`` to every client that presents the token.

    Listens on ``address``, on any free port if that has port 0; :attr:`address` has the port. If ``address``
    has a pair, a client must have it, too. ``read_range`` returns the frames of a ticket or raises a
    StompError, whose text reaches the task.
    """

    def __init__(self, address: ExchangeAddress, read_range: ReadRange, status: Status) -> None:
        self._lock = threading.Lock()
        self._unread: set[RangeTicket] = set()
        self._read_at: float | None = None
        self._flight = _Flight(address, read_range, status, self._served)
        self.address = replace(address, port=self._flight.port)

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
        address: ExchangeAddress,
        read_range: ReadRange,
        status: Status,
        on_served: Callable[[RangeTicket], None],
    ) -> None:
        tls = {} if address.pair is None else _mutual_tls(address.pair)
        super().__init__(
            address.location, middleware={"token": _TokenMiddlewareFactory(address.token)}, **tls
        )
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
        for batch in joined(batches):
            yield to_record(batch)
        self._on_served(wanted)

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[flight.Result]:
        if action.type != "status":
            raise flight.FlightServerError("no such action; there is: status")
        return [flight.Result(pa.py_buffer(json.dumps(self._status()).encode()))]

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        return [("status", "the receivers' counters as JSON")]


def _mutual_tls(pair: Pair) -> dict[str, Any]:
    """A client whose certificate is another is refused in the handshake, before anything of it is read."""
    return {
        "tls_certificates": [(pair.certificate, pair.key)],
        "root_certificates": pair.certificate,
        "verify_client": True,
    }


def _parsed(raw: bytes) -> RangeTicket:
    try:
        return RangeTicket.from_bytes(raw)
    except ValueError as error:
        raise flight.FlightServerError("the ticket is not a range of frames") from error


class _TokenMiddlewareFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}"

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str]]) -> None:
        presented = next((values[0] for key, values in headers.items() if key.lower() == AUTHORIZATION), "")
        # Compared in constant time: only the token protects the messages.
        if not hmac.compare_digest(presented.encode(), self._expected.encode()):
            raise flight.FlightUnauthenticatedError("the exchange token is missing or wrong")
