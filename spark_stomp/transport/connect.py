"""Opens a connected session, in at most ``connectTimeout`` for each endpoint.

First the stream of an endpoint is opened (TCP, TLS over it, WebSocket over either). Then CONNECT is sent, and
CONNECTED is awaited.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_stomp.brokers import DIALECTS, dialect_named
from spark_stomp.deadline import Deadline
from spark_stomp.errors import (
    ClientIdInUse,
    ConnectFailed,
    ConnectionLost,
    ConnectTimeout,
    FrameEncodeError,
    HeartbeatLost,
    LoginRefused,
    NotStompServer,
    RemoteProtocolError,
    StompError,
    TlsRefused,
    TransportError,
    VersionError,
)
from spark_stomp.protocol import ClientConfig, ClientConnection, Connected, ErrorReceived, Event
from spark_stomp.protocol.handshake import may_be_misread
from spark_stomp.quoting import duration
from spark_stomp.transport.addresses import ADDRESSES, look_up, name_of, remote_of
from spark_stomp.transport.connection import Connection
from spark_stomp.transport.logins import RefusedLogins, fingerprint, password_of
from spark_stomp.transport.stream import LEAST, ByteStream, reason, secure, tls_context
from spark_stomp.transport.websocket import upgrade

if TYPE_CHECKING:
    from spark_stomp.options import ConnectionOptions, Endpoint

# Bytes that the kernel may buffer for a socket. The system may allow less.
_RECEIVE_BUFFER = 4 << 20
# For the whole process. The second has the endpoints whose brokers unescape CONNECT, as far as that is known.
_refused = RefusedLogins()
_unescaping: set[Endpoint] = set()
_answered: dict[str, float] = {}  # when a broker last let us in, by its address


def at_peer(options: ConnectionOptions, peer: str) -> ConnectionOptions:
    """The options for a connection to the address ``peer``, or to any of ``url`` if it is not among them."""
    here = tuple(one for one in options.endpoints if one.address == peer)
    return replace(options, endpoints=here or options.endpoints)


def open_connection(
    options: ConnectionOptions,
    *,
    scan: bool = False,
    receipt_prefix: str | None = None,
    login_accepted: bool = False,
) -> Connection:
    """Open a session with the first endpoint of ``url`` that accepts us.

    Endpoints are tried in order, those that failed lately behind the others, each for at most
    ``connectTimeout``. A refused login ends the search, because the next endpoint would refuse it too, and
    accounts get locked. Refused TLS also ends it, because an attacker with a wrong certificate must not
    decide where we connect instead. After both, the next search begins with the first endpoint.

    Args:
        options: where and how to connect.
        scan: leave MESSAGE frames as bytes (``ClientConfig.scan``).
        receipt_prefix: the beginning of the ids of numbered receipts (``ClientConfig.receipt_prefix``).
        login_accepted: another connection with this login is open. So a refusal is not about the password,
            and is not remembered.

    Raises:
        StompError: the error that ended the search, the error of the only endpoint, or ConnectFailed with the
            errors of all endpoints.
    """
    config = _client_config(options, scan, receipt_prefix)
    failures: list[StompError] = []
    for endpoint in ADDRESSES.in_order(options.endpoints, lambda one: one.address):
        try:
            return _open_endpoint(endpoint, options, config, login_accepted=login_accepted)
        except (LoginRefused, TlsRefused):
            ADDRESSES.forget(one.address for one in options.endpoints)
            raise
        except (TransportError, RemoteProtocolError) as error:
            ADDRESSES.failed(endpoint.address)
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    failed = ConnectFailed("no server of url could be used: " + "; ".join(str(one) for one in failures))
    if any(one.verdict == "passes" for one in failures):
        failed.verdict = "passes"
    raise failed


def _client_config(options: ConnectionOptions, scan: bool, receipt_prefix: str | None) -> ClientConfig:
    """All but the password."""
    client_id = () if options.client_id is None else (("client-id", options.client_id),)
    return ClientConfig(
        accept_versions=options.accept_versions,
        host=options.virtual_host,
        login=options.login,
        heartbeat=options.heartbeat,
        connect_headers=options.connect_headers + options.secret_connect_headers + client_id,
        scan=scan,
        receipt_prefix=receipt_prefix,
        # Only a connection that scans gets messages. All other frames of a broker are short.
        limits=options.limits if scan else options.limits.without_messages(),
    )


def _open_endpoint(
    endpoint: Endpoint, options: ConnectionOptions, config: ClientConfig, *, login_accepted: bool
) -> Connection:
    config = replace(config, passcode=password_of(options))
    login = fingerprint(endpoint.uri, config.host, config.login, config.passcode, config.connect_headers)
    if config.passcode is not None:
        _refused.check(login)
    try:
        return _open_spelt(endpoint, options, config)
    except LoginRefused as error:
        if not login_accepted:
            _refused.note(login, error)
        raise


def _open_spelt(endpoint: Endpoint, options: ConnectionOptions, config: ClientConfig) -> Connection:
    """Open a session, with a CONNECT that is spelt as the broker reads it.

    The broker is not known before CONNECTED unless the option ``broker`` names it. So a CONNECT that it may
    have misread is sent once more in the other spelling, first as STOMP says.
    """
    deadline = Deadline.after(options.connect_timeout)
    if options.broker != "auto":
        escaped = dialect_named(options.broker).outgoing.unescapes_always
        return _open_session(endpoint, options, replace(config, escaped=escaped), deadline)
    config = replace(config, escaped=endpoint in _unescaping)
    try:
        return _open_session(endpoint, options, config, deadline)
    except (LoginRefused, NotStompServer, ConnectFailed, FrameEncodeError) as error:
        # ActiveMQ may quote a line feed that it has read, which breaks its ERROR.
        refused = isinstance(error, LoginRefused | NotStompServer)
        if isinstance(error, ClientIdInUse) or not may_be_misread(config, refused=refused):
            raise
    connection = _open_session(endpoint, options, replace(config, escaped=not config.escaped), deadline)
    # Not toggled: another thread may have found out the same meanwhile.
    if config.escaped:
        _unescaping.discard(endpoint)
    else:
        _unescaping.add(endpoint)
    return connection


def _open_session(
    endpoint: Endpoint, options: ConnectionOptions, config: ClientConfig, deadline: Deadline
) -> Connection:
    stream = _open_stream(endpoint, options, deadline, config.limits.max_frame)
    # The values in CONNECT and in the address that no error may show.
    headers = (value for _, value in options.secret_connect_headers)
    secrets = (config.passcode or "", *headers, *endpoint.secrets)
    names = (config.login or "", config.host, *(value for _, value in config.connect_headers))
    connection = Connection(stream, ClientConnection(config), secrets=secrets, names=names)
    try:
        _await_connected(connection, deadline, options)
    except BaseException as error:
        connection.__exit__(type(error), error, error.__traceback__)
        raise
    connection.connected_at = connection.last_frame_byte
    connection.dialect = options.dialect(connection.session.server)
    stream.joins_messages = connection.dialect.outgoing.joins_messages
    # Without heart-beats a broker may be silent for hours, and only TCP can notice that it is lost. With
    # heart-beats TCP must not watch it, because a broker may block a sender for longer than TCP allows.
    _, expected = connection.session.heartbeat
    if not expected:
        stream.limit_silence()
    return connection


def _open_stream(
    endpoint: Endpoint, options: ConnectionOptions, deadline: Deadline, max_frame: int
) -> ByteStream:
    """Connect to ``endpoint`` by the ``deadline``, with TLS and WebSocket as its scheme says.

    ``max_frame`` is the size of the largest STOMP frame in bytes; it limits the messages of a WebSocket.

    Raises ConnectFailed, ConnectTimeout, TlsRefused, NotStompServer if a WebSocket is refused, or
    UnsupportedError if the package for WebSockets is missing.
    """
    peer = endpoint.address
    # Loaded before anything is opened: files that cannot be loaded are not the server's fault.
    context = tls_context(options.tls) if endpoint.tls else None
    sock = _connect(endpoint, options, deadline)
    remote = remote_of(sock)
    try:
        if context is not None:
            sock.settimeout(deadline.left(LEAST))
            host = options.tls.server_name or endpoint.host
            sock = secure(sock, host, peer, context, options.connect_timeout)
        if not endpoint.websocket:
            return ByteStream(sock, peer)
        return upgrade(sock, peer, endpoint, options, deadline, max_frame)
    except BaseException as error:
        if isinstance(error, ConnectTimeout):
            ADDRESSES.failed(remote)
        sock.close()
        raise


def _connect(endpoint: Endpoint, options: ConnectionOptions, deadline: Deadline) -> socket.socket:
    peer = endpoint.address
    try:
        sock = connect_any(endpoint.host, endpoint.port, deadline)
    except TimeoutError as error:
        why = f": {error.strerror}" if error.strerror else ""
        raise ConnectTimeout(
            f"no connection to {peer} within connectTimeout ({options.connect_timeout:g}s){why}"
        ) from error
    except ConnectionRefusedError as error:
        listeners = ", ".join(filter(None, (dialect.listener for dialect in DIALECTS)))
        raise ConnectFailed(
            f"cannot connect to {peer}: {reason(error)}; is STOMP on at that port ({listeners})?"
        ) from error
    except (OSError, UnicodeError) as error:  # UnicodeError: not a possible host name
        raise ConnectFailed(f"cannot connect to {peer}: {reason(error)}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    return sock


def connect_any(host: str, port: int, deadline: Deadline) -> socket.socket:
    """Connect to the first address of the host that answers, by the ``deadline`` for all of them.

    Each gets an equal share of the time left: if one hangs, the others are tried too. Raises the OSError of
    the last one.
    """
    addresses = ADDRESSES.in_order(look_up(host, port, deadline), lambda one: name_of(one[4]))
    failure = OSError("the host has no address")
    for place, (family, socket_type, protocol, _, address) in enumerate(addresses):
        share = deadline.left(LEAST) / (len(addresses) - place)
        try:
            return _connect_one(socket.socket(family, socket_type, protocol), address, share)
        except OSError as error:
            ADDRESSES.failed(name_of(address))
            failure = error
    raise failure


def _connect_one(sock: socket.socket, address: Any, timeout: float) -> socket.socket:
    try:
        sock.settimeout(timeout)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _await_connected(connection: Connection, deadline: Deadline, options: ConnectionOptions) -> None:
    """Send CONNECT and read until CONNECTED. Errors before that say what kind of server this may be."""
    connection.session.connect(time.monotonic())
    while not deadline.passed:
        try:
            events = connection.poll(deadline.left())
        except (HeartbeatLost, VersionError):
            raise
        except RemoteProtocolError as error:
            raise NotStompServer(
                f"{connection.peer} does not speak STOMP: its answer to CONNECT is not a STOMP frame "
                f"({error.message}); is it the port of another protocol, or does it want TLS (stomp+ssl://)?"
            ) from error
        except ConnectionLost as error:
            in_use = f" Or is clientId {options.client_id} still in use?" if options.client_id else ""
            raise ConnectFailed(
                f"{error.message}, without answering CONNECT; is it a STOMP port, and does it want TLS "
                f"(stomp+ssl://) or a client certificate (tlsCertFile)?{in_use}"
            ) from error
        if _is_connected(connection, events, options):
            return
    doubt = "; is it a STOMP port?"
    if (before := _answered.get(connection.peer)) is not None:
        doubt = f". It did {duration(time.monotonic() - before)} ago: it hangs, or the network drops packets"
    raise ConnectTimeout(
        f"{connection.peer} accepted the connection but did not answer CONNECT within "
        f"connectTimeout ({options.connect_timeout:g}s){doubt}"
    )


def _is_connected(connection: Connection, events: Sequence[Event], options: ConnectionOptions) -> bool:
    """Whether CONNECTED is among the events. Raises the error of an ERROR before it, keeps one behind it."""
    accepted = False
    for event in events:
        if isinstance(event, Connected):
            _answered[connection.peer] = time.monotonic()
            accepted = True
        elif isinstance(event, ErrorReceived):
            if not accepted:
                raise connection.refusal_of(event, options.client_id, options.virtual_host)
            # It is no refused login, which is not sent again for a while.
            connection.keep(event)
    return accepted
