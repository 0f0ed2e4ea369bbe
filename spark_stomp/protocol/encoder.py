"""Frames to octets (STOMP 1.2, "STOMP Frames", "Value Encoding", "Body").

Nothing that would be read back as something else is written: that is how header injection starts. The
headers go out as given and in order; one thing is added, a last ``content-length`` where the body holds a NUL
and the frame names no length, because no reader could find such a frame's end.
"""

from __future__ import annotations

import re
from typing import NoReturn

from spark_stomp.errors import FrameEncodeError

from .frames import Frame, HeaderPairs
from .grammar import Grammar, grammar_of

__all__ = ["encode_frame"]

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
