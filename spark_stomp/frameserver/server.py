"""The frame server itself: an Arrow Flight server beside the receivers, which serves raw frames.

:func:`open_frame_server` opens it according to the options: on which address, and with or without TLS.
"""

from __future__ import annotations

import errno
import hmac
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from spark_stomp.errors import OptionError, StompError
from spark_stomp.frame_batch import FrameBatch, joined
from spark_stomp.frameserver.address import await_free, frame_server_host
from spark_stomp.frameserver.wire import (
    AUTHORIZATION,
    SCHEMA,
    FrameServerAddress,
    KeyPair,
    RangeTicket,
    new_key_pair,
    new_token,
    to_record,
)
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.options.endpoint import is_loopback

log = get_log(__name__)

# Seconds for which close() waits until the server has shut down. A judgement, not measured.
_CLOSE = 0.5
# Seconds to wait for a port that is in use: the last run of the query may be about to close. A judgement.
_LAST_RUN = 10.0

ReadRange = Callable[[RangeTicket], Iterator[FrameBatch]]


def open_frame_server(options: SourceOptions, read_range: ReadRange) -> FrameServer:
    """The frame server of one run, with a new token. Raises OptionError if it cannot listen."""
    host, port = frame_server_host(options.frame_server_host), options.frame_server_port or 0
    address = FrameServerAddress(host, port, new_token(), _key_pair(options, host))
    try:
        await_free(host, port, _LAST_RUN)
        return FrameServer(address, read_range)
    except (OSError, pa.ArrowException) as error:
        raise OptionError(_problem(host, port, error)) from error


def _key_pair(options: SourceOptions, host: str) -> KeyPair | None:
    if options.frame_server_tls == "true" or (options.frame_server_tls == "auto" and not is_loopback(host)):
        return new_key_pair()
    if not is_loopback(host):
        log.warning(
            "frameServerTls = false: messages go over the network from %s to the tasks as plain text", host
        )
    return None


def _problem(host: str, port: int, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"frameServerPort = {port} is in use on {host}, by another program or query. Sources that are "
            "read at the same time need different ports. Without frameServerPort each takes a free one"
        )
    return (
        f"the frame server cannot listen on {host}, {f'port {port}' if port else 'any port'}: {error}. Set "
        "frameServerHost to an address of the driver's machine that the executors can reach"
    )


class FrameServer:
    """Serves ``do_get(range)`` to every client that presents the token.

    It listens on ``address``. Port 0 means any free port; :attr:`address` has the port that was taken. If
    ``address`` has a key pair, a client must present the same one. ``read_range`` returns the frames of a
    ticket, or raises a StompError, whose text reaches the task.
    """

    def __init__(self, address: FrameServerAddress, read_range: ReadRange) -> None:
        self._lock = threading.Lock()
        self._unread: set[RangeTicket] = set()
        self._read_at: float | None = None
        self._flight = _Flight(address, read_range, self._served)
        self.address = replace(address, port=self._flight.port)

    def expect(self, tickets: Iterable[RangeTicket]) -> None:
        """Expect ``tickets`` from now on: :attr:`read_at` becomes None until all of them have been read."""
        with self._lock:
            self._unread, self._read_at = set(tickets), None

    @property
    def read_at(self) -> float | None:
        """The monotonic time at which all expected tickets had been read to their ends; None before that."""
        return self._read_at

    def _served(self, ticket: RangeTicket) -> None:
        with self._lock:
            self._unread.discard(ticket)
            if not self._unread and self._read_at is None:
                self._read_at = time.monotonic()

    def close(self) -> None:
        """Stop serving, within half a second. Does not wait longer for a task that takes no frames."""
        closing = threading.Thread(target=self._flight.shutdown, name="stomp-frame-server-close", daemon=True)
        closing.start()
        closing.join(_CLOSE)


class _Flight(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow ships no types
    def __init__(
        self,
        address: FrameServerAddress,
        read_range: ReadRange,
        on_served: Callable[[RangeTicket], None],
    ) -> None:
        tls = {} if address.key_pair is None else _mutual_tls(address.key_pair)
        super().__init__(
            address.location, middleware={"token": _TokenMiddlewareFactory(address.token)}, **tls
        )
        self._read_range = read_range
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


def _mutual_tls(key_pair: KeyPair) -> dict[str, Any]:
    """Server arguments that refuse a client with another certificate in the handshake."""
    return {
        "tls_certificates": [(key_pair.certificate, key_pair.key)],
        "root_certificates": key_pair.certificate,
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
        # Compared in constant time, so that nobody can guess the token character by character.
        if not hmac.compare_digest(presented.encode(), self._expected.encode()):
            raise flight.FlightUnauthenticatedError("the frame server token is missing or wrong")
