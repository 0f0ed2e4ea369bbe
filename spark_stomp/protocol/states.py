"""The state machine of a session, as a table for each half.

Each table has one row for each state, with the steps that are allowed there and the state that each leads to.
A step is the command of a frame, or one of ``BEAT``, ``DISCONNECT_RECEIPT``, ``CLOSE`` and ``EOF``. All other
steps are forbidden. If we try one, LocalProtocolError is raised and nothing changes. If the peer takes one,
RemoteProtocolError is raised and the state becomes ``FAILED``.

Client::

    IDLE -CONNECT-> CONNECTING -CONNECTED-> CONNECTED -DISCONNECT-> DISCONNECTING -its receipt, EOF-> CLOSED
                        |                       |                         |
                        +-------- ERROR, EOF, broken protocol ------------+ -> FAILED

Server::

    IDLE -CONNECT-> CONNECTING -CONNECTED-> CONNECTED -DISCONNECT-> DISCONNECTING -close, EOF-> CLOSED
                        |                       |                         |
                        +-------- ERROR, broken protocol -----------------+ -> FAILED
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias

from spark_stomp.errors import LocalProtocolError, RemoteProtocolError
from spark_stomp.protocol.grammar import CLIENT_COMMANDS


class State(enum.Enum):
    """The states of a session, the same for both halves."""

    # Every frame looks up a table, and the hash of ``Enum`` is slow Python code.
    __hash__ = object.__hash__

    IDLE = "idle"
    CONNECTING = "connecting"
    """CONNECT was sent and has no answer yet."""
    CONNECTED = "connected"
    DISCONNECTING = "disconnecting"
    CLOSED = "closed"
    FAILED = "failed"


OVER: Final = frozenset({State.CLOSED, State.FAILED})
"""The states in which nothing more is read."""

BEAT: Final = "heart-beat"
"""An EOL between two frames."""
DISCONNECT_RECEIPT: Final = "RECEIPT of DISCONNECT"
CLOSE: Final = "close"
"""The server ends the session."""
EOF: Final = "end of input"
"""The peer sends nothing more."""

Table: TypeAlias = Mapping[State, Mapping[str, State]]
_REQUESTS: Final = CLIENT_COMMANDS - {"CONNECT", "STOMP", "DISCONNECT"}

CLIENT_TABLE: Final[Table] = {
    State.IDLE: {"CONNECT": State.CONNECTING, EOF: State.FAILED},
    State.CONNECTING: {
        "CONNECTED": State.CONNECTED,
        "ERROR": State.FAILED,
        # Leniency: an EOL before CONNECTED (some servers greet with one) is read as a heart-beat.
        BEAT: State.CONNECTING,
        EOF: State.FAILED,
    },
    State.CONNECTED: {
        # We send no NACK and no transaction: brokers differ in what these mean.
        **dict.fromkeys(["SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK"], State.CONNECTED),
        **dict.fromkeys(["MESSAGE", "RECEIPT", BEAT], State.CONNECTED),
        "DISCONNECT": State.DISCONNECTING,
        "ERROR": State.FAILED,
        EOF: State.FAILED,
    },
    # Nothing may be sent any more (STOMP 1.2, "DISCONNECT"); what the broker sent before still arrives.
    State.DISCONNECTING: {
        **dict.fromkeys(["MESSAGE", "RECEIPT", BEAT], State.DISCONNECTING),
        DISCONNECT_RECEIPT: State.CLOSED,
        "ERROR": State.FAILED,
        EOF: State.CLOSED,
    },
    State.CLOSED: {},
    State.FAILED: {},
}

_OUR_END: Final = {"ERROR": State.FAILED, CLOSE: State.CLOSED, EOF: State.CLOSED}

SERVER_TABLE: Final[Table] = {
    State.IDLE: {**_OUR_END, "CONNECT": State.CONNECTING, "STOMP": State.CONNECTING, BEAT: State.IDLE},
    State.CONNECTING: {**_OUR_END, "CONNECTED": State.CONNECTED},
    State.CONNECTED: {
        **_OUR_END,
        **dict.fromkeys([*_REQUESTS, "MESSAGE", "RECEIPT", BEAT], State.CONNECTED),
        "DISCONNECT": State.DISCONNECTING,
    },
    # The client may send nothing any more, and gets only the receipt it asked for.
    State.DISCONNECTING: {**_OUR_END, **dict.fromkeys(["RECEIPT", BEAT], State.DISCONNECTING)},
    State.CLOSED: {CLOSE: State.CLOSED},
    State.FAILED: {CLOSE: State.FAILED},
}


class Machine:
    """Holds the state of one session, and changes it as a table allows."""

    def __init__(self, table: Table, state: State = State.IDLE) -> None:
        self._table = table
        self._enter(state)

    def _enter(self, state: State) -> None:
        self.state = state
        self._row = self._table[state]

    def check(self, step: str) -> None:
        """Raise LocalProtocolError if ``step`` is not allowed now. The state does not change."""
        if step not in self._row:
            raise LocalProtocolError(f"{step} is not allowed in state {self.state.value!r}")

    def local(self, step: str) -> None:
        """Take our own step. If it is not allowed, raise LocalProtocolError and keep the state."""
        self.check(step)
        self._enter(self._row[step])

    def remote(self, step: str) -> None:
        """Take the peer's step. If it is not allowed, enter ``FAILED`` and raise RemoteProtocolError."""
        state = self._row.get(step)
        if state is None:
            before = self.state
            self.fail()
            raise RemoteProtocolError(f"{step} from the peer is not allowed in state {before.value!r}")
        if state is not self.state:
            self._enter(state)

    def fail(self) -> None:
        """Enter ``FAILED``, because the peer broke the protocol."""
        self._enter(State.FAILED)
