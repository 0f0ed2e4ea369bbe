"""What is read of frames that are left as bytes, and the end of malformed ones.

A NUL, an undefined escape or a limit that is passed in one header must not stop a connection if it is certain
where the frame ends. It is certain if its head is complete, and

- a numeric ``content-length`` is declared, and the byte after that many is a NUL; or
- none is declared, no NUL stands in the head, and a NUL follows: that is the end.

Everything must lie within ``max_body`` and ``max_frame``. In any other case the end is unknown, and the
connection cannot be read on. So it is if something like a second frame begins behind a NUL in the head.

Of a frame whose end is known nothing is refused: a value that breaks a rule is no value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from spark_stomp.errors import FrameSyntaxError, MalformedMessageError, RemoteProtocolError
from spark_stomp.protocol.frames import HeaderPairs, Limits
from spark_stomp.protocol.grammar import Grammar, Head, grammar_of, parse_header, unescape, without_line_end
from spark_stomp.protocol.reader import ReceiveBuffer
from spark_stomp.quoting import quoted, shown

BLANK_LINE: Final = {
    "1.0": re.compile(rb"\n\n"),
    "1.1": re.compile(rb"\n\n"),
    "1.2": re.compile(rb"\n\r?\n"),
    "lenient": re.compile(rb"\n[ \r]*\n"),
}
# In the lenient dialect blanks may stand in the blank line; more than these are taken for a header line.
_MOST_BLANKS: Final = 64
_BLANK_LINE: Final = BLANK_LINE | {"lenient": re.compile(rb"\n[ \r]{0,%d}\n" % _MOST_BLANKS)}
_LOOK_BACK: Final = _MOST_BLANKS + 1
_SECOND_FRAME: Final = re.compile(rb"\0[\r\n]*(?:MESSAGE|RECEIPT|ERROR|CONNECTED)[ \r]*\n", re.IGNORECASE)
_DIGITS: Final = re.compile(rb"[0-9]{1,18}")
_MOST_HEADERS: Final = Limits().max_headers
_COLUMNS: Final = frozenset({"destination", "message-id", "content-type", "redelivered", "timestamp"})


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


# --- malformed messages


@dataclass(frozen=True, slots=True)
class MalformedMessage:
    """A MESSAGE frame that breaks a rule or a limit, and whose end is known.

    ``data`` is the frame from its command to its NUL. ``error`` says what is wrong. ``ack``, ``id`` and
    ``time`` are as in :class:`~spark_stomp.protocol.scanner.MessageBlock`: ``b""`` and None if they cannot be
    read either. ``destination`` and ``message_id`` are None then.
    """

    data: bytes
    error: RemoteProtocolError
    ack: bytes
    id: bytes | None
    time: bytes | None
    destination: str | None
    message_id: str | None

    def as_error(self, subscribed: str) -> MalformedMessageError:
        """The error that names the message; ``subscribed`` is the destination of its subscription."""
        destination = shown(self.destination or subscribed)
        name = "without a readable message-id" if self.message_id is None else quoted(self.message_id)
        remedy = ", or get it as a row with onMalformed=column"
        if not self.ack:
            remedy = "; it names nothing that an ACK could name, so it cannot be a row either"
        return MalformedMessageError(
            f"message {name} from {destination} is malformed: {self.error}. It is not "
            f"acknowledged, so the broker keeps it and delivers it again. Remove it there{remedy}"
        )


class BadFrame:
    """The search for the body of one refused frame, which begins at the buffer's first unread byte.

    Resumable: no byte is searched twice, except a few at the end of what had arrived.
    """

    def __init__(self, head: Head, error: RemoteProtocolError) -> None:
        self.error = error
        self._grammar = head.grammar
        self._limits = head.limits
        self._searched = 0
        self.length: int | None = None
        """Of the body, if that is declared."""
        self.body = 0
        """Where the body begins, once it is found."""

    def find_body(self, buffer: ReceiveBuffer) -> bool:
        """Whether the head is complete; False if more data is needed.

        Raises ``error`` if the end of the frame is unknown. This does not depend on how the input was split.
        """
        data, start, most = buffer.data, buffer.start, self._limits.max_frame
        begin = start + max(0, self._searched - _LOOK_BACK)
        stop = min(start + most, len(data))
        found = _BLANK_LINE[self._grammar.version].search(data, begin, stop)
        if found is None:
            self._searched = len(data) - start
            if self._searched >= most:
                raise self.error
            return False
        self.body = found.end() - start
        head = buffer.peek(0, self.body)
        self.length = self._declared(head)
        if (self.length is None and b"\0" in head) or _SECOND_FRAME.search(head):
            raise self.error
        if self.body + (self.length or 0) + 1 > most or (self.length or 0) > self._limits.max_body:
            raise self.error
        return True

    def _declared(self, head: bytes) -> int | None:
        value = raw_value(head, b"content-length", self._grammar)
        if value is None:
            return None
        if not _DIGITS.fullmatch(value):
            raise self.error
        return int(value)

    def message(self, data: bytes, names: RawNames) -> MalformedMessage:
        """The frame, once its end is known; ``data`` is all of it."""
        head, grammar = data[: self.body], self._grammar
        collected = raw_values(head, names, grammar)
        ack, stable, time = (None if text_of(raw, grammar) is None else raw for raw in collected)
        destination, message_id = (
            text_of(raw_value(head, name, grammar), grammar) for name in (b"destination", b"message-id")
        )
        return MalformedMessage(data, self.error, ack or b"", stable, time, destination, message_id)


# --- what is readable


class Readable(NamedTuple):
    """What can be read of a malformed frame. ``body`` is as sent."""

    headers: HeaderPairs
    body: bytes


def read_malformed(frame: bytes, version: str) -> Readable:
    """The header lines that follow the rules, each by itself, and the body.

    Of more than 1,000 such lines the first are taken, and those that become columns of their own: so much
    memory at most does a frame of countless headers take.

    Args:
        frame: ``MalformedMessage.data``, or as it lies in a block: EOLs may come before it.
        version: one of ``VERSIONS``.
    """
    grammar = grammar_of(version)
    lines, body = parted(frame, version)
    head = Head("MESSAGE", grammar, Limits())
    headers: list[tuple[str, str]] = []
    for line in lines.split(b"\n")[1:]:
        line = without_line_end(line, grammar)
        if b"\0" in line:
            continue
        try:
            header = parse_header(line, head)
        except FrameSyntaxError:
            continue
        if len(headers) < _MOST_HEADERS or header[0] in _COLUMNS:
            headers.append(header)
    return Readable(tuple(headers), body)
