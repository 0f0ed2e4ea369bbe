"""A STOMP reader as plain as the rules are: one octet at a time, nothing looked up, nothing remembered.

The decoder, the scanner and the Arrow decoder have quick ways for what comes back; this has one way for all.
It shares with them the names of the errors and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_stomp.errors import (
    BodyTooLarge,
    CommandTooLong,
    FrameSyntaxError,
    FrameTooLarge,
    HeaderLineTooLong,
    ProtocolError,
    TooManyHeaders,
)
from spark_stomp.protocol import Frame, Limits
from support.codec import Outcome

_CLIENT = ["CONNECT", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "BEGIN", "COMMIT", "ABORT", "ACK", "DISCONNECT"]
_COMMANDS_1_0 = {*_CLIENT, "CONNECTED", "MESSAGE", "RECEIPT", "ERROR"}
_ESCAPES = {"1.0": "", "1.1": "\\nc", "1.2": "\\ncr", "lenient": ""}
_MEANING = {"\\": "\\", "n": "\n", "c": ":", "r": "\r"}


def read(version: str, data: bytes, limits: Limits) -> Outcome:
    """What ``data`` holds: its frames, the EOLs between them, and the class of the error that ends it."""
    reader = _Reader(version, limits, iter(data))
    try:
        reader.run()
    except ProtocolError as error:
        return Outcome(reader.frames, reader.beats, type(error))
    except StopIteration:
        pass
    return Outcome(reader.frames, reader.beats, None)


@dataclass
class _Reader:
    version: str
    limits: Limits
    octets: Iterator[int]
    frames: list[Frame] = field(default_factory=list)
    beats: int = 0
    size: int = 0
    """Octets of the frame that is being read."""

    @property
    def lenient(self) -> bool:
        return self.version == "lenient"

    def run(self) -> None:
        while True:
            first = next(self.octets)
            if first == ord("\n"):
                self.beats += 1
            elif self.version == "1.2" and first == ord("\r"):
                if next(self.octets) != ord("\n"):
                    raise FrameSyntaxError("a lone CR")
                self.beats += 1
            elif first or not self.lenient:
                self.frame(first)

    def frame(self, first: int) -> None:
        self.size = 0
        command = self.line(self.limits.max_command, CommandTooLong, first).decode("latin-1")
        if self.lenient:
            command = command.upper()
            if not command:
                self.beats += 1
                return
        if command not in (_COMMANDS_1_0 if self.version == "1.0" else _COMMANDS_1_0 | {"STOMP", "NACK"}):
            raise FrameSyntaxError("no command")
        headers: list[tuple[str, str]] = []
        while line := self.line(self.limits.max_header_line, HeaderLineTooLong):
            if len(headers) == self.limits.max_headers:
                raise TooManyHeaders("one more")
            headers.append(self.header(line, command))
        self.frames.append(Frame(command, tuple(headers), self.body(command, headers)))

    def line(self, longest: int, error: type[ProtocolError], first: int | None = None) -> bytes:
        """A line without its end."""
        room = self.limits.max_frame - self.size - 1
        line = bytearray()
        self.in_bounds(0, longest, room, error)
        while True:
            octet = next(self.octets) if first is None else first
            first = None
            if octet == ord("\n"):
                break
            if not octet:
                raise FrameSyntaxError("a NUL in the head")
            line.append(octet)
            self.in_bounds(len(line), longest, room, error)
        self.size += len(line) + 1
        if self.version == "1.2" and line[-1:] == b"\r":
            del line[-1]
        while self.lenient and line.endswith((b" ", b"\r")):
            del line[-1]
        return bytes(line)

    def in_bounds(self, count: int, longest: int, room: int, error: type[ProtocolError]) -> None:
        if count > min(longest, room):
            raise (error if longest <= room else FrameTooLarge)("too long")

    def header(self, line: bytes, command: str) -> tuple[str, str]:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise FrameSyntaxError("no UTF-8") from None
        if ":" not in text:
            raise FrameSyntaxError("no colon")
        name, value = text.split(":", 1)
        if not name and self.version in ("1.1", "1.2"):
            raise FrameSyntaxError("no name")
        if "\r" in text and self.version == "1.2":
            raise FrameSyntaxError("a CR in a line")
        if self.lenient:
            return name.lower(), value.lstrip(" ")
        if command in ("CONNECT", "STOMP", "CONNECTED"):
            return name, value
        return self.unescaped(name), self.unescaped(value)

    def unescaped(self, text: str) -> str:
        if not _ESCAPES[self.version]:
            return text
        plain = ""
        chars = iter(text)
        for char in chars:
            if char == "\\":
                char = next(chars, "")
                if not char or char not in _ESCAPES[self.version]:
                    raise FrameSyntaxError("no such escape")
                plain += _MEANING[char]
            else:
                plain += char
        return plain

    def body(self, command: str, headers: list[tuple[str, str]]) -> bytes:
        may = self.version in ("1.0", "lenient") or command in ("SEND", "MESSAGE", "ERROR")
        length = self.declared([value for name, value in headers if name == "content-length"], may)
        room = self.limits.max_frame - self.size - 1
        if length is not None and length > room:
            raise FrameTooLarge("declared")
        longest, error = (self.limits.max_body, BodyTooLarge) if may else (0, FrameSyntaxError)
        body = bytearray()
        while True:
            if length is None:
                self.in_bounds(len(body), longest, room, error)
            octet = next(self.octets)
            if len(body) == length and octet:
                raise FrameSyntaxError("no NUL behind the body")
            if not octet and len(body) >= (length or 0):
                return bytes(body)
            body.append(octet)

    def declared(self, values: list[str], may: bool) -> int | None:
        """What the first content-length says, if it counts."""
        if not values:
            return None
        digits = values[0].removeprefix("-")
        if not digits or any(char not in "0123456789" for char in digits):
            if self.lenient:
                return None
            raise FrameSyntaxError("no number")
        if digits != values[0] or (int(digits) and not may):
            raise FrameSyntaxError("no length that this frame can have")
        if int(digits) > self.limits.max_body:
            raise BodyTooLarge("declared")
        return int(digits)
