"""From an endpoint to a stream: TCP, TLS over it, WebSocket over either."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from spark_stomp.errors import ConnectFailed, ConnectTimeout
from spark_stomp.transport.stream import ByteStream, Stream
from spark_stomp.transport.tls import secure, tls_context
from spark_stomp.transport.websocket import upgrade

if TYPE_CHECKING:
    from spark_stomp.options import ConnectionOptions, Endpoint

__all__ = ["open_stream"]

_RECEIVE_BUFFER = 4 << 20


def open_stream(endpoint: Endpoint, options: ConnectionOptions, deadline: float) -> Stream:
    """Connect to ``endpoint`` by monotonic time ``deadline``, in whatever way its scheme says.

    Raises ConnectFailed, ConnectTimeout, TlsRefused, NotStompServer where a WebSocket is refused, or
    UnsupportedError where the package for WebSockets is missing.
    """
    peer = f"{endpoint.host}:{endpoint.port}"
    # Before anything is opened: files that cannot be loaded are no business of the server.
    context = tls_context(options.tls) if endpoint.tls else None
    sock = _connect(endpoint.host, endpoint.port, peer, options.connect_timeout)
    try:
        if context is not None:
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            sock = secure(sock, endpoint.host, peer, context)
        if not endpoint.websocket:
            return ByteStream(sock, peer)
        return upgrade(sock, peer, endpoint, options, deadline)
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
