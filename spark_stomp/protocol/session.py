"""What the client and the server half share: their events, queued bytes, heart-beats, failure.

Events are immutable, and their ``repr`` holds no secret.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.frames import HEARTBEAT, NEED_DATA, Frame, Signal
from spark_stomp.protocol.handshake import (
    NO_HEARTBEAT,
    HandshakeDecoder,
    HeartbeatTimer,
    has_heartbeats,
    negotiate_heartbeat,
)
from spark_stomp.protocol.raw import MalformedMessage
from spark_stomp.protocol.scanner import FrameScanner, MessageBlock
from spark_stomp.protocol.states import BEAT, OVER, Machine, State, Table
from spark_stomp.quoting import quoted, shown

_MESSAGE_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker accepted CONNECT. ``heartbeat``: negotiated (send, receive) intervals in ms, 0 = none."""

    version: str
    server: str | None
    session: str | None
    heartbeat: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """One MESSAGE frame, decoded. If messages are scanned: one of a subscription that was not made here."""

    frame: Frame

    @property
    def stray(self) -> str:
        """A line for the log that says of a foreign message what it is and what becomes of it."""
        subscription, destination = (quoted(self.frame.get(name)) for name in ("subscription", "destination"))
        return (
            f"the broker sent a message of the subscription {subscription}, which this "
            f"connection does not have (destination {destination}): it is left un-acked "
            "and gives no row. Said once, though there may be more"
        )


@dataclass(frozen=True, slots=True)
class MessagesScanned:
    """Consecutive MESSAGE frames, left as bytes (``ClientConfig.scan``)."""

    block: MessageBlock


@dataclass(frozen=True, slots=True)
class ReceiptReceived:
    """The broker has processed the frame that asked for this receipt."""

    receipt_id: str


@dataclass(frozen=True, slots=True)
class ReceiptsReceived:
    """The broker has processed the frames that asked for receipts with these numbers."""

    numbers: list[int]


@dataclass(frozen=True, slots=True)
class ErrorReceived:
    """An ERROR frame. It ends the session, whether or not the broker closes (STOMP 1.2, "ERROR")."""

    frame: Frame

    @property
    def message(self) -> str:
        """The broker's short text, fit to be shown: its ``message`` header, or else the body's first line."""
        text = (self.frame.get("message") or "").strip() or self.detail.strip().partition("\n")[0].strip()
        return shown(text, _MESSAGE_LENGTH) or "(the broker gave no reason)"

    @property
    def detail(self) -> str:
        """The body as text; bytes that are no UTF-8 are replaced."""
        return self.frame.body.decode("utf-8", "replace")

    @property
    def receipt_id(self) -> str | None:
        """The receipt that the failed frame asked for; None if the broker does not name it."""
        return self.frame.get("receipt-id")


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The session is over.

    ``confirmed``: it ended in order, with the receipt of DISCONNECT (server half: after DISCONNECT). False:
    the bytes ended without that; the transport knows why.
    """

    confirmed: bool = True


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """An EOL between frames."""


@dataclass(frozen=True, slots=True)
class ConnectRequested:
    """Server half: a client asks to connect; answer with ``accept`` or ``error``.

    ``heartbeat`` is the client's (can send, would like) in ms; ``headers`` are all headers of CONNECT.
    """

    login: str | None
    host: str | None
    versions: tuple[str, ...]
    heartbeat: tuple[int, int]
    passcode: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


Event: TypeAlias = (
    Connected
    | MessageReceived
    | MessagesScanned
    | MalformedMessage
    | ReceiptReceived
    | ReceiptsReceived
    | ErrorReceived
    | Disconnected
    | HeartbeatReceived
)

ServerEvent: TypeAlias = ConnectRequested | Frame | Disconnected | HeartbeatReceived

_Source: TypeAlias = HandshakeDecoder | FrameDecoder | FrameScanner
Read: TypeAlias = Frame | MessageBlock | MalformedMessage | list[int]
"""What a source reads, but for signals."""
EventT = TypeVar("EventT")
_HEARTBEAT_EVENT: Final = HeartbeatReceived()
_EOL: Final = b"\n"


class Session(Generic[EventT]):
    """One half of a session: bytes in, bytes out, time passed in (seconds of one monotonic clock).

    Args:
        table: of the states.
        handshake: decodes the first frame.
        listening: the states in which the peer's heart-beats are expected. Ours are sent while connected.
    """

    def __init__(self, table: Table, handshake: HandshakeDecoder, listening: frozenset[State]) -> None:
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
    def state(self) -> State:
        """Where the session is."""
        return self._machine.state

    @property
    def heartbeat(self) -> tuple[int, int]:
        """Negotiated (send, receive) intervals in ms; (0, 0) before that."""
        return self._timer.intervals if self._timer else NO_HEARTBEAT

    @property
    def frame_begun(self) -> bool:
        """Whether a part of a frame has come, and not yet the rest; ask once ``next_event`` has no more."""
        return not isinstance(self._source, HandshakeDecoder) and self._source.begun

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes that the peer sent, read at ``now``; never raises because of their content."""
        self._now = now
        if data and self._timer is not None:
            self._timer.received(now)
        self._source.receive_data(data)

    def receive_eof(self, now: float) -> None:
        """The peer sends nothing more. ``next_event`` reports it after everything before it."""
        self._now = now
        self._eof = True

    def next_event(self) -> EventT | HeartbeatReceived | Literal[Signal.NEED_DATA]:
        """The next event, or NEED_DATA.

        Raises:
            RemoteProtocolError: the peer broke the protocol; raised again by every later call. The server
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
        """What the source has next."""
        return self._source.next_event()

    @abstractmethod
    def _read(self, event: Read) -> EventT:
        """The event that this is; raises RemoteProtocolError."""

    @abstractmethod
    def _read_end(self) -> EventT:
        """The event that the end of the peer's bytes is."""

    def data_to_send(self, now: float | None = None) -> bytes | memoryview:
        """Take what is queued, or its beginning; ``b""`` if nothing is. Large pieces are not copied.

        ``now``: when it goes out; by default the last time passed in.
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
            self._timer.sent(self._now if now is None else now)
        return data

    def deadline(self, now: float) -> float | None:
        """The time by which :meth:`tick` must be called; not before ``now``; None = no heart-beats."""
        if self._timer is None or self.state not in self._listening:
            return None
        deadline = self._timer.deadline(sending=self.state is State.CONNECTED)
        return None if deadline is None else max(deadline, now)

    def tick(self, now: float) -> None:
        """Queue a heart-beat if one is due.

        Raises:
            HeartbeatLost: nothing was received for longer than the peer's interval and the margin.
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
        """Queue a heart-beat if one is due, without regard to the peer's."""
        self._now = now
        if self._timer is not None and self.state is State.CONNECTED and self._timer.beat_due(now):
            if not self._out:
                self._out.append(_EOL)
            # Counted from now, not from when it is taken: else a full socket would keep the deadline in the
            # past, and the caller would spin.
            self._timer.sent(now)

    def leave_unread(self, now: float) -> None:
        """What the peer sends is left unread until ``now``, so that its silence until then proves nothing."""
        if self._timer is not None:
            self._timer.received(now)

    def _fail(self, error: RemoteProtocolError) -> None:
        self._machine.fail()
        self._failure = error

    def _start(
        self,
        source: FrameDecoder | FrameScanner,
        ours: tuple[int, int],
        theirs: tuple[int, int],
        now: float,
        margin: float,
    ) -> None:
        """The version is agreed: let ``source`` read what follows the first frame, even in the same read.

        ``ours`` and ``theirs`` are the heart-beats of both sides.
        """
        self.version = source.version
        beats = has_heartbeats(self.version)
        intervals = negotiate_heartbeat(ours, theirs) if beats else NO_HEARTBEAT
        self._timer = HeartbeatTimer(intervals, now, margin=margin)
        source.receive_data(self._handshake.take_buffer())
        self._source = source
