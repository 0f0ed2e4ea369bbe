"""The column ``headers`` of a slice: which entries become header lines, and which say something else."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.columns import Flags, Ints, escape, lengths, text_of
from spark_stomp.arrow.row_problems import HeaderText, RowProblems, as_binary, check_utf8, is_utf8
from spark_stomp.errors import RowNotText, RowTooLarge, RowUnencodable, SinkRowError
from spark_stomp.protocol.encoder import SEND_OWNS
from spark_stomp.quoting import quoted

# What becomes of an entry by its name. From _FIELD on, columns or options set the header as well.
_LINE, _LEFT_OUT, _REFUSED, _FIELD = range(4)

_BLANKS = b" \t"


class Entries(NamedTuple):
    """Entries of maps without nulls: the name, the value and the row of each; rows ascend."""

    names: pa.Array
    values: pa.Array
    rows: Ints

    @classmethod
    def of(cls, maps: pa.Array | None) -> Entries:
        """The entries with a value; names and values as they come, so not always valid UTF-8."""
        if maps is None or not len(maps):
            none = pa.array([], pa.string())
            return cls(none, none, np.empty(0, np.int64))
        offsets = np.frombuffer(maps.buffers()[1], np.int32, len(maps) + 1, maps.offset * 4)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
        entries = cls(maps.keys.slice(first, count), maps.items.slice(first, count), rows)
        keep = np.ones(count, bool)
        if entries.values.null_count:
            keep = entries.values.is_valid().to_numpy(zero_copy_only=False)
        if maps.null_count:
            keep &= maps.is_valid().to_numpy(zero_copy_only=False)[rows]
        return entries.where(keep)

    def where(self, keep: Flags) -> Entries:
        if keep.all():
            return self
        mask = pa.array(keep)
        return Entries(self.names.filter(mask), self.values.filter(mask), self.rows[keep])


class NameRules:
    """What the names of entries mean, looked up once for each name.

    Args:
        text: what a header can carry.
        left_out: names that an entry says nothing by, besides those that only the connector may set.
        fields: names that columns and options set as well, so that one value has to be chosen, and names
            with values to be checked.
    """

    def __init__(self, text: HeaderText, left_out: Container[str], fields: Iterable[str]) -> None:
        self.text = text
        self._left_out = left_out
        self._fields = {name.encode(): _FIELD + number for number, name in enumerate(fields)}

    def kind(self, name: bytes) -> int:
        """One of the kinds above. Names that are refused are not kept: their number has no bound."""
        if self.is_left_out(name):
            return _LEFT_OUT
        if (field := self._fields.get(name)) is not None:
            return field
        return _LINE if self.problem(name) is None else _REFUSED

    def is_left_out(self, name: bytes) -> bool:
        """Whether an entry of this name says nothing about a new message."""
        text = name.decode(errors="surrogateescape")
        return text in self._left_out or text.lower() in SEND_OWNS

    def problem(self, name: bytes) -> tuple[str, type[SinkRowError]] | None:
        """Why a row may not set this header."""
        if not is_utf8(name):
            return f"the header name {_shown(name)} is not valid UTF-8", RowNotText
        if not name:
            return "a header has no name", SinkRowError
        if name != name.strip(_BLANKS):
            return (
                f"the header name {_shown(name)} begins or ends with a blank, which some brokers cut off",
                RowUnencodable,
            )
        why = self.text.problem_of_name(name)
        return None if why is None else (f"the header {_shown(name)} has {why}", RowUnencodable)


class RowHeaders(NamedTuple):
    """The headers of rows.

    Attributes
    ----------
    fields : values by the number of the field, null if the row does not set it.
    lines : per row its other header lines, each after an LF, or an empty value.
    counts : how many these are.
    """

    fields: dict[int, pa.Array]
    lines: pa.Array | None
    counts: Ints


def row_headers(
    maps: pa.Array | None, rows: int, rules: NameRules, most_bytes: int, problems: RowProblems
) -> RowHeaders:
    """Read the column; ``most_bytes`` is the longest header line."""
    entries = Entries.of(maps)
    if not len(entries.names):
        return RowHeaders({}, None, np.zeros(rows, np.int64))
    entries = entries._replace(names=as_binary(entries.names))
    names, codes = _distinct(entries, rows)
    kinds = np.array([rules.kind(name) for name in names.to_pylist()])
    fields: dict[int, pa.Array] = {}
    if kinds.any():
        of_entry = np.tile(kinds, rows) if codes is None else kinds[codes]
        for at in np.flatnonzero(of_entry == _REFUSED).tolist():
            problem = rules.problem(entries.names[at].as_py())
            if problem is not None:
                problems.add([entries.rows[at]], *problem)
        for kind in np.unique(kinds[kinds >= _FIELD]).tolist():
            fields[kind - _FIELD] = _field(entries, of_entry == kind, rows)
        entries = entries.where(of_entry == _LINE)
    return RowHeaders(fields, *_lines(entries, rows, rules, most_bytes, problems))


def _distinct(entries: Entries, rows: int) -> tuple[pa.Array, Ints | None]:
    """Names, and for each entry which it is; None if the entries have just these, again and again."""
    each, rest = divmod(len(entries.names), rows)
    text, offsets = text_of(entries.names)
    if not rest and np.array_equal(offsets[each:], offsets[:-each] + offsets[each]):
        # Each entry is as long as the one above it: then rows of text are compared as they lie in memory.
        width = int(offsets[each])
        if (text.reshape(rows, width) == text[:width]).all():
            return entries.names.slice(0, each), None
    coded = entries.names.dictionary_encode()
    return coded.dictionary, coded.indices.to_numpy()


def _what(entries: Entries, at: int) -> str:
    return f"the header {_shown(entries.names[at].as_py())}"


def _shown(name: bytes) -> str:
    return quoted(name.decode(errors="backslashreplace"), 40)


def _field(entries: Entries, chosen: Flags, rows: int) -> pa.Array:
    """The values of one header, a row each; of repeated ones the first."""
    at = np.flatnonzero(chosen)[::-1]
    index = np.full(rows, -1)
    index[entries.rows[at]] = at
    return entries.values.take(pa.array(index, mask=index < 0))


def _lines(
    entries: Entries, rows: int, rules: NameRules, most_bytes: int, problems: RowProblems
) -> tuple[pa.Array | None, Ints]:
    counts = np.bincount(entries.rows, minlength=rows)
    if not len(entries.names):
        return None, counts
    octets, what = rules.text.escaped, lambda at: _what(entries, at)
    values = check_utf8(entries.values, entries.rows, what, problems)
    rules.text.check(values, entries.rows, what, problems)
    lines = pc.binary_join_element_wise(escape(entries.names, octets), escape(values, octets), b":")
    sizes = lengths(lines)
    if sizes.max() > most_bytes:
        for at in np.flatnonzero(sizes > most_bytes).tolist():
            reason = (
                f"{_what(entries, at)} has {sizes[at]} bytes; maxHeaderLineBytes, or this broker, lets "
                f"{most_bytes} through"
            )
            problems.add([entries.rows[at]], reason, RowTooLarge)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), lines), b"\n")
    lead = pa.array([b"", b"\n"], pa.binary()).take(pa.array(counts > 0).cast(pa.int8()))
    return pc.binary_join_element_wise(lead, joined, b""), counts
