"""What differs between the STOMP versions, declared once.

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

Specification sections: 1.2 "Augmented BNF", "Value Encoding", "Body", "CONNECT or STOMP Frame"; 1.0 "Client
Commands". Deliberate leniencies in the strict versions, and whom they serve:

- A raw ``:`` in a header value is read. CONNECTED is never escaped, and ActiveMQ sends ``session:ID:host-1``.
- 1.0 headers are read as UTF-8: the document names no charset and every broker sends UTF-8.
- STOMP is treated as CONNECT in everything, so its headers are not escaped either (1.2, "CONNECT or STOMP
  Frame": to be handled in the same manner).
- Padding of 1.0 values is kept: the document's examples have it, some brokers trim it, and a codec that
  trimmed could not give back what was sent. Who serves such a peer trims above the codec.

``lenient`` is the dialect of peers that predate 1.1 or follow no version closely. It has no escapes because
those peers write none, so that a value such as ``C:\\new`` is what it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_stomp.errors import FrameSyntaxError, LocalProtocolError

__all__ = ["VERSIONS", "Grammar", "escape", "grammar_of", "unescape"]

_COMMANDS_1_0: Final = frozenset(
    [
        "CONNECT",
        "CONNECTED",
        "SEND",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "BEGIN",
        "COMMIT",
        "ABORT",
        "ACK",
        "DISCONNECT",
        "MESSAGE",
        "RECEIPT",
        "ERROR",
    ]
)
_COMMANDS_1_1: Final = _COMMANDS_1_0 | {"NACK", "STOMP"}
_WITH_BODY_1_1: Final = frozenset({"SEND", "MESSAGE", "ERROR"})
_NEVER_ESCAPED: Final = frozenset({"CONNECT", "STOMP", "CONNECTED"})
_ESCAPES_1_1: Final = {"\\": "\\\\", "\n": "\\n", ":": "\\c"}
_ESCAPES_1_2: Final = {**_ESCAPES_1_1, "\r": "\\r"}


@dataclass(frozen=True)
class Grammar:
    """The rules of one version. Compared by identity in practice: there are four."""

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
    """Character -> what stands for it on the wire."""
    crlf: bool = False
    """CR LF also ends a line, and no other CR may stand in one."""
    lenient: bool = False
    empty_names: bool = False
    """A header line may begin with its colon."""
    unescapes: Mapping[str, str] = field(init=False)
    """Second character of an escape -> what it stands for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unescapes", {wire[1]: text for text, wire in self.escapes.items()})


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
"""Every value that a ``version`` argument may have."""


def grammar_of(version: str) -> Grammar:
    """The rules of ``version``. Raises LocalProtocolError for anything but one of ``VERSIONS``."""
    try:
        return _GRAMMARS[version]
    except KeyError:
        allowed = ", ".join(VERSIONS)
        raise LocalProtocolError(f"unknown STOMP version {version!r}; known are {allowed}") from None


def escape(text: str, version: str) -> str:
    """``text`` as it stands in a header of ``version`` (STOMP 1.2, "Value Encoding").

    What the version has no escape for is left alone: whether it may stand there at all is the encoder's
    question.
    """
    escapes = grammar_of(version).escapes
    # The backslash comes first in the tables, so that no escape is escaped again.
    for plain, wire in escapes.items():
        text = text.replace(plain, wire)
    return text


def unescape(raw: bytes | str, version: str) -> str:
    """The text that ``raw`` stands for in a header of ``version``.

    Raises:
        FrameSyntaxError: an escape that the version does not define (1.1 and 1.2: fatal), or invalid UTF-8.
    """
    grammar = grammar_of(version)
    try:
        text = raw if isinstance(raw, str) else raw.decode()
    except UnicodeDecodeError:
        raise FrameSyntaxError("a header is not valid UTF-8") from None
    return plain_text(text, grammar) if grammar.escapes else text


_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)


def plain_text(text: str, grammar: Grammar) -> str:
    """``text`` without its escapes, in one pass from left to right; raises as ``unescape`` does."""
    if text.count("\\") == text.count("\\c"):
        # Only colons, as in the ids of ActiveMQ: every backslash has its c.
        return text.replace("\\c", ":")
    unescapes = grammar.unescapes

    def plain(match: re.Match[str]) -> str:
        try:
            return unescapes[match[1]]
        except KeyError:
            raise FrameSyntaxError(
                f"undefined escape {match[0]!r} in a header (STOMP {grammar.version})"
            ) from None

    return _ESCAPE.sub(plain, text)
