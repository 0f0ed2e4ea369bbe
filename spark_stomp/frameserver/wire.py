"""What a task and the frame server say to each other, and how they prove who they are.

A task connects and makes one request after another. A request is a line: the token, and a ticket or a report.
The answer is frame batches (:func:`to_wire`) and an end, which has a text if it is an error. The frames go
from the log to the socket, and from the socket into memory that is used again: no copy, and no new pages.

The key pair is a self-signed certificate and its key, new for each run of a query: both sides present it and
accept no other. So there is no authority, no host name and no expiry to manage. On Linux the key is in memory
only.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import NamedTuple

import numpy as np

from spark_stomp.errors import FrameServerError
from spark_stomp.frame_batch import Ends, FrameBatch
from spark_stomp.quoting import host_port
from spark_stomp.transport.stream import PROBES, as_file, set_options

REPORT = b"report"
"""The first word of a report; JSON follows. A ticket begins with the id of a log, which is another word."""
IDLE = 60.0
"""Seconds after which an unused connection ends."""
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
HEAD_SIZE = _HEAD.size
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


class Head(NamedTuple):
    """The head of a batch, or of the end of an answer.

    ``first`` is the number of the first frame; the others are the octets of the parts that follow, in order.
    """

    first: int
    times: int
    ends: int
    text: int
    frames: int

    @classmethod
    def from_bytes(cls, raw: bytes | memoryview) -> Head:
        """Raises ConnectionRefusedError if it is none, or what it says is not possible."""
        format_, *parts = _HEAD.unpack(raw)
        _, times, ends, text, frames = head = cls(*parts)
        possible = frames < _TOO_MANY and text < _TOO_LONG
        # A frame has an octet at least.
        possible = possible and ends % 8 == 0 and ends // 8 <= frames
        if format_ != _FORMAT or not possible or times not in ((8, ends) if ends else (0,)):
            raise ConnectionRefusedError(_ANOTHER)
        return head


def from_wire(head: Head, said: memoryview, frames: Callable[[], memoryview]) -> FrameBatch:
    """A batch of which this is ``said``; ``frames`` reads its frames. The inverse of :func:`to_wire`.

    Raises ConnectionRefusedError if it is none.
    """
    try:
        received_at = np.frombuffer(said[: head.times], "<i8")
        ends = np.frombuffer(said[head.times : head.times + head.ends], "<i8")
        version, dialect, receiver, malformed = json.loads(bytes(said[head.times + head.ends :]))
        texts = all(isinstance(one, str) for one in (version, dialect, receiver, malformed or ""))
    except (ValueError, TypeError, RecursionError):
        raise ConnectionRefusedError(_ANOTHER) from None
    if not texts or ends[-1] != head.frames or ends[0] <= 0 or (ends[1:] <= ends[:-1]).any():
        raise ConnectionRefusedError(_ANOTHER)
    times = received_at if len(received_at) > 1 else int(received_at[0])
    return FrameBatch(frames(), ends, head.first, times, version, dialect, receiver, malformed)


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
        certificate.public_bytes(pem), key.private_bytes(pem, serialization.PrivateFormat.PKCS8, unencrypted)
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
    set_options(connection, PROBES)


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
