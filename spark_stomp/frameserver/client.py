"""What a task and the frame server say to each other, and how a task fetches its frames.

A task connects and makes one request after another. A request is a line: the token, and a ticket or a report.
The answer is frame batches (:func:`to_wire`) and an end, which has a text if it is an error. The frames go
from the log to the socket, and from the socket into memory that is used again: no copy, and no new pages.

The key pair is a self-signed certificate and its key, new for each run of a query: both sides present it and
accept no other. So there is no authority, no host name and no expiry to manage. On Linux the key is in memory
only.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import select
import socket
import ssl
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

import numpy as np
import numpy.typing as npt

from spark_stomp.errors import FrameServerError
from spark_stomp.frame_batch import Ends, FrameBatch
from spark_stomp.logs import get_log
from spark_stomp.quoting import host_port
from spark_stomp.transport.stream import as_file

log = get_log(__name__)

REPORT = b"report"
"""The first word of a report; JSON follows. A ticket begins with the id of a log, which is another word."""
# Seconds for which a task waits for a connection.
_CONNECT_TIMEOUT = 20.0
# When TCP asks whether the other machine is there: after a minute of silence, then every 20 seconds, three
# times. Linux would ask after two hours.
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}
# Seconds for which a task waits until its report has been taken.
_REPORT_TIMEOUT = 5.0
# Seconds of silence after which a task asks whether the frame server still answers. A store may be slow.
_SILENCE = 30.0
# The id of a log, and two numbers that fit into 64 bits.
_TICKET = re.compile(rb"([!-~]{1,64}) (\d{1,18}) (\d{1,18})")

# The name in the certificate, whatever address the frame server has.
NAME = "spark-stomp-frame-server"
# A key pair ends with its run, because no other frame server accepts it. So the certificate needs no end, and
# clocks need not agree. RFC 5280, section 4.1.2.5, gives this time for a certificate without an end.
_VALID_FROM = datetime(2000, 1, 1, tzinfo=timezone.utc)
_VALID_UNTIL = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)

# Bytes of a piece that is sent by itself; smaller ones are copied together.
_SENT_ALONE = 64 << 10
# The format; the number of the first frame; the bytes of times, ends, text and frames, which follow.
_HEAD = struct.Struct("<4sqQQQQ")
_FORMAT = b"SFB1"
# Bytes of each part are less: of the frames, whose batch has less than 2 GiB, and of the text.
_TOO_MANY = 1 << 31
_TOO_LONG = 1 << 24
_ANOTHER = "what listens there is no frame server of this release"


def to_wire(batches: Sequence[FrameBatch]) -> Iterator[bytes | memoryview]:
    """Batches that can be joined, as the frame server sends them: what is said of the frames, and the frames.

    ``ends`` and ``received_at`` (one time for all frames, or one for each) are little-endian 64-bit integers.
    """
    pieces = [batch.data for batch in batches]
    size = sum(map(len, pieces))
    batch = FrameBatch.join(batches, b"")
    text = json.dumps([batch.version, batch.dialect, batch.receiver, batch.malformed]).encode()
    times, ends = _to_bytes(batch.received_at), _to_bytes(batch.ends)
    yield b"".join(
        (_HEAD.pack(_FORMAT, batch.first_number, len(times), len(ends), len(text), size), times, ends, text)
    )
    yield from pieces if size >= _SENT_ALONE * len(pieces) else [b"".join(pieces)]


def end_of_answer(error: str = "") -> bytes:
    """The end of an answer; of one that is not whole, with the text of the ``error``."""
    text = error.encode(errors="replace")
    return _HEAD.pack(_FORMAT, 0, 0, 0, len(text), 0) + text


def _to_bytes(integers: int | Ends) -> bytes:
    return np.asarray(integers, dtype="<i8").tobytes()


# --- memory that is used again

_LEAST = 1 << 20
"""Bytes of the smallest piece of memory, which most frame batches fit into."""
_KEPT = 8 << 20
"""Bytes of the largest piece that is kept."""
_BELIEVED = 32 << 20
"""Bytes for which memory is taken before they come. What is larger costs twice the time."""
_free: deque[npt.NDArray[np.uint8]] = deque(maxlen=4)
"""Pieces that nothing refers to."""


def _memory(size: int) -> memoryview:
    """Memory for ``size`` bytes, which is used again when nothing refers to it any more.

    With bodies of 10 KB, new pages for each batch were a third of a worker's processor time (November 2026).
    """
    try:
        while len(piece := _free.pop()) < size:
            pass
    except IndexError:
        piece = np.empty(max(size, _LEAST), np.uint8)
    used = piece[:size]
    if len(piece) <= _KEPT:
        weakref.finalize(used, _free.append, piece).atexit = False
    return used.data


def _unused(size: int) -> memoryview:
    """Memory for what is short, and may be held for longer than the frames."""
    return memoryview(bytearray(size))


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


def tls_context(key_pair: KeyPair, protocol: int) -> ssl.SSLContext:
    """The context of either side: it presents the key pair, and accepts no other."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=key_pair.certificate.decode())
    with as_file((key_pair.certificate + key_pair.key).decode()) as file:
        context.load_cert_chain(file or "")
    return context


def prepare(connection: socket.socket) -> None:
    """Set either side of a connection so that it sends at once, and ends if the other machine is gone."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


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
        """The inverse of :meth:`to_bytes`. Raises FrameServerError for any other bytes."""
        match = _TICKET.fullmatch(raw)
        if match is None:
            raise FrameServerError("the ticket is not a range of frames: the id of a log and two numbers")
        log, low, high = match.groups()
        return cls(log.decode(), int(low), int(high))


# --- how a task fetches its frames

MOST_CONNECTIONS = 4
"""How many unused connections a worker keeps, over all queries."""

IDLE = 60.0
"""Seconds after which an unused connection ends."""


def fetch(address: FrameServerAddress, ticket: RangeTicket) -> Iterator[FrameBatch]:
    """Yield the frames of ``ticket``, batch by batch, in order.

    Raises FrameServerError if the frame server cannot be reached, refuses, breaks off, or delivers anything
    but the whole range. A task that got less must fail, or messages without a row would be ACKed.
    """
    expected = ticket.low
    try:
        for batch in _answer(address, ticket.to_bytes()):
            if batch.first_number != expected or batch.end > ticket.high:
                break
            expected += len(batch.ends)
            yield batch
    except OSError as error:
        raise FrameServerError(
            f"frames [{ticket.low}, {ticket.high}) of log {ticket.log} could not be fetched from "
            f"{address.host_port}: {error}"
        ) from error
    if expected != ticket.high:
        raise FrameServerError(
            f"the frame server at {address.host_port} delivered frames up to {expected} of "
            f"[{ticket.low}, {ticket.high}), log {ticket.log}"
        )


def report(address: FrameServerAddress, counts: Sequence[tuple[str, str, str, str, int]]) -> None:
    """Tell the reader process what a task has noticed: kind, destination, dialect, a reason and how many.

    Nothing depends on it, so it may fail, and does if no answer comes for five seconds.
    """
    try:
        list(_answer(address, b"%b %b" % (REPORT, json.dumps(counts).encode()), _REPORT_TIMEOUT))
    except OSError as error:
        log.debug("what a task noticed could not be reported: %s", error)


def _answer(
    address: FrameServerAddress, request: bytes, timeout: float | None = None
) -> Iterator[FrameBatch]:
    """Make a request, and yield the frame batches of the answer.

    A connection is kept only after a whole answer. Raises OSError, also if the frame server refuses.
    """
    connection = _connections.take(address)
    try:
        connection.ask(request, timeout)
        while (batch := connection.next_batch()) is not None:
            yield batch
    except BaseException:
        connection.close()
        raise
    _connections.keep(connection)


def _prove_alive(address: FrameServerAddress) -> None:
    """Make a report of nothing. Raises TimeoutError if the frame server does not answer it."""
    try:
        list(_answer(address, b"%b []" % REPORT, _REPORT_TIMEOUT))
    except OSError as error:
        raise TimeoutError(f"it said nothing for {_SILENCE:g} s, nor to another request: {error}") from None


class _Connection:
    """A connection to a frame server, for one request at a time. Its methods raise OSError."""

    def __init__(self, address: FrameServerAddress) -> None:
        self.address = address
        made = socket.create_connection((address.host, address.port), _CONNECT_TIMEOUT)
        try:
            prepare(made)
            if address.key_pair is not None:
                context = tls_context(address.key_pair, ssl.PROTOCOL_TLS_CLIENT)
                made = context.wrap_socket(made, server_hostname=NAME)
        except BaseException:
            made.close()
            raise
        self._socket = made
        self._used = time.monotonic()

    @property
    def is_usable(self) -> bool:
        """Whether a new request may use it: it has not ended, and will not for a while."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return time.monotonic() - self._used < IDLE / 2 and not poll.poll(0)

    def ask(self, request: bytes, timeout: float | None) -> None:
        """Send ``request``. Without a ``timeout`` the answer may take as long as the frame server lives."""
        self._patient = timeout is None
        self._socket.settimeout(_SILENCE if timeout is None else timeout)
        self._socket.sendall(b"%b %b\n" % (self.address.token.encode(), request))

    def next_batch(self) -> FrameBatch | None:
        """The next batch; None at the end of the answer."""
        format_, first, times, ends, text, size = _HEAD.unpack(self._read(_HEAD.size, _unused))
        possible = size < _TOO_MANY and text < _TOO_LONG
        # A frame has an octet at least.
        possible = possible and ends % 8 == 0 and ends // 8 <= size and times in ((8, ends) if ends else (0,))
        if format_ != _FORMAT or not possible:
            raise ConnectionRefusedError(_ANOTHER)
        said = self._read(times + ends + text, _unused)
        if not ends:
            if text:
                raise ConnectionRefusedError(bytes(said).decode(errors="replace"))
            self._used = time.monotonic()
            return None
        try:
            received_at = np.frombuffer(said[:times], "<i8")
            frame_ends = np.frombuffer(said[times : times + ends], "<i8")
            version, dialect, receiver, malformed = json.loads(bytes(said[times + ends :]))
            ascend = frame_ends[0] > 0 and (frame_ends[1:] > frame_ends[:-1]).all()
            if frame_ends[-1] != size or not ascend:
                raise ConnectionRefusedError(_ANOTHER)
            if not all(isinstance(one, str) for one in (version, dialect, receiver, malformed or "")):
                raise ConnectionRefusedError(_ANOTHER)
        except (ValueError, TypeError, RecursionError):
            raise ConnectionRefusedError(_ANOTHER) from None
        return FrameBatch(
            self._read(size, _memory),
            frame_ends,
            first,
            received_at if len(received_at) > 1 else int(received_at[0]),
            *(version, dialect, receiver, malformed),
        )

    def _read(self, size: int, memory: Callable[[int], memoryview]) -> memoryview:
        """The next ``size`` octets."""
        if size <= _BELIEVED:
            return self._fill(memory(size))
        # What else listens there may say any size, so memory is taken as the octets come.
        piece, came = np.empty(_BELIEVED, np.uint8), 0
        while came < size:
            if came:
                piece.resize(min(size, 2 * came), refcheck=False)
            self._fill(piece[came:].data)
            came = len(piece)
        return piece.data

    def _fill(self, into: memoryview) -> memoryview:
        """Fill ``into``, and return it."""
        left = into
        while left:
            try:
                count = self._socket.recv_into(left)
            except TimeoutError:
                if not self._patient:
                    raise
                _prove_alive(self.address)
                continue
            if not count:
                raise ConnectionResetError("the frame server closed the connection")
            left = left[count:]
        return into

    def close(self) -> None:
        self._socket.close()


class _Connections:
    """The connections that this process keeps from task to task, those used last at the end. Thread-safe."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a forked process: the connections are the parent's."""
        self._lock = threading.Lock()
        self._kept: list[_Connection] = []

    def take(self, address: FrameServerAddress) -> _Connection:
        """A connection for a request: one that was kept, or a new one. Raises OSError."""
        while (kept := self._next(address)) is not None:
            if kept.is_usable:
                return kept
            kept.close()
        return _Connection(address)

    def _next(self, address: FrameServerAddress) -> _Connection | None:
        with self._lock:
            found = next((one for one in self._kept if one.address == address), None)
            if found is not None:
                self._kept.remove(found)
            return found

    def keep(self, connection: _Connection) -> None:
        """Keep a connection that waits for a request; the one that was kept longest may end for it."""
        with self._lock:
            self._kept.append(connection)
            if len(self._kept) > MOST_CONNECTIONS:
                self._kept.pop(0).close()


_connections = _Connections()
# A user's code in the same worker may fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_connections.forget)
