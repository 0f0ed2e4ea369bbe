"""Frames to octets (STOMP 1.2, "STOMP Frames", "Value Encoding", "Body").

Nothing that would be read back as something else is written: that is how header injection starts. The
headers go out as given and in order; one thing is added, a last ``content-length`` where the body holds a NUL
and the frame names no length, because no reader could find such a frame's end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from spark_stomp.errors import FrameEncodeError, LocalProtocolError
from spark_stomp.protocol.frames import Frame, HeaderPairs, Limits
from spark_stomp.protocol.grammar import Grammar, escape, grammar_of
from spark_stomp.protocol.heartbeat import NO_HEARTBEAT, heartbeat_header
from spark_stomp.protocol.versions import (
    LENIENT,
    accept_version_header,
    has_heartbeats,
    has_nack,
    validate_versions,
)

__all__ = [
    "CONNECT_OWNS",
    "REQUEST_OWNS",
    "SEND_OWNS",
    "ClientConfig",
    "Headers",
    "ack_for",
    "ack_handle",
    "ack_headers",
    "encode_acks",
    "encode_connect",
    "encode_frame",
    "nack_for",
    "request",
    "send_frame",
]

_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)


def encode_frame(frame: Frame, version: str) -> bytes:
    """The octets of ``frame`` in ``version``.

    Raises:
        FrameEncodeError: the version has no such command, no way to carry one of the headers, no body on
            this command, or the frame's own ``content-length`` is not the body's length.
    """
    grammar = grammar_of(version)
    command, headers, body = frame
    if command not in grammar.sendable:
        raise FrameEncodeError(f"STOMP {version} has no command {command[:40]!r}")
    if body and command not in grammar.with_body:
        raise FrameEncodeError(f"a {command} frame has no body in STOMP {version}")
    lines = [command]
    lines += (
        _raw_lines(command, headers) if command in grammar.raw else _escaped_lines(command, headers, grammar)
    )
    if not _declares_length(frame, grammar) and b"\0" in body:
        lines.append(f"content-length:{len(body)}")
    lines.append("\n")
    try:
        return b"%b%b\0" % ("\n".join(lines).encode(), body)
    except UnicodeEncodeError:
        raise FrameEncodeError(
            f"a header of {command} holds a lone surrogate, which UTF-8 cannot carry"
        ) from None


def _raw_lines(command: str, headers: HeaderPairs) -> list[str]:
    """Header lines of a frame without escapes: what would need one cannot be said at all."""
    for name, value in headers:
        if not name or ":" in name:
            _refuse(command, name, "a name that is empty or holds a colon")
        if "\n" in name or "\n" in value or "\r" in name or "\r" in value:
            _refuse(command, name, "CR or LF, for which this frame has no escape")
        if "\0" in name or "\0" in value:
            _refuse(command, name, "NUL")
    return [f"{name}:{value}" for name, value in headers]


def _escaped_lines(command: str, headers: HeaderPairs, grammar: Grammar) -> list[str]:
    lines = [f"{name}:{value}" for name, value in headers]
    if _plain("\n".join(lines), len(lines)):
        return lines
    lines = [f"{_escaped(name, grammar)}:{_escaped(value, grammar)}" for name, value in headers]
    for line, (name, _) in zip(lines, headers, strict=True):
        if not name:
            _refuse(command, name, "an empty name")
        if "\0" in line:
            _refuse(command, name, "NUL")
        if "\r" in line:
            # 1.1 would read it as data, but a peer that takes CR LF for a line end would not.
            _refuse(command, name, f"CR, for which STOMP {grammar.version} has no escape")
    return lines


def _plain(text: str, lines: int) -> bool:
    """Whether these header lines go out as they are: asked of all together, as most frames need no more."""
    return (
        text.count(":") == lines
        and text.count("\n") == lines - 1
        and "\n:" not in text
        and text[:1] != ":"
        and "\\" not in text
        and "\r" not in text
        and "\0" not in text
    )


def _escaped(text: str, grammar: Grammar) -> str:
    for plain, wire in grammar.escapes.items():
        if plain in text:
            text = text.replace(plain, wire)
    return text


def _declares_length(frame: Frame, grammar: Grammar) -> bool:
    """Whether the frame has a ``content-length``; the first one must be right."""
    for name, value in frame.headers:
        if name == "content-length" or (grammar.lenient and name.lower() == "content-length"):
            if not _DIGITS.fullmatch(value) or int(value) != len(frame.body):
                said = f"content-length of {frame.command} is {value[:24]!r}"
                raise FrameEncodeError(f"{said}, but the body has {len(frame.body)} octets")
            return True
    return False


def _refuse(command: str, name: str, what: str) -> NoReturn:
    """Values are not quoted: they may be secret."""
    raise FrameEncodeError(f"header {name[:40]!r} of {command} holds {what}")


# MERGED from requests.py: Builds the frames that a client sends: the headers the protocol gives the

Headers: TypeAlias = Iterable[tuple[str, str]]

# Headers that the connector sets itself, by the frame: further headers must not hold them.
CONNECT_OWNS = frozenset(
    {"accept-version", "host", "login", "passcode", "username", "heart-beat", "receipt", "content-length"}
)
REQUEST_OWNS = frozenset(
    {"id", "destination", "ack", "subscription", "message-id", "transaction", "receipt", "content-length"}
)
# A SEND may carry headers of these names to its consumers; on other frames they would steer the broker.
SEND_OWNS = frozenset({"destination", "transaction", "receipt", "content-length"})


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
        _refuse_owned("CONNECT", CONNECT_OWNS, self.connect_headers)

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
    _refuse_owned(command, REQUEST_OWNS, extra)
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
        _refuse_owned("SEND", SEND_OWNS, extra)
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


# MERGED from acks.py: What an ACK or NACK names, per version (STOMP 1.0 "ACK"; 1.1 and 1.2 "ACK", "


def ack_handle(message: Frame, version: str) -> str:
    """What an ACK of this MESSAGE has to name.

    Leniency: a 1.2 broker that sends no ``ack`` header is answered with its ``message-id``, for the sake of
    brokers that took 1.2 over without it.

    Raises:
        LocalProtocolError: the message has nothing to name.
    """
    handle = message.get("ack") if version == "1.2" else None
    if handle is None:
        handle = message.get("message-id")
    if not handle:
        raise LocalProtocolError("this message cannot be acknowledged: it has no message-id")
    return handle


def ack_headers(subscription_id: str | None, handle: str, version: str) -> tuple[tuple[str, str], ...]:
    """The headers that name a message in an ACK or NACK of ``version``."""
    if version == "1.2":
        return (("id", handle),)
    if version == "1.1" and subscription_id is not None:
        return (("message-id", handle), ("subscription", subscription_id))
    if version == "1.1":
        raise LocalProtocolError("in STOMP 1.1 an acknowledgement names its subscription, and there is none")
    return (("message-id", handle),)


def ack_for(message: Frame, version: str) -> Frame:
    """The ACK frame for a MESSAGE frame."""
    return Frame("ACK", ack_headers(message.get("subscription"), ack_handle(message, version), version))


def nack_for(message: Frame, version: str) -> Frame:
    """The NACK frame for a MESSAGE frame.

    Raises:
        LocalProtocolError: the version has no NACK.
    """
    if not has_nack(version):
        raise LocalProtocolError(f"STOMP {version} has no NACK")
    return Frame("NACK", ack_headers(message.get("subscription"), ack_handle(message, version), version))


def encode_acks(
    subscription_id: str, handles: Sequence[bytes], version: str, *, receipt: str | None = None
) -> bytes:
    """The bytes of one ACK per handle, in order; built by joins, without a frame per message.

    Args:
        subscription_id: the subscription that delivered them (named in 1.1 only).
        handles: the values as they stood on the wire, still escaped (``MessageBlock.acks``).
        receipt: asked for by the last ACK.

    Raises:
        LocalProtocolError: a handle is empty or holds a byte that cannot stand in a header.
    """
    if not handles:
        return b""
    head, tail = _around(subscription_id, version)
    body = (tail + b"\n\0" + head).join(handles)
    _check_joined(body, handles, head.count(b"\n") + tail.count(b"\n") + 1)
    receipt_line = b"" if receipt is None else b"receipt:" + escape(receipt, version).encode() + b"\n"
    return b"".join((head, body, tail, receipt_line, b"\n\0"))


def _around(subscription_id: str, version: str) -> tuple[bytes, bytes]:
    """What stands before and after the handle in an ACK, up to the end of its last header line."""
    if version == "1.2":
        return b"ACK\nid:", b"\n"
    if version == "1.1":
        return b"ACK\nmessage-id:", b"\nsubscription:" + escape(subscription_id, version).encode() + b"\n"
    return b"ACK\nmessage-id:", b"\n"


def _check_joined(body: bytes, handles: Sequence[bytes], lines: int) -> None:
    """Refuse what a handle must not hold: counting over all of them at once costs next to nothing."""
    gaps = len(handles) - 1
    if b"" in handles:
        raise LocalProtocolError("a message without message-id cannot be acknowledged")
    if body.count(b"\n") != lines * gaps or body.count(b"\0") != gaps:
        raise LocalProtocolError("an acknowledgement handle holds a line feed or a NUL")
