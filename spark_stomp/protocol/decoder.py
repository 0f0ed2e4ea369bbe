"""Bytes to frames: reads one frame exactly. Reading can stop at any byte and go on there.

Only this module decides what is a frame. The scanners (``scanner``) have faster paths for frames of known
forms, and use this module for all others. So all refuse the same frames.

A head, the command and headers of a frame, is judged once, when it is complete. Before that only three things
are an error: an unknown command, a NUL, and a frame that becomes too large. So neither the frames that are
read nor the error depends on how the input was split, and everything before an error is read first. Sections:
STOMP 1.2 "Augmented BNF", "Size Limits", "Header content-length", "Body".
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from spark_stomp.errors import FrameSyntaxError, LimitExceeded, RemoteProtocolError
from spark_stomp.protocol.frames import (
    HEARTBEAT,
    MOST_BLANKS,
    NEED_DATA,
    Frame,
    HeaderPairs,
    Limits,
    Signal,
    content_length,
    grammar_of,
    no_body_error,
    nul_error,
    parse_headers,
    without_line_end,
)
from spark_stomp.quoting import quoted

_LF: Final = 0x0A
_CR: Final = 0x0D
_LFS: Final = re.compile(rb"\n*")
_CRS_AND_LFS: Final = re.compile(rb"[\r\n]*")
_LONE_CR: Final = re.compile(rb"\r(?!\n)")
_NULS: Final = re.compile(rb"\0*")
_LOOK_BACK: Final = MOST_BLANKS + 1
"""Bytes that were searched already and may be the beginning of a blank line."""
SMALL_PIECE: Final = 4096
"""Pieces of fewer bytes are joined when they are received, because an object for each would take far more
memory."""


class ReceiveBuffer:
    """Received bytes in two parts: ``data``, which a reader reads, and the pieces that have arrived since.

    ``data[start:]`` is unread. ``data`` is ``bytes``, whose slices need no second copy. While a frame arrives
    in many small pieces it is a ``bytearray``, which can grow.
    """

    __slots__ = ("_pieces", "_waiting", "data", "start")

    def __init__(self) -> None:
        self.data: bytes | bytearray = b""
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
            wanted: how many unread bytes the reader waits for; 0 if it does not know. Bytes beyond these stay
                for the next call if they are fewer. So ``data`` usually ends where the reader wants.
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


class FrameHead(NamedTuple):
    """The head of a frame that is still in the buffer. Offsets are relative to the buffer's start."""

    command: str
    headers: HeaderPairs
    body: int
    """The offset of the body."""
    length: int | None
    """Bytes of the body; None as long as it is not known."""
    error: RemoteProtocolError | None = None
    """Why the head is malformed, of a frame whose end is certain all the same."""

    @property
    def size(self) -> int:
        """Bytes of the frame with its NUL, once the length of the body is known."""
        return self.body + (self.length or 0) + 1


class FrameReader:
    """The base of decoder and scanners: the buffer, the exact path, and the error that ended the reading.

    Args:
        version: one of ``VERSIONS``.
        limits: the largest frame to accept; ``Limits()`` by default.
        tolerant: whether the head of a MESSAGE that has a NUL is read to its end.
    """

    def __init__(self, version: str, limits: Limits | None = None, *, tolerant: bool = False) -> None:
        self._buffer = ReceiveBuffer()
        self._grammar = grammar_of(version)
        self._limits = Limits() if limits is None else limits
        self._tolerant = tolerant
        self._error: RemoteProtocolError | None = None
        self._command: str | None = None  # of a frame whose head is not complete
        self._head: FrameHead | None = None  # of a frame whose body is not complete
        # Offsets are relative to the buffer's start.
        self._lines = 0  # where the header lines begin
        self._searched = 0  # what is waited for does not end before this; 0: no frame has begun
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
        self._command = self._head = None
        self._searched = self._wanted = 0
        self._stalled = False

    def _consume(self, count: int) -> None:
        """Remove the first ``count`` unread bytes. A new frame or an EOL follows them."""
        self._forget_progress()
        self._buffer.consume(count)

    def _take_frame(self, head: FrameHead) -> Frame:
        """Remove the frame from the buffer and return it."""
        body = self._buffer.peek(head.body, head.size - 1)
        self._consume(head.size)
        return Frame(head.command, head.headers, body)

    def _still_stalled(self) -> bool:
        """Whether too few bytes have arrived since the last NEED_DATA."""
        if not self._pull():
            return True
        self._stalled = False
        return False

    def _pull(self) -> bool:
        """Let the buffer take what has arrived; False if that is nothing, or too little.

        If ``data`` is still ``bytes``, a head that has begun is read again from its first byte, because a
        faster path may take it then. The cost stays linear: the part that is read twice is not longer than
        the new bytes.
        """
        buffer, wanted = self._buffer, self._wanted
        if len(buffer) < wanted or not buffer.pull(wanted):
            return False
        if isinstance(buffer.data, bytes) and self._head is None:
            self._forget_progress()
        return True

    def _read(self) -> FrameHead | Literal[Signal.HEARTBEAT] | None:
        """The head of the next frame, HEARTBEAT for EOLs between frames, or None if more data is needed.

        EOLs are consumed. A frame stays in the buffer until ``_consume``. Raises RemoteProtocolError.
        """
        if self._head is None:
            if self._command is None:
                begun = self._skip_to_frame()
                if begun is not True:
                    return begun
            self._head = self._read_head()
        return None if self._head is None else self._read_body(self._head)

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
            self._consume(_match_end(_NULS, data, start) - start)
        return None

    def _end_of_eols(self) -> int:
        """Where the complete EOLs at the beginning of the buffer end.

        They are found together, because a hostile peer may send millions.
        """
        data, start = self._buffer.data, self._buffer.start
        if not (self._grammar.crlf or self._grammar.lenient):
            return _match_end(_LFS, data, start)
        end = _match_end(_CRS_AND_LFS, data, start)
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
        grammar, limits, data, start = self._grammar, self._limits, self._buffer.data, self._buffer.start
        most = min(limits.max_command, limits.max_frame - 1)
        end = data.find(b"\n", start + self._searched, start + most + 1)
        line = bytes(data[start : start + most + 1 if end < 0 else end])
        if b"\0" in line:
            raise nul_error()
        if end < 0:
            if len(line) > most:
                if most < limits.max_command:
                    raise self._frame_too_large()
                raise LimitExceeded(f"a command of more than {most} bytes")
            self._searched = len(line)
            return None
        name = without_line_end(line, grammar)
        self._lines = self._searched = end + 1 - start
        if grammar.lenient:
            name = name.upper()
            if not name:
                self._consume(self._lines)
                return HEARTBEAT
        command = name.decode("ascii", "backslashreplace")
        if command not in grammar.commands:
            raise FrameSyntaxError(f"unknown command {quoted(command, 40)} (STOMP {grammar.version})")
        self._command = command
        return True

    # -- the other lines of the head

    def _read_head(self) -> FrameHead | None:
        """The complete head of the frame whose command was read; None if more data is needed."""
        assert self._command is not None
        data, start = self._buffer.data, self._buffer.start
        stop = min(len(data), start + self._limits.max_frame - 1)
        begin = start + max(self._lines - 1, self._searched - _LOOK_BACK)
        blank = self._grammar.blank_line.search(data, begin, stop)
        end = stop if blank is None else blank.end()
        reads_on = self._tolerant and self._command == "MESSAGE"
        if not reads_on and data.find(b"\0", start + self._searched, end) >= 0:
            raise nul_error()
        if blank is None and stop < len(data):
            raise self._frame_too_large()
        self._searched = end - start
        if blank is None:
            return None
        lines = bytes(data[start + self._lines : blank.start()])
        return self._judge(self._command, lines)

    def _judge(self, command: str, lines: bytes) -> FrameHead:
        """The head with these header lines, which have LFs between them. ``_searched`` is its end.

        Raises RemoteProtocolError.
        """
        limits = self._limits
        count = lines.count(b"\n") + 1 if lines else 0
        if count > limits.max_headers:
            raise LimitExceeded(f"{command} has more than {limits.max_headers} headers")
        longest = limits.max_header_line
        if len(lines) > longest and max(map(len, lines.split(b"\n"))) > longest:
            raise LimitExceeded(f"a header line of more than {longest} bytes")
        headers = parse_headers(lines, command, self._grammar)
        head = FrameHead(
            command, headers, self._searched, content_length(headers, command, self._grammar, limits)
        )
        if head.size > limits.max_frame:
            raise self._frame_too_large()
        return head

    # -- the body

    def _read_body(self, head: FrameHead) -> FrameHead | None:
        data, start, length = self._buffer.data, self._buffer.start, head.length
        if length is None:
            end = self._find_nul(head)
            return None if end is None else FrameHead(head.command, head.headers, head.body, end, head.error)
        end = start + head.body + length
        if end >= len(data):
            self._wanted = end + 1 - start
            return None
        if data[end]:
            raise FrameSyntaxError(
                f"content-length of {head.command} is {length}, but no NUL follows the body"
            )
        return head

    def _find_nul(self, head: FrameHead) -> int | None:
        """The length of a body without content-length; None if its NUL has not arrived."""
        data, limits = self._buffer.data, self._limits
        body = self._buffer.start + head.body
        longest = limits.max_body if head.command in self._grammar.with_body else 0
        room = limits.max_frame - head.body - 1
        stop = body + min(longest, room) + 1
        end = data.find(b"\0", self._buffer.start + self._searched, stop)
        if end >= 0:
            return end - body
        if len(data) >= stop:
            if longest > room:
                raise self._frame_too_large()
            if head.command not in self._grammar.with_body:
                raise no_body_error(head.command, self._grammar)
            raise LimitExceeded(f"a body of more than {longest} bytes")
        self._searched = len(data) - self._buffer.start
        return None

    def _frame_too_large(self) -> LimitExceeded:
        return LimitExceeded(f"a frame of more than {self._limits.max_frame} bytes")


class FrameDecoder(FrameReader):
    """Decodes one direction of a STOMP connection. Returns each event without waiting for the bytes after it.

    Args:
        version: one of ``VERSIONS``.
        limits: the largest frame to accept; ``Limits()`` by default.
    """

    def next_event(self) -> Frame | Literal[Signal.HEARTBEAT, Signal.NEED_DATA]:
        """The next frame; HEARTBEAT for EOLs between frames; NEED_DATA if nothing is complete.

        Adjacent EOLs are one HEARTBEAT, or a few if they arrived in pieces.

        Raises:
            RemoteProtocolError: the bytes are not a frame, or exceed a limit. Raised after all frames before
                them were returned, and again on every later call.
        """
        if self._stalled and self._still_stalled():
            return NEED_DATA
        self._raise_error()
        try:
            event = self._read()
            while event is None:
                if not self._pull():
                    self._stalled = True
                    return NEED_DATA
                event = self._read()
        except RemoteProtocolError as error:
            self._fail(error)
            raise
        return self._take_frame(event) if isinstance(event, FrameHead) else event


def _match_end(pattern: re.Pattern[bytes], data: bytes | bytearray, start: int) -> int:
    """The end of what ``pattern`` matches at ``start``; ``start`` if it matches nothing."""
    match = pattern.match(data, start)
    return start if match is None else match.end()
