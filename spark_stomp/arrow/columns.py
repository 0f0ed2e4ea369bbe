"""Makes columns of headers and bodies: times, flags, maps, lists, text. Reads Arrow strings as numpy arrays.

An Arrow string array is a buffer of bytes and n + 1 rising offsets into it. So scattered pieces of text can
be selected without copying: with the offsets ``start0, stop0, start1, stop1, ...`` the even elements are
the wanted pieces, and the odd ones the gaps. One ``take`` then copies the wanted pieces side by side, at
about 10 ns each (November 2026). A loop in Python, or indexing by numpy, is many times slower.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.errors import BodyDecodeError
from spark_stomp.frame_batch import ID_TIME, NO_TIME
from spark_stomp.quoting import quoted, shown

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Positions: TypeAlias = npt.NDArray[np.int32]  # a frame batch has less than 2 GiB


@dataclass(frozen=True, slots=True)
class Area:
    """Pieces of a buffer, such as frames: piece i is ``array[starts[i]:stops[i]]``.

    They ascend and do not overlap. ``array`` and ``buffer`` are the same memory.
    """

    array: Bytes
    buffer: pa.Buffer
    starts: Ints
    stops: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def subset(self, rows: Ints) -> Area:
        """The pieces with these ascending indices."""
        return Area(self.array, self.buffer, self.starts[rows], self.stops[rows])


_STRING = pa.string()
# Bytes that an array of texts cannot have.
_TOO_MANY = 1 << 31
_BACKSLASH = 0x5C
_QUOTED = re.compile("(?:%(?!2F)[0-9A-F]{2})+")

# The meaning of the byte after a backslash (STOMP 1.2, "Value Encoding"; in 1.1 the scanner refuses \r).
_MEANING = np.arange(256, dtype=np.uint8)
_MEANING[[ord("c"), ord("n"), ord("r")]] = [ord(":"), ord("\n"), ord("\r")]


# ``pa.array``, ``pa.scalar``, a plain value beside an array, and ``to_numpy`` import pandas, if that is
# installed: 0.3 s of processor time before the first row, and 36 MiB in each worker (November 2026). These do
# not.


def array_of(values: npt.NDArray[Any]) -> pa.Array:
    """Numbers as an array, not copied."""
    data_type = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(data_type, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def numbers(array: pa.Array, data_type: npt.DTypeLike) -> npt.NDArray[Any]:
    """The values of an array of that kind, which has no nulls; not copied."""
    return np.frombuffer(
        array.buffers()[1], data_type, len(array), array.offset * np.dtype(data_type).itemsize
    )


def flags_of(array: pa.Array) -> Flags:
    """The values of an array of booleans; false where it is null."""
    flags: Flags = numbers(pc.coalesce(array.cast(pa.uint8()), scalar(0).cast(pa.uint8())), np.bool_)
    return flags


def validity(there: Sequence[object] | Flags) -> pa.Buffer:
    """The bitmap of what is there; what is not is None, or false."""
    flags = there if isinstance(there, np.ndarray) else np.array([one is not None for one in there], bool)
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def strings(values: Iterable[str | bytes | None], data_type: pa.DataType = _STRING) -> pa.Array:
    """Texts or octets as an array; None becomes null."""
    raw = [value.encode() if isinstance(value, str) else value for value in values]
    offsets = np.cumsum([0, *(len(one or b"") for one in raw)], dtype=np.int64)
    if offsets[-1] >= _TOO_MANY:
        raise pa.ArrowCapacityError("the texts of a batch have more than 2 GiB; lower maxFrameBytes")
    missing = raw.count(None)
    buffers = map(pa.py_buffer, (offsets.astype(np.int32), b"".join(filter(None, raw))))
    # Up to 25, pyarrow ends the process if it has to count the nulls of a map's keys.
    return pa.Array.from_buffers(data_type, len(raw), [validity(raw) if missing else None, *buffers], missing)


@lru_cache(maxsize=256)
def scalar(value: str | int) -> pa.Scalar:
    """A text or a number, to use beside arrays."""
    return (strings([value]) if isinstance(value, str) else array_of(np.array([value])))[0]


def string_array(data_type: pa.DataType, offsets: Positions, text: pa.Buffer) -> pa.Array:
    """A string or binary array over a buffer; element i is ``text[offsets[i]:offsets[i + 1]]``."""
    return pa.Array.from_buffers(data_type, len(offsets) - 1, [None, pa.py_buffer(offsets), text])


def pick(array: pa.Array, first: int, step: int) -> pa.Array:
    """Every ``step``-th element from ``first`` on, copied side by side."""
    return pc.take(array, array_of(np.arange(first, len(array), step, dtype=np.int32)), boundscheck=False)


def pieces(data_type: pa.DataType, text: pa.Buffer, starts: Ints, stops: Ints) -> pa.Array:
    """An array, not copied, whose every other element is a piece ``text[starts[i]:stops[i]]``.

    The elements between them are the gaps: n pieces give 2 n - 1 elements.
    """
    offsets = np.empty((len(starts), 2), np.int32)
    offsets[:, 0] = starts
    offsets[:, 1] = stops
    return string_array(data_type, offsets.reshape(-1), text)


def gather(data_type: pa.DataType, text: pa.Buffer, starts: Ints, stops: Ints) -> pa.Array:
    """The pieces ``text[starts[i]:stops[i]]``, ascending and without overlap, copied side by side.

    A single piece is not copied: it keeps the whole buffer alive instead.
    """
    count = len(starts)
    if count == 1:
        return pieces(data_type, text, starts, stops)
    apart = pieces(data_type, text, np.append(starts, stops[-1]), np.append(stops, stops[-1]))
    # ``take`` allocates the mean length of pieces and gaps for each index. If that is too little, it copies
    # everything again: 1.1 instead of 0.6 ms for 10,000 bodies of 235 bytes (November 2026). So indices of an
    # empty piece are added until it is enough.
    mean = int(stops[-1] - starts[0]) // len(apart) or 1
    fillers = max(0, int((stops - starts).sum()) // mean + 1 - count)
    wanted = np.full(count + fillers, len(apart) - 1, np.int32)
    wanted[:count] = np.arange(0, 2 * count, 2)
    return pc.take(apart, array_of(wanted), boundscheck=False)[:count]


def kept(values: pa.Array, flags: Flags) -> pa.Array:
    """The values with a flag, and null in place of the others.

    Not by ``if_else``: that of pyarrow 15 is wrong for texts that do not begin at the first octet.
    """
    places = pa.py_buffer(np.arange(len(values), dtype=np.int64))
    return values.take(pa.Array.from_buffers(pa.int64(), len(values), [validity(flags), places]))


def places(parts: Sequence[Ints]) -> Ints:
    """The index of each row in the concatenated parts, which have these rows."""
    rows = np.concatenate(parts)
    found = np.empty(len(rows), np.int64)
    found[rows] = np.arange(len(rows))
    return found


def text_of(array: pa.Array) -> tuple[Bytes, Positions]:
    """The bytes of a string or binary array, and the n + 1 offsets of its elements in them."""
    _, offsets_buffer, text_buffer = array.buffers()
    count = len(array)
    if not count or text_buffer is None:
        return np.empty(0, np.uint8), np.zeros(count + 1, np.int32)
    offsets = np.frombuffer(offsets_buffer, np.int32, count + 1, array.offset * 4)
    text = np.frombuffer(text_buffer, np.uint8, int(offsets[-1] - offsets[0]), int(offsets[0]))
    return text, offsets - offsets[0] if offsets[0] else offsets


def is_text(strings: pa.Array) -> bool:
    """Whether all elements are valid UTF-8."""
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def lengths(array: pa.Array) -> Ints:
    """How many bytes each element has."""
    found: Ints = np.diff(text_of(array)[1])
    return found


def unescape(strings: pa.Array) -> pa.Array:
    r"""The strings with ``\c``, ``\n``, ``\r`` and ``\\`` resolved (STOMP 1.1 and 1.2, "Value Encoding").

    The strings must not be null. The scanner accepts only complete and defined escapes, so that no escape
    spans two strings.
    """
    text, offsets = text_of(strings)
    dropped = text == _BACKSLASH
    backslashes = np.flatnonzero(dropped)
    if not backslashes.size:
        return strings
    starts = _escape_starts(backslashes)
    if len(starts) < len(backslashes):
        dropped[backslashes] = False
        dropped[starts] = True
    kept = text[~dropped]
    escaped = starts - np.arange(len(starts))
    kept[escaped] = _MEANING[kept[escaped]]
    return string_array(strings.type, offsets - _counts_before(dropped, offsets), pa.py_buffer(kept))


def _counts_before(flags: Flags, positions: Positions) -> Positions:
    """How many flags are set before each position.

    Eight flags are counted at a time, as the bytes of one 64-bit word: multiplied by 0x0101010101010101, each
    byte becomes the sum of the bytes up to it. This is several times as fast as a running sum, or a search.
    """
    flag_bytes = np.zeros(len(flags) // 8 * 8 + 8, np.uint8)
    flag_bytes[: len(flags)] = flags
    up_to = (flag_bytes.view("<u8") * np.uint64(0x0101010101010101)).view(np.uint8)
    in_word = up_to[7::8]
    before_word = np.cumsum(in_word, dtype=np.int32) - in_word
    counts: Positions = before_word[positions >> 3] + (up_to - flag_bytes)[positions]
    return counts


def _escape_starts(backslashes: Ints) -> Ints:
    """The backslashes that begin an escape: of adjacent ones the first, the third and so on."""
    adjacent = np.diff(backslashes) == 1
    if not adjacent.any():
        return backslashes
    begins_run = np.concatenate(([True], ~adjacent))
    run_starts = np.maximum.accumulate(np.where(begins_run, backslashes, 0))
    starts: Ints = backslashes[(backslashes - run_starts) % 2 == 0]
    return starts


# --- columns of headers

_MICROSECONDS = {"ms": 1_000, "s": 1_000_000}
_DIGITS = 18
"""A number with at most this many decimal digits fits into 64 bits."""

LAST_MICROSECOND = 253_402_300_799_999_999
"""The end of the year 9999, in microseconds: the last time of Python's datetime, and so of a Spark row."""


class HeaderLines(NamedTuple):
    """Header lines of many messages. Those of message i are ``[offsets[i]:offsets[i + 1]]``."""

    offsets: Positions
    names: pa.Array
    values: pa.Array


def nulls(count: int) -> pa.Array:
    """The column of a header that no message has."""
    return pa.nulls(count, pa.string())


def timestamps(values: pa.Array, unit: Literal["ms", "s"], data_type: pa.DataType) -> pa.Array:
    """Times from the digits of a ``timestamp`` header; null if it is absent, malformed, 0 or after 9999.

    0 means that the producer has set none: Artemis and ActiveMQ say so.

    Args:
        values: the header's values, as text.
        unit: the unit in which they count from the epoch.
        data_type: the Arrow type of the column, in microseconds.
    """
    scale = _MICROSECONDS[unit]
    counts = whole_numbers(values)
    if pc.any(pc.equal(counts, scalar(0))).as_py():
        counts = _null_unless(pc.not_equal(counts, scalar(0)), counts)
    late = counts.null_count < len(counts) and pc.max(counts).as_py() > LAST_MICROSECOND // scale
    if late:
        counts = _null_unless(pc.less_equal(counts, scalar(LAST_MICROSECOND // scale)), counts)
    return pc.multiply(counts, scalar(scale)).view(data_type)


def whole_numbers(values: pa.Array) -> pa.Array:
    """The numbers written in ASCII digits; null for anything else, and for numbers that overflow 64 bits."""
    digits = pc.ascii_is_decimal(values)
    if not _all_true(digits):  # besides digits, the cast would read signs and hexadecimal numbers
        values = _null_unless(digits, values)
    try:
        return pc.cast(values, pa.int64())
    except pa.ArrowInvalid:
        return pc.cast(
            _null_unless(pc.less_equal(pc.binary_length(values), scalar(_DIGITS)), values), pa.int64()
        )


def redelivered(values: pa.Array) -> pa.Array:
    """Flags from a ``redelivered`` header in any case; null if it is neither true nor false."""
    flags = pc.equal(values, scalar("true"))
    if not _all_true(pc.or_(flags, pc.equal(values, scalar("false")))):
        lower = pc.ascii_lower(values)
        flags = pc.equal(lower, scalar("true"))
        flags = _null_unless(pc.or_(flags, pc.equal(lower, scalar("false"))), flags)
    return flags


def after_last(values: pa.Array, separator: str | None) -> pa.Array:
    """The part of each value after its last ``separator``; the whole value if it has none."""
    if separator is None:
        return values
    return pc.replace_substring_regex(values, f"(?s)^.*{re.escape(separator)}", "")


def timed(ids: pa.Array, times: pa.Array) -> pa.Array:
    """The ids, each with its time appended, as the receiver does; null if the id or its time is missing."""
    there = pc.and_(pc.not_equal(ids, scalar("")), pc.invert(pc.is_in(times, strings(NO_TIME))))
    return _null_unless(there, pc.binary_join_element_wise(ids, times, scalar(ID_TIME.decode())))


def unquoted(names: pa.Array) -> pa.Array:
    """Destinations as a SEND names them, of destinations in which RabbitMQ has quoted bytes as ``%C3``.

    A SEND takes only ``%2F`` as a quoted byte, and all others as they are.
    """
    if not pc.any(pc.match_substring(names, "%")).as_py():
        return names
    encoded = names.dictionary_encode()
    texts = [_QUOTED.sub(_unquote, text) for text in encoded.dictionary.to_pylist()]
    return strings(texts, names.type).take(encoded.indices)


def _unquote(quoted: re.Match[str]) -> str:
    with suppress(UnicodeDecodeError):
        return unquote_to_bytes(quoted[0]).decode()
    return quoted[0]


def in_stream(stream: str, offsets: pa.Array) -> pa.Array:
    """The ids of messages of ``stream``: its name, ``@`` and the offset."""
    return pc.binary_join_element_wise(scalar(stream), offsets, scalar("@"))


def _all_true(flags: pa.Array) -> bool:
    # Not flags.true_count: pyarrow 15 crashes in it if the array was computed.
    return pc.all(flags, skip_nulls=False, min_count=0).as_py() is True


def _null_unless(condition: pa.Array, values: pa.Array) -> pa.Array:
    """The values, null wherever the condition is false or null."""
    return pc.if_else(condition, values, pa.nulls(1, values.type)[0])


def header_lines(lines: HeaderLines, data_type: pa.DataType) -> pa.Array:
    """The lines of each message: a map from name to value, or a list of structs of name and value."""
    is_map = pa.types.is_map(data_type)
    fields = [data_type.key_field, data_type.item_field] if is_map else list(data_type.value_type)
    entries = pa.StructArray.from_arrays([lines.names, lines.values], fields=fields)
    offsets = pa.py_buffer(lines.offsets.astype(np.int32, copy=False))
    return pa.Array.from_buffers(data_type, len(lines.offsets) - 1, [None, offsets], children=[entries])


# --- bodies as text, by the charset of their content type, or by UTF-8 if it names none

_CHARSET = re.compile(r""";\s*charset\s*=\s*(?:"([^"]*)"|([^\s;"]*))""", re.IGNORECASE)

# Python's codecs that are not charsets of a content type.
_NOT_CHARSETS = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "mbcs", "oem"}
)


@dataclass(frozen=True, slots=True)
class TextSource:
    """The bodies of some messages, with the headers that decode them and name their messages."""

    values: pa.Array
    content_types: pa.Array
    message_ids: pa.Array
    destinations: pa.Array


def charset_of(content_type: str | None) -> str:
    """The ``charset`` parameter of a content type (RFC 9110, 8.3.1), as sent; "utf-8" if there is none."""
    found = _CHARSET.search(content_type) if content_type else None
    return (found.group(1) or found.group(2) or "utf-8") if found else "utf-8"


OnError = Literal["error", "null", "column"]
"""What becomes of a body that cannot be decoded: an error, null, or null and a reason in ``malformed``."""


@dataclass(frozen=True, slots=True)
class BodyColumn:
    """The bodies as text, or as what they say; ``reasons`` says by row what is not in ``values``."""

    values: pa.Array
    reasons: Mapping[int, str]


def body_text(bodies: TextSource, on_error: OnError) -> BodyColumn:
    """Decode the bodies. An empty body is an empty string in any charset.

    Raises:
        BodyDecodeError: a body is not valid in its charset, or its charset is unknown, and ``on_error`` is
            "error". The text names the message.
    """
    types = bodies.content_types.dictionary_encode(null_encoding="encode")
    charsets = [charset_of(name) for name in types.dictionary.to_pylist()]
    foreign = [code for code, name in enumerate(charsets) if _codec_name(name) != "utf-8"]
    codes = numbers(types.indices, np.int32)
    rows = np.flatnonzero(np.isin(codes, foreign))
    text = as_utf8(bodies.values)
    if not rows.size and text is not None:
        return BodyColumn(text, {})
    return _one_by_one(bodies, rows if text is not None else None, text, on_error)


def as_utf8(values: pa.Array) -> pa.Array | None:
    """The bodies as strings, not copied; None unless all of them are valid UTF-8."""
    text = pa.Array.from_buffers(pa.string(), len(values), values.buffers(), offset=values.offset)
    return text if is_text(text) else None


def _one_by_one(
    bodies: TextSource, rows: Ints | None, text: pa.Array | None, on_error: OnError
) -> BodyColumn:
    """The bodies as strings. Only ``rows`` are decoded, one by one; None means all."""
    reasons: dict[int, str] = {}
    values: list[str | bytes | None] = (text if text is not None else bodies.values).to_pylist()
    for row in range(len(values)) if rows is None else rows.tolist():
        try:
            values[row] = _decode(bodies.values[row].as_py(), bodies.content_types[row].as_py())
        except _Undecodable as problem:
            if on_error == "error":
                raise _error(bodies, row, problem) from problem.__cause__
            if on_error == "column":
                reasons[row] = problem.reason
            values[row] = None
    return BodyColumn(strings(values), reasons)


class _Undecodable(Exception):
    """Why a body has no text; ``reason`` is the same for all such bodies, so that they can be counted."""

    def __init__(self, problem: str, reason: str) -> None:
        super().__init__(problem)
        self.reason = reason


def _decode(data: bytes, content_type: str | None) -> str:
    if not data:
        return ""
    charset = charset_of(content_type)
    codec = _codec_name(charset)
    try:
        text = data.decode(codec)
        text.encode()  # some codecs accept lone surrogates, which no string in Spark can hold
    except LookupError:
        name = quoted(charset)
        raise _Undecodable(
            f"its charset {name} is unknown", f"the body's charset {name} is unknown"
        ) from None
    except UnicodeError as error:
        name = "UTF-8" if codec == "utf-8" else shown(charset)
        raise _Undecodable(f"it is not valid {shown(charset)}: {error}", f"the body is not {name}") from error
    return text


def _codec_name(charset: str) -> str:
    """The name of Python's codec for a charset; of any other name "none", which no codec has."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):  # ValueError: a name that no codec can have
        return "none"
    return "none" if name.replace("_", "-") in _NOT_CHARSETS else name


def _error(bodies: TextSource, row: int, problem: _Undecodable) -> BodyDecodeError:
    message_id, destination = bodies.message_ids[row].as_py(), bodies.destinations[row].as_py()
    return BodyDecodeError(
        f"the body of message {quoted(message_id)} from {quoted(destination)} cannot be read as string: "
        f"{problem}. The message stays on the broker, so every restart fails on it too: ask for "
        "`body binary`, or set bodyDecodeErrors=null or bodyDecodeErrors=column (docs/reading.md, "
        "Malformed messages)"
    )
