"""A non-blocking byte stream.

Errors of the operating system and of TLS become this project's errors in this package; nothing above it
catches ``OSError``.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Final

from spark_stomp.errors import ConnectionLost, TlsRefused
from spark_stomp.transport.tls import TlsSession, is_refusal

READ_SIZE: Final = 1 << 20
"""Bytes that are asked for at once."""
# After a minute without traffic TCP sends a probe every 20 seconds; without any answer for two minutes the
# connection is broken. Each platform has some of these options, in seconds, the last one in milliseconds.
_SILENCE_LIMITS = (
    ("TCP_KEEPIDLE", 60),
    ("TCP_KEEPALIVE", 60),  # macOS calls it so
    ("TCP_KEEPINTVL", 20),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 120_000),
)


class Stream:
    """A connected socket, with or without TLS. Not thread-safe: one thread drives it.

    ``peer`` is ``host:port`` of the other side.
    """

    def __init__(self, sock: socket.socket, peer: str) -> None:
        sock.setblocking(False)
        self.peer = peer
        self._socket = sock

    @property
    def tls(self) -> TlsSession | None:
        """What TLS was agreed on; None if the stream is not encrypted."""
        return TlsSession.of(self._socket) if isinstance(self._socket, ssl.SSLSocket) else None

    def fileno(self) -> int:
        """The socket to wait for."""
        return self._socket.fileno()

    def buffered(self) -> bool:
        """Whether there is something to read that a selector cannot see: TLS may hold decrypted bytes."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def read(self, most: int = READ_SIZE) -> bytes | None:
        """What has arrived, about ``most`` bytes; None when nothing has, ``b""`` at the end of the stream.

        Raises TransportError.
        """
        try:
            return self._socket.recv(most)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as error:
            raise self._broken(error, "reading") from error

    def write(self, data: memoryview) -> int:
        """Send what can be sent now of ``data``; returns how many bytes were taken.

        The next call must begin with the first byte that was not taken. Raises TransportError.
        """
        try:
            return self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise self._broken(error, "writing") from error

    def limit_silence(self) -> None:
        """Let TCP find out within two minutes that the peer is gone, as far as the platform can."""
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
        # In TLS 1.3 a server checks our certificate only after the handshake has ended for us.
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "") and is_refusal(error):
            return TlsRefused(
                f"{self.peer} ended TLS with an alert: {error.reason}; if it asks for a client certificate, "
                "give one in tlsCertFile and tlsKeyFile"
            )
        return ConnectionLost(f"the connection to {self.peer} broke while {doing}: {reason(error)}")


def reason(error: OSError | UnicodeError) -> str:
    """What the operating system or the resolver says, without its number."""
    return getattr(error, "strerror", None) or str(error)
