"""The fast path of JSON: many bodies of one layout together. The exact path is in ``json_rows``.

A producer writes each body alike: the same fields in the same order, with the same spaces. So one body gives
a *layout*: literal text, and *slots* where values are. As a regular expression it proves of other bodies that
they are one document with these fields, each once, and with values of the right kind. No text of a slot has a
quotation mark or a backslash, so the marks of a row tell where its slots are. Of what is left, another body
gives the next layout, and so on.

Left to the exact path, without a reason: escapes, exponents, numbers that are long, maps, lists in lists,
VARIANT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.columns import (
    LAST_MICROSECOND,
    Area,
    Bytes,
    Flags,
    Ints,
    array_of,
    flags_of,
    gather,
    kept,
    text_of,
)
from spark_stomp.arrow.json_values import DATE, FARTHEST, FIRST_MICROSECOND, TIME, VARIANT, leaf_of

# Fewer rows are not worth a layout, nor are longer bodies. So many are tried, until so many gave too little.
_FEW: Final = 64
_LONGEST: Final = 4_000
_MOST_TRIES: Final = 8
_MOST_FAILURES: Final = 3
# From one to the next: a prime, so that bodies which repeat in turn are tried in turn.
_STRIDE: Final = 7919
_QUOTE, _COMMA, _CLOSE, _MINUS, _NULL, _TRUE, _ZERO = b'",]-nt0'

_SPACE = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r'"([^"\\\x00-\x1f]*)"')
_TOKEN = re.compile(r'"([^"\\\x00-\x1f]*)"|-?[0-9][0-9.]*|true|false|null')
_NOT_NUMBERS: Final = ("string", "boolean", "date", "timestamp", "timestamp_ntz")
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)"
# The path of the elements of a list, which no name of a field is.
_ITEM: Final = "[]\0"
# The most characters of a number that is exact in any case.
_SURE: Final = {"tinyint": 2, "smallint": 4, "int": 9, "bigint": 18, "float": 6, "double": 15}


class _Values(NamedTuple):
    """Values, and which of them are not as the exact path has them; None if all are."""

    array: pa.Array
    good: Flags | None = None


@dataclass(frozen=True)
class _Literal:
    text: str

    @property
    def pattern(self) -> str:
        return re.escape(self.text)

    @property
    def size(self) -> int:
        return len(self.text.encode())

    @property
    def marks(self) -> int:
        return self.text.count('"')

    def until(self, mark: str) -> int:
        """The size of what comes before ``mark``."""
        return len(self.text.partition(mark)[0].encode())


@dataclass(frozen=True)
class _Slot:
    """A place of a value: the path of its field, the expression for its text, and what reads it."""

    path: tuple[str, ...]
    pattern: str
    read: Callable[[Area], _Values]


@dataclass(frozen=True)
class _Elements:
    """A place of the elements of a list, of which each has a layout."""

    path: tuple[str, ...]
    data_type: pa.ListType
    pieces: tuple[_Piece, ...]
    separator: str

    @property
    def marks(self) -> int:
        """Quotation marks of each element."""
        return sum(piece.marks for piece in self.pieces if isinstance(piece, _Literal))

    @property
    def pattern(self) -> str:
        one = _pattern(self.pieces)
        return f"(?:{one}(?:{re.escape(self.separator)}{one})*)?"


_Piece: TypeAlias = "_Literal | _Slot | _Elements"


class _Layout(NamedTuple):
    """``objects`` are the paths of the structs that are there."""

    pieces: tuple[_Piece, ...]
    objects: frozenset[tuple[str, ...]]


_Found: TypeAlias = dict[tuple[str, ...], _Values]


def read_json_layouts(texts: pa.Array, data_type: pa.StructType) -> Iterator[tuple[Ints, pa.Array]]:
    """Rows, and what they say, a layout at a time. Rows that are in none are left to the exact path."""
    remaining, failures = np.arange(len(texts)), 0
    for turn in range(_MOST_TRIES):
        if len(remaining) < _FEW or failures == _MOST_FAILURES:
            return
        layout = _layout(texts[int(remaining[turn * _STRIDE % len(remaining)])].as_py(), data_type)
        if layout is None:
            failures += 1
            continue
        some = texts if len(remaining) == len(texts) else texts.take(array_of(remaining))
        fits = flags_of(pc.match_substring_regex(some, rf"\A{_pattern(layout.pieces)}\z"))
        rows, values, good = remaining[fits], *_read(some.filter(_bools(fits)), layout, data_type)
        if good is not None and not good.all():
            rows, values = rows[good], values.filter(_bools(good))
        failures += len(rows) * _MOST_TRIES < len(remaining)
        remaining = remaining[~fits]
        if len(rows):
            yield rows, values


def _pattern(pieces: tuple[_Piece, ...]) -> str:
    return "".join(piece.pattern for piece in pieces)


# --- a layout, from one body


class _NoLayout(Exception):
    """A body that the exact path reads."""


def _layout(text: str | None, data_type: pa.StructType) -> _Layout | None:
    if text is None or len(text) > _LONGEST:
        return None
    try:
        body = _Body(text)
        body.space()
        body.object(data_type, ())
        body.space()
        return body.ended()
    except _NoLayout:
        return None


class _Body:
    """Reads a body, and collects the pieces of its layout."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._begin = text, 0, 0
        self._separator = ","
        self._pieces: list[_Piece] = []
        self._objects: set[tuple[str, ...]] = set()

    def ended(self) -> _Layout:
        if self._at < len(self._text):
            raise _NoLayout
        return _Layout((*self._pieces, self._literal(self._at)), frozenset(self._objects))

    def space(self) -> None:
        self._take(_SPACE)

    def object(self, data_type: pa.StructType, path: tuple[str, ...]) -> None:
        types = {
            data_type.field(number).name: data_type.field(number).type
            for number in range(data_type.num_fields)
        }
        self._objects.add(path)
        self._next("{")
        self.space()
        if self._is_next("}"):
            return
        while True:
            name = self._take(_NAME)[1]
            if name not in types:  # unknown, or there already
                raise _NoLayout
            self.space()
            self._next(":")
            self.space()
            self._value(types.pop(name), (*path, name))
            self.space()
            if self._is_next("}"):
                return
            self._comma()

    def _value(self, data_type: pa.DataType, path: tuple[str, ...]) -> None:
        if data_type == VARIANT:
            raise _NoLayout
        if not _takes_null(data_type) and self._is_next("null"):
            return None
        if pa.types.is_struct(data_type):
            return self.object(data_type, path)
        if pa.types.is_list(data_type):
            return self._list(data_type, path)
        if pa.types.is_map(data_type):
            raise _NoLayout
        token = self._take(_TOKEN)
        is_text = token[1] is not None
        start, end = token.span(int(is_text))
        self._put(_slot(data_type, path, token[int(is_text)], is_text), start, end)
        return None

    def _list(self, data_type: pa.ListType, path: tuple[str, ...]) -> None:
        if _ITEM in path:
            raise _NoLayout
        self._next("[")
        self.space()
        start, outer = self._at, (self._pieces, self._begin)
        self._pieces, self._begin = [], start
        self._value(data_type.value_type, (*path, _ITEM))
        pieces = (*self._pieces, self._literal(self._at))
        # What later elements have is no part of the layout.
        objects, separator = {*self._objects}, self._separator
        while True:
            end = self._at
            self.space()
            if self._is_next("]"):
                break
            separator = self._comma()
            self._value(data_type.value_type, (*path, _ITEM))
        (self._pieces, self._begin), self._objects = outer, objects
        self._put(_Elements(path, data_type, pieces, separator), start, end)

    def _comma(self) -> str:
        begin = self._at
        self._next(",")
        self.space()
        self._separator = self._text[begin : self._at]
        return self._separator

    def _put(self, piece: _Piece, start: int, end: int) -> None:
        self._pieces += [self._literal(start), piece]
        self._begin = end

    def _literal(self, end: int) -> _Literal:
        return _Literal(self._text[self._begin : end])

    def _take(self, expression: re.Pattern[str]) -> re.Match[str]:
        found = expression.match(self._text, self._at)
        if found is None:
            raise _NoLayout
        self._at = found.end()
        return found

    def _is_next(self, literal: str) -> bool:
        found = self._text.startswith(literal, self._at)
        self._at += found * len(literal)
        return found

    def _next(self, literal: str) -> None:
        if not self._is_next(literal):
            raise _NoLayout


# --- what many bodies of one layout say


def _bools(flags: Flags) -> pa.Array:
    return array_of(flags.view(np.uint8)).cast(pa.bool_())


def _read(texts: pa.Array, layout: _Layout, data_type: pa.StructType) -> _Values:
    """What bodies say that are all of the layout; at least one."""
    if not len(texts):
        return _Values(pa.nulls(0, data_type))
    array, offsets = text_of(texts)
    starts, stops = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    walk = _Walk(array, layout.objects)
    found = walk.walk(layout.pieces, starts, stops, np.searchsorted(walk.marks, starts))
    return walk.built(data_type, (), len(texts), found)


class _Walk:
    """Finds the slots of rows in one text, from mark to mark."""

    def __init__(self, array: Bytes, objects: frozenset[tuple[str, ...]]) -> None:
        self._array, self._buffer, self._objects = array, pa.py_buffer(array), objects
        self.marks = np.flatnonzero(array == _QUOTE)

    @cached_property
    def _closes(self) -> Ints:
        """The brackets that end lists; those behind an odd number of marks are in strings."""
        closes: Ints = np.flatnonzero(self._array == _CLOSE)
        outside: Ints = closes[np.searchsorted(self.marks, closes) % 2 == 0]
        return outside

    @cached_property
    def _commas(self) -> Ints:
        commas: Ints = np.flatnonzero(self._array == _COMMA)
        return commas

    def walk(self, pieces: tuple[_Piece, ...], starts: Ints, stops: Ints, mark: Ints) -> _Found:
        """The values of spans that are all of these pieces; ``mark`` is the number of the first in each."""
        found: _Found = {}
        for piece, behind in zip(pieces, pieces[1:] + pieces[-1:], strict=True):
            if isinstance(piece, _Literal):
                starts, mark = starts + piece.size, mark + piece.marks
                continue
            assert isinstance(behind, _Literal)
            if isinstance(piece, _Elements):
                end = self._closes[np.searchsorted(self._closes, starts)] - behind.until("]")
                found[piece.path] = self._elements(piece, starts, end, mark)
                mark = np.searchsorted(self.marks, end)
            else:
                end = self.marks[mark] - behind.until('"') if behind.marks else stops - behind.size
                found[piece.path] = piece.read(Area(self._array, self._buffer, starts, end))
            starts = end
        return found

    def _elements(self, piece: _Elements, starts: Ints, stops: Ints, mark: Ints) -> _Values:
        first, gap = piece.pieces[0], len(piece.separator)
        if piece.marks:
            counts = (np.searchsorted(self.marks, stops) - mark) // piece.marks
        else:
            comma = np.searchsorted(self._commas, starts)
            counts = np.where(stops > starts, np.searchsorted(self._commas, stops) - comma + 1, 0)
        ends = np.cumsum(counts)
        rows = np.repeat(np.arange(len(starts)), counts)
        number = np.arange(len(rows)) - np.repeat(ends - counts, counts)
        if piece.marks:
            assert isinstance(first, _Literal)
            marks = mark[rows] + number * piece.marks
            begins = self.marks[marks] - first.until('"')
        else:
            marks, begins = mark[rows], starts[rows]
            later = number > 0
            begins[later] = self._commas[(comma[rows] + number - 1)[later]] + gap
        last = number == counts[rows] - 1
        finishes = np.where(last, stops[rows], np.append(begins[1:], 0) - gap)
        found = self.walk(piece.pieces, begins, finishes, marks) if len(rows) else {}
        inside = self.built(piece.data_type.value_type, (*piece.path, _ITEM), len(rows), found)
        offsets = pa.py_buffer(np.append(0, ends).astype(np.int32))
        array = pa.Array.from_buffers(piece.data_type, len(starts), [None, offsets], children=[inside.array])
        if inside.good is None:
            return _Values(array)
        good = np.ones(len(starts), bool)
        good[rows[~inside.good]] = False
        return _Values(array, good)

    def built(self, data_type: pa.DataType, path: tuple[str, ...], count: int, found: _Found) -> _Values:
        """The array of the place ``path``; nulls if the layout has none."""
        if path in found:
            return found[path]
        if path not in self._objects:
            return _Values(pa.nulls(count, data_type))
        fields = [data_type.field(number) for number in range(data_type.num_fields)]
        parts = [self.built(field.type, (*path, field.name), count, found) for field in fields]
        flags = [part.good for part in parts if part.good is not None]
        array = pa.Array.from_buffers(data_type, count, [None], children=[part.array for part in parts])
        return _Values(array, np.logical_and.reduce(flags) if flags else None)


# --- slots


def _takes_null(data_type: pa.DataType) -> bool:
    """Whether a slot of this type may have a null. Of other types it is text of the layout."""
    nullable = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(is_a(data_type) for is_a in nullable)


def _slot(data_type: pa.DataType, path: tuple[str, ...], text: str, is_text: bool) -> _Slot:
    """The slot of a field of this type, which has this text in the body that gives the layout."""
    name = leaf_of(data_type, ".".join(path)).name
    if name == "string" and is_text:
        return _Slot(path, r'[^"\\\x00-\x1f]*', _texts)
    if name == "date" and is_text and DATE.fullmatch(text):
        return _Slot(path, _shape(text), partial(_dates, data_type))
    form = TIME.fullmatch(text) if is_text and name.startswith("timestamp") else None
    if form and bool(form[6] or form[7]) is (name == "timestamp"):
        return _Slot(path, _shape(text), partial(_moments, data_type, form))
    if name == "boolean" and text in ("true", "false", "null") and not is_text:
        return _Slot(path, "(?:true|false|null)", _booleans)
    if is_text or text in ("true", "false") or name in _NOT_NUMBERS:
        raise _NoLayout
    if pa.types.is_decimal(data_type):
        before, most = data_type.precision - data_type.scale, data_type.precision + 3
        whole = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
        number = f"-?{whole}" + (rf"(?:\.[0-9]{{1,{data_type.scale}}})?" if data_type.scale else "")
    else:
        most = _SURE[name]
        number = _NUMBER + (r"(?:\.[0-9]+)?" if pa.types.is_floating(data_type) else "")
    return _Slot(path, f"(?:null|{number})", partial(_numbers, data_type, most))


def _shape(text: str) -> str:
    """The expression of a time with any digits, and any sign of its zone."""
    return "".join(
        "[0-9]" if one.isdigit() else "[+-]" if one in "+-" and place > 10 else re.escape(one)
        for place, one in enumerate(text)
    )


def _texts(spans: Area) -> _Values:
    return _Values(gather(pa.string(), spans.buffer, spans.starts, spans.stops))


def _booleans(spans: Area) -> _Values:
    first = spans.array[spans.starts]
    array = _bools(first == _TRUE)
    return _Values(kept(array, first != _NULL) if (first == _NULL).any() else array)


def _numbers(data_type: pa.DataType, most: int, spans: Area) -> _Values:
    texts = gather(pa.string(), spans.buffer, spans.starts, spans.stops)
    there = spans.array[spans.starts] != _NULL
    good = ~there | (spans.stops - spans.starts <= most)
    if not (there & good).all():
        texts = kept(texts, there & good)
    return _Values(pc.cast(texts, data_type), None if good.all() else good)


def _dates(data_type: pa.DataType, spans: Area) -> _Values:
    days, good = _days(_characters(spans, 10))
    return _Values(array_of(days.astype(np.int32)).view(data_type), None if good.all() else good)


def _moments(data_type: pa.DataType, form: re.Match[str], spans: Area) -> _Values:
    """Times that all have the form of ``form``, character by character."""
    digits = _characters(spans, form.end())
    days, good = _days(digits)

    def part(group: int) -> Ints:
        begin, end = form.span(group)
        weights = 10 ** np.arange(end - begin - 1, -1, -1)
        value: Ints = digits[:, begin:end] @ weights
        return value

    hour, minute, second = part(2), part(3), part(4)
    good &= (hour < 24) & (minute < 60) & (second < 60)
    fraction = part(5) * 10 ** (6 - len(form[5] or ""))
    micros = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + fraction
    if form[7]:
        offset = part(8) * 60 + part(9)
        good &= (part(9) < 60) & (offset <= FARTHEST)
        sign = np.where(digits[:, form.start(7)] + _ZERO == _MINUS, -1, 1)
        micros -= sign * offset * 60_000_000
    good &= (micros >= FIRST_MICROSECOND) & (micros <= LAST_MICROSECOND)
    return _Values(array_of(micros).view(data_type), None if good.all() else good)


def _characters(spans: Area, size: int) -> Ints:
    """The digits of spans that all have this size."""
    found: Ints = spans.array[spans.starts[:, None] + np.arange(size)].astype(np.int64) - _ZERO
    return found


def _days(digits: Ints) -> tuple[Ints, Flags]:
    """The days since 1970 of dates, and which of them there are."""
    year = digits[:, 0:4] @ np.array([1000, 100, 10, 1])
    month, day = (digits[:, begin : begin + 2] @ np.array([10, 1]) for begin in (5, 8))
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first, following = (one.astype("datetime64[D]").astype(np.int64) for one in (months, months + 1))
    good = (year > 0) & (month > 0) & (month < 13) & (day > 0) & (first + day <= following)
    return first + day - 1, good
