"""Columns made of decoded headers: times, flags, the map and the list of headers."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.headers import HeaderLines

__all__ = ["after_last", "header_list", "header_map", "redelivered", "timestamps"]

_MICROSECONDS = {"ms": 1_000, "s": 1_000_000}
_DIGITS = 18
"""No number of so many decimal digits overflows 64 bits."""

_LAST_MICROSECOND = 253_402_300_799_999_999
"""The end of the year 9999: what Python's datetime, and so a Spark row, can hold."""


def timestamps(values: pa.Array, unit: Literal["ms", "s"], kind: pa.DataType) -> pa.Array:
    """Times from the digits of a ``timestamp`` header; null where it is absent, malformed or after 9999.

    Args:
        values: the header's values.
        unit: what they count since the epoch.
        kind: the Arrow type of the column, in microseconds.
    """
    scale = _MICROSECONDS[unit]
    counts = _counts(values)
    late = counts.null_count < len(counts) and pc.max(counts).as_py() > _LAST_MICROSECOND // scale
    if late:
        counts = _where(pc.less_equal(counts, _LAST_MICROSECOND // scale), counts)
    return pc.multiply(counts, scale).view(kind)


def _counts(values: pa.Array) -> pa.Array:
    """The numbers written in ASCII digits; null for anything else, and for what 64 bits may not hold."""
    digits = pc.ascii_is_decimal(values)
    if not _all_true(digits):  # beside digits, the cast would read signs and hexadecimal numbers
        values = _where(digits, values)
    try:
        return pc.cast(values, pa.int64())
    except pa.ArrowInvalid:
        return pc.cast(_where(pc.less_equal(pc.binary_length(values), _DIGITS), values), pa.int64())


def redelivered(values: pa.Array) -> pa.Array:
    """Flags from a ``redelivered`` header, whose case is ignored; null where it is neither true nor false."""
    flags = pc.equal(values, "true")
    if not _all_true(pc.or_(flags, pc.equal(values, "false"))):
        lower = pc.ascii_lower(values)
        flags = pc.equal(lower, "true")
        flags = _where(pc.or_(flags, pc.equal(lower, "false")), flags)
    return flags


def after_last(values: pa.Array, separator: str | None) -> pa.Array:
    """What follows the last ``separator`` in each value: all of it where there is none."""
    if separator is None:
        return values
    return pc.replace_substring_regex(values, f"(?s)^.*{re.escape(separator)}", "")


def _all_true(flags: pa.Array) -> bool:
    # Not by flags.true_count: on computed arrays pyarrow 15 crashes there.
    return pc.all(flags, skip_nulls=False, min_count=0).as_py() is True


def _where(condition: pa.Array, values: pa.Array) -> pa.Array:
    """The values where the condition holds; null where it does not or is null."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def header_map(lines: HeaderLines, kind: pa.DataType) -> pa.Array:
    """A map from name to value for each message."""
    fields = [kind.key_field, kind.item_field]
    return _nested(lines, pa.StructArray.from_arrays([lines.names, lines.values], fields=fields), kind)


def header_list(lines: HeaderLines, kind: pa.DataType) -> pa.Array:
    """A list of structs of name and value for each message."""
    struct = kind.value_type
    fields = [struct.field(i) for i in range(struct.num_fields)]
    return _nested(lines, pa.StructArray.from_arrays([lines.names, lines.values], fields=fields), kind)


def _nested(lines: HeaderLines, entries: pa.Array, kind: pa.DataType) -> pa.Array:
    offsets = pa.py_buffer(lines.offsets.astype(np.int32, copy=False))
    return pa.Array.from_buffers(kind, len(lines.offsets) - 1, [None, offsets], children=[entries])
