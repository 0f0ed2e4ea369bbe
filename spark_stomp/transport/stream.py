"""A non-blocking byte stream over a socket, with or without TLS.

Errors of the operating system and of TLS become errors of :mod:`spark_stomp.errors` here, so callers never
catch ``OSError``. Certificate and host name are verified unless ``tlsVerify`` is false.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_stomp.errors import ConnectFailed, ConnectionLost, ConnectTimeout, TlsRefused
from spark_stomp.logs import get_log
from spark_stomp.options.kinds import is_pem
from spark_stomp.transport.addresses import remote_of

if TYPE_CHECKING:
    from spark_stomp.options import TlsOptions

log = get_log(__name__)

READ_SIZE: Final = 1 << 20
"""Bytes of the largest read from a socket."""
# After 60 s without traffic TCP sends a probe every 20 s. Three unanswered probes, or sent bytes that are not
# acknowledged for 120 s, end the connection. So a lost peer is noticed within two minutes; the defaults of
# Linux take more than two hours. No platform has all of these options. Values are seconds, but TCP_KEEPCNT is
# a count, and TCP_USER_TIMEOUT is in milliseconds.
PROBES: Final = {
    "TCP_KEEPIDLE": 60,
    "TCP_KEEPALIVE": 60,  # the name of TCP_KEEPIDLE on macOS
    "TCP_KEEPINTVL": 20,
    "TCP_KEEPCNT": 3,
}
_SILENCE_LIMITS: Final = {**PROBES, "TCP_USER_TIMEOUT": 120_000}
# OpenSSL's X509_V_ERR_* codes.
_HOST_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
# Seconds after which a log line says that the server is silent.
_SILENT = 1.0
LEAST = 0.001
"""Seconds for which a socket waits at least. With 0 it would not wait for anything."""
# Errors that may be gone at the next attempt: the broker starts or stops, or it or the line is faulty.
_BROKEN_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
_FAULTS = re.compile("INTERNAL_ERROR|BAD_RECORD_MAC|UNEXPECTED_MESSAGE|DECODE_ERROR|USER_CANCELLED")


class ByteStream:
    """A connected socket, with or without TLS. Not thread-safe: one thread drives it.

    ``peer`` is ``host:port`` of the other side as ``url`` names it, and ``remote`` with the number of the
    host; ``joins_messages`` is that of ``Outgoing``.
    """

    joins_messages = False

    def __init__(self, sock: socket.socket, peer: str) -> None:
        sock.setblocking(False)
        self.peer = peer
        self.remote = remote_of(sock)
        self._socket = sock

    @property
    def tls(self) -> TlsSession | None:
        """The TLS session; None if the stream is not encrypted."""
        return TlsSession.of(self._socket) if isinstance(self._socket, ssl.SSLSocket) else None

    def fileno(self) -> int:
        """The descriptor of the socket, for a selector."""
        return self._socket.fileno()

    def buffered(self) -> bool:
        """Whether bytes can be read that a selector does not see: TLS may have decrypted some in advance."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def read(self, most: int = READ_SIZE) -> bytes | None:
        """Read about ``most`` bytes. None if nothing has arrived, ``b""`` at the end of the stream.

        Raises TransportError.
        """
        try:
            return self._socket.recv(most)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as error:
            raise self._broken(error, "reading") from error

    def write(self, data: memoryview) -> int:
        """Send as much of ``data`` as can be sent now. Returns how many bytes were taken.

        The next call must begin with the first byte that was not taken. Raises TransportError.
        """
        try:
            return self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise self._broken(error, "writing") from error

    def limit_silence(self) -> None:
        """Let TCP notice a lost peer within two minutes, if the platform has the options for it."""
        set_options(self._socket, _SILENCE_LIMITS)

    def close(self) -> None:
        """Close the socket; closing twice is fine."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()

    def _broken(self, error: OSError, doing: str) -> ConnectionLost | TlsRefused:
        # In TLS 1.3 the handshake ends for us before the server has checked our certificate.
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "") and is_refusal(error):
            return TlsRefused(
                f"{self.peer} ended TLS with an alert: {error.reason}; if it asks for a client certificate, "
                "give one in tlsCertFile and tlsKeyFile"
            )
        return ConnectionLost(f"the connection to {self.peer} broke while {doing}: {reason(error)}")


def set_options(sock: socket.socket, options: Mapping[str, int]) -> None:
    """Set these options of TCP, those that the platform has."""
    for name, value in options.items():
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def reason(error: OSError | UnicodeError) -> str:
    """The text of an error of the operating system or the resolver, without its number."""
    return getattr(error, "strerror", None) or str(error)


@dataclass(frozen=True)
class TlsSession:
    """The TLS version and cipher that both sides agreed on.

    ``expires`` is the end of the server's certificate; None if the certificate was not verified.
    """

    version: str
    cipher: str
    expires: datetime | None

    @classmethod
    def of(cls, sock: ssl.SSLSocket) -> TlsSession:
        """The session of a socket whose handshake is done."""
        cipher = sock.cipher()
        # Python does not show a certificate that was not verified.
        end = (sock.getpeercert() or {}).get("notAfter")
        expires = datetime.fromtimestamp(ssl.cert_time_to_seconds(end), timezone.utc) if end else None  # type: ignore[arg-type]
        return cls(sock.version() or "", cipher[0] if cipher else "", expires)


def secure(
    sock: socket.socket, host: str, peer: str, context: ssl.SSLContext, connect_timeout: float
) -> ssl.SSLSocket:
    """Do the TLS handshake within the socket's timeout, which is what is left of ``connect_timeout``.

    The server must prove that it is ``host``.

    Raises TlsRefused, which says what is wrong with the certificate; ConnectTimeout; or ConnectFailed if the
    handshake ended too early.
    """
    if context.verify_mode is ssl.CERT_NONE:
        log.warning(
            "tlsVerify = false: the certificate of %s is not verified; anybody could pose as it", peer
        )
    # A dot at the end is for the look-up alone: RFC 6066, section 3, forbids it here, and no certificate
    # has it.
    host = host.removesuffix(".")
    try:
        return _handshaken(
            context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=host), peer
        )
    except TimeoutError as error:
        raise ConnectTimeout(
            f"{peer} did not finish the TLS handshake within connectTimeout ({connect_timeout:g}s); is it a "
            "port with TLS?"
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise TlsRefused(
            f"the certificate of {peer} is not accepted: {error.verify_message}; {_remedy(error, host)}"
        ) from error
    except OSError as error:
        least = context.minimum_version.name.removeprefix("TLSv").replace("_", ".")
        if is_refusal(error):
            raise TlsRefused(f"no TLS with {peer} (tlsMinVersion is {least}): {error}") from error
        raise ConnectFailed(
            f"{peer} broke off the TLS handshake (tlsMinVersion is {least}); is it a port with TLS? {error}"
        ) from error


def _handshaken(sock: ssl.SSLSocket, peer: str) -> ssl.SSLSocket:
    """Do the handshake within the socket's timeout. RabbitMQ answers nothing on a port without TLS."""
    timeout = sock.gettimeout() or 0.0
    try:
        sock.settimeout(min(_SILENT, timeout))
        try:
            sock.do_handshake()
        except TimeoutError:
            if timeout <= _SILENT:
                raise
            log.warning(
                "%s has not finished the TLS handshake for %g s; is it a port with TLS?", peer, _SILENT
            )
            sock.settimeout(timeout - _SILENT)
            sock.do_handshake()
    except BaseException:
        sock.close()
        raise
    sock.settimeout(timeout)
    return sock


def is_refusal(error: OSError) -> bool:
    """Whether an error of TLS will be the same at each attempt, because the two sides do not agree."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, _BROKEN_OFF):
        return False
    return not _FAULTS.search(error.reason or "")


def _remedy(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in (_HOST_MISMATCH, _ADDRESS_MISMATCH):
        return (
            f"url, or tlsServerName, must name the broker as its certificate does, and {host} is not among "
            "its subject alternative names (a common name does not count)"
        )
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return (
            "set tlsCaFile to the authority that signed it, unless the broker does not send the certificates "
            "between the two"
        )
    return "the broker needs another certificate"


def tls_context(tls: TlsOptions) -> ssl.SSLContext:
    """The context for these options. Raises TlsRefused, which names the option that cannot be used."""
    ca_file, ca_text = (None, tls.ca_file) if is_pem(tls.ca_file or "") else (tls.ca_file, None)
    try:
        context = ssl.create_default_context(cafile=ca_file, cadata=ca_text)
    except OSError as error:
        raise _unusable([("tlsCaFile", tls.ca_file or "", "CERTIFICATE")], error) from error
    if tls.cert_file is not None:
        _load_client(context, tls.cert_file, tls)
    context.minimum_version = _VERSIONS[tls.min_version]
    # Certificate authorities check only the subject alternative names (RFC 9525, section 2).
    context.hostname_checks_common_name = False
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load_client(context: ssl.SSLContext, cert: str, tls: TlsOptions) -> None:
    """Load the client's certificate and key. Raises TlsRefused."""
    key = tls.key_secret or tls.key_file
    key_option = "tlsKeySecret" if tls.key_secret else "tlsKeyFile" if key else "tlsCertFile"
    asked: list[str] = []

    def password() -> str:
        asked.append(key_option)
        return tls.key_password or ""

    try:
        with as_file(cert) as cert_file, as_file(key) as key_file:
            # Without this function OpenSSL would ask for a missing password on the terminal.
            context.load_cert_chain(cert_file or "", key_file, password)
    except OSError as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise TlsRefused(f"{key_option} has another private key than that of tlsCertFile") from error
        if asked:
            problem = "does not decrypt" if tls.key_password else "is not given, and is needed for"
            raise TlsRefused(f"tlsKeyPassword {problem} the private key in {key_option}") from error
        needed = [("tlsCertFile", cert, "CERTIFICATE"), (key_option, key or cert, "PRIVATE KEY")]
        raise _unusable(needed, error) from error


def _unusable(needed: Iterable[tuple[str, str, str]], error: OSError) -> TlsRefused:
    """The error for the first of ``needed`` options that cannot be used, as far as their files show it.

    Each has its name, its value, and which block its PEM text must have. OpenSSL often says only "PEM lib".
    """
    named = [
        (f"{option} = {'(PEM text)' if is_pem(value) else value}", value, block)
        for option, value, block in needed
    ]
    for shown, value, block in named:
        if problem := _pem_problem(value, block):
            return TlsRefused(f"cannot use {shown}: {problem}")
    return TlsRefused(f"cannot use {', '.join(dict.fromkeys(shown for shown, _, _ in named))}: {error}")


def _pem_problem(value: str, block: str) -> str:
    """Why ``value``, a path or PEM text, has no such block; empty if it seems to have one."""
    try:
        content = value.encode() if is_pem(value) else Path(value).read_bytes()
    except OSError as error:
        return reason(error)
    begin = re.search(rf"-----BEGIN [A-Z0-9 ]*{block}-----(\s*\n)?".encode(), content)
    if begin is None:
        return (
            f"it has no -----BEGIN {block}----- line. DER and PKCS#12 must be converted to PEM first, with "
            "openssl x509, openssl pkey or openssl pkcs12"
        )
    return "" if begin[1] else "the lines of its PEM text are joined; each needs its line end"


@contextlib.contextmanager
def as_file(value: str | None) -> Iterator[str | None]:
    """A path from which OpenSSL can read ``value``: it loads certificates and keys only from files.

    If ``value`` is PEM text, the file is in memory, so that a killed process leaves no key on the disk. On a
    platform without such files, it is a temporary file that only this user can open (0600).
    """
    if value is None or not is_pem(value):
        yield value
        return
    in_memory = hasattr(os, "memfd_create")
    with os.fdopen(os.memfd_create("pem"), "w") if in_memory else tempfile.NamedTemporaryFile("w") as file:
        file.write(value)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}" if in_memory else file.name
