"""Encodes rows as SEND frames, one by one. This is the reference: it decides which frame a row becomes.

It also decides which rows cannot be sent, says why, and makes dead letters of them.
:mod:`spark_stomp.sink.columnar` makes the same frames for whole slices, many times as fast. If a row of the
slice cannot be sent, it declines the slice. A property test compares the two.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from spark_stomp.errors import (
    FrameEncodeError,
    RowNotText,
    RowTooLarge,
    RowUnencodable,
    RowWithoutKey,
    SinkRowError,
)
from spark_stomp.protocol import Frame, encode_frame
from spark_stomp.quoting import quoted, shown
from spark_stomp.sink.cells import as_binary, header_text, is_string, row_ids
from spark_stomp.sink.rules import NOT_PERSISTENT, SendRules

# Milliseconds. Added to any time since the epoch, this does not overflow 64 bits.
LONGEST_TTL = 1 << 62
# How many headers every frame has: destination, receipt and content-length.
OWN_HEADERS = 3

# Characters that some brokers cut off at both ends of a header name.
BLANKS = " \t"

_REASON = "dead-letter-reason"
_FROM = "dead-letter-from"

# Headers that make a message expire. A dead letter never expires, whatever options or the row say.
_EXPIRY = frozenset({"expires", "expiration"})
# Options may set these headers on a dead letter. The broker acts on them, but they do not make it discard
# the message.
_KEEPING = frozenset({"persistent", "x-queue-type", "durable", "auto-delete", "exclusive"})
# Headers that are not taken from the row. Expiry, persistence and priority were meant for the message, not
# for the dead letter. Only the connector sets _REASON and _FROM.
_NOT_OF_THE_ROW = _EXPIRY | {"persistent", "priority", _REASON, _FROM}
# How many headers a dead letter has besides the row's: OWN_HEADERS, _REASON, _FROM and the id.
_DEAD_LETTER_HEADERS = OWN_HEADERS + 3


class Row(NamedTuple):
    """The cells of a row. Text is in bytes, which may not be UTF-8.

    Attributes
    ----------
    body : the body; None if it is null.
    is_text : whether the body must be UTF-8, because it is a string or is sent as a text message.
    destination : the column ``destination``; None if it is null or absent.
    entries : the column ``headers``, without entries whose value is null.
    columns : the values of dedicated columns, by the name of their header. Nulls are left out. None means
        that a value has no text.
    ttl : the column ``ttl`` in milliseconds; None if it is null or absent.
    key : the digest of the columns that ``dedupKey`` names; None if all are null, or none is named.
    """

    body: bytes | None
    is_text: bool
    destination: bytes | None
    entries: list[tuple[bytes, bytes]]
    columns: dict[str, bytes | None]
    ttl: int | None
    key: str | None


def rows_of(cells: Mapping[str, pa.Array], rules: SendRules) -> Iterator[Row]:
    """The rows of a slice; ``cells`` are its columns by name."""
    bodies = cells["body"]
    is_text = rules.text or is_string(bodies.type)
    absent = [None] * len(bodies)
    destinations = as_binary(cells["destination"]).to_pylist() if "destination" in cells else absent
    entries: list[list[tuple[bytes, bytes]]] = [[] for _ in absent]
    if (found := rules.entries(cells)) is not None:
        names, values, rows = found
        for name, value, row in zip(names.to_pylist(), values.to_pylist(), rows.tolist(), strict=True):
            entries[row].append((name, value))
    ttls = cells["ttl"].cast(pa.int64()).to_pylist() if "ttl" in cells else absent
    keys = row_ids([cells[name] for name in rules.dedup_key]) if rules.dedup_key else absent
    texts = {
        header: (header_text(cells[column]).to_pylist(), cells[column].is_valid().to_pylist())
        for column, header in rules.columns
        if column in cells
    }
    for row, body in enumerate(as_binary(bodies).to_pylist()):
        columns = {header: text[row] for header, (text, given) in texts.items() if given[row]}
        yield Row(body, is_text, destinations[row], entries[row], columns, ttls[row], keys[row])


class RowFrames:
    """Makes the frames of rows, one at a time.

    All methods raise SinkRowError if the row cannot be sent. The error says why.
    """

    def __init__(self, rules: SendRules) -> None:
        self._rules = rules

    def frame(self, row: Row, receipt: str, now: float) -> bytes:
        """The frame of a row; ``now`` is in seconds since the epoch."""
        body, destination = self._body(row), self._destination(row)
        headers = [("destination", destination), *self._headers(row, destination, now)]
        count, most = len(headers) + OWN_HEADERS - 1, self._rules.limits.max_headers
        if count > most:
            raise RowTooLarge(f"it has {count} headers; maxHeaders allows {most}")
        own = [("receipt", receipt)]
        if not self._rules.text:
            own.append(("content-length", str(len(body))))
        frame = self.encoded(headers, own, body)
        _check_size("frame", frame, self._rules.limits.max_frame)
        return frame

    def encoded(self, headers: list[tuple[str, str]], own: list[tuple[str, str]], body: bytes) -> bytes:
        """A SEND frame with the row's ``headers``, whose lines are checked, and the connector's ``own``."""
        rules, most = self._rules, self._rules.limits.max_header_line
        try:
            frame = encode_frame(Frame("SEND", (*headers, *own), body), rules.version)
        except FrameEncodeError as error:
            raise RowUnencodable(error.message) from None
        lines = frame.split(b"\n", len(headers) + 1)[1:-1]
        for (name, _), line in zip(headers, lines, strict=True):
            if rules.unescaped and b"\\" in line:
                raise RowUnencodable(
                    f"the header {quoted(name, 40)} has a backslash, which this version of STOMP cannot "
                    "carry to this broker"
                )
            if len(line) > most:
                raise RowTooLarge(
                    f"the header {quoted(name, 40)} has {len(line)} bytes; maxHeaderLineBytes, or this "
                    f"broker, allows {most}"
                )
        return frame

    def entry(self, name: bytes, value: bytes, given: Container[str] = frozenset()) -> tuple[str, str] | None:
        """An entry of the column ``headers`` as text; None if it is left out, or its name is in ``given``."""
        text = name.decode(errors="surrogateescape")
        if self._rules.is_left_out(text):
            return None
        text = _text("a header name", name)
        if not text:
            raise SinkRowError("a header has no name")
        if text != text.strip(BLANKS):
            raise RowUnencodable(
                f"the header name {quoted(text, 40)} begins or ends with a blank, which some brokers cut off"
            )
        if text in given:
            return None
        return text, _text(f"the header {quoted(text, 40)}", value)

    def column(self, name: str, data: bytes | None) -> str:
        """The value of a dedicated column as text; ``name`` is its header."""
        if data is None:
            raise SinkRowError(f"its {name} is not within the years 1 to 9999")
        return _text(f"the header {quoted(name, 40)}", data)

    def check_value(self, name: str, value: str) -> None:
        """Raise SinkRowError if the broker does not accept this header."""
        if (problem := self._rules.problem(name, value)) is not None:
            raise SinkRowError(f"its {problem}")

    def _body(self, row: Row) -> bytes:
        if row.body is None:
            raise SinkRowError("its body is null")
        if row.is_text:
            _text("its body", row.body)
        if self._rules.text and b"\0" in row.body:
            raise RowUnencodable("its body has a NUL, which ends a text message; see messageType")
        _check_size("body", row.body, self._rules.limits.max_body)
        return row.body

    def _destination(self, row: Row) -> str:
        if self._rules.destination is not None:
            return self._rules.destination
        if not row.destination:
            raise SinkRowError("it has no destination: set the option `destination`, or the column")
        destination = _text("its destination", row.destination)
        self.check_value("destination", destination)
        return destination

    def _headers(self, row: Row, destination: str, now: float) -> list[tuple[str, str]]:
        """All headers that options or the row set, in the order of the frame.

        First those of the options that the row does not set, then those of dedicated columns, then the
        entries of the column ``headers`` that no dedicated column sets.
        """
        own = self._own_values(row, now)
        entries = [entry for pair in row.entries if (entry := self.entry(*pair, own)) is not None]
        sent = [pair for pair in own.items() if pair != NOT_PERSISTENT]
        for header in (*sent, *entries):
            self.check_value(*header)
        defaults = self._rules.defaults(now, to_queue=self._rules.needs_queue_headers(destination))
        for name in (*own, *(name for name, _ in entries)):
            defaults.pop(name, None)
        return [*defaults.items(), *sent, *entries]

    def _own_values(self, row: Row, now: float) -> dict[str, str]:
        """The headers that dedicated columns and ``dedupKey`` set, by name."""
        rules = self._rules
        values = {name: self.column(name, data) for name, data in row.columns.items()}
        if rules.ttl is not None and row.ttl is not None:
            if not 0 < row.ttl <= LONGEST_TTL:
                raise SinkRowError(
                    f"its ttl is {row.ttl} ms, and must be more than 0 and at most {LONGEST_TTL}"
                )
            values[rules.ttl.header] = str(rules.ttl.after(now) + row.ttl)
        if rules.dedup_key:
            if row.key is None:
                raise RowWithoutKey("all columns of dedupKey are null, so nothing identifies it")
            values[rules.dedup_header] = row.key
        return values


class DeadLetters:
    """Makes dead letters. ``frames`` decides which headers a frame can carry."""

    def __init__(self, rules: SendRules, frames: RowFrames) -> None:
        self._rules = rules
        self._frames = frames

    def frame(self, row: Row, problem: SinkRowError, receipt: str) -> bytes:
        """The dead letter of a row: its body, if it has one, and those of its headers that a frame can carry.

        Args:
            row: the row that cannot be sent.
            problem: why it cannot be sent.
            receipt: the receipt that the frame asks for.

        Raises:
            SinkRowError: the row is too large for a dead letter, too.
        """
        rules, limits = self._rules, self._rules.limits
        body = row.body or b""
        headers = self._of_options()
        for name, value in self._of_row(row):
            if len(headers) < limits.max_headers - _DEAD_LETTER_HEADERS and self._carried(name, value):
                headers[name] = value
        target = rules.destination or (row.destination or b"").decode(errors="surrogateescape")
        if target:
            headers[_FROM] = target if self._carried(_FROM, target) else shown(target)
        if row.key is not None:
            headers[rules.dedup_header] = row.key
        headers[_REASON] = shown(str(problem), 1000)
        own = [*headers.items(), ("receipt", receipt), ("content-length", str(len(body)))]
        encoded = self._frames.encoded([("destination", rules.dead_letter)], own, body)
        if len(body) > limits.max_body or len(encoded) > limits.max_frame:
            raise RowTooLarge(f"with {len(encoded)} bytes it is too large for a dead letter, too")
        return encoded

    def _of_options(self) -> dict[str, str]:
        """Headers of every message, but none that could make the broker lose the dead letter."""
        rules = self._rules
        needed = rules.queue_headers if rules.needs_queue_headers(rules.dead_letter) else ()
        given = dict(needed) | dict(rules.headers)
        always = {name for name, _ in rules.queue_headers} | _KEEPING
        return {
            name: value
            for name, value in given.items()
            if name in always or not (name in _EXPIRY or rules.is_left_out(name))
        }

    def _of_row(self, row: Row) -> Iterator[tuple[str, str]]:
        """Yield the row's headers that a dead letter may have. If a name comes twice, the last counts."""
        for name, value in reversed(row.entries):  # of a repeated name the first entry counts: yield it last
            with suppress(SinkRowError):
                entry = self._frames.entry(name, value)
                if entry is not None and entry[0] not in _NOT_OF_THE_ROW:
                    yield entry
        for header, data in row.columns.items():
            if header not in _NOT_OF_THE_ROW and not self._rules.is_left_out(header):
                with suppress(SinkRowError):
                    yield header, self._frames.column(header, data)

    def _carried(self, name: str, value: str) -> bool:
        """Whether a frame can carry this header, and the broker accepts its value."""
        try:
            self._frames.check_value(name, value)
            self._frames.encoded([(name, value)], [], b"")
        except SinkRowError:
            return False
        return True


def _text(what: str, data: bytes) -> str:
    """Decode UTF-8. Raises RowNotText, which names ``what``."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RowNotText(f"{what} is not valid UTF-8") from None


def _check_size(what: str, data: bytes, most: int) -> None:
    if len(data) > most:
        raise RowTooLarge(f"its {what} has {len(data)} bytes; max{what.capitalize()}Bytes allows {most}")
