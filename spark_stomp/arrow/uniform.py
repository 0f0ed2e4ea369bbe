"""Headers of frames that have the same header names in the same order.

One producer behind one broker sends such frames, and they are much cheaper to read than a mixture: all names
are compared as one piece of memory and written as copies of the first frame's; header k of all frames is one
strided pick. Escaped and repeated names cost nothing: they are resolved once, in the first frame.
"""

from __future__ import annotations

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
    nulls,
    pick,
    string_array,
    text_of,
)
from spark_stomp.arrow.exact_path import ExactPathRules
from spark_stomp.arrow.heads import Area

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
    """Frames of one layout among others.

    Attributes:
        rows: which frames they are, ascending.
        headers: theirs.
        ends: where their header areas end.
    """

    rows: Ints
    headers: UniformHeaders
    ends: Ints


def uniform_headers(area: Area, lf: Positions, first: Ints, rules: ExactPathRules) -> Uniform | None:
    """Read the headers of those frames that have the layout of the first one.

    Args:
        area: where the frames or their header areas lie.
        lf: the positions of all LFs of its buffer.
        first: for each frame the index in ``lf`` of its first LF.

    Returns:
        What was read, at least the first frame; None if that has no header, or if one of the frames needs
        the exact path.
    """
    raw_names = _layout(area, lf, int(first[0]), rules)
    if not raw_names:
        return None
    widths = np.array([len(name) for name in raw_names], np.int32)
    candidates = int(np.searchsorted(first, len(lf) - len(widths) - 1))
    feeds = _feeds(lf, first[:candidates], len(widths) + 2)
    bounds = _bounds(feeds, widths)
    rows, bounds = _where(np.arange(candidates), bounds, _fits(feeds, bounds, area.stops[:candidates]))
    parts = _parts(area, bounds)
    same = _same_names(parts, b"".join(raw_names), len(rows))
    if not same.all():
        rows, bounds = _where(rows, bounds, same)
        parts = _parts(area, bounds)
    values = pick(parts, _VALUE, _PARTS)
    if rules.values_need_exact(values):
        return None
    names = rules.unescaped(pa.array([name[:-1].decode() for name in raw_names], pa.string())).to_pylist()
    headers = UniformHeaders(names, rules.unescaped(values), len(rows))
    return Uniform(rows, headers, bounds[:, -1, -1].astype(np.int64) + 2)


def _where(rows: Ints, bounds: Positions, keep: Flags) -> tuple[Ints, Positions]:
    return (rows, bounds) if keep.all() else (rows[keep], bounds[keep])


def _layout(area: Area, lf: Positions, first: int, rules: ExactPathRules) -> list[bytes] | None:
    """The first frame's names as on the wire, each with its colon; None if the frame needs the exact path."""
    feeds = lf[first : int(np.searchsorted(lf, lf.dtype.type(area.stops[0])))]
    empty = np.flatnonzero(np.diff(feeds) == 1)
    if not empty.size:
        return None
    bounds = feeds[: empty[0] + 1].tolist()
    names = []
    for before, after in pairwise(bounds):
        name, colon, _ = area.octets[before + 1 : after].tobytes().partition(b":")
        if not colon or rules.name_needs_exact(name):
            return None
        names.append(name + colon)
    return names


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


def _fits(feeds: Positions, bounds: Positions, frame_stops: Ints) -> Flags:
    """Which frames have room for the names in their lines, and an empty line before they end."""
    ends = feeds[:, -1]
    fit: Flags = (ends - feeds[:, -2] == 1) & (ends < frame_stops)
    rising = bounds.reshape(-1)
    if (rising[:-1] <= rising[1:]).all():  # then it is true of every frame; testing each frame is much slower
        return fit
    names, values, stops = bounds[:, :, 0], bounds[:, :, 1], bounds[:, :, 2]
    # The start of a value beyond 2 GiB has become a negative number.
    return fit & ((names <= values) & (values <= stops)).all(axis=1)


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
