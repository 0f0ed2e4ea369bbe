"""A non-blocking byte stream.

This package turns errors of the operating system and of TLS into the errors of :mod:`spark_stomp.errors`.
Its callers never catch ``OSError``.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Final

from spark_stomp.errors import ConnectionLost, TlsRefused
from spark_stomp.transport.tls import TlsSession, is_refusal

READ_SIZE: Final = 1 << 20
"""Bytes of the largest read from a socket. A judgement, not measured."""
# After 60 s without traffic TCP sends a probe every 20 s. Three unanswered probes, or sent bytes that are not
# acknowledged for 120 s, end the connection. So a lost peer is noticed within two minutes; the defaults of
# Linux take more than two hours. A judgement, not measured. No platform has all of these options. Values are
# seconds, but TCP_KEEPCNT is a count, and TCP_USER_TIMEOUT is in milliseconds.
_SILENCE_LIMITS = (
    ("TCP_KEEPIDLE", 60),
    ("TCP_KEEPALIVE", 60),  # the name of TCP_KEEPIDLE on macOS
    ("TCP_KEEPINTVL", 20),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 120_000),
)


class Stream:
    """A connected socket, with or without TLS. Not thread-safe: one thread drives it.

    ``peer`` is ``host:port`` of the other side; ``joins_messages`` is that of ``Outgoing``.
    """

    joins_messages = False

    def __init__(self, sock: socket.socket, peer: str) -> None:
        sock.setblocking(False)
        self.peer = peer
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
        for name, value in _SILENCE_LIMITS:
            if hasattr(socket, name):
                with contextlib.suppress(OSError):
                    self._socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

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


def reason(error: OSError | UnicodeError) -> str:
    """The text of an error of the operating system or the resolver, without its number."""
    return getattr(error, "strerror", None) or str(error)
