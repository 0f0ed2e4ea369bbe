"""What a task and the frame server send to each other, and how a task fetches its frames.

A task sends a ticket and a token. Frame batches come back as Arrow record batches of one row. The key pair is
a self-signed certificate and its key, new for each run of a query: both sides present it and accept no other.
So there is no authority, no host name and no expiry to manage. The key is in memory only.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.flight as flight

from spark_stomp.errors import FrameServerError
from spark_stomp.frame_batch import Ends, FrameBatch
from spark_stomp.logs import get_log
from spark_stomp.quoting import host_port

log = get_log(__name__)

AUTHORIZATION = "authorization"
REPORT = "report"
"""The Flight action by which a task reports."""
# Seconds for which a task waits until its report has been taken. A judgement, not measured.
_REPORT_TIMEOUT = 5.0
# The id of a log, and two numbers that fit into 64 bits.
_TICKET = re.compile(rb"([!-~]{1,64}) (\d{1,18}) (\d{1,18})")

# The name in the certificate, whatever address the frame server has.
NAME = "spark-stomp-frame-server"
# A key pair ends with its run, because no other frame server accepts it. So the certificate needs no end, and
# clocks need not agree. RFC 5280, section 4.1.2.5, gives this time for a certificate without an end.
_VALID_FROM = datetime(2000, 1, 1, tzinfo=timezone.utc)
_VALID_UNTIL = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)

SCHEMA = pa.schema(
    [
        pa.field("first_number", pa.int64(), nullable=False),
        pa.field("received_at", pa.binary(), nullable=False),
        pa.field("version", pa.string(), nullable=False),
        pa.field("dialect", pa.string(), nullable=False),
        pa.field("receiver", pa.string(), nullable=False),
        pa.field("malformed", pa.string()),
        pa.field("ends", pa.binary(), nullable=False),
        pa.field("data", pa.large_binary(), nullable=False),
    ]
)


def to_record(batch: FrameBatch) -> pa.RecordBatch:
    """A record batch of one row with the frames of ``batch``.

    ``data`` holds the bytes from the socket. ``ends`` and ``received_at`` (one time for all frames, or one
    for each) are little-endian 64-bit integers.
    """
    number, reason = pa.py_buffer(_to_bytes(batch.first_number)), batch.malformed
    return pa.RecordBatch.from_arrays(
        [
            pa.Array.from_buffers(pa.int64(), 1, [None, number]),
            _one(pa.binary(), _to_bytes(batch.received_at)),
            _one(pa.string(), batch.version.encode()),
            _one(pa.string(), batch.dialect.encode()),
            _one(pa.string(), batch.receiver.encode()),
            pa.nulls(1, pa.string()) if reason is None else _one(pa.string(), reason.encode()),
            _one(pa.binary(), _to_bytes(batch.ends)),
            _one(pa.large_binary(), batch.data),
        ],
        schema=SCHEMA,
    )


def _one(kind: pa.DataType, value: bytes | memoryview) -> pa.Array:
    """An array of one value, whose bytes are not copied.

    ``pa.array`` imports pandas if that is installed: 0.3 s of processor time before the first row, and 50 MiB
    (November 2026).
    """
    data = pa.py_buffer(value)
    offsets = np.array([0, data.size], dtype="<i8" if kind == pa.large_binary() else "<i4")
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(offsets), data])


def from_record(record: pa.RecordBatch) -> FrameBatch:
    """The inverse of :func:`to_record`. ``data`` is a view of the record's memory."""
    ends, times = (_integers(record.column(name)) for name in ("ends", "received_at"))
    return FrameBatch(
        data=memoryview(record.column("data")[0].as_buffer()),
        ends=ends,
        first_number=record.column("first_number")[0].as_py(),
        received_at=times if len(times) > 1 else int(times[0]),
        version=record.column("version")[0].as_py(),
        dialect=record.column("dialect")[0].as_py(),
        receiver=record.column("receiver")[0].as_py(),
        malformed=record.column("malformed")[0].as_py(),
    )


def _to_bytes(integers: int | Ends) -> bytes:
    return np.asarray(integers, dtype="<i8").tobytes()


def _integers(column: pa.BinaryArray) -> npt.NDArray[np.int64]:
    return np.frombuffer(column[0].as_buffer(), dtype="<i8")


# --- the token, the key pair, the address and the ticket


def new_token() -> str:
    """A token for one run of a query: 256 random bits, as text."""
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class KeyPair:
    """The key pair of one run: a certificate and its key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


def new_key_pair() -> KeyPair:
    """A new key pair, on the curve P-256."""
    # Imported here: tasks never make a key pair, and this import takes 0.1 s (November 2026).
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_VALID_FROM)
        .not_valid_after(_VALID_UNTIL)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    unencrypted = serialization.NoEncryption()
    return KeyPair(
        certificate.public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, unencrypted),
    )


@dataclass(frozen=True)
class FrameServerAddress:
    """Where a frame server listens, and what a client must present: the token and, with TLS, the key pair.

    The ``repr`` does not show the token and the key pair.
    """

    host: str
    port: int
    token: str = field(repr=False)
    key_pair: KeyPair | None = field(default=None, repr=False)

    @property
    def host_port(self) -> str:
        """``host:port``, for texts."""
        return host_port(self.host, self.port)

    @property
    def location(self) -> str:
        """The address as a Flight location."""
        return f"grpc+{'tcp' if self.key_pair is None else 'tls'}://{self.host_port}"


@dataclass(frozen=True)
class RangeTicket:
    """The frames ``[low, high)`` of the log with the id ``log``, as a task asks for them."""

    log: str
    low: int
    high: int

    def to_bytes(self) -> bytes:
        return f"{self.log} {self.low} {self.high}".encode()

    @classmethod
    def from_bytes(cls, raw: bytes) -> RangeTicket:
        """The inverse of :meth:`to_bytes`. Raises ValueError for any other bytes."""
        match = _TICKET.fullmatch(raw)
        if match is None:
            raise ValueError("not the id of a log and two numbers")
        log, low, high = match.groups()
        return cls(log.decode(), int(low), int(high))


# --- how a task fetches its frames

MOST_CONNECTIONS = 4
"""How many connections a worker keeps, over all queries. A new one takes 2 ms of processor time, 10 ms on a
busy machine, and more with TLS (November 2026). Four is a judgement."""

IDLE = 60.0
"""Seconds after which an unused connection ends. The next read makes a new one. A judgement, not measured."""


# Flight raises OSError for an error of the server that takes more than some 7,000 octets of metadata. What is
# not ASCII takes at least six there (pyarrow 26.0.1, November 2026).
_FAILURES = (OSError, pa.ArrowException)


def fetch(address: FrameServerAddress, ticket: RangeTicket) -> Iterator[FrameBatch]:
    """Yield the frames of ``ticket``, batch by batch, in order.

    Raises FrameServerError if the frame server cannot be reached, refuses, breaks off, or delivers anything
    but the whole range. A task that got less must fail, or messages without a row would be ACKed.
    """
    expected = ticket.low
    try:
        for batch in _stream(address, ticket):
            if batch.first_number != expected:
                break
            expected += len(batch.ends)
            yield batch
    except _FAILURES as error:
        _connections.forget(address)
        raise FrameServerError(
            f"frames [{ticket.low}, {ticket.high}) of log {ticket.log} could not be fetched from "
            f"{address.host_port}: {error}"
        ) from error
    if expected != ticket.high:
        raise FrameServerError(
            f"the frame server at {address.host_port} delivered frames up to {expected} of "
            f"[{ticket.low}, {ticket.high}), log {ticket.log}"
        )


def _stream(address: FrameServerAddress, ticket: RangeTicket) -> Iterator[FrameBatch]:
    client = _connections.to(address)
    for chunk in client.do_get(flight.Ticket(ticket.to_bytes()), _call_options(address)):
        yield from_record(chunk.data)


def _call_options(address: FrameServerAddress, timeout: float | None = None) -> flight.FlightCallOptions:
    """Options with the token; ``timeout`` in seconds, None: none."""
    headers = [(AUTHORIZATION.encode(), f"Bearer {address.token}".encode())]
    return flight.FlightCallOptions(timeout, headers=headers)


def report(address: FrameServerAddress, counts: Sequence[tuple[str, str, str, int]]) -> None:
    """Tell the reader process what a task has noticed: kind, destination, dialect and how many messages.

    Nothing depends on it, so it may fail, and does if it takes longer than five seconds.
    """
    action, options = (
        flight.Action(REPORT, json.dumps(counts).encode()),
        _call_options(address, _REPORT_TIMEOUT),
    )
    try:
        list(_connections.to(address).do_action(action, options))
    except _FAILURES as error:
        _connections.forget(address)
        log.debug("what a task noticed could not be reported: %s", error)


class _Connections:
    """The connections that this process keeps from task to task. Thread-safe.

    The connection that was used least recently is forgotten first. A read keeps a reference to its client,
    and a connection ends when nothing refers to its client any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[FrameServerAddress, flight.FlightClient] = {}

    def to(self, address: FrameServerAddress) -> flight.FlightClient:
        with self._lock:
            client = self._clients.pop(address, None) or _client(address)
            self._clients[address] = client
            while len(self._clients) > MOST_CONNECTIONS:
                del self._clients[next(iter(self._clients))]
            return client

    def forget(self, address: FrameServerAddress) -> None:
        """Have the next read make a new connection. After a failure gRPC would wait before it tries again."""
        with self._lock:
            self._clients.pop(address, None)

    def leave_to_the_parent(self) -> None:
        """Forget the clients in a forked process without closing them.

        gRPC's threads exist only in the parent. So the clients cannot be used here, and a close would never
        return. Nor may Python close them when this process ends.
        """
        for client in self._clients.values():
            # This reference is never released, so the client is never closed.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        self._lock, self._clients = threading.Lock(), {}


_connections = _Connections()
# A user's code in the same worker may fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_connections.leave_to_the_parent)


def _client(address: FrameServerAddress) -> flight.FlightClient:
    tls: dict[str, Any] = {}
    if address.key_pair is not None:
        tls = {
            "tls_root_certs": address.key_pair.certificate,
            "cert_chain": address.key_pair.certificate,
            "private_key": address.key_pair.key,
            "override_hostname": NAME,
        }
    channel = [
        # Ignore a proxy that the environment names. The frame server is never behind one.
        ("grpc.enable_http_proxy", 0),
        ("grpc.client_idle_timeout_ms", int(IDLE * 1000)),
        # Without this, clients of one address share a connection and its failure.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    return flight.connect(address.location, generic_options=channel, **tls)
