"""The head of a frame: its lines one by one, many at once, and what its content-length says.

STOMP 1.2 "Augmented BNF", "Value Encoding", "Header content-length". No buffer here: lines come in complete.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final

from spark_stomp.errors import BodyTooLarge, FrameSyntaxError

from .grammar import Grammar, plain_text
from .limits import Limits

__all__ = ["Head", "content_length", "no_body", "parse_header", "plain_headers", "without_line_end"]

_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)
_NEGATIVE: Final = re.compile(r"-[0-9]+", re.ASCII)
_SAFE_DIGITS: Final = 18
"""More digits than this are beyond any limit, and int() need not see them."""


@dataclass(slots=True)
class Head:
    """A frame whose command line was read. Its grammar and limits are those in force at that moment."""

    command: str
    grammar: Grammar
    limits: Limits
    after_crlf: bool = False
    """The command line ended in CR LF, so that the blank line is likely to do so too."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    complete: bool = False
    length: int | None = None

    def place(self) -> str:
        """What a message calls the header line that is being read."""
        return f"header line {len(self.headers) + 1} of {self.command}"


def without_line_end(line: bytes, grammar: Grammar) -> bytes:
    """What the grammar counts to the line end beside the LF is cut off."""
    if grammar.crlf and line.endswith(b"\r"):
        return line[:-1]
    return line.rstrip(b" \r") if grammar.lenient else line


def plain_headers(region: bytes, head: Head) -> list[tuple[str, str]] | None:
    """The headers of whole lines in which nothing needs a closer look; None where something does."""
    grammar = head.grammar
    if grammar.lenient or (b"\\" in region and head.command not in grammar.raw):
        return None
    if head.after_crlf:
        region = (region + b"\n").replace(b"\r\n", b"\n")[:-1]
    if grammar.crlf and b"\r" in region:
        return None
    try:
        lines = region.decode().split("\n")
    except UnicodeDecodeError:
        return None
    headers = [
        (name, value) for name, colon, value in map(str.partition, lines, repeat(":")) if name and colon
    ]
    return headers if len(headers) == len(lines) else None


def parse_header(line: bytes, head: Head) -> tuple[str, str]:
    """One header line, unescaped. Messages name its place, not its text: that may be secret."""
    grammar = head.grammar
    try:
        name, colon, value = line.decode().partition(":")
    except UnicodeDecodeError:
        raise FrameSyntaxError(f"{head.place()} is not valid UTF-8") from None
    if not colon:
        raise FrameSyntaxError(f"{head.place()} has no colon")
    if not name and not grammar.empty_names:
        raise FrameSyntaxError(f"{head.place()} has an empty name")
    if grammar.crlf and b"\r" in line:
        raise FrameSyntaxError(f"{head.place()} holds a CR")
    if grammar.lenient:
        return name.lower(), value.lstrip(" ")
    if b"\\" in line and head.command not in grammar.raw:
        return plain_text(name, grammar), plain_text(value, grammar)
    return name, value


def content_length(head: Head) -> int | None:
    """The body's length as the first ``content-length`` has it; None where the frame declares none.

    STOMP 1.2, "Header content-length". The lenient dialect passes over one that is no number, as RabbitMQ
    does; a negative one is refused by all (it has been a way into brokers).
    """
    value = next((value for name, value in head.headers if name == "content-length"), None)
    if value is None:
        return None
    if not _DIGITS.fullmatch(value):
        if head.grammar.lenient and not _NEGATIVE.fullmatch(value):
            return None
        raise FrameSyntaxError(f"content-length of {head.command} is not a number: {value[:24]!r}")
    digits = value.lstrip("0") or "0"
    if digits != "0" and head.command not in head.grammar.with_body:
        raise no_body(head)
    if len(digits) > _SAFE_DIGITS or int(digits) > head.limits.max_body:
        raise BodyTooLarge(
            f"content-length {digits[:24]} of {head.command} is over {head.limits.max_body} octets"
        )
    return int(digits)


def no_body(head: Head) -> FrameSyntaxError:
    return FrameSyntaxError(f"a {head.command} frame has no body in STOMP {head.grammar.version}")
