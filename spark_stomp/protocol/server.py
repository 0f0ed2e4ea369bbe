"""The server half of a session: bytes in, events and bytes out. No socket, no thread, no clock.

The events are ConnectRequested, then the client's frames, then Disconnected. Each frame has the headers that
the version requires. If the client breaks the protocol, ``next_event`` raises and an ERROR is queued: send
it, then close.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_stomp.errors import HeartbeatLost, RemoteProtocolError, VersionError
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.encoder import Headers, encode_frame
from spark_stomp.protocol.frames import CLIENT_COMMANDS, NEED_DATA, Frame, Limits, Signal, grammar_of
from spark_stomp.protocol.handshake import (
    LENIENT,
    NO_HEARTBEAT,
    HandshakeDecoder,
    accept_version_header,
    has_heartbeats,
    heartbeat_header,
    parse_heartbeat,
    server_version,
)
from spark_stomp.protocol.session import (
    EOF,
    SERVER_TABLE,
    ConnectRequested,
    Disconnected,
    Read,
    ServerEvent,
    Session,
    SessionState,
)

_IN_ALL: Mapping[str, tuple[str, ...]] = {
    "SEND": ("destination",),
    "BEGIN": ("transaction",),
    "COMMIT": ("transaction",),
    "ABORT": ("transaction",),
}
_IN_OLD = {**_IN_ALL, "SUBSCRIBE": ("destination",), "ACK": ("message-id",)}
_IN_NEW = {**_IN_ALL, "SUBSCRIBE": ("destination", "id"), "UNSUBSCRIBE": ("id",)}
_REQUIRED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    LENIENT: _IN_OLD,
    "1.0": _IN_OLD,
    "1.1": {**_IN_NEW, "ACK": ("message-id", "subscription"), "NACK": ("message-id", "subscription")},
    "1.2": {**_IN_NEW, "ACK": ("id",), "NACK": ("id",)},
}
"""The headers that a client's frame must have, by version ("Client Frames" of each specification)."""


@dataclass(frozen=True)
class ServerConfig:
    """How a server answers CONNECT, and what it accepts.

    Args:
        versions: the supported versions. If ``"lenient"`` is one of them, clients of the lenient dialect are
            accepted, too.
        server: the ``server`` header of CONNECTED, "name/version"; None: no such header.
        heartbeat: (what we can send, what we would like to receive) in ms; 0: no heart-beats.
        limits: the largest frames to accept after CONNECT. For CONNECT, lower limits apply.
    """

    versions: tuple[str, ...] = ("1.2", "1.1", "1.0")
    server: str | None = None
    heartbeat: tuple[int, int] = NO_HEARTBEAT
    limits: Limits = field(default_factory=Limits)


class ServerConnection(Session[ServerEvent]):
    """One session with a client. Not reusable, not thread-safe."""

    def __init__(self, config: ServerConfig) -> None:
        handshake = HandshakeDecoder("1.2", Limits.before_connected(), lenient=LENIENT in config.versions)
        super().__init__(SERVER_TABLE, handshake, frozenset({SessionState.CONNECTED}))
        self._config = config
        self._required: Mapping[str, tuple[str, ...]] = {}
        self._client_heartbeat = NO_HEARTBEAT
        self._names_version = False
        self._chosen = "1.2"
        self._frame_at_fault: Frame | None = None

    # --- what we send

    def accept(self, now: float, *, session: str) -> None:
        """Answer ConnectRequested with CONNECTED (STOMP 1.2, "CONNECTED Frame")."""
        self._machine.check("CONNECTED")
        version, config = self._chosen, self._config
        own = [("version", version)] if self._names_version else []
        own.append(("session", session))
        if config.server is not None:
            own.append(("server", config.server))
        if has_heartbeats(version):
            own.append(("heart-beat", heartbeat_header(config.heartbeat)))
        data = encode_frame(Frame("CONNECTED", tuple(own)), version)
        self._machine.local("CONNECTED")
        self._required = _REQUIRED[version]
        source = FrameDecoder(version, config.limits)
        self._start(source, config.heartbeat, self._client_heartbeat, now)
        self._queue(data)

    def message_raw(self, data: bytes) -> None:
        """Queue a MESSAGE frame that is already encoded in the negotiated version."""
        self._machine.check("MESSAGE")
        self._queue(data)

    def receipt(self, receipt_id: str) -> None:
        """Queue a RECEIPT: the frame that asked for it was processed."""
        self._machine.check("RECEIPT")
        self._queue(encode_frame(Frame("RECEIPT", (("receipt-id", receipt_id),)), self._chosen))

    def error(self, message: str, *, detail: str = "", receipt_id: str | None = None) -> None:
        """Queue an ERROR, the last frame. The caller closes once it is sent (STOMP 1.2, "ERROR").

        Args:
            message: the short text. Line ends in it become blanks.
            detail: the body, as plain text.
            receipt_id: the receipt that the refused frame asked for; None if it asked for none.
        """
        self._machine.local("ERROR")
        self._queue_error(message, detail, receipt_id)

    def _queue(self, frame: bytes) -> None:
        """Queue a frame and, as brokers do, an end of line: one client takes no second frame without it."""
        self._out += (frame, b"\n")

    def _queue_error(self, message: str, detail: str, receipt_id: str | None, headers: Headers = ()) -> None:
        body = detail.encode()
        own = [("message", " ".join(message.split())), *headers]
        if receipt_id is not None:
            own.append(("receipt-id", receipt_id))
        own += [("content-type", "text/plain;charset=utf-8"), ("content-length", str(len(body)))]
        self._queue(encode_frame(Frame("ERROR", tuple(own), body), self._chosen))

    # --- what comes

    def _fail(self, error: RemoteProtocolError) -> None:
        super()._fail(error)
        if isinstance(error, HeartbeatLost):
            # A client that sends nothing probably reads nothing, so it gets no ERROR.
            return
        supported = accept_version_header(self._config.versions)
        named = (("version", supported),) if isinstance(error, VersionError) and supported else ()
        receipt = self._frame_at_fault.get("receipt") if self._frame_at_fault else None
        self._queue_error(error.message, error.message, receipt if self._answerable(receipt) else None, named)

    def _next_read(self) -> Read | Signal:
        # Frames that the client sends before CONNECT is answered are decoded only after the answer, in the
        # agreed version.
        self._frame_at_fault = None
        return NEED_DATA if self.state is SessionState.CONNECTING else super()._next_read()

    def _read_end(self) -> ServerEvent:
        confirmed = self.state is SessionState.DISCONNECTING
        self._machine.remote(EOF)
        return Disconnected(confirmed=confirmed)

    def _read(self, event: Read) -> ServerEvent:
        assert isinstance(event, Frame), "a FrameDecoder returns only frames"
        frame = self._frame_at_fault = event
        if frame.command not in CLIENT_COMMANDS:
            raise RemoteProtocolError(f"a client may not send {frame.command}")
        self._machine.remote(frame.command)
        if not self._answerable(frame.get("receipt")):
            raise RemoteProtocolError(f"STOMP {self._chosen} cannot give a receipt whose id has a CR in it")
        if frame.command in ("CONNECT", "STOMP"):
            return self._read_connect(frame)
        if frame.command not in grammar_of(self._chosen).sendable:
            raise RemoteProtocolError(f"STOMP {self._chosen} has no {frame.command}")
        for name in self._required.get(frame.command, ()):
            if not frame.get(name):
                raise RemoteProtocolError(f"{frame.command} lacks the header {name!r}")
        return frame

    def _answerable(self, receipt: str | None) -> bool:
        """Whether a RECEIPT can have this id. Only STOMP 1.2 can escape a CR in it."""
        return receipt is None or self._chosen == "1.2" or "\r" not in receipt

    def _read_connect(self, frame: Frame) -> ServerEvent:
        if frame.get("receipt") is not None:
            raise RemoteProtocolError("CONNECT may not ask for a receipt")
        old_login = frame.get("username") if frame.get("login") is None else None
        lenient = old_login is not None or self._handshake.was_lenient
        accept_version = frame.get("accept-version")
        self._chosen = server_version(accept_version, self._config.versions, lenient=lenient)
        self._names_version = accept_version is not None
        self._client_heartbeat = parse_heartbeat(frame.get("heart-beat"))
        trim = str.lstrip if self._chosen == LENIENT else str
        login, passcode = frame.get("login") or old_login, frame.get("passcode")
        return ConnectRequested(
            login=None if login is None else trim(login),
            passcode=None if passcode is None else trim(passcode),
            headers=frame.headers,
        )
