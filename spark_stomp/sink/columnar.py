"""Encodes a whole slice of rows as SEND frames at once, or declines the slice.

Goal: encode faster than a broker takes messages. A row with ten headers costs 1.6 us here and 55 us in
:mod:`spark_stomp.sink.rows` (November 2026); Artemis took up to 50,000 rows a second, which is 20 us a row.

Plan: a slice is a few Arrow columns. The frames are one join of such columns: the destinations, the values of
each header that options or dedicated columns set, the lines of the column ``headers``, the receipts, the
lengths and the bodies. There is no Python object for a cell.

Invariants:

- :mod:`spark_stomp.sink.rows` is the reference. Both give the same bytes, and a property test
  (``test_sink_frames``) compares them.
- All rows or none. If any row is not plain, the whole slice is declined (``_Declined`` becomes None).
  There are no error texts here, and nothing notes which row it was. A good slice may be declined too.
- All offsets have 32 bits, so a slice has less than 2 GiB of frames (``_LARGEST_SLICE`` in ``rules``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.columns import Flags, Ints, as_utf8, lengths, text_of
from spark_stomp.protocol import escape as escape_text
from spark_stomp.protocol.frames import grammar_of
from spark_stomp.sink.cells import Entries, as_binary, header_text, is_string, row_ids
from spark_stomp.sink.rows import BLANKS, LONGEST_TTL, OWN_HEADERS
from spark_stomp.sink.rules import NOT_PERSISTENT, SendRules
from spark_stomp.sink.window import RECEIPT_BASE, RECEIPT_PREFIX

Cells: TypeAlias = Mapping[str, pa.Array]
# A part of all frames of a slice: the same bytes in each frame, or a binary column without nulls.
FramePart: TypeAlias = bytes | pa.Array

# Bytes: half of what the 32-bit offsets of a slice can address. The plain path takes larger bodies.
_LARGEST_BODY = 1 << 30


class _Declined(Exception):
    """The slice is declined: the plain path has to look at each row."""


class SliceFrames:
    """Makes the frames of whole slices."""

    def __init__(self, rules: SendRules) -> None:
        grammar = grammar_of(rules.version)
        self._rules = rules
        self._escapes = {} if "SEND" in grammar.raw else grammar.escapes
        needed = "\0\r\n\\" if rules.unescaped else "\0\r\n"
        self._forbidden = [char.encode() for char in needed if char not in self._escapes]

    def frames(self, cells: Cells, first: int, now: float) -> pa.Array | None:
        """The frames of a slice as a binary column; None if a row is not plain.

        Args:
            cells: the columns of the slice, by name.
            first: the number of the first frame's receipt.
            now: seconds since the epoch.
        """
        try:
            return self._frames(cells, first, now)
        except _Declined:
            return None

    def _frames(self, cells: Cells, first: int, now: float) -> pa.Array:
        rules, limits = self._rules, self._rules.limits
        body = self._body(cells["body"])
        rows = len(body)
        destination, to_queues = self._destination(cells, rows)
        own = self._own_values(cells, now)
        taken = {name: values.is_valid().to_numpy(zero_copy_only=False) for name, values in own.items()}
        name, never = NOT_PERSISTENT
        if name in own:
            own[name] = pc.if_else(pc.equal(own[name], never.encode()), None, own[name])
        lines, counts = self._entries(cells, taken, rows)
        pieces: list[FramePart] = [b"SEND\ndestination:", destination]
        counts += OWN_HEADERS
        always = rules.defaults(now, to_queue=False)
        for name, value in rules.defaults(now, to_queue=True).items():
            unset = ~taken[name] if name in taken else np.ones(rows, bool)
            if name not in always:
                unset &= to_queues
            pieces += self._default(name, value, unset)
            counts += unset
        for name, values in own.items():
            pieces += self._own(name, values)
            counts += values.is_valid().to_numpy(zero_copy_only=False)
        _require(counts.max() <= limits.max_headers)
        numbers = np.arange(first, first + rows) + RECEIPT_BASE
        pieces += [*lines, b"\nreceipt:" + RECEIPT_PREFIX.encode(), _decimal(numbers)]
        if not rules.text:
            pieces += [b"\ncontent-length:", _decimal(lengths(body))]
        frames = _joined([*pieces, b"\n\n", body, b"\0"])
        _require(lengths(frames).max() <= limits.max_frame)
        return frames

    def _body(self, column: pa.Array) -> pa.Array:
        body = as_binary(column)
        _require(not body.null_count)
        if self._rules.text or is_string(column.type):
            text = _utf8(body)
            _require(not (self._rules.text and b"\0" in text))
        _require(lengths(body).max() <= min(self._rules.limits.max_body, _LARGEST_BODY))
        return body

    def _destination(self, cells: Cells, rows: int) -> tuple[FramePart, Flags]:
        """The escaped destinations, and flags of the rows whose destination needs ``queue_headers``."""
        rules = self._rules
        if rules.destination is not None:
            (same,) = self._wire("destination", pa.array([rules.destination.encode()])).to_pylist()
            return same, np.full(rows, rules.needs_queue_headers(rules.destination))
        _require("destination" in cells)
        column = as_binary(cells["destination"])
        _require(not column.null_count and lengths(column).min() > 0)
        self._check_value("destination", column)
        return self._wire("destination", column), self._to_queues(column)

    def _to_queues(self, destinations: pa.Array) -> Flags:
        if not self._rules.queue_headers:
            return np.zeros(len(destinations), bool)
        coded = destinations.dictionary_encode()
        names = (one.decode() for one in coded.dictionary.to_pylist())
        queues = np.array([*map(self._rules.needs_queue_headers, names)], bool)
        flags: Flags = queues[coded.indices.to_numpy()]
        return flags

    def _own_values(self, cells: Cells, now: float) -> dict[str, pa.Array]:
        """The headers that dedicated columns and ``dedupKey`` set: their values, by name."""
        rules, own = self._rules, {}
        for column, header in rules.columns:
            if column in cells:
                own[header] = header_text(cells[column])
                _require(own[header].null_count == cells[column].null_count)
        if rules.ttl is not None and "ttl" in cells:
            ttl = cells["ttl"].cast(pa.int64())
            bounds = pc.min_max(ttl).as_py()
            _require(bounds["min"] is None or (bounds["min"] > 0 and bounds["max"] <= LONGEST_TTL))
            _require(rules.ttl.header not in own)
            own[rules.ttl.header] = as_binary(pc.add(ttl, rules.ttl.after(now)).cast(pa.string()))
        if rules.dedup_key:
            ids = row_ids([cells[key] for key in rules.dedup_key])
            _require(None not in ids and rules.dedup_header not in own)
            own[rules.dedup_header] = as_binary(pa.array(ids, pa.string()))
        return own

    def _entries(self, cells: Cells, taken: dict[str, Flags], rows: int) -> tuple[list[FramePart], Ints]:
        """The lines of the column ``headers``, and how many each row has.

        ``taken`` has, by header name, flags of the rows that have the header already. Their entries of that
        name are left out. Other entries that options could also set are added to ``taken``.
        """
        entries = self._rules.entries(cells)
        if entries is None or not len(entries.names):
            return [], np.zeros(rows, np.int64)
        coded = entries.names.dictionary_encode()
        codes = coded.indices.to_numpy()
        keep = np.ones(len(codes), bool)
        for code, name in enumerate(map(self._name, coded.dictionary.to_pylist())):
            if name is None:
                keep &= codes != code
            elif name in self._rules.fields:
                chosen = codes == code
                if name in taken:
                    keep &= ~(chosen & taken[name][entries.rows])
                self._check_value(name, entries.values.filter(pa.array(chosen & keep)))
                taken.setdefault(name, np.zeros(rows, bool))[entries.rows[chosen]] = True
        return self._lines(entries.where(keep), rows)

    def _lines(self, entries: Entries, rows: int) -> tuple[list[FramePart], Ints]:
        counts = np.bincount(entries.rows, minlength=rows)
        if not len(entries.names):
            return [], counts
        self._check_text(entries.values)
        names, values = self._escaped(entries.names), self._escaped(entries.values)
        lines = pc.binary_join_element_wise(names, values, b":")
        _require(lengths(lines).max() <= self._rules.limits.max_header_line)
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), lines), b"\n")
        lead = b"\n" if counts.all() else pc.if_else(pa.array(counts > 0), b"\n", b"")
        return [lead, joined], counts

    def _name(self, raw: bytes) -> str | None:
        """The name of an entry as text; None if the entry is left out."""
        name = raw.decode(errors="surrogateescape")
        if self._rules.is_left_out(name):
            return None
        _require(name != "" and name == name.strip(BLANKS) == raw.decode(errors="ignore"))
        _require(not any(byte in raw for byte in self._forbidden))
        _require(len(raw) <= self._rules.outgoing.max_header_name)
        _require(":" not in name or ":" in self._escapes)
        return name

    def _default(self, name: str, value: str, unset: Flags) -> list[FramePart]:
        """A header that the options set, for the rows flagged in ``unset``, which do not set it."""
        # An option's value is no column, so nothing else has looked for these bytes.
        _require(not any(byte in value.encode() for byte in self._forbidden))
        line = self._head(name) + escape_text(value, self._rules.version).encode()
        _require(len(line) - 1 <= self._rules.limits.max_header_line)
        if unset.all():
            return [line]
        return [pc.if_else(pa.array(unset), line, b"")] if unset.any() else []

    def _own(self, name: str, values: pa.Array) -> list[FramePart]:
        _require(len(name.encode()) <= self._rules.outgoing.max_header_name)
        self._check_value(name, values)
        wire = self._wire(name, values)
        if not wire.null_count:
            return [self._head(name), wire]
        return [pc.binary_join_element_wise(self._head(name), wire, b"").fill_null(b"")]

    def _head(self, name: str) -> bytes:
        _require(not any(byte in name.encode() for byte in self._forbidden))
        return b"\n" + escape_text(name, self._rules.version).encode() + b":"

    def _wire(self, name: str, values: pa.Array) -> pa.Array:
        """The values of a header, escaped. Nulls stay nulls."""
        self._check_text(values)
        wire = self._escaped(values)
        _require(lengths(wire).max() + len(self._head(name)) - 1 <= self._rules.limits.max_header_line)
        return wire

    def _escaped(self, values: pa.Array) -> pa.Array:
        text = text_of(values)[0].tobytes()
        # The backslash comes first, so that no escape is escaped again.
        for plain, wire in self._escapes.items():
            if plain.encode() in text:
                values = pc.replace_substring(values, pattern=plain, replacement=wire)
        return values

    def _check_text(self, values: pa.Array) -> None:
        text = _utf8(values)
        _require(not any(byte in text for byte in self._forbidden))

    def _check_value(self, name: str, values: pa.Array) -> None:
        for rule in self._rules.outgoing.values:
            if rule.header == name:
                # Most rows have the same value. Finding the different ones costs less than matching all.
                said = values.unique().drop_null()
                allowed = pc.equal(pc.match_substring_regex(said, f"^(?:{rule.pattern})$"), rule.allowed)
                _require(allowed.true_count == len(said))


def _require(plain: bool | np.bool_) -> None:
    """Decline the slice unless ``plain``."""
    if not plain:
        raise _Declined


def _utf8(values: pa.Array) -> bytes:
    """The text of all values, one after another. Declines a slice whose text is not UTF-8."""
    text = text_of(values)[0].tobytes()
    _require(text.isascii() or as_utf8(values) is not None)
    return text


def _decimal(numbers: Ints) -> pa.Array:
    return as_binary(pa.array(numbers).cast(pa.string()))


def _joined(pieces: list[FramePart]) -> pa.Array:
    """The frames: frame i joins the pieces in order, with element i of each column."""
    parts: list[FramePart] = []
    for piece in pieces:
        if isinstance(piece, bytes) and parts and isinstance(parts[-1], bytes):
            parts[-1] += piece
        else:
            parts.append(piece)
    return pc.binary_join_element_wise(*parts, b"")
