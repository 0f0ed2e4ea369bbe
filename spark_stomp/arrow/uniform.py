"""The fast path: reads the headers of all frames of one layout together.

A layout is the names of a frame's headers in their order. One producer behind one broker usually sends frames
of one layout.

Goal: decode many times as fast as a broker delivers. The fast path reads 1,900,000 frames a second on one
core, with ten headers and bodies of 235 bytes, and 1,100,000 if two layouts alternate. The frame decoder
of the exact path reads 480,000 a second and makes no columns (tests/benchmarks/RESULTS.md, November
2026).

Plan: find all LFs. The first frame gives the names. Frames with as many lines are candidates; their names are
compared with the first frame's as one piece of memory. Then header k of all frames is every n-th value.
Escaped and repeated names cost nothing, because they are resolved once, in the first frame. Of the
frames that are left, the first gives the next layout, and so on.

Invariants:

- :mod:`spark_stomp.arrow.exact` is the reference. Both give the same rows; a property test compares them.
- Frames that are not plain are left to the exact path, without a reason: a line without a colon, a CR in a
  value under STOMP 1.2, all of the lenient dialect. Nothing is refused here.
- Positions have 32 bits; a frame batch has less than 2 GiB.

Tried and left:

- A path for mixtures of layouts, which looked up the name of each line. Reading 2 to 8 layouts one after
  another is faster; with 16 layouts it takes 0.5 us more for each frame (November 2026).
- Searching each frame for the end of its header area first. Now only the beginnings of long frames are copied
  side by side (:func:`beginnings`), and LFs are searched there.
- Flags for the LFs of a whole block: they do not fit into the processor's cache.
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

# Layouts read in one batch at most; frames of other layouts take the exact path. A judgement, not measured.
_MOST_LAYOUTS = 64
# For each 16 frames of a batch, one more layout may be looked for. A look that finds none costs as much as
# five frames on the exact path (November 2026).
_WORTHWHILE = 16
# Bytes searched for LFs at a time. Their flags stay in the processor's cache. With this and two other
# changes, 10,000 frames took 11.0 instead of 12.3 ms (November 2026).
_SCANNED = 256 * 1024
# Only the beginning of a long frame is searched for LFs. Its size is twice the longest header area among 16
# frames of the batch, plus 1,024 bytes. A frame with a longer header area takes the exact path. A judgement,
# not measured.
_LOOKED_AT = 16
_LEAST = 1024

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
            values: the unescaped values of all frames, frame by frame.
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
    """The frames of one layout.

    Attributes:
        rows: the indices of the frames, ascending.
        headers: their headers.
        sizes: the sizes of their header areas, in bytes.
    """

    rows: Ints
    headers: UniformHeaders
    sizes: Ints


def read_layouts(frames: Area, version: str) -> Iterator[Uniform]:
    """Read the frames one layout after another. Frames that are left out take the exact path.

    Args:
        frames: the frames of a batch.
        version: the STOMP version by which they came.
    """
    if version == "lenient":
        return  # the lenient dialect folds names and strips values
    area = beginnings(frames)
    lf = line_feeds(area.array)
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
    """Read the frames that have the layout of the first one; None if the first one needs the exact path.

    Args:
        area: the beginnings of the frames.
        lf: the positions of all LFs of the area's buffer.
        first: for each frame the index in ``lf`` of its first LF.
        version: the STOMP version by which they came.
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
    """The indices of values with a CR, which may belong to the EOL in STOMP 1.2 ("Augmented BNF")."""
    text, offsets = text_of(values)
    # Usually no byte is a control character. Then nothing has to be searched.
    if text.min(initial=_CR + 1) > _CR:
        return np.empty(0, np.int64)
    return np.searchsorted(offsets, np.flatnonzero(text == _CR), side="right") - 1


def _where(rows: Ints, bounds: Positions, keep: Flags) -> tuple[Ints, Positions]:
    return (rows, bounds) if keep.all() else (rows[keep], bounds[keep])


def _layout(area: Area, lf: Positions, first: int) -> list[bytes] | None:
    """The names of the first frame, as on the wire, each with its colon; None if it needs the exact path."""
    feeds = lf[first : int(np.searchsorted(lf, lf.dtype.type(area.stops[0])))]
    empty = np.flatnonzero(np.diff(feeds) == 1)
    if not empty.size:
        return None
    names = []
    for before, after in pairwise(feeds[: empty[0] + 1].tolist()):
        name, colon, _ = area.array[before + 1 : after].tobytes().partition(b":")
        if not colon:
            return None
        names.append(name + colon)
    return names


def _as_many_lines(area: Area, lf: Positions, first: Ints, count: int) -> Ints:
    """The indices of the frames with ``count`` header lines."""
    known = int(np.searchsorted(first, len(lf) - count - 1))
    last = first[:known] + count + 1
    ends = lf[last]
    return np.flatnonzero((ends - lf[last - 1] == 1) & (ends < area.stops[:known]))


def _feeds(lf: Positions, first: Ints, count: int) -> Positions:
    """The positions of the first ``count`` LFs of each frame, a row for each frame.

    Not copied if all frames have the same number of LFs.
    """
    step = int(first[1] - first[0]) if len(first) > 1 else count
    if step >= count and np.array_equal(first, first[0] + step * np.arange(len(first))):
        shape, strides = (len(first), count), (step * lf.itemsize, lf.itemsize)
        return np.lib.stride_tricks.as_strided(lf[int(first[0]) :], shape, strides, writeable=False)
    gathered: Positions = lf[first[:, None] + np.arange(count)]
    return gathered


def _bounds(feeds: Positions, widths: Positions) -> Positions:
    """For each line of each frame: the positions of its name, of its value and of its LF."""
    bounds = np.empty((len(feeds), len(widths), _PARTS), np.int32)
    np.add(feeds[:, :-2], 1, out=bounds[:, :, 0])
    np.add(bounds[:, :, 0], widths, out=bounds[:, :, 1])
    bounds[:, :, 2] = feeds[:, 1:-1]
    return bounds


def _fits(bounds: Positions) -> Flags:
    """Flags of the frames whose lines are long enough for the names."""
    rising = bounds.reshape(-1)
    if (rising[:-1] <= rising[1:]).all():  # then every frame fits; testing each one is much slower
        return np.ones(len(bounds), bool)
    names, values, stops = bounds[:, :, 0], bounds[:, :, 1], bounds[:, :, 2]
    # Positions have 32 bits. That of a value beyond 2 GiB overflows: it is negative, so it is not in order.
    in_order: Flags = (names <= values) & (values <= stops)
    return np.asarray(in_order.all(axis=1))


def _parts(area: Area, bounds: Positions) -> pa.Array:
    """The parts of all lines, not copied: name, value, LF, name, ..."""
    return string_array(pa.string(), bounds.reshape(-1), area.buffer)


def _same_names(parts: pa.Array, expected: bytes, rows: int) -> Flags:
    """Flags of the rows with the expected names. All names have the expected lengths already."""
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


def line_feeds(array: Bytes) -> Positions:
    """The positions of all LFs in a buffer."""
    found = [np.empty(0, np.int32)]
    for begin in range(0, len(array), _SCANNED):
        here = np.flatnonzero(array[begin : begin + _SCANNED] == _LF)
        found.append(np.add(here, begin, dtype=np.int32, casting="unsafe"))
    return np.concatenate(found)


def first_feeds(area: Area, lf: Positions) -> Ints:
    """For each frame, the index of its first LF among the positions of all LFs of the buffer."""
    starts = area.starts.astype(lf.dtype)  # the type of lf; otherwise numpy would convert all of lf
    guessed = _equally_far_apart(starts, lf)
    return np.searchsorted(lf, starts) if guessed is None else guessed


def _equally_far_apart(starts: Positions, lf: Positions) -> Ints | None:
    """The index of each frame's first LF, if all frames have as many LFs as the first one; else None.

    Verifying this is faster than a search for each frame.
    """
    first, second = np.searchsorted(lf, starts[:2]).tolist() if len(starts) > 1 else (0, 0)
    step = second - first
    found = lf[first::step][: len(starts)] if step else lf[:0]
    if len(found) < len(starts) or not (starts <= found).all():
        return None
    before = lf[second - 1 :: step][: len(starts) - 1]
    return np.arange(first, first + step * len(starts), step) if (before < starts[1:]).all() else None


def beginnings(area: Area) -> Area:
    """The beginnings of the frames, copied side by side: long enough for most header areas.

    Long bodies are not copied. If all frames are short, ``area`` itself is returned.
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
    """The bytes from ``start`` to the end of the first empty line; 0 if there is none."""
    found = _EMPTY_LINE.search(area.array.data, start, stop)
    return found.end() - start if found else 0
