"""How a session opens: versions, heart-beats, CONNECT, and the decoding of the first frame.

STOMP 1.1 and 1.2, "Protocol Negotiation", "Heart-beating". A version is written as on the wire: ``"1.0"``,
``"1.1"``, ``"1.2"``. ``"lenient"`` is the dialect of peers that are older than any negotiation. It is never
named on the wire: a CONNECT or CONNECTED that names no version can mean it.

Intervals of heart-beats are milliseconds, as on the wire. Times are seconds of one monotonic clock, which
callers pass in.

CONNECT and CONNECTED look alike in 1.0, 1.1 and 1.2, so the first frame is decoded in one of these. If that
fails, it is decoded once more in the lenient dialect, for two kinds of peers: lenient ones, whose first frame
may fit no strict grammar, and brokers that refuse a client by an ERROR in a version of their choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from spark_stomp.errors import FrameSyntaxError, HeartbeatLost, RemoteProtocolError, VersionError
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.encoder import encode_frame, present
from spark_stomp.protocol.frames import Frame, HeaderPairs, Limits, Signal, escape
from spark_stomp.quoting import quoted, shown

LENIENT = "lenient"
_OLD = frozenset({"1.0", LENIENT})
_NUMBERED = re.compile(r"[0-9]+(?:\.[0-9]+)*\Z")


def accept_version_header(versions: Iterable[str]) -> str | None:
    """The value of ``accept-version``: versions with commas between them, the newest first.

    None if only the lenient dialect is offered. The order has no meaning (STOMP 1.2, "CONNECT or STOMP
    Frame").
    """
    named = sorted({version for version in versions if version != LENIENT}, key=_sort_key, reverse=True)
    return ",".join(named) or None


def parse_version_list(value: str) -> tuple[str, ...]:
    """The versions in an ``accept-version`` header, or in the ``version`` header of an ERROR.

    Leniency: blanks around the commas are accepted, because ActiveMQ and some old clients write them.
    """
    return tuple(part for part in (item.strip() for item in value.split(",")) if part)


def best_version(client: Iterable[str], server: Iterable[str]) -> str | None:
    """The highest version that both sides have, or None (STOMP 1.2, "Protocol Negotiation").

    Versions are compared number by number, so 1.10 is higher than 1.9. Names without numbers are ignored.
    """
    common = {version for version in client if _NUMBERED.match(version)} & set(server)
    return max(common, key=_sort_key, default=None)


def has_heartbeats(version: str) -> bool:
    """Whether the version has heart-beats: 1.0 and the lenient dialect have none."""
    return version not in _OLD


def ack_modes(version: str) -> tuple[str, ...]:
    """The values that SUBSCRIBE's ``ack`` may take; ``client-individual`` came with 1.1."""
    return ("auto", "client") if version in _OLD else ("auto", "client", "client-individual")


def client_version(offered: Sequence[str], named: str | None) -> str:
    """The version of the session, which the client learns from CONNECTED.

    Args:
        offered: the client's versions.
        named: the ``version`` header of CONNECTED. None means 1.0, or the lenient dialect if that was
            offered.

    Raises:
        VersionError: the version was not offered.
    """
    version = named or "1.0"
    if version in offered and version != LENIENT and (named or LENIENT not in offered):
        return version
    if version == "1.0" and LENIENT in offered:
        return LENIENT
    named_version = f"version:{shown(version)}" if named else "no version, which means 1.0"
    raise VersionError(f"offered STOMP {_listed(offered)}, but CONNECTED says {named_version}")


def check_refusal(offered: Sequence[str], supported: str | None, message: str) -> None:
    """Raise VersionError if an ERROR in answer to CONNECT means that the broker supports no offered version.

    Args:
        offered: the client's versions.
        supported: the ``version`` header of the ERROR. RabbitMQ sends it with every ERROR, so it means a
            refusal only if it names none of the client's versions.
        message: the broker's short text, for the error.
    """
    theirs = parse_version_list(supported or "")
    ours = {"1.0" if version == LENIENT else version for version in offered}
    if theirs and ours.isdisjoint(theirs):
        raise VersionError(
            f"offered STOMP {_listed(offered)}, but the broker has {_listed(theirs)}: {message}"
        )


def server_version(accept_version: str | None, supported: Sequence[str], *, lenient: bool) -> str:
    """The version of the session, as the server chooses it.

    Args:
        accept_version: the ``accept-version`` header of CONNECT; None means 1.0.
        supported: the server's versions.
        lenient: whether CONNECT was in the lenient dialect.

    Raises:
        VersionError: the two sides have no version in common.
    """
    if lenient and accept_version is None and LENIENT in supported:
        return LENIENT
    offered = ("1.0",) if accept_version is None else parse_version_list(accept_version)
    version = best_version(offered, supported)
    if version is None:
        raise VersionError(f"the client offered STOMP {_listed(offered)}, supported are {_listed(supported)}")
    return version


def _listed(versions: Sequence[str]) -> str:
    return shown(", ".join(versions))


def _sort_key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


# --- heart-beats

NO_HEARTBEAT = (0, 0)

# Two decimal numbers without sign or blank. Any sensible interval fits in 18 digits.
_HEADER = re.compile(r"([0-9]{1,18}),([0-9]{1,18})\Z")

# A heart-beat is sent after this fraction of the interval, because some peers (ActiveMQ Classic) allow no
# delay on the way.
_SEND_AFTER = 0.6

# The peer's bytes may come after this many intervals. The specification asks for such a margin
# ("Heart-beating").
_RECEIVE_WITHIN = 2.0


def parse_heartbeat(value: str | None) -> tuple[int, int]:
    """The two numbers of a ``heart-beat`` header, in ms: what its sender can send, what it would like to get.

    A missing header (None) means ``0,0``.

    Raises:
        RemoteProtocolError: the value is not two unsigned numbers with a comma between them.
    """
    if value is None:
        return NO_HEARTBEAT
    match = _HEADER.match(value)
    if match is None:
        raise RemoteProtocolError(
            f"invalid heart-beat header {quoted(value, 64)}: expected two numbers as in '0,10000'"
        )
    return int(match[1]), int(match[2])


def heartbeat_header(pair: tuple[int, int]) -> str:
    """The value of the ``heart-beat`` header for (what we can send, what we would like to get), in ms."""
    return f"{pair[0]},{pair[1]}"


def interval(can_send: int, wants: int) -> int:
    """The interval of one direction in ms: the larger number, or 0 (no heart-beats) if one is 0."""
    return max(can_send, wants) if can_send and wants else 0


def negotiate_heartbeat(ours: tuple[int, int], theirs: tuple[int, int]) -> tuple[int, int]:
    """The (send, receive) intervals in ms that follow from both headers; 0 means no heart-beats."""
    return interval(ours[0], theirs[1]), interval(theirs[0], ours[1])


class HeartbeatTimer:
    """Knows when the next heart-beat is due, and when the peer counts as lost.

    Args:
        intervals: negotiated (send, receive) intervals in ms, see :func:`negotiate_heartbeat`.
        now: the time from which both directions are counted.
    """

    __slots__ = ("_last_received", "_last_sent", "_receive_within", "_send_after", "intervals")

    def __init__(self, intervals: tuple[int, int], now: float) -> None:
        self.intervals = intervals
        self._send_after = intervals[0] / 1000 * _SEND_AFTER
        self._receive_within = intervals[1] / 1000 * _RECEIVE_WITHIN
        self._last_sent = now
        self._last_received = now

    def sent(self, now: float) -> None:
        """Note that bytes were sent at ``now``. Any frame counts as a heart-beat."""
        self._last_sent = now

    def received(self, now: float) -> None:
        """Note that bytes were received at ``now``. Any byte counts, even of a partial frame."""
        self._last_received = now

    def deadline(self, *, sending: bool = True) -> float | None:
        """When our next heart-beat is due, or when a silent peer counts as lost, whichever is first.

        None if neither was agreed. With ``sending=False`` only the silence of the peer counts.
        """
        times = []
        if self._receive_within:
            times.append(self._last_received + self._receive_within)
        if self._send_after and sending:
            times.append(self._last_sent + self._send_after)
        return min(times, default=None)

    def beat_due(self, now: float) -> bool:
        """Whether a heart-beat must be sent now."""
        return bool(self._send_after) and now >= self._last_sent + self._send_after

    def check(self, now: float) -> None:
        """Raise HeartbeatLost if the peer has been silent for its interval and the margin."""
        silence = now - self._last_received
        if self._receive_within and silence >= self._receive_within:
            raise HeartbeatLost(
                f"nothing was received for {silence:.1f} s; the peer promised a heart-beat every "
                f"{self.intervals[1]} ms, and counts as lost after {self._receive_within:.1f} s of silence"
            )


# --- the first frame

_EOL = b"\r\n"
CONNECT_OWNS = frozenset(
    {"accept-version", "host", "login", "passcode", "username", "heart-beat", "receipt", "content-length"}
)


@dataclass(frozen=True)
class ClientConfig:
    """How a client connects.

    Args:
        accept_versions: the versions to offer. If ``"lenient"`` is one of them, CONNECT also has the header
            ``username`` beside ``login``, and a CONNECTED without a version means the lenient dialect.
        host: the virtual host (required by STOMP 1.1 and 1.2; 1.0 brokers ignore it).
        login: user name; None: not sent.
        passcode: password; None: not sent.
        heartbeat: (what we can send, what we would like to receive) in ms; 0: no heart-beats.
        connect_headers: further headers of CONNECT.
        escaped: write the values in CONNECT with escapes. STOMP has none there, but some brokers read them.
        limits: the largest frames to accept after CONNECTED. Before that, lower limits apply.
        scan: leave MESSAGE frames as bytes (``MessageBlock``).
        receipt_prefix: the beginning of the ids of numbered receipts (``ReceiptsReceived``); None if no
            receipts are numbered. Not together with ``scan``.
    """

    accept_versions: tuple[str, ...] = ("1.2", "1.1", "1.0")
    host: str = "/"
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    heartbeat: tuple[int, int] = NO_HEARTBEAT
    connect_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    escaped: bool = False
    limits: Limits = field(default_factory=Limits)
    scan: bool = False
    receipt_prefix: str | None = None

    @property
    def lenient(self) -> bool:
        """Whether the lenient dialect is offered."""
        return LENIENT in self.accept_versions

    @property
    def connect_version(self) -> str:
        """The version in which CONNECT is written and its answer is read: the highest one that is offered."""
        return max((version for version in self.accept_versions if version != LENIENT), default=LENIENT)


def connect_headers(config: ClientConfig) -> HeaderPairs:
    """The headers of CONNECT as they are sent (STOMP 1.2, "CONNECT or STOMP Frame")."""
    beats = has_heartbeats(config.connect_version)
    candidates = (
        ("accept-version", accept_version_header(config.accept_versions)),
        ("host", config.host),
        ("username", config.login if config.lenient else None),
        ("login", config.login),
        ("passcode", config.passcode),
        ("heart-beat", heartbeat_header(config.heartbeat) if beats else None),
    )
    headers = present(candidates) + config.connect_headers
    return tuple((name, escape(value, "1.2")) for name, value in headers) if config.escaped else headers


def encode_connect(config: ClientConfig) -> bytes:
    """The bytes of CONNECT. The command is never STOMP, which 1.0 does not have.

    Raises:
        FrameEncodeError: CONNECT cannot carry one of the headers. The error names it and hides its value.
    """
    return encode_frame(Frame("CONNECT", connect_headers(config)), config.connect_version)


# The escapes of STOMP 1.2. At any other one RabbitMQ ends the connection without an ERROR, and ActiveMQ takes
# it as text (November 2026).
_ESCAPE = re.compile(r"\\[\\cnr]")
_NOT_AS_IT_IS = re.compile(r"[\\\r\n]")


def may_be_misread(config: ClientConfig, *, refused: bool) -> bool:
    """Whether a broker may have read CONNECT otherwise than it was meant, because of escapes.

    ``refused`` is False if it has closed the connection, or if CONNECT cannot be written like this.
    """
    pattern = _ESCAPE if refused else _NOT_AS_IT_IS
    return any(pattern.search(value) for _, value in connect_headers(config))


class HandshakeDecoder:
    """Decodes the first frame in a strict version, and in the lenient dialect if that fails.

    Args:
        version: the version to try first.
        limits: the largest first frame to accept. They also bound the bytes that are kept for the second try.
        lenient: accept any frame on the second try. If False, only an ERROR is accepted, for its text.
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
        """Take bytes from the peer. Never raises: ``next_event`` raises if they are bad."""
        if self._seen is not None:
            # EOLs before the frame are not kept, because there may be any number of them.
            kept = data if self._seen else data.lstrip(_EOL)
            self._seen += [kept] if kept else []
        self._decoder.receive_data(data)

    def next_event(self) -> Frame | Signal:
        """The next frame, HEARTBEAT or NEED_DATA.

        Raises:
            ProtocolError: neither grammar accepts the frame. The error is that of the strict grammar. Every
                later call raises it again.
        """
        if self._refusal is not None:
            raise self._refusal
        try:
            event = self._decoder.next_event()
        except FrameSyntaxError as error:
            return self._decode_leniently(error)
        acceptable = self._takes_any_frame or not isinstance(event, Frame) or event.command == "ERROR"
        if self._strict_error is not None and not acceptable:
            self._refuse(self._strict_error)
        return event

    def take_buffer(self) -> bytes:
        """Return the bytes that were not decoded yet; the decoder is empty afterwards."""
        self._seen = None
        return self._decoder.take_buffer()

    def _decode_leniently(self, error: FrameSyntaxError) -> Frame | Signal:
        """Decode everything received so far in the lenient dialect. This is the second and last try."""
        self._strict_error = self._strict_error or error
        if self._seen is None:
            self._refuse(self._strict_error)
        # EOLs before the frame were reported on the first try.
        data = b"".join(self._seen).lstrip(_EOL)
        self._seen = None
        self._decoder = FrameDecoder(LENIENT, self._limits)
        self._decoder.receive_data(data)
        return self.next_event()

    def _refuse(self, error: FrameSyntaxError) -> NoReturn:
        self._refusal = error
        raise error from None
