"""The frame, the limits on its size, and the rules for frames in each STOMP version.

=========================  =========  =====================  =====================  =======================
rule                       1.0        1.1                    1.2                    lenient
=========================  =========  =====================  =====================  =======================
end of line                LF         LF                     LF or CR LF            LF; SP and CR before it
                                                                                    belong to it
escapes in headers         none       ``\\n \\c \\\\``          also ``\\r``             none
frames never escaped       all        CONNECT STOMP          as 1.1                 all
                                      CONNECTED
frames with a body         all        SEND MESSAGE ERROR     as 1.1                 all
NACK, STOMP                no         yes                    yes                    read, never written
empty header name          read       refused                refused                read
case of commands, names    significant  significant          significant            folded
=========================  =========  =====================  =====================  =======================

Specification sections: 1.2 "STOMP Frames", "Size Limits", "Augmented BNF", "Value Encoding", "Body", "Header
content-length", "CONNECT or STOMP Frame"; 1.0 "Client Commands". Deliberate leniencies in the strict
versions, and their reasons:

- A raw ``:`` in a header value is accepted. CONNECTED is never escaped, and ActiveMQ sends
  ``session:ID:host-1``.
- 1.0 headers are read as UTF-8. The document names no character set, and every broker sends UTF-8.
- The STOMP command follows all rules of CONNECT, so its headers are not escaped either (1.2, "CONNECT or
  STOMP Frame": servers must handle both in the same manner).
- Blanks around values are kept in 1.0. The document's examples have them, and some brokers trim them, but a
  codec that trims could not reproduce what was sent. A server whose clients write them trims the values
  itself.

``lenient`` is the dialect of peers that are older than 1.1 or follow no version closely. It has no escapes
because those peers write none: a value such as ``C:\\new`` is meant literally.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import repeat
from typing import Final, Literal, NamedTuple, TypeAlias, overload

from spark_stomp.errors import FrameSyntaxError, LimitExceeded
from spark_stomp.quoting import quoted

HeaderPairs: TypeAlias = tuple[tuple[str, str], ...]

_KIB = 1024
_MIB = 1024 * _KIB


class Frame(NamedTuple):
    """One STOMP frame. Immutable; a named tuple, because no other kind of record is as cheap to make.

    ``headers`` are unescaped names and values in the order of the wire; a name may repeat. ``body`` is never
    decoded.
    """

    command: str
    headers: HeaderPairs = ()
    body: bytes = b""

    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    def get(self, name: str, default: str | None = None) -> str | None:
        """The value of the first header called ``name`` (STOMP 1.2, "Repeated Header Entries")."""
        for key, value in self.headers:
            if key == name:
                return value
        return default

    def __repr__(self) -> str:
        """Only names and sizes, because values and bodies may be secret or long."""
        names = ", ".join(name for name, _ in self.headers)
        return f"<Frame {self.command} [{names}] {len(self.body)} bytes>"


class Signal(enum.Enum):
    """A decoder returns one of these if it has no frame."""

    HEARTBEAT = "heart-beat"
    """One or more ends of line between two frames (STOMP 1.2, "Heart-beating")."""
    NEED_DATA = "need data"
    """Nothing is complete; more bytes must arrive first."""


HEARTBEAT: Final[Literal[Signal.HEARTBEAT]] = Signal.HEARTBEAT
NEED_DATA: Final[Literal[Signal.NEED_DATA]] = Signal.NEED_DATA


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a peer may send in one frame. Anything beyond is a LimitExceeded.

    All are in bytes, except ``max_headers``. The defaults are far more than usual messages have, and
    little enough to be held in memory.
    """

    max_command: int = 64
    """The command line, without its LF."""
    max_header_line: int = 64 * _KIB
    """One header line as sent (escaped), without its LF."""
    max_headers: int = 1_000
    """Header lines in one frame."""
    max_body: int = 128 * _MIB
    """The body."""
    max_frame: int = 256 * _MIB
    """The frame from its command to its NUL, both included."""

    @classmethod
    def before_connected(cls) -> Limits:
        """Limits for a peer that is not logged in yet: enough for CONNECT, CONNECTED and a first ERROR."""
        return cls(max_header_line=8 * _KIB, max_headers=100, max_body=64 * _KIB, max_frame=256 * _KIB)

    @classmethod
    def none(cls) -> Limits:
        """No limits, for frames that were checked when they were received."""
        return cls(*[sys.maxsize] * len(fields(cls)))

    def without_messages(self) -> Limits:
        """Limits for a connection without subscriptions, whose broker sends only RECEIPT and ERROR frames.

        An ERROR with a body of 128 MiB, the default of ``max_body``, takes four times as much memory
        (November 2026).
        """
        return replace(
            self,
            # Artemis quotes all headers of a refused frame in one header of its ERROR.
            max_header_line=_MIB,
            max_body=_MIB,
            max_frame=2 * _MIB + 64 * _KIB,
        )


_REQUESTS_1_0: Final = frozenset(
    {"CONNECT", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "BEGIN", "COMMIT", "ABORT", "ACK", "DISCONNECT"}
)
CLIENT_COMMANDS: Final = _REQUESTS_1_0 | {"NACK", "STOMP"}
SERVER_COMMANDS: Final = frozenset({"CONNECTED", "MESSAGE", "RECEIPT", "ERROR"})
_COMMANDS_1_0: Final = _REQUESTS_1_0 | SERVER_COMMANDS
_COMMANDS_1_1: Final = CLIENT_COMMANDS | SERVER_COMMANDS
_WITH_BODY_1_1: Final = frozenset({"SEND", "MESSAGE", "ERROR"})
_NEVER_ESCAPED: Final = frozenset({"CONNECT", "STOMP", "CONNECTED"})
_ESCAPES_1_1: Final = {"\\": "\\\\", "\n": "\\n", ":": "\\c"}
_ESCAPES_1_2: Final = {**_ESCAPES_1_1, "\r": "\\r"}
MOST_BLANKS: Final = 64
"""Blanks in the longest blank line of the lenient dialect. It bounds how far a
search must go back when more bytes have arrived."""


@dataclass(frozen=True)
class Grammar:
    """The rules of one version. Each version has one object, so objects can be compared by identity."""

    version: str
    commands: frozenset[str]
    """The commands that may be read."""
    sendable: frozenset[str]
    """The commands that may be written."""
    with_body: frozenset[str]
    """The commands whose frames may carry a body."""
    raw: frozenset[str]
    """The commands whose headers are never escaped."""
    escapes: Mapping[str, str]
    """Character -> its escape on the wire."""
    crlf: bool = False
    """CR LF also ends a line, and a line contains no other CR."""
    lenient: bool = False
    empty_names: bool = False
    """The name of a header may be empty."""
    unescapes: Mapping[str, str] = field(init=False)
    """Second character of an escape -> the character that it means."""
    blank_line: re.Pattern[bytes] = field(init=False)
    """The end of a head: the LF of its last line, and the blank line."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unescapes", {wire[1]: text for text, wire in self.escapes.items()})
        blanks = b"[ \r]{0,%d}" % MOST_BLANKS if self.lenient else b"\r?" if self.crlf else b""
        object.__setattr__(self, "blank_line", re.compile(b"\n%b\n" % blanks))


_GRAMMARS: Final = {
    "1.0": Grammar("1.0", _COMMANDS_1_0, _COMMANDS_1_0, _COMMANDS_1_0, _COMMANDS_1_0, {}, empty_names=True),
    "1.1": Grammar("1.1", _COMMANDS_1_1, _COMMANDS_1_1, _WITH_BODY_1_1, _NEVER_ESCAPED, _ESCAPES_1_1),
    "1.2": Grammar(
        "1.2", _COMMANDS_1_1, _COMMANDS_1_1, _WITH_BODY_1_1, _NEVER_ESCAPED, _ESCAPES_1_2, crlf=True
    ),
    "lenient": Grammar(
        "lenient",
        _COMMANDS_1_1,
        _COMMANDS_1_0,
        _COMMANDS_1_1,
        _COMMANDS_1_1,
        {},
        lenient=True,
        empty_names=True,
    ),
}
VERSIONS: Final = tuple(_GRAMMARS)
"""The values that an argument ``version`` may have."""


def grammar_of(version: str) -> Grammar:
    """The rules of ``version``, one of ``VERSIONS``."""
    return _GRAMMARS[version]


def escape(text: str, version: str) -> str:
    """``text`` with the escapes of ``version``, for a header (STOMP 1.2, "Value Encoding").

    A character that the version cannot escape stays. The encoder refuses those that no header may contain.
    """
    escapes = grammar_of(version).escapes
    # The backslash comes first in the tables, so that no escape is escaped again.
    for character, wire in escapes.items():
        text = text.replace(character, wire)
    return text


def unescape(raw: bytes | str, version: str) -> str:
    """The text of ``raw``, a part of a header in ``version``, without its escapes.

    Raises:
        FrameSyntaxError: an escape that the version does not define (fatal in 1.1 and 1.2), or invalid UTF-8.
    """
    grammar = grammar_of(version)
    try:
        text = raw if isinstance(raw, str) else raw.decode()
    except UnicodeDecodeError:
        raise FrameSyntaxError("a header is not valid UTF-8") from None
    return unescape_text(text, grammar) if grammar.escapes else text


_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)


def unescape_text(text: str, grammar: Grammar) -> str:
    """``text`` without escapes. Raises FrameSyntaxError if the version does not define one of them."""
    if text.count("\\") == text.count("\\c"):
        # Every escape is that of a colon, as in the ids of ActiveMQ.
        return text.replace("\\c", ":")
    unescapes = grammar.unescapes

    def meaning(match: re.Match[str]) -> str:
        try:
            return unescapes[match[1]]
        except KeyError:
            raise FrameSyntaxError(
                f"undefined escape {match[0]!r} in a header (STOMP {grammar.version})"
            ) from None

    return _ESCAPE.sub(meaning, text)


_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)
_NEGATIVE: Final = re.compile(r"-[0-9]+", re.ASCII)
_SAFE_DIGITS: Final = 18
"""Digits of the longest content-length that ``int`` reads. A longer number is beyond any limit, and ``int``
is slow for long ones."""


def without_line_end(line: bytes, grammar: Grammar) -> bytes:
    """The line without the CR and the blanks that the grammar counts as its end."""
    if grammar.crlf and line.endswith(b"\r"):
        return line[:-1]
    return line.rstrip(b" \r") if grammar.lenient else line


def parse_headers(lines: bytes, command: str, grammar: Grammar) -> HeaderPairs:
    """The headers in the lines of a head, which have LFs between them.

    Raises FrameSyntaxError with the number of the line. It does not quote the line, which may be secret.
    """
    headers = _headers_together(lines, command, grammar) if lines else ()
    if headers is not None:
        return headers
    numbered = enumerate(lines.split(b"\n"), start=1)
    return tuple(
        [parse_header(line, command, grammar, f"header line {n} of {command}") for n, line in numbered]
    )


def _headers_together(lines: bytes, command: str, grammar: Grammar) -> HeaderPairs | None:
    """The headers in the lines, all together; None if a line needs :func:`parse_header`."""
    if grammar.lenient or b"\0" in lines or (b"\\" in lines and command not in grammar.raw):
        return None
    if grammar.crlf and b"\r" in lines:
        lines = (lines + b"\n").replace(b"\r\n", b"\n")[:-1]
        if b"\r" in lines:
            return None
    try:
        split = lines.decode().split("\n")
    except UnicodeDecodeError:
        return None
    headers = tuple(
        [(name, value) for name, colon, value in map(str.partition, split, repeat(":")) if name and colon]
    )
    return headers if len(headers) == len(split) else None


def parse_header(
    line: bytes, command: str, grammar: Grammar, where: str = "a header line"
) -> tuple[str, str]:
    """Name and value of one header line, unescaped. Raises FrameSyntaxError; ``where`` names the line.

    The value of a MESSAGE may be any octets, because producers of other protocols send binary values. If it
    is not UTF-8, or has a NUL, each octet is one character (ISO 8859-1), so that the octets can be had back.
    """
    line = without_line_end(line, grammar)
    raw, colon, octets = line.partition(b":")
    as_octets = command == "MESSAGE" and (b"\0" in octets or not is_utf8(octets))
    try:
        name, value = raw.decode(), octets.decode("latin-1" if as_octets else "utf-8")
    except UnicodeDecodeError:
        raise FrameSyntaxError(f"{where} is not valid UTF-8") from None
    if not colon:
        raise FrameSyntaxError(f"{where} has no colon")
    if not name and not grammar.empty_names:
        raise FrameSyntaxError(f"{where} has an empty name")
    if grammar.crlf and b"\r" in line:
        raise FrameSyntaxError(f"{where} holds a CR")
    if grammar.lenient:
        return name.lower(), value.lstrip(" ")
    if b"\\" in line and command not in grammar.raw:
        return unescape_text(name, grammar), unescape_text(value, grammar)
    return name, value


def is_utf8(raw: bytes) -> bool:
    """Whether ``raw`` is valid UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def content_length(headers: HeaderPairs, command: str, grammar: Grammar, limits: Limits) -> int | None:
    """The length of the body in bytes, by the first ``content-length``; None if there is no such header.

    STOMP 1.2, "Header content-length". The lenient dialect ignores a value that is not a number, as RabbitMQ
    does. A negative number is refused in all versions, because such numbers have been used to attack brokers.

    Raises FrameSyntaxError, or LimitExceeded.
    """
    value = next((value for name, value in headers if name == "content-length"), None)
    if value is None:
        return None
    if not _DIGITS.fullmatch(value):
        if grammar.lenient and not _NEGATIVE.fullmatch(value):
            return None
        raise FrameSyntaxError(f"content-length of {command} is not a number: {quoted(value, 24)}")
    digits = value.lstrip("0") or "0"
    if digits != "0" and command not in grammar.with_body:
        raise no_body_error(command, grammar)
    if len(digits) > _SAFE_DIGITS or int(digits) > limits.max_body:
        raise LimitExceeded(f"content-length {digits[:24]} of {command} is over {limits.max_body} bytes")
    return int(digits)


def no_body_error(command: str, grammar: Grammar) -> FrameSyntaxError:
    """The error for a body on a command that may have none."""
    return FrameSyntaxError(f"a {command} frame has no body in STOMP {grammar.version}")


def nul_error() -> FrameSyntaxError:
    """The error for a NUL in a head."""
    return FrameSyntaxError("a NUL comes before the blank line that ends the headers")
