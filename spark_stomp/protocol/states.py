"""The state machines of both session halves, as tables.

One row per state; each row lists the inputs allowed there and the state they lead to. What a row does not
list is forbidden: a local input raises LocalProtocolError and changes nothing, a remote one raises
RemoteProtocolError and leads to ``FAILED``.

Client::

    IDLE -connect-> CONNECTING -CONNECTED-> CONNECTED -disconnect-> DISCONNECTING -its receipt, EOF-> CLOSED
                        |                       |                         |
                        +-------- ERROR, EOF, broken protocol ------------+ -> FAILED

Server::

    AWAITING -CONNECT-> NEGOTIATING -accept-> CONNECTED -DISCONNECT-> DISCONNECTING -close, EOF-> CLOSED
                            |                     |                         |
                            +----- ERROR sent, broken protocol -------------+ -> FAILED
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Generic, TypeVar

from spark_stomp.errors import LocalProtocolError, RemoteProtocolError


class _Named(enum.Enum):
    """Hashed by identity: ``Enum`` hashes by name, in Python code, and every frame looks up the tables."""

    __hash__ = object.__hash__


class ClientState(_Named):
    """The states of a client session."""

    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTING = "disconnecting"
    CLOSED = "closed"
    FAILED = "failed"


class Local(_Named):
    """What the caller of the client half may do."""

    CONNECT = "CONNECT"
    SEND = "SEND"
    SUBSCRIBE = "SUBSCRIBE"
    UNSUBSCRIBE = "UNSUBSCRIBE"
    ACK = "ACK"
    NACK = "NACK"
    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ABORT = "ABORT"
    DISCONNECT = "DISCONNECT"


class Remote(_Named):
    """What the broker may do. ``EOF`` is the end of its bytes."""

    CONNECTED = "CONNECTED"
    MESSAGE = "MESSAGE"
    RECEIPT = "RECEIPT"
    DISCONNECT_RECEIPT = "RECEIPT of DISCONNECT"
    ERROR = "ERROR"
    HEARTBEAT = "heart-beat"
    EOF = "end of input"


class ServerState(_Named):
    """The states of a server session."""

    AWAITING = "awaiting CONNECT"
    NEGOTIATING = "negotiating"
    CONNECTED = "connected"
    DISCONNECTING = "disconnecting"
    CLOSED = "closed"
    FAILED = "failed"


class ServerLocal(_Named):
    """What the caller of the server half may do."""

    ACCEPT = "CONNECTED"
    MESSAGE = "MESSAGE"
    RECEIPT = "RECEIPT"
    ERROR = "ERROR"
    CLOSE = "close"


class ServerRemote(_Named):
    """What a client may do."""

    CONNECT = "CONNECT"
    STOMP = "STOMP"
    SEND = "SEND"
    SUBSCRIBE = "SUBSCRIBE"
    UNSUBSCRIBE = "UNSUBSCRIBE"
    ACK = "ACK"
    NACK = "NACK"
    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ABORT = "ABORT"
    DISCONNECT = "DISCONNECT"
    HEARTBEAT = "heart-beat"
    EOF = "end of input"


_C = ClientState

CLIENT_TABLE: Mapping[ClientState, Mapping[Local | Remote, ClientState]] = {
    _C.IDLE: {Local.CONNECT: _C.CONNECTING, Remote.EOF: _C.FAILED},
    _C.CONNECTING: {
        Remote.CONNECTED: _C.CONNECTED,
        Remote.ERROR: _C.FAILED,
        # Leniency: an EOL before CONNECTED (some servers greet with one) is read as a heart-beat.
        Remote.HEARTBEAT: _C.CONNECTING,
        Remote.EOF: _C.FAILED,
    },
    _C.CONNECTED: {
        **{local: _C.CONNECTED for local in Local if local not in (Local.CONNECT, Local.DISCONNECT)},
        Local.DISCONNECT: _C.DISCONNECTING,
        Remote.MESSAGE: _C.CONNECTED,
        Remote.RECEIPT: _C.CONNECTED,
        Remote.HEARTBEAT: _C.CONNECTED,
        Remote.ERROR: _C.FAILED,
        Remote.EOF: _C.FAILED,
    },
    # Nothing may be sent any more (STOMP 1.2, "DISCONNECT"); what the broker sent before still arrives.
    _C.DISCONNECTING: {
        Remote.MESSAGE: _C.DISCONNECTING,
        Remote.RECEIPT: _C.DISCONNECTING,
        Remote.HEARTBEAT: _C.DISCONNECTING,
        Remote.DISCONNECT_RECEIPT: _C.CLOSED,
        Remote.ERROR: _C.FAILED,
        Remote.EOF: _C.CLOSED,
    },
    _C.CLOSED: {Remote.HEARTBEAT: _C.CLOSED, Remote.EOF: _C.CLOSED},
    _C.FAILED: {Remote.EOF: _C.FAILED},
}

_S = ServerState
_SERVER_EDGES = (ServerRemote.CONNECT, ServerRemote.STOMP, ServerRemote.DISCONNECT, ServerRemote.EOF)

SERVER_TABLE: Mapping[ServerState, Mapping[ServerLocal | ServerRemote, ServerState]] = {
    _S.AWAITING: {
        ServerRemote.CONNECT: _S.NEGOTIATING,
        ServerRemote.STOMP: _S.NEGOTIATING,
        ServerRemote.HEARTBEAT: _S.AWAITING,
        ServerRemote.EOF: _S.CLOSED,
        ServerLocal.ERROR: _S.FAILED,
        ServerLocal.CLOSE: _S.CLOSED,
    },
    _S.NEGOTIATING: {
        ServerRemote.EOF: _S.CLOSED,
        ServerLocal.ACCEPT: _S.CONNECTED,
        ServerLocal.ERROR: _S.FAILED,
        ServerLocal.CLOSE: _S.CLOSED,
    },
    _S.CONNECTED: {
        **{remote: _S.CONNECTED for remote in ServerRemote if remote not in _SERVER_EDGES},
        ServerRemote.DISCONNECT: _S.DISCONNECTING,
        ServerRemote.EOF: _S.CLOSED,
        ServerLocal.MESSAGE: _S.CONNECTED,
        ServerLocal.RECEIPT: _S.CONNECTED,
        ServerLocal.ERROR: _S.FAILED,
        ServerLocal.CLOSE: _S.CLOSED,
    },
    # The client may send nothing any more, and gets only the receipt it asked for.
    _S.DISCONNECTING: {
        ServerRemote.HEARTBEAT: _S.DISCONNECTING,
        ServerRemote.EOF: _S.CLOSED,
        ServerLocal.RECEIPT: _S.DISCONNECTING,
        ServerLocal.ERROR: _S.FAILED,
        ServerLocal.CLOSE: _S.CLOSED,
    },
    _S.CLOSED: {ServerRemote.EOF: _S.CLOSED, ServerLocal.CLOSE: _S.CLOSED},
    _S.FAILED: {ServerRemote.EOF: _S.FAILED, ServerLocal.CLOSE: _S.FAILED},
}

StateT = TypeVar("StateT", bound=enum.Enum)
LocalT = TypeVar("LocalT", bound=enum.Enum)
RemoteT = TypeVar("RemoteT", bound=enum.Enum)


class Machine(Generic[StateT, LocalT, RemoteT]):
    """Holds the state of one session and moves it by one of the tables.

    Args:
        table: state -> allowed input -> next state.
        start: the first state.
        failed: the state after a forbidden input from the peer.
    """

    __slots__ = ("_failed", "_row", "_table", "state")

    def __init__(
        self, table: Mapping[StateT, Mapping[LocalT | RemoteT, StateT]], start: StateT, failed: StateT
    ) -> None:
        self._table = table
        self._failed = failed
        self._enter(start)

    def _enter(self, state: StateT) -> None:
        self.state = state
        self._row = self._table[state]

    def check(self, step: LocalT) -> None:
        """Raise LocalProtocolError if ``step`` is not allowed now; the state stays."""
        if step not in self._row:
            raise LocalProtocolError(f"{step.value} is not allowed in state {self.state.value!r}")

    def local(self, step: LocalT) -> None:
        """Take our own step, or raise LocalProtocolError and stay."""
        self.check(step)
        self._enter(self._row[step])

    def remote(self, step: RemoteT) -> None:
        """Take the peer's step, or fail and raise RemoteProtocolError."""
        state = self._row.get(step)
        if state is None:
            before = self.state
            self._enter(self._failed)
            raise RemoteProtocolError(f"{step.value} from the peer is not allowed in state {before.value!r}")
        if state is not self.state:
            self._enter(state)

    def fail(self) -> None:
        """The peer broke the protocol in a way that the table does not cover."""
        self._enter(self._failed)
