"""Frames to bytes, and the frames that a client sends (STOMP 1.2, "STOMP Frames", "Value Encoding", "Body").

Text that a reader would take for something else is refused, because it could inject headers. Headers are
written in their order. If the body contains a NUL and the frame has no ``content-length``, that header is
added last: without it no reader could find the end of the frame.

Options with further headers may not repeat those that the connector sets (REQUEST_OWNS, SEND_OWNS): the
first of repeated headers wins, so the second would have no effect, or a different one on each broker.

An ACK or NACK names a MESSAGE by these headers (STOMP 1.0 "ACK"; 1.1 and 1.2 "ACK", "NACK"):

- 1.0: ``message-id``
- 1.1: ``message-id`` and ``subscription``
- 1.2: ``id``, with the value of the ``ack`` header of the MESSAGE
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, TypeAlias

from spark_stomp.errors import FrameEncodeError, LocalProtocolError
from spark_stomp.protocol.frames import Frame, Grammar, HeaderPairs, escape, grammar_of

Headers: TypeAlias = Iterable[tuple[str, str]]

# No body has a length of more than 20 digits.
_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)


def encode_frame(frame: Frame, version: str) -> bytes:
    """The bytes of ``frame`` in ``version``.

    Raises:
        FrameEncodeError: the version lacks the command, allows no body on it, or cannot express one of the
            headers; or ``content-length`` is not the length of the body.
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
            f"a header of {command} holds a lone surrogate, which UTF-8 cannot encode"
        ) from None


def _line(command: str, name: str, value: str, grammar: Grammar) -> str:
    """One header line. Raises FrameEncodeError if a reader would take the text for something else."""
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
            # By the rules of 1.1 a CR is data, but some peers take CR LF for the end of a line.
            _refuse(command, name, f"CR, for which STOMP {grammar.version} has no escape")
    if "\0" in line:
        _refuse(command, name, "NUL")
    return line


def _declares_length(frame: Frame, grammar: Grammar) -> bool:
    """Whether the frame has a ``content-length``.

    Raises FrameEncodeError if the first such header is not the length of the body.
    """
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
    """Raise FrameEncodeError. It does not quote the value of the header, which may be secret."""
    raise FrameEncodeError(f"header {name[:40]!r} of {command} holds {what}")


REQUEST_OWNS = frozenset(
    {"id", "destination", "ack", "subscription", "message-id", "transaction", "receipt", "content-length"}
)
# On a SEND the other names of REQUEST_OWNS are data for consumers. On other frames they would change what the
# broker does.
SEND_OWNS = frozenset({"destination", "transaction", "receipt", "content-length"})


def present(candidates: Iterable[tuple[str, str | None]]) -> HeaderPairs:
    """The headers whose value is not None."""
    return tuple((name, value) for name, value in candidates if value is not None)


def handle_header(version: str) -> str:
    """The header of a MESSAGE with its ack handle."""
    return "ack" if version == "1.2" else "message-id"


def ack_headers(subscription_id: str, handle: str, version: str) -> HeaderPairs:
    """The headers by which an ACK or NACK names the message with this ack handle.

    Raises LocalProtocolError if it is empty: the message has no such header.
    """
    if not handle:
        raise _no_handle(version)
    if version == "1.2":
        return (("id", handle),)
    further = (("subscription", subscription_id),) if version == "1.1" else ()
    return (("message-id", handle), *further)


def _no_handle(version: str) -> LocalProtocolError:
    return LocalProtocolError(f"a message has no {handle_header(version)} header")


_HANDLE = "the handle"
_SUBSCRIPTION = b"\nsubscription:"


def ack_handles(
    acks: list[bytes], subscriptions: Sequence[bytes | None], version: str, default: str
) -> list[bytes]:
    """What :func:`encode_acks` needs of each message.

    In STOMP 1.2 that is the value in ``acks``. In 1.1 an ACK names the subscription too, so the handle is
    "``ack``, LF, header line". In 1.0 it may, and does if there are several: two queues may hold copies of
    one message.

    Args:
        acks, subscriptions: values as on the wire (``MessageBlock``).
        version: the version of the connection.
        default: the only subscription of the connection; empty if it has several.

    In 1.1 the handle of a message is empty if its subscription is not known.
    """
    if version == "1.2" or (version != "1.1" and default):
        return acks
    only = escape(default, version).encode()
    pairs = zip(acks, (name or only for name in subscriptions), strict=True)
    unknown = version == "1.1"
    return [ack + _SUBSCRIPTION + name if ack and name else b"" if unknown else ack for ack, name in pairs]


def message_of_handle(handle: bytes) -> str:
    """The part of a handle of :func:`ack_handles` that names the message."""
    return handle.partition(_SUBSCRIPTION)[0].decode(errors="replace")


def encode_acks(handles: Sequence[bytes], version: str, *, receipt: str | None = None) -> bytes:
    """The bytes of one ACK for each handle, in order, made without a ``Frame`` for each.

    Args:
        handles: what :func:`ack_handles` returned.
        version: the version of the connection.
        receipt: the receipt that the last ACK asks for, if any.

    Raises:
        LocalProtocolError: a handle is empty or contains a byte that no header may contain.
    """
    if not handles:
        return b""
    name = "id" if version == "1.2" else "message-id"
    one = encode_frame(Frame("ACK", ((name, _HANDLE),)), version)
    head, _, tail = one.partition(_HANDLE.encode())
    between = tail + head
    body = between.join(handles)
    gaps = len(handles) - 1
    if b"" in handles:
        raise _no_handle(version)
    # Line feeds and NULs are counted in all handles together, because that is fast.
    named = 0 if version == "1.2" else sum(_SUBSCRIPTION in handle for handle in handles)
    lines = between.count(b"\n") * gaps + named
    if body.count(b"\n") != lines or body.count(b"\0") != gaps:
        raise LocalProtocolError("an ack handle holds a line feed or a NUL")
    if receipt is not None:
        tail = b"%breceipt:%b\n\n\0" % (tail[:-2], escape(receipt, version).encode())
    return b"".join((head, body, tail))


# --- rules of single brokers for the headers of a SEND


@dataclass(frozen=True)
class HeaderNames:
    """A set of header names; ask with ``name in names``.

    Attributes:
        names: names in the set, in lower case if ``any_case``.
        prefixes: every name that begins with one of these is in the set. In lower case if ``any_case``.
        but: names that are not in the set, although they begin with a prefix.
        any_case: True if names that differ only in case are the same.
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
    """Which values of one header a broker accepts.

    Attributes:
        header: name of the header.
        pattern: regular expression for the bytes of a whole value, in syntax that RE2 and Python share.
        says: what a value must be, worded to follow "must" in an error.
        allowed: True if values that match are accepted, False if they are refused.
    """

    header: str
    pattern: str
    says: str
    allowed: bool = True

    def allows(self, value: bytes) -> bool:
        return (re.fullmatch(self.pattern.encode(), value) is not None) is self.allowed


def refused_by(rules: Iterable[ValueRule], name: str, value: str) -> ValueRule | None:
    """The first rule that does not accept this value of the header; None if all do."""
    data = value.encode(errors="replace")
    return next((rule for rule in rules if rule.header == name and not rule.allows(data)), None)
