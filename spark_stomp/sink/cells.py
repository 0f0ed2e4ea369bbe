"""What the columns of a slice say, as bytes: entries of maps, text for headers, ids."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.columns import Flags, Ints

# 0001-01-01 and 10000-01-01, in days since the epoch. Arrow has no text for all years of Spark.
_DAYS_WITH_TEXT = (-719_162, 2_932_897)
_DIGEST_BYTES = 16
# In the key of a row: no value looks like it.
_NULL = b"-"


def as_binary(strings: pa.Array) -> pa.Array:
    """Strings or bytes as bytes, with 32-bit offsets."""
    if pa.types.is_large_string(strings.type) or pa.types.is_large_binary(strings.type):
        # A cast looks at the offsets, which may be large even if the slice is small; a copy begins at 0.
        strings = strings.take(pa.array(np.arange(len(strings))))
        strings = strings.cast(pa.binary())
    return pa.Array.from_buffers(pa.binary(), len(strings), strings.buffers(), offset=strings.offset)


def as_strings(column: pa.Array) -> pa.Array:
    """Strings or bytes as strings that may not be UTF-8."""
    octets = as_binary(column)
    return pa.Array.from_buffers(pa.string(), len(octets), octets.buffers(), offset=octets.offset)


class Entries(NamedTuple):
    """Entries of maps that have a value: name, value and row of each; rows ascend."""

    names: pa.Array
    values: pa.Array
    rows: Ints

    @classmethod
    def of(cls, maps: pa.Array) -> Entries:
        """Those of a map a row, some of which may be null."""
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
        if keep.all():
            return self
        mask = pa.array(keep)
        return Entries(self.names.filter(mask), self.values.filter(mask), self.rows[keep])


def is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def header_text(column: pa.Array) -> pa.Array:
    """A column of a simple type as it stands in a header, as bytes: times in UTC, whatever zone the session
    has; null beyond the years 1 to 9999."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    if pa.types.is_temporal(kind):
        first, end = (pa.scalar(day, pa.date32()).cast(column.type) for day in _DAYS_WITH_TEXT)
        told = pc.and_(pc.greater_equal(column, first), pc.less(column, end))
        column = pc.if_else(told, column, None)
    return _text(column)


def row_ids(columns: Sequence[pa.Array]) -> list[str | None]:
    """A digest per row, in hexadecimal digits; None if all columns are null.

    It is made of the text of each value after its length, so ``("ab", "c")`` and ``("a", "bc")`` differ; a
    null differs from every text. The text of a number does not depend on its type. This must not
    change: an upgrade would give rows that are sent again other ids.
    """
    keys = pc.binary_join_element_wise(*map(_marked, columns), b"").to_pylist()
    blake, without = hashlib.blake2b, _NULL * len(columns)
    return [None if key == without else blake(key, digest_size=_DIGEST_BYTES).hexdigest() for key in keys]


def _marked(column: pa.Array) -> pa.Array:
    """Each value as ``LENGTH:TEXT``, or ``-`` for a null."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    octets = _text(column)
    lengths = pc.binary_length(octets).cast(pa.string()).cast(pa.binary())
    return pc.binary_join_element_wise(lengths, octets, b":").fill_null(_NULL)


def _text(column: pa.Array) -> pa.Array:
    """A column of a simple type as bytes; strings and bytes stay what they are."""
    kind = column.type
    if not (is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        column = column.cast(pa.string())
    return as_binary(column)
