"""A session: its state machine, its events, and the base of both halves, client and server.

Events are immutable, and their ``repr`` shows no secret.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from spark_stomp.errors import LocalProtocolError, RemoteProtocolError
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.frames import CLIENT_COMMANDS, HEARTBEAT, NEED_DATA, Frame, Signal
from spark_stomp.protocol.handshake import (
    NO_HEARTBEAT,
    HandshakeDecoder,
    HeartbeatTimer,
    has_heartbeats,
    negotiate_heartbeat,
)
from spark_stomp.protocol.raw import MalformedMessage
from spark_stomp.protocol.scanner import FrameScanner, MessageBlock
from spark_stomp.quoting import quoted, shown

# --- the state machine, as a table for each half
#
# Each table has one row for each state, with the steps that are allowed there and the state that each leads
# to. A step is the command of a frame, or one of ``BEAT``, ``DISCONNECT_RECEIPT`` and ``EOF``. All others are
# forbidden. If we try one, LocalProtocolError is raised and nothing changes. If the peer takes one,
# RemoteProtocolError is raised and the state becomes ``FAILED``.
#
# Client:
#
#     IDLE -CONNECT-> CONNECTING -CONNECTED-> CONNECTED -DISCONNECT-> DISCONNECTING -its receipt, EOF-> CLOSED
#                         |                       |                         |
#                         +-------- ERROR, EOF, broken protocol ------------+ -> FAILED
#
# Server:
#
#     IDLE -CONNECT-> CONNECTING -CONNECTED-> CONNECTED -DISCONNECT-> DISCONNECTING -EOF-> CLOSED
#                         |                       |                         |
#                         +-------- ERROR, broken protocol -----------------+ -> FAILED


class SessionState(enum.Enum):
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


OVER: Final = frozenset({SessionState.CLOSED, SessionState.FAILED})
"""The states in which nothing more is read."""

BEAT: Final = "heart-beat"
"""An EOL between two frames."""
DISCONNECT_RECEIPT: Final = "RECEIPT of DISCONNECT"
EOF: Final = "end of input"
"""The peer sends nothing more."""

Table: TypeAlias = Mapping[SessionState, Mapping[str, SessionState]]
_REQUESTS: Final = CLIENT_COMMANDS - {"CONNECT", "STOMP", "DISCONNECT"}

CLIENT_TABLE: Final[Table] = {
    SessionState.IDLE: {"CONNECT": SessionState.CONNECTING, EOF: SessionState.FAILED},
    SessionState.CONNECTING: {
        "CONNECTED": SessionState.CONNECTED,
        "ERROR": SessionState.FAILED,
        # Leniency: an EOL before CONNECTED (some servers greet with one) is read as a heart-beat.
        BEAT: SessionState.CONNECTING,
        EOF: SessionState.FAILED,
    },
    SessionState.CONNECTED: {
        # We send no NACK and no transaction: brokers differ in what these mean.
        **dict.fromkeys(["SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK"], SessionState.CONNECTED),
        **dict.fromkeys(["MESSAGE", "RECEIPT", BEAT], SessionState.CONNECTED),
        "DISCONNECT": SessionState.DISCONNECTING,
        "ERROR": SessionState.FAILED,
        EOF: SessionState.FAILED,
    },
    # Nothing may be sent any more (STOMP 1.2, "DISCONNECT"); what the broker sent before still arrives.
    SessionState.DISCONNECTING: {
        **dict.fromkeys(["MESSAGE", "RECEIPT", BEAT], SessionState.DISCONNECTING),
        DISCONNECT_RECEIPT: SessionState.CLOSED,
        "ERROR": SessionState.FAILED,
        EOF: SessionState.CLOSED,
    },
    SessionState.CLOSED: {},
    SessionState.FAILED: {},
}

_AN_END: Final = {"ERROR": SessionState.FAILED, EOF: SessionState.CLOSED}

SERVER_TABLE: Final[Table] = {
    SessionState.IDLE: {
        **_AN_END,
        "CONNECT": SessionState.CONNECTING,
        "STOMP": SessionState.CONNECTING,
        BEAT: SessionState.IDLE,
    },
    SessionState.CONNECTING: {**_AN_END, "CONNECTED": SessionState.CONNECTED},
    SessionState.CONNECTED: {
        **_AN_END,
        **dict.fromkeys([*_REQUESTS, "MESSAGE", "RECEIPT", BEAT], SessionState.CONNECTED),
        "DISCONNECT": SessionState.DISCONNECTING,
    },
    # The client may send nothing any more, and gets only the receipt it asked for.
    SessionState.DISCONNECTING: {**_AN_END, **dict.fromkeys(["RECEIPT", BEAT], SessionState.DISCONNECTING)},
    SessionState.CLOSED: {},
    SessionState.FAILED: {},
}


class Machine:
    """Holds the state of one session, and changes it as a table allows."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._enter(SessionState.IDLE)

    def _enter(self, state: SessionState) -> None:
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
        self._enter(SessionState.FAILED)


# --- events

# Characters of a broker's short text that an error shows.
_MESSAGE_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker accepted CONNECT. The session has what it said."""


@dataclass(frozen=True, slots=True)
class ReceiptReceived:
    """The broker has processed the frame that asked for this receipt."""

    receipt_id: str


@dataclass(frozen=True, slots=True)
class ReceiptsReceived:
    """The broker has processed the frames that asked for the receipts with these numbers."""

    numbers: list[int]


@dataclass(frozen=True, slots=True)
class ErrorReceived:
    """An ERROR frame. It ends the session, even if the broker does not close the connection.

    STOMP 1.2, "ERROR".
    """

    frame: Frame

    @property
    def message(self) -> str:
        """The broker's short text, printable: the ``message`` header, or else the first line of the body."""
        text = (self.frame.get("message") or "").strip() or self.detail.strip().partition("\n")[0].strip()
        return shown(text, _MESSAGE_LENGTH) or "(the broker gave no reason)"

    @property
    def detail(self) -> str:
        """The body as text; bytes that are not UTF-8 are replaced."""
        return self.frame.body.decode("utf-8", "replace")

    @property
    def receipt_id(self) -> str | None:
        """The receipt that the failed frame asked for; None if the broker does not name it."""
        return self.frame.get("receipt-id")


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The session is over.

    ``confirmed`` is True if it ended with the receipt of DISCONNECT (in the server half: after DISCONNECT),
    and False if the peer's bytes ended before that; the transport knows why.
    """

    confirmed: bool = True


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """One or more EOLs between two frames."""


@dataclass(frozen=True, slots=True)
class ConnectRequested:
    """In the server half: a client asks to connect. Answer with ``accept`` or ``error``.

    ``headers`` are all headers of CONNECT.
    """

    login: str | None
    passcode: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


Event: TypeAlias = (
    Connected
    | Frame
    | MessageBlock
    | MalformedMessage
    | ReceiptReceived
    | ReceiptsReceived
    | ErrorReceived
    | Disconnected
    | HeartbeatReceived
)
"""What a broker sent. A Frame is a MESSAGE; with ``ClientConfig.scan`` it is foreign, see
:func:`foreign_message`, and consecutive messages are a MessageBlock."""

ServerEvent: TypeAlias = ConnectRequested | Frame | Disconnected | HeartbeatReceived


def foreign_message(message: Frame) -> str:
    """A log line for a message of a subscription that this connection does not have."""
    subscription, destination = (quoted(message.get(name)) for name in ("subscription", "destination"))
    return (
        f"the broker sent a message of the subscription {subscription}, which this "
        f"connection does not have (destination {destination}). It is left un-acked "
        "and gives no row. If more such messages come, they are not logged"
    )


# --- the base of both halves

_Source: TypeAlias = HandshakeDecoder | FrameDecoder | FrameScanner
Read: TypeAlias = Frame | MessageBlock | MalformedMessage | list[int]
"""What a source returns, except signals."""
EventT = TypeVar("EventT")
_HEARTBEAT_EVENT: Final = HeartbeatReceived()
_EOL: Final = b"\n"


class Session(Generic[EventT]):
    """One half of a session: bytes in, events and bytes out. Times are passed in.

    Every ``now`` is in seconds of one monotonic clock.

    Args:
        table: which steps each state allows.
        handshake: decodes the first frame.
        listening: the states in which the peer's heart-beats are expected. Ours are sent only in
            ``CONNECTED``.
    """

    def __init__(self, table: Table, handshake: HandshakeDecoder, listening: frozenset[SessionState]) -> None:
        self._machine = Machine(table)
        self._handshake = handshake
        self._source: _Source = handshake
        self._listening = listening
        self._out: list[bytes | memoryview] = []
        self._now = 0.0
        self._eof = False
        self._timer: HeartbeatTimer | None = None
        self._failure: RemoteProtocolError | None = None
        self.version: str | None = None

    @property
    def state(self) -> SessionState:
        """The state of the session."""
        return self._machine.state

    @property
    def heartbeat(self) -> tuple[int, int]:
        """The negotiated (send, receive) intervals in ms; (0, 0) before CONNECTED."""
        return self._timer.intervals if self._timer else NO_HEARTBEAT

    @property
    def frame_begun(self) -> bool:
        """Whether a frame has arrived in part. Ask only after ``next_event`` has returned NEED_DATA."""
        return not isinstance(self._source, HandshakeDecoder) and self._source.begun

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes from the peer, which were read at ``now``. Never raises because of their content."""
        self._now = now
        if data and self._timer is not None:
            self._timer.received(now)
        self._source.receive_data(data)

    def receive_eof(self, now: float) -> None:
        """Note that the peer sends nothing more. ``next_event`` reports it after all earlier events."""
        self._now = now
        self._eof = True

    def next_event(self) -> EventT | HeartbeatReceived | Literal[Signal.NEED_DATA]:
        """The next event, or NEED_DATA.

        Raises:
            RemoteProtocolError: the peer broke the protocol. Every later call raises it again. The server
                half has queued an ERROR.
        """
        if self._failure is not None:
            raise self._failure
        if self.state in OVER:
            # After ERROR, and after the receipt of DISCONNECT, nothing more is read.
            return NEED_DATA
        try:
            event = self._next_read()
            if event is HEARTBEAT:
                self._machine.remote(BEAT)
                return _HEARTBEAT_EVENT
            if event is not NEED_DATA:
                return self._read(event)
            return self._read_end() if self._eof else NEED_DATA
        except RemoteProtocolError as error:
            self._fail(error)
            raise

    def _next_read(self) -> Read | Signal:
        """The next frame, block or signal of the source."""
        return self._source.next_event()

    @abstractmethod
    def _read(self, event: Read) -> EventT:
        """The event for what the source has read. Raises RemoteProtocolError."""

    @abstractmethod
    def _read_end(self) -> EventT:
        """The event for the end of the peer's bytes."""

    def data_to_send(self) -> bytes | memoryview:
        """Take queued bytes, or the first part of them; ``b""`` if nothing is queued.

        Frames that were queued as a ``memoryview`` are not copied. The last time that was passed in counts as
        the time at which the bytes are sent.
        """
        queued = self._out
        if not queued:
            return b""
        data: bytes | memoryview
        if isinstance(queued[0], memoryview):
            data = queued.pop(0)
        else:
            views = (place for place, piece in enumerate(queued) if isinstance(piece, memoryview))
            count = next(views, len(queued))
            data = b"".join(queued[:count])
            del queued[:count]
        if self._timer is not None:
            self._timer.sent(self._now)
        return data

    def deadline(self, now: float) -> float | None:
        """The time by which :meth:`tick` must be called, ``now`` at the earliest; None: no heart-beats."""
        if self._timer is None or self.state not in self._listening:
            return None
        deadline = self._timer.deadline(sending=self.state is SessionState.CONNECTED)
        return None if deadline is None else max(deadline, now)

    def tick(self, now: float) -> None:
        """Queue a heart-beat if one is due.

        Raises:
            HeartbeatLost: nothing was received for the peer's interval and the margin.
        """
        self._now = now
        if self._timer is None or self.state not in self._listening:
            return
        try:
            self._timer.check(now)
        except RemoteProtocolError as error:
            self._fail(error)
            raise
        self.beat(now)

    def beat(self, now: float) -> None:
        """Queue a heart-beat if one is due, and do not check the peer's."""
        self._now = now
        if self._timer is not None and self.state is SessionState.CONNECTED and self._timer.beat_due(now):
            if not self._out:
                self._out.append(_EOL)
            # Counted from now, and not from when the bytes are taken: otherwise a full socket would keep the
            # deadline in the past, and the caller would poll without a pause.
            self._timer.sent(now)

    def leave_unread(self, now: float) -> None:
        """Note that nothing was read until ``now``, so that silence until then does not count."""
        if self._timer is not None:
            self._timer.received(now)

    def _fail(self, error: RemoteProtocolError) -> None:
        self._machine.fail()
        self._failure = error

    def _start(
        self, source: FrameDecoder | FrameScanner, ours: tuple[int, int], theirs: tuple[int, int], now: float
    ) -> None:
        """The version is agreed: pass on to ``source`` all bytes that follow the first frame.

        ``ours`` and ``theirs`` are the ``heart-beat`` headers of both sides.
        """
        self.version = source.version
        beats = has_heartbeats(self.version)
        intervals = negotiate_heartbeat(ours, theirs) if beats else NO_HEARTBEAT
        self._timer = HeartbeatTimer(intervals, now)
        source.receive_data(self._handshake.take_buffer())
        self._source = source
