"""How a session opens: what CONNECT asks for, and how the first frame is decoded.

CONNECT and CONNECTED look the same in 1.0 to 1.2, so the first frame is decoded in one of these. Two kinds of
peers need more: lenient ones, whose first frame may fit no strict grammar, and brokers that refuse a client
by an ERROR in a version of their own choice. For both, a first frame that the strict grammar refuses is
decoded again, leniently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from spark_stomp.errors import FrameSyntaxError, LocalProtocolError
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.encoder import check_extra_headers, encode_frame, present
from spark_stomp.protocol.frames import Frame, Limits, Signal
from spark_stomp.protocol.heartbeat import NO_HEARTBEAT, heartbeat_header
from spark_stomp.protocol.versions import LENIENT, accept_version_header, has_heartbeats, validate_versions

_EOL = b"\r\n"
CONNECT_OWNS = frozenset(
    {"accept-version", "host", "login", "passcode", "username", "heart-beat", "receipt", "content-length"}
)


@dataclass(frozen=True)
class ClientConfig:
    """How to connect.

    Args:
        accept_versions: what to offer. With ``"lenient"`` among them CONNECT also has ``username`` beside
            ``login``, and a CONNECTED without version means the lenient dialect.
        host: the virtual host (required by STOMP 1.1 and 1.2; 1.0 brokers ignore it).
        login: user name, None = not sent.
        passcode: password, None = not sent.
        heartbeat: (what we can send, what we would like to receive) in ms; 0 = none.
        connect_headers: further headers of CONNECT.
        limits: for everything received after CONNECTED; lower ones hold before that.
        id_header: the header whose raw value the scanner collects as stable id.
        scan: leave MESSAGE frames as bytes (``MessagesScanned``).
        receipt_prefix: what the ids of numbered receipts begin with (``ReceiptsReceived``); None if there are
            none. Not together with ``scan``.
        receive_margin: how much later than promised the broker's heart-beat may come, as a part of its
            interval.

    Raises:
        LocalProtocolError: a version, a heart-beat or a header that cannot be sent.
    """

    accept_versions: tuple[str, ...] = ("1.2", "1.1", "1.0")
    host: str = "/"
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    heartbeat: tuple[int, int] = NO_HEARTBEAT
    connect_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    limits: Limits = field(default_factory=Limits)
    id_header: str | None = None
    scan: bool = False
    receipt_prefix: str | None = None
    receive_margin: float = 1.0

    def __post_init__(self) -> None:
        validate_versions(self.accept_versions)
        if min(self.heartbeat) < 0 or self.receive_margin < 0:
            raise LocalProtocolError("heart-beats (ms) and their margin cannot be negative")
        check_extra_headers("CONNECT", CONNECT_OWNS, self.connect_headers)

    @property
    def lenient(self) -> bool:
        """Whether the lenient dialect is offered."""
        return LENIENT in self.accept_versions

    @property
    def connect_version(self) -> str:
        """The grammar of CONNECT and of the answer to it: the highest version offered."""
        return max((version for version in self.accept_versions if version != LENIENT), default=LENIENT)


def encode_connect(config: ClientConfig) -> bytes:
    """The octets of CONNECT (STOMP 1.2, "CONNECT or STOMP Frame"; never the STOMP command, which 1.0 lacks).

    Raises:
        FrameEncodeError: a header that CONNECT cannot carry; the text names it and quotes no value.
    """
    version = config.connect_version
    candidates = (
        ("accept-version", accept_version_header(config.accept_versions)),
        ("host", config.host),
        ("username", config.login if config.lenient else None),
        ("login", config.login),
        ("passcode", config.passcode),
        ("heart-beat", heartbeat_header(config.heartbeat) if has_heartbeats(version) else None),
    )
    headers = present(candidates) + config.connect_headers
    return encode_frame(Frame("CONNECT", headers), version)


class HandshakeDecoder:
    """Decodes the first frame: strictly, and leniently if that fails.

    Args:
        version: the grammar to try first.
        limits: for the first frame; they also bound what is kept for the second try.
        lenient: accept any frame on the second try. Otherwise only an ERROR, for its text.
    """

    def __init__(self, version: str, limits: Limits, *, lenient: bool) -> None:
        self._limits = limits
        self._takes_any_frame = lenient
        self._decoder = FrameDecoder(version, limits)
        self._seen: list[bytes] | None = None if version == LENIENT else []
        self._strict_error: FrameSyntaxError | None = None
        self._refusal: FrameSyntaxError | None = None

    @property
    def was_lenient(self) -> bool:
        """Whether the strict grammar refused the first frame."""
        return self._strict_error is not None

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer; never raises."""
        if self._seen is not None:
            # EOLs before the frame are not needed again, and there may be any number of them.
            kept = data if self._seen else data.lstrip(_EOL)
            self._seen += [kept] if kept else []
        self._decoder.receive_data(data)

    def next_event(self) -> Frame | Signal:
        """The next frame, HEARTBEAT or NEED_DATA.

        Raises:
            ProtocolError: the strict grammar's error, if both refuse the frame; again on every later call.
        """
        if self._refusal is not None:
            raise self._refusal
        try:
            event = self._decoder.next_event()
        except FrameSyntaxError as error:
            return self._decode_leniently(error)
        if self._strict_error is not None and isinstance(event, Frame) and not self._acceptable(event):
            self._refuse(self._strict_error)
        return event

    def take_buffer(self) -> bytes:
        """Hand over what was not decoded yet; the decoder is empty afterwards."""
        self._seen = None
        return self._decoder.take_buffer()

    def _decode_leniently(self, error: FrameSyntaxError) -> Frame | Signal:
        """The second try, with everything seen so far; there is no third one."""
        self._strict_error = self._strict_error or error
        if self._seen is None:
            self._refuse(self._strict_error)
        # EOLs before the frame were reported the first time.
        data = b"".join(self._seen).lstrip(_EOL)
        self._seen = None
        self._decoder = FrameDecoder(LENIENT, self._limits)
        self._decoder.receive_data(data)
        return self.next_event()

    def _acceptable(self, frame: Frame) -> bool:
        return self._takes_any_frame or frame.command == "ERROR"

    def _refuse(self, error: FrameSyntaxError) -> NoReturn:
        self._refusal = error
        raise error from None
