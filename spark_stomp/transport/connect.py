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
from spark_stomp.errors import (
    ConnectionLost,
    HeartbeatLost,
    NotStompServer,
    RemoteProtocolError,
    StompError,
    TransportError,
    VersionError,
)
from spark_stomp.protocol import ClientConfig, ClientConnection, Connected, ErrorReceived
from spark_stomp.transport.broker_errors import connect_refused
from spark_stomp.transport.connection import Connection

__all__ = ["client_config", "open_connection", "open_stream"]

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


# MERGED from open.py: Opening: an endpoint's stream, then CONNECT and CONNECTED, all within ``conne


def client_config(
    options: ConnectionOptions, *, scan: bool = False, id_header: str | None = None
) -> ClientConfig:
    """The session's configuration that the options ask for."""
    client_id = () if options.client_id is None else (("client-id", options.client_id),)
    return ClientConfig(
        accept_versions=options.accept_versions,
        host=options.virtual_host,
        login=options.login,
        passcode=options.password,
        heartbeat=options.heartbeat,
        connect_headers=options.connect_headers + options.secret_connect_headers + client_id,
        limits=options.limits,
        scan=scan,
        id_header=id_header,
    )


def open_connection(
    options: ConnectionOptions, *, scan: bool = False, id_header: str | None = None
) -> Connection:
    """A connected session with the first endpoint of ``url`` that lets us in.

    Endpoints are tried in order, each for at most ``connectTimeout``; a refused login ends the search, since
    the next one would refuse it too and accounts get locked. Raises the error of the only endpoint, or
    ConnectFailed listing all.
    """
    config = client_config(options, scan=scan, id_header=id_header)
    failures: list[StompError] = []
    for endpoint in options.endpoints:
        try:
            return _open_endpoint(endpoint, options, config)
        except (TransportError, RemoteProtocolError) as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    raise ConnectFailed("no server of url could be used: " + "; ".join(str(failure) for failure in failures))


def _open_endpoint(endpoint: Endpoint, options: ConnectionOptions, config: ClientConfig) -> Connection:
    deadline = time.monotonic() + options.connect_timeout
    stream = open_stream(endpoint, options, deadline)
    connection = Connection(stream, ClientConnection(config), secrets=_secrets(options))
    try:
        _handshake(connection, deadline, options)
    except BaseException:
        connection.close()
        raise
    return connection


def _handshake(connection: Connection, deadline: float, options: ConnectionOptions) -> None:
    connection.session.connect(time.monotonic())
    secrets = _secrets(options)
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise ConnectTimeout(
                f"{connection.peer} accepted the connection but did not answer CONNECT within "
                f"connectTimeout ({options.connect_timeout:g}s); is it a STOMP port?"
            )
        events = _first_events(connection, remaining)
        for event in events:
            if isinstance(event, ErrorReceived):
                raise connect_refused(event, connection.peer, options.client_id, secrets)
        if any(isinstance(event, Connected) for event in events):
            return


def _secrets(options: ConnectionOptions) -> tuple[str, ...]:
    """What CONNECT says that nobody else may read."""
    return (options.password or "", *(value for _, value in options.secret_connect_headers))


def _first_events(connection: Connection, timeout: float) -> list[object]:
    """``poll`` before CONNECTED, where what is wrong says something about the server."""
    try:
        return list(connection.poll(timeout))
    except (HeartbeatLost, VersionError):
        raise
    except RemoteProtocolError as error:
        raise NotStompServer(
            f"{connection.peer} does not speak STOMP: its answer to CONNECT is not a STOMP frame "
            f"({error.message})"
        ) from error
    except ConnectionLost as error:
        raise ConnectFailed(
            f"{connection.peer} closed the connection without answering CONNECT; "
            "is it a STOMP port, and does it want TLS (stomp+ssl://) or a client certificate (tlsCertFile)?"
        ) from error
