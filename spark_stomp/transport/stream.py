"""A non-blocking byte stream to an endpoint: TCP, or TLS over TCP.

Operating-system and TLS errors are mapped to this project's errors here, once, so that nothing above this
module catches ``OSError``.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

from spark_stomp.errors import ConnectFailed, ConnectionLost, ConnectTimeout, TlsRefused, UnsupportedError

if TYPE_CHECKING:
    from spark_stomp.options import Endpoint, TlsOptions

__all__ = ["ByteStream", "open_stream"]

_READ_SIZE = 1 << 20
_RECEIVE_BUFFER = 4 << 20


class ByteStream:
    """A connected, non-blocking socket. Not thread-safe: one thread drives it."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.peer = peer

    def fileno(self) -> int:
        return self._socket.fileno()

    def buffered(self) -> bool:
        """Whether TLS holds decrypted bytes that the selector cannot see."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def read(self) -> bytes | None:
        """Up to 1 MiB of what has arrived; None when nothing has, ``b""`` at the end of the stream."""
        try:
            return self._socket.recv(_READ_SIZE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as error:
            raise ConnectionLost(f"the connection to {self.peer} broke while reading: {error}") from error

    def write(self, data: memoryview) -> int:
        """Send what the socket takes of ``data`` now; returns the number of bytes taken."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise ConnectionLost(f"the connection to {self.peer} broke while writing: {error}") from error

    def close(self) -> None:
        """Close the socket; closing twice is fine."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()


def open_stream(endpoint: Endpoint, tls: TlsOptions, timeout: float) -> ByteStream:
    """Connect to ``endpoint`` within ``timeout`` seconds, with TLS where its scheme says so.

    Raises ConnectFailed, ConnectTimeout, TlsRefused, or UnsupportedError for a WebSocket URL.
    """
    if endpoint.scheme not in ("stomp", "stomp+ssl"):
        raise UnsupportedError(
            f"{endpoint.scheme}:// (STOMP over WebSocket) is not available in this version; "
            "use the broker's stomp:// or stomp+ssl:// port"
        )
    peer = f"{endpoint.host}:{endpoint.port}"
    sock = _connect(endpoint.host, endpoint.port, peer, timeout)
    if endpoint.scheme == "stomp":
        return ByteStream(sock, peer)
    try:
        return ByteStream(_wrap(sock, endpoint.host, peer, tls), peer)
    except BaseException:
        sock.close()
        raise


def _connect(host: str, port: int, peer: str, timeout: float) -> socket.socket:
    try:
        sock = socket.create_connection((host, port), timeout=timeout)
    except TimeoutError as error:
        raise ConnectTimeout(f"no connection to {peer} within connectTimeout ({timeout:g}s)") from error
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name that no resolver could take
        raise ConnectFailed(f"cannot connect to {peer}: {error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    return sock


def _wrap(sock: socket.socket, host: str, peer: str, tls: TlsOptions) -> ssl.SSLSocket:
    try:
        return _tls_context(tls).wrap_socket(sock, server_hostname=host)
    except TimeoutError as error:
        raise ConnectTimeout(f"{peer} did not finish the TLS handshake within connectTimeout") from error
    except ssl.SSLCertVerificationError as error:
        raise TlsRefused(
            f"the certificate of {peer} is not accepted: {error.verify_message}; "
            "set tlsCaFile to the authority that signed it"
        ) from error
    except OSError as error:
        raise TlsRefused(f"no TLS with {peer}: {error}") from error


def _tls_context(tls: TlsOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.cert_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file, tls.key_password)
    except OSError as error:
        named = f"tlsCaFile={tls.ca_file}, tlsCertFile={tls.cert_file}, tlsKeyFile={tls.key_file}"
        raise TlsRefused(f"cannot load the TLS files ({named}): {error}") from error
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
