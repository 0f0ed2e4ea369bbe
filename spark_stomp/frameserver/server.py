"""The frame server: an Arrow Flight server beside the receivers, and the address on which it listens.

It listens on loopback if the master is local, else on an address of the network. Spark does not tell a source
its master. But the reader process is a child of the JVM, and the JVM's command line names the master that
``spark-submit``, ``pyspark`` or a Python program asked for.
"""

from __future__ import annotations

import errno
import hmac
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from spark_stomp.errors import OptionError, StompError
from spark_stomp.frame_batch import FrameBatch, joined
from spark_stomp.frameserver.client import (
    AUTHORIZATION,
    REPORT,
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
# Seconds between two attempts to listen. A judgement, not measured.
_LISTEN_POLL = 0.1

ReadRange = Callable[[RangeTicket], Iterator[FrameBatch]]
TakeReport = Callable[[str, str, str, int], None]


def _ignore(kind: str, destination: str, dialect: str, count: int) -> None:
    """Take no reports."""


def open_frame_server(
    options: SourceOptions, read_range: ReadRange, take_report: TakeReport = _ignore
) -> FrameServer:
    """The frame server of one run, with a new token. Raises OptionError if it cannot listen."""
    host, port = frame_server_host(options.frame_server_host), options.frame_server_port or 0
    address = FrameServerAddress(host, port, new_token(), _key_pair(options, host))
    try:
        await_free(host, port, _LAST_RUN)
        return FrameServer(address, read_range, take_report)
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
    ticket, or raises a StompError, whose text reaches the task. ``take_report`` is given what tasks report,
    in any thread: kind, destination, dialect and how many messages.
    """

    def __init__(
        self,
        address: FrameServerAddress,
        read_range: ReadRange,
        take_report: TakeReport = _ignore,
    ) -> None:
        self._lock = threading.Lock()
        self._unread: set[RangeTicket] = set()
        self._read_at: float | None = None
        self._flight = _Flight(address, read_range, take_report, self._served)
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
        take_report: TakeReport,
        on_served: Callable[[RangeTicket], None],
    ) -> None:
        tls = {} if address.key_pair is None else _mutual_tls(address.key_pair)
        super().__init__(
            address.location, middleware={"token": _TokenMiddlewareFactory(address.token)}, **tls
        )
        self._read_range = read_range
        self._take_report = take_report
        self._on_served = on_served

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        wanted = _parsed(ticket.ticket)
        try:
            batches = self._read_range(wanted)
        except StompError as error:
            raise flight.FlightServerError(str(error)) from error
        return flight.GeneratorStream(SCHEMA, self._records(wanted, batches))

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[flight.Result]:
        if action.type != REPORT:
            raise flight.FlightServerError(f"there is no action {action.type}")
        for kind, destination, dialect, count in json.loads(action.body.to_pybytes()):
            self._take_report(kind, destination, dialect, count)
        return []

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


# --- the address

_LOOPBACK = "127.0.0.1"
# Addresses for documentation only (RFC 5737, RFC 3849): outside this machine, and no host has them. IPv4
# comes first, as Spark prefers it.
_ELSEWHERE = {socket.AF_INET: ("192.0.2.1", 9), socket.AF_INET6: ("2001:db8::1", 9)}
_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
# The options of spark-submit that take no value.
_FLAGS = frozenset({"--help", "-h", "--supervise", "--usage-error", "--verbose", "-v", "--version"})
# Not "local-cluster[...]", which is for Spark's own tests and runs tasks in other processes.
_LOCAL = re.compile(r"local(\[.*\])?")


def frame_server_host(option: str | None) -> str:
    """The address on which the frame server listens.

    It is the first of these that exists: the option ``frameServerHost``, ``SPARK_LOCAL_IP``, loopback if the
    master is local, the machine's own address, loopback. Spark chooses the addresses of its own services like
    this. So tasks that reach the driver's block manager also reach the frame server. An IPv6 address may be
    in brackets, as in a URL.
    """
    chosen = option or os.environ.get("SPARK_LOCAL_IP")
    if chosen:
        return chosen.strip("[]")
    if master_is_local():
        return _LOOPBACK
    found = filter(_reachable, (*_named_addresses(), *_outward_addresses()))
    return min(found, key=lambda one: ip_address(one).version, default=_LOOPBACK)


def _named_addresses() -> Iterator[str]:
    """The addresses of the machine's own name, IPv4 first. Debian gives it 127.0.1.1."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return
    for wanted in _ELSEWHERE:
        yield from (str(address[0]) for family, *_, address in found if family == wanted)


def _outward_addresses() -> Iterator[str]:
    """The source addresses of packets that leave this machine, IPv4 first."""
    for family, elsewhere in _ELSEWHERE.items():
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                # Connecting a datagram socket chooses its source address and sends nothing.
                probe.connect(elsewhere)
                yield str(probe.getsockname()[0])
        except OSError:
            continue


def _reachable(address: str) -> bool:
    """Whether other machines may reach this address: neither loopback nor link-local."""
    parsed = ip_address(address)
    return not (parsed.is_loopback or parsed.is_link_local)


def await_free(host: str, port: int, timeout: float) -> None:
    """Wait until a server can listen on ``host`` and ``port``. Port 0 means any free port.

    Raises OSError if none can within ``timeout`` seconds, with the reason, which gRPC does not give.
    """
    family, kind, protocol, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    deadline = time.monotonic() + timeout
    while True:
        try:
            with socket.socket(family, kind, protocol) as probe:
                # gRPC sets this option too: connections of an ended server do not block the port.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(at)
                return
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
        time.sleep(_LISTEN_POLL)


def master_is_local() -> bool:
    """Whether the process that started this one names a local master and no other. Always False off Linux."""
    try:
        raw = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    except OSError:
        return False
    masters = list(_masters(os.fsdecode(raw).split("\0")))
    return bool(masters) and all(_LOCAL.fullmatch(master) for master in masters)


def _masters(command: Sequence[str]) -> Iterator[str]:
    """The masters that a spark-submit command line names. The program's own arguments are ignored."""
    words = iter(command[command.index(_SUBMIT) + 1 :] if _SUBMIT in command else ())
    for word in words:
        if not word.startswith("-"):
            return
        option, given, value = word.partition("=")
        if option in _FLAGS:
            continue
        value = value if given else next(words, "")
        if option == "--master":
            yield value
        elif option in ("--conf", "-c") and value.startswith("spark.master="):
            yield value.partition("=")[2]
