"""Header lines as every path reads them, and the columns made of them: times, flags, map and list."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.strings import Positions

__all__ = ["HeaderLines", "after_last", "header_list", "header_map", "nulls", "redelivered", "timestamps"]

_MICROSECONDS = {"ms": 1_000, "s": 1_000_000}
_DIGITS = 18
"""No number of so many decimal digits overflows 64 bits."""

_LAST_MICROSECOND = 253_402_300_799_999_999
"""The end of the year 9999: the last time that Python's datetime, and so a Spark row, can hold."""


class HeaderLines(NamedTuple):
    """Header lines of many messages; those of message i are the elements [offsets[i]:offsets[i + 1]]."""

    offsets: Positions
    names: pa.Array
    values: pa.Array


def nulls(count: int) -> pa.Array:
    """The column of a header that no message has."""
    return pa.nulls(count, pa.string())


def timestamps(values: pa.Array, unit: Literal["ms", "s"], kind: pa.DataType) -> pa.Array:
    """Times from the digits of a ``timestamp`` header; null if it is absent, malformed or after 9999.

    Args:
        values: the header's values.
        unit: what they count since the epoch.
        kind: the Arrow type of the column, in microseconds.
    """
    scale = _MICROSECONDS[unit]
    counts = _counts(values)
    late = counts.null_count < len(counts) and pc.max(counts).as_py() > _LAST_MICROSECOND // scale
    if late:
        counts = _null_unless(pc.less_equal(counts, _LAST_MICROSECOND // scale), counts)
    return pc.multiply(counts, scale).view(kind)


def _counts(values: pa.Array) -> pa.Array:
    """The numbers written in ASCII digits; null for anything else, and for what 64 bits may not hold."""
    digits = pc.ascii_is_decimal(values)
    if not _all_true(digits):  # besides digits, the cast would read signs and hexadecimal numbers
        values = _null_unless(digits, values)
    try:
        return pc.cast(values, pa.int64())
    except pa.ArrowInvalid:
        return pc.cast(_null_unless(pc.less_equal(pc.binary_length(values), _DIGITS), values), pa.int64())


def redelivered(values: pa.Array) -> pa.Array:
    """Flags from a ``redelivered`` header in any case; null if it is neither true nor false."""
    flags = pc.equal(values, "true")
    if not _all_true(pc.or_(flags, pc.equal(values, "false"))):
        lower = pc.ascii_lower(values)
        flags = pc.equal(lower, "true")
        flags = _null_unless(pc.or_(flags, pc.equal(lower, "false")), flags)
    return flags


def after_last(values: pa.Array, separator: str | None) -> pa.Array:
    """What follows the last ``separator`` in each value; all of a value that has none."""
    if separator is None:
        return values
    return pc.replace_substring_regex(values, f"(?s)^.*{re.escape(separator)}", "")


def _all_true(flags: pa.Array) -> bool:
    # Not by flags.true_count: on computed arrays pyarrow 15 crashes there.
    return pc.all(flags, skip_nulls=False, min_count=0).as_py() is True


def _null_unless(condition: pa.Array, values: pa.Array) -> pa.Array:
    """The values; null if the condition is false or null."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def header_map(lines: HeaderLines, kind: pa.DataType) -> pa.Array:
    """A map from name to value for each message."""
    return _nested(lines, [kind.key_field, kind.item_field], kind)


def header_list(lines: HeaderLines, kind: pa.DataType) -> pa.Array:
    """A list of structs of name and value for each message."""
    return _nested(lines, list(kind.value_type), kind)


def _nested(lines: HeaderLines, fields: list[pa.Field], kind: pa.DataType) -> pa.Array:
    entries = pa.StructArray.from_arrays([lines.names, lines.values], fields=fields)
    offsets = pa.py_buffer(lines.offsets.astype(np.int32, copy=False))
    return pa.Array.from_buffers(kind, len(lines.offsets) - 1, [None, offsets], children=[entries])
