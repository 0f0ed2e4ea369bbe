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
from support.codec import Outcome, Tolerated

_CLIENT = ["CONNECT", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "BEGIN", "COMMIT", "ABORT", "ACK", "DISCONNECT"]
_COMMANDS_1_0 = {*_CLIENT, "CONNECTED", "MESSAGE", "RECEIPT", "ERROR"}
_ESCAPES = {"1.0": "", "1.1": "\\nc", "1.2": "\\ncr", "lenient": ""}
_MEANING = {"\\": "\\", "n": "\n", "c": ":", "r": "\r"}


def read(version: str, data: bytes, limits: Limits) -> Outcome:
    """What ``data`` holds: its frames, the EOLs between them, and the class of the error that ends it."""
    reader = _Reader(version, limits, _Counted(data))
    try:
        reader.run()
    except ProtocolError as error:
        return Outcome(reader.frames, len(reader.gaps), type(error))
    except StopIteration:
        pass
    return Outcome(reader.frames, len(reader.gaps), None)


def read_tolerantly(version: str, data: bytes, limits: Limits) -> Tolerated:
    """The same, but a MESSAGE with a bad head is read over if its end is known."""
    events: list[Frame | bytes] = []
    while True:
        octets = _Counted(data)
        reader = _Reader(version, limits, octets)
        try:
            reader.run()
        except StopIteration:
            return Tolerated([*events, *reader.frames], None)
        except ProtocolError as error:
            events += reader.frames
            if reader.bad_from is None:
                return Tolerated(events, type(error))
            try:
                size = _size_of_bad(version, data[reader.bad_from :], limits)
            except StopIteration:
                return Tolerated(events, None)
            if size is None:
                return Tolerated(events, type(error))
            events.append(data[reader.bad_from : reader.bad_from + size])
            data = data[reader.bad_from + size :]


def _size_of_bad(version: str, data: bytes, limits: Limits) -> int | None:
    """How many octets the bad frame at the start of ``data`` has, None if nobody can say; StopIteration if
    more must come first."""
    lines: list[bytes] = []
    size = 0
    while not lines or lines[-1]:
        if b"\n" not in data[size : limits.max_frame]:
            if len(data) < limits.max_frame:
                raise StopIteration
            return None
        line = data[size : data.index(b"\n", size)]
        size += len(line) + 1
        if version == "1.2" and line.endswith(b"\r"):
            line = line[:-1]
        if version == "lenient" and (len(line) <= 64 or line.strip(b" \r")):
            line = line.rstrip(b" \r")
        lines.append(line)
    if _looks_like_two(data[:size]):
        return None
    length = next((_value(line) for line in lines if _name(line, version) == b"content-length"), None)
    if length is None:
        if b"\0" in data[:size]:
            return None
        most = min(limits.max_body, limits.max_frame - size - 1)
        body = data[size : size + most + 1]
        if b"\0" not in body and len(body) <= most:
            raise StopIteration
        return size + body.index(b"\0") + 1 if b"\0" in body else None
    if version == "lenient":
        length = length.lstrip(b" ")
    if not length or any(octet not in b"0123456789" for octet in length):
        return None
    end = size + int(length)
    if int(length) > limits.max_body or end + 1 > limits.max_frame:
        return None
    if end >= len(data):
        raise StopIteration
    return None if data[end] else end + 1


def _looks_like_two(head: bytes) -> bool:
    """Whether after a NUL and line ends a line is the command of another frame."""
    _, *parts = head.split(b"\0")
    lines = [part.lstrip(b"\r\n").split(b"\n") for part in parts]
    commands = (b"MESSAGE", b"RECEIPT", b"ERROR", b"CONNECTED")
    return any(line[0].rstrip(b" \r").upper() in commands and len(line) > 1 for line in lines)


def _name(line: bytes, version: str) -> bytes:
    name = line.split(b":")[0] if b":" in line else b""
    return name.lower() if version == "lenient" else name


def _value(line: bytes) -> bytes:
    return line.split(b":", 1)[1]


class _Counted(Iterator[int]):
    """Octets, and how many were taken."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def __next__(self) -> int:
        if self.at == len(self.data):
            raise StopIteration
        self.at += 1
        return self.data[self.at - 1]


@dataclass
class _Reader:
    version: str
    limits: Limits
    octets: _Counted
    bad_from: int | None = None
    """Where a MESSAGE begins whose header lines are being read."""
    frames: list[Frame] = field(default_factory=list)
    gaps: set[int] = field(default_factory=set)
    """How many frames came before EOLs that stand between frames."""
    size: int = 0
    """Octets of the frame that is being read."""

    @property
    def lenient(self) -> bool:
        return self.version == "lenient"

    def run(self) -> None:
        while True:
            first = next(self.octets)
            if first == ord("\n"):
                self.gaps.add(len(self.frames))
            elif self.version == "1.2" and first == ord("\r"):
                if next(self.octets) != ord("\n"):
                    raise FrameSyntaxError("a lone CR")
                self.gaps.add(len(self.frames))
            elif first or not self.lenient:
                self.frame(first)

    def frame(self, first: int) -> None:
        self.size = 0
        begin = self.octets.at - 1
        command = self.line(self.limits.max_command, CommandTooLong, first).decode("latin-1")
        if self.lenient:
            command = command.upper()
            if not command:
                self.gaps.add(len(self.frames))
                return
        if command not in (_COMMANDS_1_0 if self.version == "1.0" else _COMMANDS_1_0 | {"STOMP", "NACK"}):
            raise FrameSyntaxError("no command")
        headers: list[tuple[str, str]] = []
        self.bad_from = begin if command == "MESSAGE" else None
        while line := self.line(self.limits.max_header_line, HeaderLineTooLong):
            if len(headers) == self.limits.max_headers:
                raise TooManyHeaders("one more")
            headers.append(self.header(line, command))
        self.bad_from = None
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
