"""Frames to bytes, and the frames that a client sends (STOMP 1.2, "STOMP Frames", "Value Encoding", "Body").

What a reader would take for something else is refused: header injection starts there. Headers go out in their
order. If the body holds a NUL and the frame declares no length, a last ``content-length`` is added, because
no reader could find the end of such a frame.

Each frame of a client has headers that only the arguments set. A caller's further headers may not name one of
them: the first of repeated headers wins, so they would have no effect, or a different one on each peer.

An ACK or NACK names a MESSAGE (STOMP 1.0 "ACK"; 1.1 and 1.2 "ACK", "NACK") in 1.0 by its ``message-id``, in
1.1 by that and ``subscription``, in 1.2 by ``id``, the value of its ``ack`` header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, TypeAlias

from spark_stomp.errors import FrameEncodeError, LocalProtocolError
from spark_stomp.protocol.frames import Frame, HeaderPairs
from spark_stomp.protocol.grammar import Grammar, escape, grammar_of

Headers: TypeAlias = Iterable[tuple[str, str]]

_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)


def encode_frame(frame: Frame, version: str) -> bytes:
    """The bytes of ``frame`` in ``version``.

    Raises:
        FrameEncodeError: the version does not have the command, allows no body on it, or cannot carry one of
            the headers; or the frame's own ``content-length`` is not the body's length.
    """
    grammar = grammar_of(version)
    command, headers, body = frame
    if command not in grammar.sendable:
        raise FrameEncodeError(f"STOMP {version} has no command {command[:40]!r}")
    if body and command not in grammar.with_body:
        raise FrameEncodeError(f"a {command} frame has no body in STOMP {version}")
    lines = [command, *(_line(command, name, value, grammar) for name, value in headers)]
    if not _declares_length(frame, grammar) and b"\0" in body:
        lines.append(f"content-length:{len(body)}")
    lines.append("\n")
    try:
        return b"%b%b\0" % ("\n".join(lines).encode(), body)
    except UnicodeEncodeError:
        raise FrameEncodeError(
            f"a header of {command} holds a lone surrogate, which UTF-8 cannot carry"
        ) from None


def _line(command: str, name: str, value: str, grammar: Grammar) -> str:
    """One header line; text that no reader would take for the same header is refused."""
    if command in grammar.raw:
        if not name or ":" in name:
            _refuse(command, name, "a name that is empty or holds a colon")
        line = f"{name}:{value}"
        if "\n" in line or "\r" in line:
            _refuse(command, name, "CR or LF, for which this frame has no escape")
    else:
        if not name:
            _refuse(command, name, "an empty name")
        line = f"{escape(name, grammar.version)}:{escape(value, grammar.version)}"
        if "\r" in line:
            # 1.1 would read it as data, but a peer that takes CR LF for a line end would not.
            _refuse(command, name, f"CR, for which STOMP {grammar.version} has no escape")
    if "\0" in line:
        _refuse(command, name, "NUL")
    return line


def _declares_length(frame: Frame, grammar: Grammar) -> bool:
    """Whether the frame has a ``content-length``; the first one must be the body's length."""
    for name, value in frame.headers:
        if name == "content-length" or (grammar.lenient and name.lower() == "content-length"):
            if not _DIGITS.fullmatch(value) or int(value) != len(frame.body):
                raise FrameEncodeError(
                    f"content-length of {frame.command} is {value[:24]!r}, "
                    f"but the body has {len(frame.body)} bytes"
                )
            return True
    return False


def _refuse(command: str, name: str, what: str) -> NoReturn:
    """Raise FrameEncodeError. It does not quote the value, which may be secret."""
    raise FrameEncodeError(f"header {name[:40]!r} of {command} holds {what}")


REQUEST_OWNS = frozenset(
    {"id", "destination", "ack", "subscription", "message-id", "transaction", "receipt", "content-length"}
)
# A SEND may carry the other names to its consumers; on other frames they would change what the broker does.
SEND_OWNS = frozenset({"destination", "transaction", "receipt", "content-length"})


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
        LocalProtocolError: ``headers`` names one of ``REQUEST_OWNS``.
    """
    extra = tuple(headers)
    check_extra_headers(command, REQUEST_OWNS, extra)
    return Frame(
        command, present(own) + extra + present((("transaction", transaction), ("receipt", receipt)))
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
        content_length: add the header. ActiveMQ Classic makes a text message of a frame without it. A body
            with a NUL gets it in any case.

    Raises:
        LocalProtocolError: no destination, or ``headers`` names one that the arguments set.
    """
    if not destination:
        raise LocalProtocolError("SEND needs a destination")
    extra = tuple(headers)
    check_extra_headers("SEND", SEND_OWNS, extra)
    length = str(len(body)) if content_length else None
    common = present((("transaction", transaction), ("receipt", receipt), ("content-length", length)))
    return Frame("SEND", (("destination", destination), *extra, *common), body)


def present(candidates: Iterable[tuple[str, str | None]]) -> HeaderPairs:
    """The headers that have a value."""
    return tuple((name, value) for name, value in candidates if value is not None)


def check_extra_headers(command: str, owned: frozenset[str], headers: Headers) -> None:
    """Raise LocalProtocolError if ``headers`` names one that only the arguments may set."""
    clash = sorted({name for name, _ in headers} & owned)
    if clash:
        raise LocalProtocolError(
            f"{command} takes {', '.join(clash)} from its arguments, not from further headers"
        )


def ack_headers(subscription_id: str, handle: str, version: str) -> HeaderPairs:
    """The headers by which an ACK or NACK names a message."""
    if version == "1.2":
        return (("id", handle),)
    if version == "1.1":
        return (("message-id", handle), ("subscription", subscription_id))
    return (("message-id", handle),)


_HANDLE = "the handle"


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
    one = encode_frame(Frame("ACK", ack_headers(subscription_id, _HANDLE, version)), version)
    head, _, tail = one.partition(_HANDLE.encode())
    between = tail + head
    body = between.join(handles)
    gaps = len(handles) - 1
    if b"" in handles:
        raise LocalProtocolError("a message without message-id cannot be acknowledged")
    # Counting over all of them at once costs next to nothing.
    if body.count(b"\n") != between.count(b"\n") * gaps or body.count(b"\0") != gaps:
        raise LocalProtocolError("an acknowledgement handle holds a line feed or a NUL")
    if receipt is not None:
        tail = b"%breceipt:%b\n\n\0" % (tail[:-2], escape(receipt, version).encode())
    return b"".join((head, body, tail))


# --- what a broker takes in the headers of a SEND, beyond the rules of STOMP


@dataclass(frozen=True)
class HeaderNames:
    """A set of header names: ``name in names``.

    Attributes
    ----------
    names : the names, in lower case if ``any_case``.
    prefixes : all names that begin with one of these; in lower case, too.
    but : these are not in it.
    any_case : names that differ only in case are the same.
    """

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()
    but: frozenset[str] = frozenset()
    any_case: bool = False

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name in self.but:
            return False
        folded = name.lower() if self.any_case else name
        return folded in self.names or folded.startswith(self.prefixes)


class ValueRule(NamedTuple):
    """What values of one header a broker takes.

    Attributes
    ----------
    header : its name.
    pattern : regular expression for the bytes of a whole value, in what RE2 and Python have in common.
    says : what a value must be, as it stands after "must".
    allowed : whether values that match are those to be sent, or those to be refused.
    """

    header: str
    pattern: str
    says: str
    allowed: bool = True

    def allows(self, value: bytes) -> bool:
        return (re.fullmatch(self.pattern.encode(), value) is not None) is self.allowed
