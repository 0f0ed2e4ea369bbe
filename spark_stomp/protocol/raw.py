"""Reads headers of frames that stay bytes, and finds the end of malformed messages.

One bad header (a NUL, an undefined escape, a limit that is exceeded) must not stop a connection if it is
certain where its frame ends. The end is certain if the head is complete, and

- the head declares a numeric ``content-length``, and a NUL follows the body of that length; or
- the head declares no ``content-length`` and contains no NUL: the frame then ends at the next NUL.

The body must be within ``max_body`` and the frame within ``max_frame``. In any other case the end is unknown,
and nothing more can be read from the connection. The end is also unknown if a NUL in the head is followed by
what looks like a second frame.

Once the end is known, nothing in the frame is an error: a value that breaks a rule counts as missing.
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
# The lenient dialect allows blanks in the blank line, here at most this many bytes. A judgement, not
# measured: it bounds how far a search must go back when more bytes have arrived.
_MOST_BLANKS: Final = 64
_BLANK_LINE: Final = BLANK_LINE | {"lenient": re.compile(rb"\n[ \r]{0,%d}\n" % _MOST_BLANKS)}
_LOOK_BACK: Final = _MOST_BLANKS + 1
_SECOND_FRAME: Final = re.compile(rb"\0[\r\n]*(?:MESSAGE|RECEIPT|ERROR|CONNECTED)[ \r]*\n", re.IGNORECASE)
# 18 digits: a longer number is beyond any limit.
_DIGITS: Final = re.compile(rb"[0-9]{1,18}")
_MOST_HEADERS: Final = Limits().max_headers
_SUBSCRIPTION: Final = b"subscription"
_BETWEEN: Final = b"\r\n\0 "
"""What may stand between two frames."""
_COLUMNS: Final = frozenset({"destination", "message-id", "content-type", "redelivered", "timestamp"})


class RawNames(NamedTuple):
    """The names, as on the wire, of the headers whose values are collected from each message."""

    ack: bytes
    """The header with the ack handle."""
    id: bytes | None = None
    """The header with the stable id."""
    time: bytes | None = None
    """The header with the time that completes the id."""


class RawValues(NamedTuple):
    """The values, as on the wire, that are collected from one message.

    If a header is missing, ``ack`` is empty, and any other value is None.
    """

    ack: bytes
    id: bytes | None
    time: bytes | None
    subscription: bytes | None


def raw_values(head: bytes, names: RawNames, grammar: Grammar) -> RawValues:
    """The values of the headers ``names``, and of ``subscription``, in ``head``."""
    ack, *others = (
        None if name is None else raw_value(head, name, grammar) for name in (*names, _SUBSCRIPTION)
    )
    return RawValues(ack or b"", *others)


def parted(frame: bytes, version: str) -> tuple[bytes, bytes]:
    """Split a frame into its head, which ends with the blank line, and its body.

    Any EOLs before the frame are dropped.
    """
    frame = frame.lstrip(_BETWEEN)
    blank = BLANK_LINE[version].search(frame)
    assert blank is not None, "a frame whose end is known has a blank line"
    return frame[: blank.end()], frame[blank.end() : -1]


def frame_content(frame: bytes, version: str) -> tuple[str, str, bytes]:
    """The destination, the subscription and the body of a frame, which are parts of its message key.

    A destination that breaks a rule, as in a malformed message, is returned as on the wire. A header that is
    missing is empty, and so is a subscription that contains NUL.
    """
    head, blank, body = frame.lstrip(_BETWEEN).partition(b"\n\n")
    if blank and b"\r" not in head and version != "lenient":
        # With a journal this is done for every message: 1.3 us, and 2.3 us as below (November 2026).
        destination = head.partition(b"\ndestination:")[2].partition(b"\n")[0]
        subscription = head.partition(b"\nsubscription:")[2].partition(b"\n")[0]
        body = body[:-1]
    else:
        (head, body), grammar = parted(frame, version), grammar_of(version)
        destination = raw_value(head, b"destination", grammar) or b""
        subscription = raw_value(head, _SUBSCRIPTION, grammar) or b""
    if b"\0" in subscription:
        subscription = b""
    return _readable(destination, version), _readable(subscription, version), body


@lru_cache(maxsize=2048)
def _readable(raw: bytes, version: str) -> str:
    text = text_of(raw, grammar_of(version))
    return raw.decode(errors="replace") if text is None else text


def raw_value(head: bytes, wanted: bytes, grammar: Grammar) -> bytes | None:
    """The value of the first header called ``wanted``, both as on the wire. None if the header is missing."""
    if grammar.lenient:
        return _raw_folded_value(head, wanted, grammar)
    begin = head.find(b"\n%b:" % wanted)
    if begin < 0:
        return None
    begin += len(wanted) + 2
    return without_line_end(head[begin : head.index(b"\n", begin)], grammar)


def _raw_folded_value(head: bytes, wanted: bytes, grammar: Grammar) -> bytes | None:
    """The value of a header in the lenient dialect, which ignores case in names; None if it is missing."""
    for line in head.split(b"\n"):
        key, colon, value = without_line_end(line, grammar).partition(b":")
        if colon and key.decode(errors="replace").lower().encode() == wanted:
            return value.lstrip(b" ")
    return None


def text_of(raw: bytes | None, grammar: Grammar) -> str | None:
    """The unescaped text of a value on the wire. None if it is missing or breaks a rule."""
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

    ``data`` is the frame from its command to its NUL, and ``error`` says what is wrong. ``ack``, ``id``,
    ``time`` and ``subscription`` are values as on the wire, see
    :class:`~spark_stomp.protocol.scanner.MessageBlock`. A value that is missing or cannot be read is ``b""``
    in ``ack``, and None in all other fields.
    """

    data: bytes
    error: RemoteProtocolError
    ack: bytes
    id: bytes | None
    time: bytes | None
    subscription: bytes | None
    destination: str | None
    message_id: str | None

    def as_error(self, subscribed: str) -> MalformedMessageError:
        """The error that names the message; ``subscribed`` is the destination of its subscription."""
        destination = shown(self.destination or subscribed)
        name = "without a readable message-id" if self.message_id is None else quoted(self.message_id)
        remedy = ", or get it as a row with onMalformed=column"
        if not self.ack:
            remedy = ". It cannot be a row either, because it has no handle that an ACK could name"
        return MalformedMessageError(
            f"message {name} from {destination} is malformed: {self.error}. It is not "
            f"acknowledged, so the broker keeps it and redelivers it. Remove it there{remedy}"
        )


class BadFrame:
    """Searches for the body of one refused frame, which begins at the buffer's first unread byte.

    When more bytes have arrived, the search goes back by a few bytes and goes on from there.
    """

    def __init__(self, head: Head, error: RemoteProtocolError) -> None:
        self.error = error
        self._grammar = head.grammar
        self._limits = head.limits
        self._searched = 0
        self.length: int | None = None
        """Bytes of the body that the head declares; None if it declares no length."""
        self.body = 0
        """The offset at which the body begins; 0 until it is found."""

    def find_body(self, buffer: ReceiveBuffer) -> bool:
        """Search for the end of the head. Returns False if more data is needed.

        Raises the frame's error if its end is unknown. The result does not depend on how the input was split.
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
        """The malformed message, once its end is known. ``data`` is the whole frame."""
        head, grammar = data[: self.body], self._grammar
        found = raw_values(head, names, grammar)
        ack, stable, time, subscription = (None if text_of(raw, grammar) is None else raw for raw in found)
        destination, message_id = (
            text_of(raw_value(head, name, grammar), grammar) for name in (b"destination", b"message-id")
        )
        return MalformedMessage(
            data, self.error, ack or b"", stable, time, subscription, destination, message_id
        )


# --- the readable parts of a malformed message


class Readable(NamedTuple):
    """The readable headers of a malformed message, and its body as on the wire."""

    headers: HeaderPairs
    body: bytes


def read_malformed(frame: bytes, version: str) -> Readable:
    """The headers of a malformed message that follow the rules, and its body.

    Each header line is judged alone. If more than 1,000 lines follow the rules, only the first 1,000 are
    returned, and later ones that have a column. This bounds the memory for a frame with very many headers.

    Args:
        frame: ``MalformedMessage.data``, with any EOLs before it.
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
