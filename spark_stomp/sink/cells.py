"""Turns the columns of a slice into bytes: entries of ``headers``, text of header values, ids of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.columns import Flags, Ints

# 0001-01-01 and 10000-01-01, in days since the epoch. Spark has years outside these; Arrow cannot write them.
_DAYS_WITH_TEXT = (-719_162, 2_932_897)
# Bytes. At 128 bits no two rows share an id by chance. Never change this: every id would change.
_DIGEST_BYTES = 16
# Means null in the text that an id is made from. A value begins with its length, so none looks like this.
_NULL = b"-"


def as_binary(strings: pa.Array) -> pa.Array:
    """A column of strings or bytes as bytes, with 32-bit offsets. Nulls stay nulls."""
    if pa.types.is_large_string(strings.type) or pa.types.is_large_binary(strings.type):
        # The cast fails if an offset needs more than 32 bits, which the last rows of a large column do even
        # in a small slice. The offsets of a copy begin at 0.
        strings = strings.take(pa.array(np.arange(len(strings))))
        strings = strings.cast(pa.binary())
    return pa.Array.from_buffers(pa.binary(), len(strings), strings.buffers(), offset=strings.offset)


def as_strings(column: pa.Array) -> pa.Array:
    """A column of strings or bytes as strings. Does not check that they are UTF-8."""
    data = as_binary(column)
    return pa.Array.from_buffers(pa.string(), len(data), data.buffers(), offset=data.offset)


class Entries(NamedTuple):
    """The entries of a column of maps: the name, the value and the row of each.

    ``rows`` ascend. Entries whose value is null are left out.
    """

    names: pa.Array
    values: pa.Array
    rows: Ints

    @classmethod
    def of(cls, maps: pa.Array) -> Entries:
        """The entries of ``maps``, a column with one map for each row. A map may be null."""
        offsets = np.frombuffer(maps.buffers()[1], np.int32, len(maps) + 1, maps.offset * 4)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        names, values = (as_binary(part.slice(first, count)) for part in (maps.keys, maps.items))
        entries = cls(names, values, np.repeat(np.arange(len(maps)), np.diff(offsets)))
        keep = np.ones(count, bool)
        if values.null_count:
            keep = values.is_valid().to_numpy(zero_copy_only=False)
        if maps.null_count:
            keep &= maps.is_valid().to_numpy(zero_copy_only=False)[entries.rows]
        return entries.where(keep)

    def where(self, keep: Flags) -> Entries:
        """The entries whose flag in ``keep`` is set."""
        if keep.all():
            return self
        mask = pa.array(keep)
        return Entries(self.names.filter(mask), self.values.filter(mask), self.rows[keep])

    def replaced(self, name: bytes, pattern: str, replacement: str) -> Entries:
        """The entries with the values of ``name`` that match ``pattern`` as a whole replaced."""
        chosen = pc.equal(self.names, name)
        if not pc.any(chosen).as_py():
            return self
        values = pc.replace_substring_regex(self.values, pattern=f"^(?:{pattern})$", replacement=replacement)
        return self._replace(values=pc.if_else(chosen, values, self.values))

    def without(self, name: bytes, value: bytes, rows: pa.Array) -> Entries:
        """The entries but those with this name and value in rows whose flag in ``rows`` is set."""
        gone = pc.and_(pc.equal(self.names, name), pc.equal(self.values, value))
        if not pc.any(gone).as_py():
            return self
        return self.where(
            ~(gone.to_numpy(zero_copy_only=False) & rows.to_numpy(zero_copy_only=False)[self.rows])
        )


def is_string(data_type: pa.DataType) -> bool:
    """Whether a column of this type holds text, not bytes."""
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def header_text(column: pa.Array) -> pa.Array:
    """The header text of each value, in bytes. The column is not nested.

    Times are in UTC, whatever time zone the session has; one without a zone stays so. A time outside the
    years 1 to 9999 gives null.
    """
    data_type = column.type
    if pa.types.is_timestamp(data_type) and data_type.tz is not None:
        column = column.cast(pa.timestamp(data_type.unit, "UTC"))
    if pa.types.is_temporal(data_type):
        first, end = (pa.scalar(day, pa.date32()).cast(column.type) for day in _DAYS_WITH_TEXT)
        has_text = pc.and_(pc.greater_equal(column, first), pc.less(column, end))
        column = pc.if_else(has_text, column, None)
    return _text(column)


def row_ids(columns: Sequence[pa.Array]) -> list[str | None]:
    """The id of each row: a digest of its values in hexadecimal; None if all values of the row are null.

    The digest covers the length and the text of each value. So ``("ab", "c")`` and ``("a", "bc")`` have
    different ids, and a null differs from every text. The type of a number does not matter.

    This must never change: after an upgrade, a row that is sent again would have another id, and would not
    be recognised as a duplicate.
    """
    keys = pc.binary_join_element_wise(*map(_marked, columns), b"").to_pylist()
    all_null = _NULL * len(columns)
    blake = hashlib.blake2b
    return [None if key == all_null else blake(key, digest_size=_DIGEST_BYTES).hexdigest() for key in keys]


def _marked(column: pa.Array) -> pa.Array:
    """Each value as ``LENGTH:TEXT``, or ``-`` for a null."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    data = _text(column)
    lengths = pc.binary_length(data).cast(pa.string()).cast(pa.binary())
    return pc.binary_join_element_wise(lengths, data, b":").fill_null(_NULL)


def _text(column: pa.Array) -> pa.Array:
    """The values of a simple column as text, in bytes. Strings and bytes are not changed."""
    data_type = column.type
    if not (is_string(data_type) or pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type)):
        column = column.cast(pa.string())
    return as_binary(column)
