"""Reads one frame exactly, line by line. Reading can stop at any byte and go on there.

Only this module decides what is a frame. FrameScanner (``scanner``) and ReceiptScanner (``decoder``) have
faster paths for frames of known forms, and use this module for all others. So all refuse the same frames.

The result does not depend on how the input was split. Everything before an error is read first, and an error
is raised at the first byte that proves it, so limits are checked as early as possible. Sections: STOMP 1.2
"Augmented BNF", "Size Limits", "Header content-length", "Body".
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from spark_stomp.errors import (
    BodyTooLarge,
    CommandTooLong,
    FrameSyntaxError,
    FrameTooLarge,
    HeaderLineTooLong,
    LimitExceeded,
    RemoteProtocolError,
    TooManyHeaders,
)
from spark_stomp.protocol.frames import HEARTBEAT, Frame, HeaderPairs, Limits, Signal
from spark_stomp.protocol.grammar import (
    Head,
    content_length,
    grammar_of,
    no_body_error,
    parse_header,
    parse_plain_headers,
    without_line_end,
)
from spark_stomp.quoting import quoted

_LF: Final = 0x0A
_CR: Final = 0x0D
_LFS: Final = re.compile(rb"\n*")
_CRS_AND_LFS: Final = re.compile(rb"[\r\n]*")
_LONE_CR: Final = re.compile(rb"\r(?!\n)")
_NULS: Final = re.compile(rb"\0*")
_PARTS: Final = {CommandTooLong: "a command", HeaderLineTooLong: "a header line", BodyTooLarge: "a body"}
SMALL_PIECE: Final = 4096
"""Pieces of fewer bytes are joined when they are received, because an object for each would take far more
memory. A judgement, not measured."""


class ReceiveBuffer:
    """Received bytes in two parts: ``data``, which a reader reads, and the pieces that have arrived since.

    ``data[start:]`` is unread. ``data`` is ``bytes``, whose slices need no second copy. While a frame arrives
    in many small pieces it is a ``bytearray``, which can grow.
    """

    __slots__ = ("_pieces", "_waiting", "data", "start")

    def __init__(self, data: bytes = b"") -> None:
        self.data: bytes | bytearray = data
        self.start = 0
        self._pieces: list[bytes | bytearray] = []
        self._waiting = 0  # bytes in the pieces

    def __len__(self) -> int:
        """How many bytes are unread, including those that were not pulled yet."""
        return len(self.data) - self.start + self._waiting

    def append(self, data: bytes) -> None:
        """Take received bytes. A large piece is kept as one object until ``pull``; small ones are joined."""
        if not data:
            return
        pieces = self._pieces
        self._waiting += len(data)
        if not pieces or len(data) >= SMALL_PIECE:
            pieces.append(bytes(data))
            return
        if not isinstance(pieces[-1], bytearray):
            pieces.append(bytearray())
        pieces[-1] += data

    def pull(self, wanted: int = 0) -> bool:
        """Add to ``data`` what has arrived; False if nothing has.

        Each byte is copied a constant number of times. The unread tail is copied only if it is not longer
        than the new bytes, or once into a growing ``bytearray``, or once when all bytes that the reader waits
        for have arrived.

        Args:
            wanted: how many unread bytes the reader waits for; 0 if it does not know. Further bytes stay for
                the next call, unless there are as many again. So ``data`` usually ends where the reader
                wants.
        """
        pieces = self._pieces
        if not pieces:
            return False
        tail = len(self.data) - self.start
        if tail > self._waiting and not wanted:
            self._grow()
        else:
            rest = self._cut(len(self) - wanted) if len(self) < 2 * wanted else b""
            parts = [memoryview(self.data)[self.start :], *pieces] if tail else pieces
            self.data = b"".join(parts)  # a single piece is not copied
            self.start = 0
            pieces.clear()
            self._waiting = 0
            self.append(rest)
        return True

    def _cut(self, spare: int) -> bytes:
        """Remove and return the last ``spare`` bytes if they are a part of the last piece."""
        last = self._pieces[-1]
        if not 0 < spare < len(last):
            return b""
        self._pieces[-1] = last[:-spare]
        return bytes(last[-spare:])

    def _grow(self) -> None:
        if not isinstance(self.data, bytearray):
            self.data = bytearray(memoryview(self.data)[self.start :])
            self.start = 0
        for piece in self._pieces:
            self.data += piece
        self._pieces.clear()
        self._waiting = 0

    def consume(self, count: int) -> None:
        """Mark ``count`` bytes as read. If ``data`` is a ``bytearray``, its unread part becomes ``bytes``."""
        self.start += count
        if isinstance(self.data, bytearray):
            self.data = bytes(memoryview(self.data)[self.start :])
            self.start = 0

    def peek(self, begin: int, end: int) -> bytes:
        """A copy of the bytes from ``begin`` to ``end``, which are offsets from ``start``."""
        return bytes(memoryview(self.data)[self.start + begin : self.start + end])

    def take(self) -> bytes:
        """Return all unread bytes; the buffer is empty afterwards."""
        rest = b"".join((memoryview(self.data)[self.start :], *self._pieces))
        self.clear()
        return rest

    def clear(self) -> None:
        """Discard all bytes."""
        self.data = b""
        self._pieces.clear()
        self.start = self._waiting = 0


class Span(NamedTuple):
    """A complete frame that is still in the buffer. Offsets are relative to the buffer's start."""

    command: str
    headers: HeaderPairs
    body_start: int
    body_end: int
    """The offset of the frame's NUL."""


class FrameReader:
    """The base of decoder and scanners: the buffer, the exact path, and the error that ended the reading.

    Args:
        version: one of ``VERSIONS``.
        limits: the largest frame to accept; ``Limits()`` by default.
    """

    def __init__(self, version: str, limits: Limits | None = None) -> None:
        self._buffer = ReceiveBuffer()
        self._grammar = grammar_of(version)
        self._limits = Limits() if limits is None else limits
        self._error: RemoteProtocolError | None = None
        self._head: Head | None = None
        # Offsets are relative to the buffer's start.
        self._cursor = 0  # the next byte of this frame to read
        self._searched = 0  # there is no line end (in a body: no NUL) before this; 0: no frame has begun
        self._stalled = False  # the last result was NEED_DATA
        self._wanted = 0  # unread bytes below which the result stays NEED_DATA

    @property
    def version(self) -> str:
        """The STOMP version, one of ``VERSIONS``."""
        return self._grammar.version

    @property
    def begun(self) -> bool:
        """Whether the last ``next_event`` left a frame that has begun and is not complete."""
        return self._searched > 0

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer. Never raises: ``next_event`` raises if they are bad."""
        if self._error is None:
            self._buffer.append(data)

    def take_buffer(self) -> bytes:
        """Return all bytes after the last event; the reader is empty afterwards.

        If a frame has begun, they start with its first byte.
        """
        self._forget_progress()
        return self._buffer.take()

    def _fail(self, error: RemoteProtocolError) -> None:
        """Remember ``error``, which every later call raises, and discard what was received."""
        self._error = error
        self.take_buffer()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)

    def _forget_progress(self) -> None:
        self._head = None
        self._cursor = self._searched = self._wanted = 0
        self._stalled = False

    def _consume(self, count: int) -> None:
        """Remove the first ``count`` unread bytes. A new frame or an EOL follows them."""
        self._forget_progress()
        self._buffer.consume(count)

    def _take_frame(self, span: Span) -> Frame:
        """Remove the frame from the buffer and return it."""
        body = self._buffer.peek(span.body_start, span.body_end)
        self._consume(span.body_end + 1)
        return Frame(span.command, span.headers, body)

    def _still_stalled(self) -> bool:
        """Whether too few bytes have arrived since the last NEED_DATA."""
        if not self._pull():
            return True
        self._stalled = False
        return False

    def _pull(self) -> bool:
        """Let the buffer take what has arrived; False if that is nothing, or too little.

        If ``data`` is still ``bytes``, a head that has begun is read again from its first byte, because all
        lines of a head together are read faster than each alone. The cost stays linear: the part that is read
        twice is not longer than the new bytes.
        """
        buffer, wanted = self._buffer, self._wanted
        if len(buffer) < wanted or not buffer.pull(wanted):
            return False
        if isinstance(buffer.data, bytes) and (self._head is None or not self._head.complete):
            self._forget_progress()
        return True

    def _enter_body(self, command: str, length: int | None, body_start: int) -> None:
        """Go on with the body of a frame whose head was accepted elsewhere."""
        self._head = Head(command, self._grammar, self._limits, complete=True, length=length)
        self._cursor = self._searched = body_start

    def _read_span(self) -> Span | Literal[Signal.HEARTBEAT] | None:
        """The next frame, HEARTBEAT for EOLs between frames, or None if more data is needed.

        EOLs are consumed. A frame stays in the buffer until ``_consume``. Raises RemoteProtocolError.
        """
        if self._head is None:
            begun = self._skip_to_frame()
            if begun is not True:
                return begun
        head = self._head
        assert head is not None
        if not head.complete and self._searched == self._cursor:
            self._read_lines_at_once(head)
        while not head.complete:
            line = self._read_line(head.limits, head.limits.max_header_line, HeaderLineTooLong)
            if line is None:
                return None
            self._take_header_line(head, line)
        return self._read_body(head)

    # -- between frames, and the command line

    def _skip_to_frame(self) -> Literal[True, Signal.HEARTBEAT] | None:
        """True once a command line was read, HEARTBEAT for EOLs before it, None if more data is needed."""
        buffer, grammar = self._buffer, self._grammar
        while buffer.start < len(buffer.data):
            data, start = buffer.data, buffer.start
            first = data[start]
            if first in (_LF, _CR) and (end := self._end_of_eols()) > start:
                self._consume(end - start)
                return HEARTBEAT
            if first == _CR and grammar.crlf:
                return self._read_crlf()
            if first or not grammar.lenient:
                return self._read_command()
            # RabbitMQ, stomp-php and stompman ignore NULs between frames, so lenient peers may send them.
            self._consume(_run_end(_NULS, data, start) - start)
        return None

    def _end_of_eols(self) -> int:
        """Where the complete EOLs at the beginning of the buffer end.

        They are found together, because a hostile peer may send millions.
        """
        data, start = self._buffer.data, self._buffer.start
        if not (self._grammar.crlf or self._grammar.lenient):
            return _run_end(_LFS, data, start)
        end = _run_end(_CRS_AND_LFS, data, start)
        lone = _LONE_CR.search(data, start, end)
        return end if lone is None else lone.start()

    def _read_crlf(self) -> Literal[Signal.HEARTBEAT] | None:
        data, start = self._buffer.data, self._buffer.start
        if len(data) < start + 2:
            return None
        if data[start + 1] != _LF:
            raise FrameSyntaxError("a CR between two frames is not followed by LF")
        self._consume(2)
        return HEARTBEAT

    def _read_command(self) -> Literal[True, Signal.HEARTBEAT] | None:
        grammar, limits = self._grammar, self._limits
        line = self._read_line(limits, limits.max_command, CommandTooLong)
        if line is None:
            return None
        name = without_line_end(line, grammar)
        if grammar.lenient:
            name = name.upper()
            if not name:
                self._consume(self._cursor)
                return HEARTBEAT
        command = name.decode("ascii", "backslashreplace")
        if command not in grammar.commands:
            raise FrameSyntaxError(f"unknown command {quoted(command, 40)} (STOMP {grammar.version})")
        self._head = Head(command, grammar, limits, after_crlf=line.endswith(b"\r"))
        return True

    # -- lines

    def _read_line(self, limits: Limits, longest: int, too_long: type[LimitExceeded]) -> bytes | None:
        """The next line without its LF; None if it is not complete.

        Raises as soon as a NUL has arrived or the line is longer than ``longest`` bytes.
        """
        data, start = self._buffer.data, self._buffer.start
        begin = start + self._cursor
        room = limits.max_frame - self._cursor - 1
        stop = begin + min(longest, room) + 1
        end = data.find(b"\n", start + self._searched, stop)
        if data.find(b"\0", start + self._searched, stop if end < 0 else end) >= 0:
            raise FrameSyntaxError("a NUL comes before the blank line that ends the headers")
        if end < 0:
            if len(data) >= stop:
                raise _too_large(limits, longest, room, too_long)
            self._searched = len(data) - start
            return None
        self._cursor = self._searched = end + 1 - start
        return bytes(data[begin:end])

    def _read_lines_at_once(self, head: Head) -> None:
        """Read all complete header lines together, unless one might be too long or contains a NUL.

        The result is that of reading line by line; only the search for each line end is saved.
        """
        data, begin = self._buffer.data, self._buffer.start + self._cursor
        stop = begin + min(head.limits.max_header_line, head.limits.max_frame - self._cursor - 1)
        end = data.find(b"\n\r\n" if head.after_crlf else b"\n\n", begin, stop)
        if end < 0:
            end = data.rfind(b"\n", begin, stop)
        region = bytes(data[begin:end]) if end >= 0 else b"\0"
        if b"\0" in region:
            return
        headers = parse_plain_headers(region, head)
        if headers is not None and len(head.headers) + len(headers) <= head.limits.max_headers:
            head.headers += headers
            self._cursor = self._searched = self._cursor + len(region) + 1
            return
        for line in region.split(b"\n"):
            self._cursor += len(line) + 1
            self._take_header_line(head, line)
            if head.complete:
                break
        self._searched = self._cursor

    def _take_header_line(self, head: Head, line: bytes) -> None:
        line = without_line_end(line, head.grammar)
        if not line:
            head.length = content_length(head)
            head.complete = True
            self._check_declared_size(head)
            return
        if len(head.headers) >= head.limits.max_headers:
            raise TooManyHeaders(f"{head.command} has more than {head.limits.max_headers} headers")
        head.headers.append(parse_header(line, head))

    # -- the body

    def _check_declared_size(self, head: Head) -> None:
        """Refuse a frame whose declared size is too large, before its body arrives."""
        if head.length is not None and self._cursor + head.length + 1 > head.limits.max_frame:
            raise _too_large(head.limits, head.length, -1, FrameTooLarge)

    def _read_body(self, head: Head) -> Span | None:
        data, start = self._buffer.data, self._buffer.start
        end = self._find_nul(head) if head.length is None else start + self._cursor + head.length
        if end is None:
            return None
        if end >= len(data):
            self._wanted = end + 1 - start
            return None
        if data[end]:
            raise FrameSyntaxError(
                f"content-length of {head.command} is {head.length}, but no NUL follows the body"
            )
        return Span(head.command, tuple(head.headers), self._cursor, end - start)

    def _find_nul(self, head: Head) -> int | None:
        """Where a frame without content-length ends; None if its NUL has not arrived."""
        data, start, limits = self._buffer.data, self._buffer.start, head.limits
        longest = limits.max_body if head.command in head.grammar.with_body else 0
        room = limits.max_frame - self._cursor - 1
        stop = start + self._cursor + min(longest, room) + 1
        end = data.find(b"\0", start + self._searched, stop)
        if end >= 0:
            return end
        if len(data) >= stop:
            if longest <= room and head.command not in head.grammar.with_body:
                raise no_body_error(head)
            raise _too_large(limits, longest, room, BodyTooLarge)
        self._searched = len(data) - start
        return None


def _run_end(run: re.Pattern[bytes], data: bytes | bytearray, start: int) -> int:
    """The end of what ``run`` matches at ``start``; ``start`` if it matches nothing."""
    match = run.match(data, start)
    return start if match is None else match.end()


def _too_large(limits: Limits, longest: int, room: int, error: type[LimitExceeded]) -> LimitExceeded:
    """The error for the lower limit, in bytes: ``longest`` of this part, or ``room`` left in its frame."""
    if longest <= room:
        return error(f"{_PARTS[error]} of more than {longest} bytes")
    return FrameTooLarge(f"a frame of more than {limits.max_frame} bytes")
