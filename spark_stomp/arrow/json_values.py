"""Values of JSON in the types of a schema: exactly, or not at all. docs/payloads.md has the table.

A number is read as its text, because only that has all of its digits.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Collection, Sequence
from datetime import date
from functools import partial
from math import isinf
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_stomp.arrow.columns import LAST_MICROSECOND, strings, validity
from spark_stomp.columns import LEAVES
from spark_stomp.errors import SchemaError


class Whole(str):
    """The text of a number without a fraction and an exponent."""

    __slots__ = ()


class Fraction(str):
    """The text of any other number."""

    __slots__ = ()


Read: TypeAlias = Callable[[Any], Any]


class Leaf(NamedTuple):
    """A type without parts.

    Attributes:
        name: as Spark writes it.
        read: what the array has for a value of a document; None if the type does not have it exactly.
        array: makes the array of what ``read`` gave, and of None.
    """

    name: str
    read: Read
    array: Callable[[Sequence[Any]], pa.Array]


VARIANT: Final = pa.struct(
    [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, {b"variant": b"true"})]
)
"""The type of any value of JSON, in Spark's encoding. No other type of a body has binary parts."""
_NAMES: Final = {VARIANT: "variant", **{data_type: name for name, data_type in LEAVES.items()}}
KINDS: Final = {
    str: "a string",
    bool: "a boolean",
    Whole: "a whole number",
    Fraction: "a decimal number",
    list: "a list",
    dict: "an object",
}
_TIMES: Final = ("timestamp", "timestamp_ntz")
# Texts for the numbers that JSON does not have; Spark writes them so.
_NO_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
# A double has at most 17 digits, one of 15 is always right. A number of 64 bits has at most 20 characters.
_MOST_DIGITS, _SURE, _LONGEST = 17, 15, 20
# Spark searches so many names by halves, in the order of Java. PySpark sorts them in that of Python.
_SEARCHED: Final = 32
# At most 38 digits, before and behind the point together; so many behind it are no more.
_PLAIN: Final = re.compile(r"-?(?=[0-9.]{1,39}\Z)(?:[0-9]{1,38}|[0-9]+\.[0-9]+)", re.ASCII)
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(?:(Z)|([+-])(\d\d):?(\d\d))?", re.ASCII
)
EPOCH: Final = date(1970, 1, 1).toordinal()
FIRST_MICROSECOND: Final = (1 - EPOCH) * 86_400_000_000
# The farthest zone of Java, in minutes.
FARTHEST: Final = 18 * 60


def leaf_of(data_type: pa.DataType, path: str) -> Leaf:
    """The leaf for an Arrow type at ``path``. Raises SchemaError for one that no JSON value has exactly."""
    if pa.types.is_decimal128(data_type):
        read: Read = partial(_decimal, data_type.precision, data_type.scale)
        return Leaf(f"decimal({data_type.precision},{data_type.scale})", read, partial(_decimals, data_type))
    name = _NAMES.get(data_type)
    if name is None:
        raise SchemaError(f"{path} has the type {data_type}, which no value of JSON has exactly")
    if name == "variant":
        return Leaf(name, _variant, _variants)
    if name == "string":
        return Leaf(name, _text, strings)
    if name == "boolean":
        return Leaf(name, _boolean, _booleans)
    width = data_type.bit_width
    if pa.types.is_integer(data_type):
        read = partial(_whole, 1 << (width - 1))
        return Leaf(name, read, partial(_fixed, data_type, np.dtype(f"i{width // 8}")))
    if pa.types.is_floating(data_type):
        return Leaf(
            name, _double if width == 64 else _float, partial(_fixed, data_type, np.dtype(f"f{width // 8}"))
        )
    when: Read = _days if name == "date" else partial(_micros, name == "timestamp")
    return Leaf(name, when, partial(_fixed, data_type, np.dtype(f"i{width // 8}")))


def kind_of(value: object) -> str:
    """What a value of a document is, with its article."""
    return KINDS[type(value)]


def misfit(value: object, leaf: Leaf) -> str:
    """Why a leaf does not have a value. It quotes nothing of the value."""
    if leaf.name in _TIMES and type(value) is str and (found := TIME.fullmatch(value)):
        zoned = bool(found[6] or found[7])
        if zoned is not (leaf.name == "timestamp"):
            return f"has {'a' if zoned else 'no'} zone: {_TIMES[not zoned]} takes it"
    if leaf.name == "variant":
        problem = _variant_problem(value)
        return f"has {problem}" if problem else "is too large or too deep for variant"
    if isinstance(value, (Whole, Fraction)) and leaf.name.startswith(("float", "double", "decimal")):
        return f"is a number that {leaf.name} does not have exactly"
    return f"is {kind_of(value)} that does not fit {leaf.name}"


def fits_variant(value: object) -> bool:
    """Whether a VARIANT has a value of a document: all digits of its numbers, and names that Spark finds."""
    return _variant_problem(value) is None


def _variant_problem(value: object) -> str | None:
    remaining = [value]
    while remaining:
        one = remaining.pop()
        if type(one) is dict:
            if not finds_names(one):
                return "names that Spark does not find in a variant"
            remaining += one.values()
        elif type(one) is list:
            remaining += one
        elif isinstance(one, (Whole, Fraction)) and not _PLAIN.fullmatch(one) and _double(one) is None:
            return "a number that variant does not have exactly"
    return None


def finds_names(fields: Collection[str]) -> bool:
    """Whether Spark finds all names in an object of a VARIANT that PySpark has made."""
    return len(fields) < _SEARCHED or sorted(fields) == sorted(fields, key=_in_java)


def _in_java(name: str) -> bytes:
    return name.encode("utf-16-be")


def written(value: object) -> str:
    """The text of a value of a document, with each number as it came."""
    # One call for each level, of which a document has MOST_LEVELS at most: a call by map would be two.
    parts = []
    if type(value) is dict:
        for name, one in value.items():
            parts.append(f"{_quoted(name)}:{written(one)}")
        return "{" + ",".join(parts) + "}"
    if type(value) is list:
        for one in value:
            parts.append(written(one))
        return "[" + ",".join(parts) + "]"
    return value if isinstance(value, (Whole, Fraction)) else _quoted(value)


_quoted = json.JSONEncoder(ensure_ascii=False).encode


# --- reading


def _text(value: object) -> str | None:
    return value if type(value) is str else None


def _boolean(value: object) -> bool | None:
    return value if type(value) is bool else None


def _whole(bound: int, value: object) -> int | None:
    if type(value) is Whole and len(value) <= _LONGEST and -bound <= (number := int(value)) < bound:
        return number
    return None


def decimal_digits(value: object) -> tuple[str, str] | None:
    """The digits before and behind the point of a number without an exponent. Zeros at its ends are none."""
    if type(value) is not Whole and (type(value) is not Fraction or "e" in value.lower()):
        return None
    before, _, after = value.partition(".")
    return before.lstrip("-0"), after.rstrip("0")


def _decimal(precision: int, scale: int, value: Any) -> int | None:
    """The number without its point."""
    parts = decimal_digits(value)
    if parts is None:
        return None
    before, after = parts
    digits = before + after.ljust(scale, "0")
    if len(after) > scale or len(digits) > precision:
        return None
    return -int(digits or "0") if value.startswith("-") else int(digits or "0")


def _double(value: object) -> float | None:
    if type(value) is str:
        return float(value) if value in _NO_NUMBERS else None
    if type(value) is not Whole and type(value) is not Fraction:
        return None
    if len(value) <= _SURE and "e" not in value and "E" not in value:
        return float(value)
    digits = _digits(value)
    if len(digits) > _MOST_DIGITS:
        return None
    number = float(value)
    return number if not isinf(number) and digits == _digits(repr(number)) else None


def _float(value: object) -> float | None:
    if type(value) is str:
        return float(value) if value in _NO_NUMBERS else None
    if (type(value) is not Whole and type(value) is not Fraction) or len(_digits(value)) > _MOST_DIGITS:
        return None
    try:
        number: float = struct.unpack("f", struct.pack("f", float(value)))[0]
    except OverflowError:
        return None
    same = not isinf(number) and _digits(value) == _digits(str(np.float32(number)))
    return number if same else None


def _digits(number: str) -> str:
    """The digits of a number, without its sign, its point, its exponent, and the zeros at its ends."""
    return number.lower().partition("e")[0].replace(".", "").strip("-0")


def _variant(value: object) -> tuple[bytes, bytes] | None:
    """Spark's own encoding: a number of up to 38 digits is a decimal, any other a double."""
    # Only for a schema that has one. Here alone this package calls Spark.
    from pyspark.errors import PySparkException
    from pyspark.sql.types import VariantVal

    try:
        made = VariantVal.parseJson(written(value)) if fits_variant(value) else None
    except (PySparkException, ValueError, RecursionError):  # Spark 4.0 has no text for its own error
        return None
    return None if made is None else (made.value, made.metadata)


def _days(value: object) -> int | None:
    if type(value) is not str or not DATE.fullmatch(value):
        return None
    try:
        return date.fromisoformat(value).toordinal() - EPOCH
    except ValueError:
        return None


def _micros(zoned: bool, value: object) -> int | None:
    """Microseconds since 1970, up to the year 9999: Python has no later ones, so no row of Spark."""
    found = TIME.fullmatch(value) if type(value) is str else None
    if found is None or bool(found[6] or found[7]) is not zoned:
        return None
    day, *clock, fraction, _, sign, zone_hours, zone_minutes = found.groups(default="0")
    days, (hours, minutes, seconds) = _days(day), map(int, clock)
    offset = int(zone_hours) * 60 + int(zone_minutes)
    # Not by Python's own reader of ISO 8601, which since 3.14 takes 24:00.
    if days is None or hours > 23 or max(minutes, seconds, int(zone_minutes)) > 59 or offset > FARTHEST:
        return None
    seconds += ((days * 24 + hours) * 60 + minutes + (offset if sign == "-" else -offset)) * 60
    micros = seconds * 1_000_000 + int(fraction.ljust(6, "0"))
    return micros if FIRST_MICROSECOND <= micros <= LAST_MICROSECOND else None


# --- arrays


def _fixed(data_type: pa.DataType, dtype: npt.DTypeLike, values: Sequence[Any]) -> pa.Array:
    data = np.array([0 if one is None else one for one in values], dtype)
    return pa.Array.from_buffers(data_type, len(values), [validity(values), pa.py_buffer(data)])


def _variants(values: Sequence[Any]) -> pa.Array:
    parts = [strings([(one and one[part]) or b"" for one in values], pa.binary()) for part in (0, 1)]
    return pa.Array.from_buffers(VARIANT, len(values), [validity(values)], children=parts)


def _booleans(values: Sequence[Any]) -> pa.Array:
    return pa.Array.from_buffers(
        pa.bool_(), len(values), [validity(values), validity(np.array([one is True for one in values], bool))]
    )


def _decimals(data_type: pa.DataType, values: Sequence[Any]) -> pa.Array:
    data = b"".join((one or 0).to_bytes(16, "little", signed=True) for one in values)
    return pa.Array.from_buffers(data_type, len(values), [validity(values), pa.py_buffer(data)])
