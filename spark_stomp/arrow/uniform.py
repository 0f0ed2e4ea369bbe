"""Headers of frames that have the same header names in the same order.

One producer behind one broker sends such frames: all names are compared as one piece of memory and written as
copies of the first frame's; header k of all frames is one strided pick. Escaped and repeated names cost
nothing: they are resolved once, in the first frame. Frames of several producers are read one layout after
another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.columns import (
    Bytes,
    Flags,
    HeaderLines,
    Ints,
    Positions,
    gather,
    nulls,
    pick,
    string_array,
    text_of,
    unescape,
)
from spark_stomp.arrow.exact import Area

_MOST_LAYOUTS = 64
_WORTHWHILE = 16
"""One more layout is looked for per so many frames: to look in vain costs as much as five exact frames."""

_SCANNED = 256 * 1024
"""Bytes searched for LFs at a time: flags for so many stay in the processor's cache."""

_LOOKED_AT = 16
_LEAST = 1024
"""Of each frame twice as many bytes as the longest of some heads, and these, are searched for LFs."""

_LF = 0x0A
_CR = 0x0D
_EMPTY_LINE = re.compile(rb"\n\n")
_NAME, _VALUE, _PARTS = 0, 1, 3  # a line's parts: the name with its colon, the value, the LF


class UniformHeaders:
    """The headers of frames with one layout; see :class:`spark_stomp.arrow.decode.Headers`."""

    def __init__(self, names: list[str], values: pa.Array, rows: int) -> None:
        """
        Args:
            names: the unescaped names of the layout.
            values: the unescaped values of all frames, row by row.
            rows: the number of frames.
        """
        self._names = names
        self._values = values
        self._rows = rows
        self._kept = [k for k, name in enumerate(names) if names.index(name) == k]
        self._columns: dict[str, pa.Array] = {}

    def column(self, name: str) -> pa.Array:
        if name not in self._names:
            return nulls(self._rows)
        if name not in self._columns:
            self._columns[name] = pick(self._values, self._names.index(name), len(self._names))
        return self._columns[name]

    def all_lines(self) -> HeaderLines:
        return self._lines(self._names, self._values)

    def first_lines(self) -> HeaderLines:
        if len(self._kept) == len(self._names):
            return self.all_lines()
        taken = np.arange(self._rows)[:, None] * len(self._names) + np.array(self._kept)
        values = self._values.take(pa.array(taken.reshape(-1)))
        return self._lines([self._names[k] for k in self._kept], values)

    def _lines(self, names: list[str], values: pa.Array) -> HeaderLines:
        offsets = np.arange(self._rows + 1, dtype=np.int32) * np.int32(len(names))
        return HeaderLines(offsets, _repeated(names, self._rows), values)


class Uniform(NamedTuple):
    """Some frames of one layout.

    Attributes:
        rows: which frames they are, ascending.
        headers: theirs.
        sizes: the sizes of their header areas.
    """

    rows: Ints
    headers: UniformHeaders
    sizes: Ints


def read_layouts(frames: Area, version: str) -> Iterator[Uniform]:
    """Read the frames that have one of the first few layouts; the exact path reads the others."""
    if version == "lenient":
        return  # names are folded there, and values stripped
    area = beginnings(frames)
    lf = line_feeds(area.octets)
    first = first_feeds(area, lf)
    left = np.arange(len(area))
    for _ in range(min(_MOST_LAYOUTS, 1 + len(area) // _WORTHWHILE)):
        if not left.size:
            return
        found = uniform_headers(area.subset(left), lf, first[left], version)
        if found is None:
            left = left[1:]
        else:
            yield found._replace(rows=left[found.rows])
            left = np.delete(left, found.rows)


def uniform_headers(area: Area, lf: Positions, first: Ints, version: str) -> Uniform | None:
    """Read those frames that have the layout of the first one; None if that needs the exact path.

    Args:
        area: the beginnings of the frames.
        lf: the positions of all LFs of its buffer.
        first: for each frame the index in ``lf`` of its first LF.
        version: the STOMP version they came by.
    """
    raw_names = _layout(area, lf, int(first[0]))
    if not raw_names:
        return None
    widths = np.array([len(name) for name in raw_names], np.int32)
    rows = _as_many_lines(area, lf, first, len(widths))
    bounds = _bounds(_feeds(lf, first[rows], len(widths) + 2), widths)
    rows, bounds = _where(rows, bounds, _fits(bounds))
    parts = _parts(area, bounds)
    same = _same_names(parts, b"".join(raw_names), len(rows))
    if not same.all():
        rows, bounds = _where(rows, bounds, same)
        parts = _parts(area, bounds)
    values = pick(parts, _VALUE, _PARTS)
    if version == "1.2" and (odd := _with_cr(values)).size:
        keep = np.ones(len(rows), bool)
        keep[odd // len(widths)] = False
        if not keep.any():
            return None
        rows, bounds = _where(rows, bounds, keep)
        values = pick(_parts(area, bounds), _VALUE, _PARTS)
    names = pa.array([name[:-1].decode() for name in raw_names], pa.string())
    if version != "1.0":
        names, values = unescape(names), unescape(values)
    sizes = bounds[:, -1, -1].astype(np.int64) + 2 - area.starts[rows]
    return Uniform(rows, UniformHeaders(names.to_pylist(), values, len(rows)), sizes)


def _with_cr(values: pa.Array) -> Ints:
    """The values with a CR, which belongs to the end of a line there (STOMP 1.2, "EOL")."""
    text, offsets = text_of(values)
    # Mostly all bytes are above the controls, and then nothing else has to be searched.
    if text.min(initial=_CR + 1) > _CR:
        return np.empty(0, np.int64)
    return np.searchsorted(offsets, np.flatnonzero(text == _CR), side="right") - 1


def _where(rows: Ints, bounds: Positions, keep: Flags) -> tuple[Ints, Positions]:
    return (rows, bounds) if keep.all() else (rows[keep], bounds[keep])


def _layout(area: Area, lf: Positions, first: int) -> list[bytes] | None:
    """The first frame's names as on the wire, each with its colon; None if it needs the exact path."""
    feeds = lf[first : int(np.searchsorted(lf, lf.dtype.type(area.stops[0])))]
    empty = np.flatnonzero(np.diff(feeds) == 1)
    if not empty.size:
        return None
    names = []
    for before, after in pairwise(feeds[: empty[0] + 1].tolist()):
        name, colon, _ = area.octets[before + 1 : after].tobytes().partition(b":")
        if not colon:
            return None
        names.append(name + colon)
    return names


def _as_many_lines(area: Area, lf: Positions, first: Ints, count: int) -> Ints:
    """The frames with so many header lines."""
    known = int(np.searchsorted(first, len(lf) - count - 1))
    last = first[:known] + count + 1
    ends = lf[last]
    return np.flatnonzero((ends - lf[last - 1] == 1) & (ends < area.stops[:known]))


def _feeds(lf: Positions, first: Ints, count: int) -> Positions:
    """The first ``count`` LFs of each frame, a row each; a view if all frames have equally many LFs."""
    step = int(first[1] - first[0]) if len(first) > 1 else count
    if step >= count and np.array_equal(first, first[0] + step * np.arange(len(first))):
        shape, strides = (len(first), count), (step * lf.itemsize, lf.itemsize)
        return np.lib.stride_tricks.as_strided(lf[int(first[0]) :], shape, strides, writeable=False)
    gathered: Positions = lf[first[:, None] + np.arange(count)]
    return gathered


def _bounds(feeds: Positions, widths: Positions) -> Positions:
    """For each line of each frame: where its name begins, where its value begins and where its LF is."""
    bounds = np.empty((len(feeds), len(widths), _PARTS), np.int32)
    np.add(feeds[:, :-2], 1, out=bounds[:, :, 0])
    np.add(bounds[:, :, 0], widths, out=bounds[:, :, 1])
    bounds[:, :, 2] = feeds[:, 1:-1]
    return bounds


def _fits(bounds: Positions) -> Flags:
    """Which frames have room for the names in their lines."""
    rising = bounds.reshape(-1)
    if (rising[:-1] <= rising[1:]).all():  # then it is true of every frame; testing each frame is much slower
        return np.ones(len(bounds), bool)
    names, values, stops = bounds[:, :, 0], bounds[:, :, 1], bounds[:, :, 2]
    # The start of a value beyond 2 GiB has become a negative number.
    in_order: Flags = (names <= values) & (values <= stops)
    return np.asarray(in_order.all(axis=1))


def _parts(area: Area, bounds: Positions) -> pa.Array:
    """The parts of all lines in place."""
    return string_array(pa.string(), bounds.reshape(-1), area.buffer)


def _same_names(parts: pa.Array, expected: bytes, rows: int) -> Flags:
    """Which rows have the names expected; all of them have names of the same lengths."""
    text: Bytes = text_of(pick(parts, _NAME, _PARTS))[0]
    if pa.py_buffer(text).equals(pa.py_buffer(expected * rows)):  # faster than row by row
        return np.ones(rows, bool)
    same: Flags = (text.reshape(rows, -1) == np.frombuffer(expected, np.uint8)).all(axis=1)
    return same


def _repeated(names: list[str], rows: int) -> pa.Array:
    """The names, once for each row."""
    encoded = [name.encode() for name in names]
    text = b"".join(encoded) * rows
    lengths = np.array([len(name) for name in encoded], np.int32)
    offsets = np.zeros(rows * len(names) + 1, np.int32)
    np.cumsum(np.frombuffer(lengths.tobytes() * rows, np.int32), out=offsets[1:])
    return string_array(pa.string(), offsets, pa.py_buffer(text))


# --- where lines end


def line_feeds(octets: Bytes) -> Positions:
    """The positions of all LFs."""
    found = [np.empty(0, np.int32)]
    for begin in range(0, len(octets), _SCANNED):
        here = np.flatnonzero(octets[begin : begin + _SCANNED] == _LF)
        found.append(np.add(here, begin, dtype=np.int32, casting="unsafe"))
    return np.concatenate(found)


def first_feeds(area: Area, lf: Positions) -> Ints:
    """For each stretch the index of its first LF among the positions of all LFs of the buffer."""
    starts = area.starts.astype(lf.dtype)  # of one type, otherwise numpy converts all positions
    guessed = _equally_far_apart(starts, lf)
    return np.searchsorted(lf, starts) if guessed is None else guessed


def _equally_far_apart(starts: Positions, lf: Positions) -> Ints | None:
    """The same without a search, if all are as far apart as the first two; None if they are not."""
    first, second = np.searchsorted(lf, starts[:2]).tolist() if len(starts) > 1 else (0, 0)
    step = second - first
    found = lf[first::step][: len(starts)] if step else lf[:0]
    if len(found) < len(starts) or not (starts <= found).all():
        return None
    before = lf[second - 1 :: step][: len(starts) - 1]
    return np.arange(first, first + step * len(starts), step) if (before < starts[1:]).all() else None


def beginnings(area: Area) -> Area:
    """The beginnings of the frames, side by side: long enough for most header areas, without long bodies.

    Short frames stay where they are.
    """
    longest = int((area.stops - area.starts).max())
    if longest <= _LEAST:
        return area
    some = np.linspace(0, len(area) - 1, min(len(area), _LOOKED_AT), dtype=np.int64)
    heads = [_head_size(area, int(area.starts[row]), int(area.stops[row])) for row in some]
    most = 2 * max(heads) + _LEAST
    if longest <= most:
        return area
    stops = np.minimum(area.stops, area.starts + most)
    text, offsets = text_of(gather(pa.binary(), area.buffer, area.starts, stops))
    bounds = offsets.astype(np.int64)
    return Area(text, pa.py_buffer(text), bounds[:-1], bounds[1:])


def _head_size(area: Area, start: int, stop: int) -> int:
    found = _EMPTY_LINE.search(area.octets.data, start, stop)
    return found.end() - start if found else 0
