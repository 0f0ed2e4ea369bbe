"""Builds the frames that a client sends: the headers the protocol gives them, and none smuggled in.

Each frame has headers of its own, which only the arguments set. A caller's further headers may not name one
of them: the first of repeated headers wins, so they would be without effect, or worse, differ between peers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from spark_stomp.errors import LocalProtocolError
from spark_stomp.protocol.encoder import encode_frame
from spark_stomp.protocol.frames import Frame
from spark_stomp.protocol.heartbeat import NO_HEARTBEAT, heartbeat_header
from spark_stomp.protocol.limits import Limits
from spark_stomp.protocol.versions import LENIENT, accept_version_header, has_heartbeats, validate_versions

__all__ = ["ClientConfig", "Headers", "encode_connect", "request", "send_frame"]

Headers: TypeAlias = Iterable[tuple[str, str]]

_CONNECT_OWNS = frozenset(
    {"accept-version", "host", "login", "passcode", "username", "heart-beat", "receipt", "content-length"}
)
_OWNS = frozenset(
    {"id", "destination", "ack", "subscription", "message-id", "transaction", "receipt", "content-length"}
)
# A SEND may carry headers of these names to its consumers; on other frames they would steer the broker.
_SEND_OWNS = frozenset({"destination", "transaction", "receipt", "content-length"})


@dataclass(frozen=True)
class ClientConfig:
    """How to connect.

    Args:
        accept_versions: what to offer; ``"lenient"`` among them also sends ``username`` beside ``login`` and
            takes a CONNECTED without version for the lenient dialect.
        host: the virtual host (required by STOMP 1.1 and 1.2; 1.0 brokers ignore it).
        login: user name, None = not sent.
        passcode: password, None = not sent.
        heartbeat: (what we can send, what we would like to receive) in ms; 0 = none.
        connect_headers: further headers of CONNECT.
        limits: for everything received after CONNECTED; what comes before it has lower ones.
        id_header: the header whose raw value the scanner collects as stable id.
        scan: leave MESSAGE frames as bytes (``MessagesScanned``).
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
    receive_margin: float = 1.0

    def __post_init__(self) -> None:
        validate_versions(self.accept_versions)
        if min(self.heartbeat) < 0 or self.receive_margin < 0:
            raise LocalProtocolError("heart-beats (ms) and their margin cannot be negative")
        _refuse_owned("CONNECT", _CONNECT_OWNS, self.connect_headers)

    @property
    def lenient(self) -> bool:
        """Whether the lenient dialect is offered."""
        return LENIENT in self.accept_versions

    @property
    def opening_version(self) -> str:
        """The grammar of CONNECT and of the answer to it: the highest version offered."""
        return max((version for version in self.accept_versions if version != LENIENT), default=LENIENT)


def encode_connect(config: ClientConfig) -> bytes:
    """The bytes of CONNECT (STOMP 1.2, "CONNECT or STOMP Frame"; never the STOMP command, which 1.0 lacks).

    Raises:
        FrameEncodeError: a header that CONNECT cannot carry; the text names it and quotes no value.
    """
    version = config.opening_version
    candidates = (
        ("accept-version", accept_version_header(config.accept_versions)),
        ("host", config.host),
        ("username", config.login if config.lenient else None),
        ("login", config.login),
        ("passcode", config.passcode),
        ("heart-beat", heartbeat_header(config.heartbeat) if has_heartbeats(version) else None),
    )
    headers = _present(candidates) + config.connect_headers
    return encode_frame(Frame("CONNECT", headers), version)


def request(
    command: str,
    own: Iterable[tuple[str, str | None]],
    *,
    headers: Headers = (),
    transaction: str | None = None,
    receipt: str | None = None,
) -> Frame:
    """A frame without body: ``own`` headers first (None = absent), then the caller's, then the common ones.

    Raises:
        LocalProtocolError: ``headers`` names one that the protocol gives a meaning.
    """
    extra = tuple(headers)
    _refuse_owned(command, _OWNS, extra)
    return Frame(
        command, _present(own) + extra + _present((("transaction", transaction), ("receipt", receipt)))
    )


def send_frame(
    destination: str,
    body: bytes,
    *,
    headers: Headers = (),
    transaction: str | None = None,
    receipt: str | None = None,
    content_length: bool = True,
) -> Frame:
    """A SEND frame (STOMP 1.2, "SEND").

    Args:
        content_length: add the header; ActiveMQ Classic makes a text message of what comes without it. A
        body with
            a NUL gets it in any case.

    Raises:
        LocalProtocolError: no destination, or ``headers`` names one that the arguments set.
    """
    if not destination:
        raise LocalProtocolError("SEND needs a destination")
    extra = tuple(headers)
    if extra:
        _refuse_owned("SEND", _SEND_OWNS, extra)
    common: tuple[tuple[str, str], ...] = ()
    if transaction is not None:
        common = (("transaction", transaction),)
    if receipt is not None:
        common += (("receipt", receipt),)
    if content_length:
        common += (("content-length", str(len(body))),)
    return Frame("SEND", (("destination", destination), *extra, *common), body)


def _present(candidates: Iterable[tuple[str, str | None]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in candidates if value is not None)


def _refuse_owned(command: str, owned: frozenset[str], headers: Headers) -> None:
    clash = sorted({name for name, _ in headers} & owned)
    if clash:
        raise LocalProtocolError(
            f"{command} takes {', '.join(clash)} from its arguments, not from further headers"
        )
