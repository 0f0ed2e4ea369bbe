"""The server half of a session: bytes in, events and bytes out. No socket, no thread, no clock.

Events are ConnectRequested, then the client's frames (checked for the headers that the version requires),
then Disconnected. If the client breaks the protocol, ``next_event`` raises and an ERROR is queued: send it,
then close.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spark_stomp.errors import HeartbeatLost, RemoteProtocolError, VersionError
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.encoder import Headers, encode_frame
from spark_stomp.protocol.events import ConnectRequested, Disconnected, HeartbeatReceived, ServerEvent
from spark_stomp.protocol.frames import HEARTBEAT, NEED_DATA, Frame, Limits, Signal
from spark_stomp.protocol.handshake import HandshakeDecoder
from spark_stomp.protocol.heartbeat import (
    NO_HEARTBEAT,
    HeartbeatTimer,
    heartbeat_header,
    negotiate_heartbeat,
    parse_heartbeat,
)
from spark_stomp.protocol.session import Session
from spark_stomp.protocol.states import SERVER_TABLE, Machine, ServerLocal, ServerRemote, ServerState
from spark_stomp.protocol.versions import (
    LENIENT,
    accept_version_header,
    has_heartbeats,
    has_nack,
    parse_version_list,
    server_version,
    validate_versions,
)

_HEARTBEAT_EVENT = HeartbeatReceived()
_OVER = frozenset({ServerState.CLOSED, ServerState.FAILED})
_STEPS: Mapping[str, ServerRemote] = {
    step.value: step for step in ServerRemote if step not in (ServerRemote.HEARTBEAT, ServerRemote.EOF)
}

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
    """How to answer.

    Args:
        versions: what is supported; ``"lenient"`` among them also takes the lenient dialect.
        server: CONNECTED's ``server`` header, "name/version"; None = none.
        heartbeat: (what we can send, what we would like to receive) in ms; 0 = none.
        limits: for everything after CONNECT; lower ones hold for CONNECT.
        receive_margin: how much later than promised the client's heart-beat may come, as a part of its
            interval.
    """

    versions: tuple[str, ...] = ("1.2", "1.1", "1.0")
    server: str | None = None
    heartbeat: tuple[int, int] = NO_HEARTBEAT
    limits: Limits = field(default_factory=Limits)
    receive_margin: float = 1.0

    def __post_init__(self) -> None:
        validate_versions(self.versions)


class ServerConnection(Session[ServerState, ServerLocal, ServerRemote, ServerEvent]):
    """One session with a client. Not reusable, not thread-safe."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(
            Machine(SERVER_TABLE, ServerState.AWAITING, ServerState.FAILED),
            HandshakeDecoder("1.2", Limits.before_connected(), lenient=LENIENT in config.versions),
            beating=frozenset({ServerState.CONNECTED}),
            listening=frozenset({ServerState.CONNECTED}),
        )
        self._config = config
        self._required: Mapping[str, tuple[str, ...]] = {}
        self._client_heartbeat = NO_HEARTBEAT
        self._names_version = False
        self._chosen = "1.2"
        self._frame_at_fault: Frame | None = None

    # --- what we send

    def accept(self, now: float, *, session: str, headers: Headers = ()) -> None:
        """Answer ConnectRequested with CONNECTED (STOMP 1.2, "CONNECTED Frame")."""
        self._machine.check(ServerLocal.ACCEPT)
        version, config = self._chosen, self._config
        own = [("version", version)] if self._names_version else []
        own.append(("session", session))
        if config.server is not None:
            own.append(("server", config.server))
        intervals = NO_HEARTBEAT
        if has_heartbeats(version):
            own.append(("heart-beat", heartbeat_header(config.heartbeat)))
            intervals = negotiate_heartbeat(config.heartbeat, self._client_heartbeat)
        data = encode_frame(Frame("CONNECTED", (*own, *headers)), version)
        self._machine.local(ServerLocal.ACCEPT)
        self.version = version
        self._required = _REQUIRED[version]
        self._timer = HeartbeatTimer(intervals, now, margin=config.receive_margin)
        self._switch_source(FrameDecoder(version, config.limits))
        self._out.append(data)

    def message(self, headers: Headers, body: bytes) -> None:
        """Queue a MESSAGE frame. All headers are the caller's, ``content-length`` too."""
        self._machine.check(ServerLocal.MESSAGE)
        self._out.append(encode_frame(Frame("MESSAGE", tuple(headers), body), self._chosen))

    def message_raw(self, data: bytes) -> None:
        """Queue a MESSAGE frame that is encoded already, in the negotiated version."""
        self._machine.check(ServerLocal.MESSAGE)
        self._out.append(data)

    def receipt(self, receipt_id: str) -> None:
        """Queue a RECEIPT: the frame that asked for it was processed."""
        self._machine.check(ServerLocal.RECEIPT)
        self._out.append(encode_frame(Frame("RECEIPT", (("receipt-id", receipt_id),)), self._chosen))

    def error(
        self, message: str, *, detail: str = "", receipt_id: str | None = None, headers: Headers = ()
    ) -> None:
        """Queue an ERROR, the last frame; the caller closes once it is sent (STOMP 1.2, "ERROR").

        Args:
            message: the short text; line ends in it become spaces.
            detail: the body, plain text.
            receipt_id: the receipt that the frame at fault asked for.
        """
        self._machine.local(ServerLocal.ERROR)
        self._queue_error(message, detail, receipt_id, headers)

    def close(self) -> None:
        """End the session. What is queued may still be sent; nothing more is read."""
        self._machine.local(ServerLocal.CLOSE)

    def _queue_error(self, message: str, detail: str, receipt_id: str | None, headers: Headers) -> None:
        body = detail.encode()
        own = [("message", " ".join(message.split())), *headers]
        if receipt_id is not None:
            own.append(("receipt-id", receipt_id))
        own += [("content-type", "text/plain;charset=utf-8"), ("content-length", str(len(body)))]
        self._out.append(encode_frame(Frame("ERROR", tuple(own), body), self._chosen))

    # --- what comes

    def _fail(self, error: RemoteProtocolError) -> None:
        super()._fail(error)
        if isinstance(error, HeartbeatLost):
            # A silent client would not read the ERROR.
            return
        supported = accept_version_header(self._config.versions)
        named = (("version", supported),) if isinstance(error, VersionError) and supported else ()
        receipt = self._frame_at_fault.get("receipt") if self._frame_at_fault else None
        self._queue_error(error.message, error.message, receipt if self._answerable(receipt) else None, named)

    def _read_event(self) -> ServerEvent | Literal[Signal.NEED_DATA]:
        if self.state in _OVER:
            return NEED_DATA
        if self.state is ServerState.NEGOTIATING:
            # Nothing is decoded between ConnectRequested and its answer.
            return self._read_end() if self._eof else NEED_DATA
        self._frame_at_fault = None
        event = self._source.next_event()
        if isinstance(event, Frame):
            return self._read_frame(event)
        if event is HEARTBEAT:
            self._machine.remote(ServerRemote.HEARTBEAT)
            return _HEARTBEAT_EVENT
        return self._read_end() if self._eof else NEED_DATA

    def _read_end(self) -> ServerEvent:
        confirmed = self.state is ServerState.DISCONNECTING
        self._machine.remote(ServerRemote.EOF)
        return Disconnected(confirmed=confirmed)

    def _read_frame(self, frame: Frame) -> ServerEvent:
        self._frame_at_fault = frame
        step = _STEPS.get(frame.command)
        if step is None:
            raise RemoteProtocolError(f"a client may not send {frame.command}")
        self._machine.remote(step)
        if not self._answerable(frame.get("receipt")):
            raise RemoteProtocolError(f"a receipt with a CR in it cannot be given in STOMP {self._chosen}")
        if step is ServerRemote.CONNECT or step is ServerRemote.STOMP:
            return self._read_connect(frame)
        if step is ServerRemote.NACK and not has_nack(self._chosen):
            raise RemoteProtocolError(f"STOMP {self._chosen} has no NACK")
        for name in self._required.get(frame.command, ()):
            if not frame.get(name):
                raise RemoteProtocolError(f"{frame.command} lacks the header {name!r}")
        return frame

    def _answerable(self, receipt: str | None) -> bool:
        """Whether a RECEIPT can carry it: all versions may read a CR in a header, only 1.2 can write it."""
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
            host=frame.get("host"),
            versions=parse_version_list(accept_version or ""),
            heartbeat=self._client_heartbeat,
            headers=frame.headers,
        )
