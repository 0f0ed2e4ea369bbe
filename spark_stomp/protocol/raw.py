"""What is read of complete frames that are left as bytes: a header's raw value, the destination, the body.

The end of each frame is known already, so nothing here is refused: a value that breaks a rule is no value.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from spark_stomp.errors import FrameSyntaxError
from spark_stomp.protocol.grammar import Grammar, grammar_of, unescape, without_line_end

BLANK_LINE: Final = {
    "1.0": re.compile(rb"\n\n"),
    "1.1": re.compile(rb"\n\n"),
    "1.2": re.compile(rb"\n\r?\n"),
    "lenient": re.compile(rb"\n[ \r]*\n"),
}


class RawNames(NamedTuple):
    """The headers that are collected of each message, by their names as on the wire."""

    acks: tuple[bytes, ...]
    """What an ACK may name, the preferred one first."""
    id: bytes | None = None
    """Names the message."""
    time: bytes | None = None
    """Completes the id."""


class RawValues(NamedTuple):
    """The values of these headers as on the wire; ``ack`` is empty if it is missing, the others are None."""

    ack: bytes
    id: bytes | None
    time: bytes | None


def raw_values(head: bytes, names: RawNames, grammar: Grammar) -> RawValues:
    """What is collected of the message with this head."""
    handles = (raw_value(head, name, grammar) for name in names.acks)
    stable, time = (None if name is None else raw_value(head, name, grammar) for name in names[1:])
    return RawValues(next((handle for handle in handles if handle is not None), b""), stable, time)


def parted(frame: bytes, version: str) -> tuple[bytes, bytes]:
    """The head, with its blank line, and the body. EOLs may come before the frame."""
    frame = frame.lstrip(b"\r\n\0 ")
    end = frame.find(b"\n\n") + 2
    head = frame[:end]
    if end == 1 or b"\r" in head or version == "lenient":
        # Something else may be the blank line. The plain search saves a quarter of the time of a key.
        blank = BLANK_LINE[version].search(frame)
        assert blank is not None, "a frame whose end is known has a blank line"
        end = blank.end()
        head = frame[:end]
    return head, frame[end:-1]


def frame_content(frame: bytes, version: str) -> tuple[str, bytes]:
    """The destination and the body, by which a message that is redelivered is recognised.

    A destination that breaks a rule, as that of a malformed message may, is taken as it is; empty if there is
    none.
    """
    head, body = parted(frame, version)
    return _destination(raw_value(head, b"destination", grammar_of(version)) or b"", version), body


@lru_cache(maxsize=64)
def _destination(raw: bytes, version: str) -> str:
    text = text_of(raw, grammar_of(version))
    return raw.decode(errors="replace") if text is None else text


def raw_value(head: bytes, wanted: bytes, grammar: Grammar) -> bytes | None:
    """The value of the first header called ``wanted``, both as on the wire; None if there is none."""
    if grammar.lenient:
        return _raw_folded_value(head, wanted, grammar)
    begin = head.find(b"\n%b:" % wanted)
    if begin < 0:
        return None
    begin += len(wanted) + 2
    return without_line_end(head[begin : head.index(b"\n", begin)], grammar)


def _raw_folded_value(head: bytes, wanted: bytes, grammar: Grammar) -> bytes | None:
    """The same in the lenient dialect, which ignores the case of names."""
    for line in head.split(b"\n"):
        key, colon, value = without_line_end(line, grammar).partition(b":")
        if colon and key.decode(errors="replace").lower().encode() == wanted:
            return value.lstrip(b" ")
    return None


def text_of(raw: bytes | None, grammar: Grammar) -> str | None:
    """What a raw value means; None if it breaks the rules."""
    if raw is None or b"\0" in raw or (grammar.crlf and b"\r" in raw):
        return None
    try:
        return unescape(raw, grammar.version)
    except FrameSyntaxError:
        return None
