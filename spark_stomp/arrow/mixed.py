"""Headers of frames with any mixture of names.

Works on header areas copied side by side. The first colon after a line's start separates its name from its
value. Arrow's dictionary encoding finds which names the lines have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_stomp.arrow.columns import HeaderLines, Ints, nulls, pick, string_array
from spark_stomp.arrow.exact_path import ExactPathRules
from spark_stomp.arrow.heads import Area

_LF = 0x0A
_COLON = 0x3A
_NAME, _VALUE, _PARTS = 0, 2, 4  # a line's parts: the name, the colon, the value, the LF

_COUNT_BY_TABLE = 64
"""Up to so many names, repeats are found in a table of rows by names, which is faster than sorting."""


class MixedHeaders:
    """The headers of frames with different layouts; see :class:`spark_stomp.arrow.decode.Headers`."""

    def __init__(self, lines: _Lines, rules: ExactPathRules) -> None:
        self._lines = lines
        self._rules = rules
        self._columns: dict[str, pa.Array] = {}

    @cached_property
    def _values(self) -> pa.Array:
        return self._rules.unescaped(self._lines.values)

    def column(self, name: str) -> pa.Array:
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return self._columns[name]

    def _column(self, name: str) -> pa.Array:
        lines = self._lines
        rows = len(lines.offsets) - 1
        if name not in lines.dictionary:
            return nulls(rows)
        found = np.flatnonzero(lines.codes == lines.dictionary.index(name))
        if len(found) == rows:
            return self._values.take(pa.array(found))
        taken = np.zeros(rows, np.int64)
        absent = np.ones(rows, bool)
        taken[lines.row_of[found]] = found
        absent[lines.row_of[found]] = False
        return self._values.take(pa.array(taken, mask=absent))

    def all_lines(self) -> HeaderLines:
        return HeaderLines(self._lines.offsets.astype(np.int32), self._lines.names, self._values)

    def first_lines(self) -> HeaderLines:
        return self.all_lines()


@dataclass(frozen=True)
class _Lines:
    """The header lines of all frames in order, without repeats; the values as on the wire."""

    offsets: Ints
    names: pa.Array
    values: pa.Array
    row_of: Ints
    codes: npt.NDArray[np.int32]
    dictionary: list[str]


class _Bounds(NamedTuple):
    """Where header lines lie: for each frame its first line, for each line its frame and its bounds."""

    offsets: Ints
    row_of: Ints
    starts: Ints
    colons: Ints
    stops: Ints
    broken: Ints  # lines without a colon


def mixed_headers(heads: Area, rules: ExactPathRules) -> tuple[MixedHeaders | None, Ints]:
    """Read the headers of frames whose header areas lie side by side.

    Returns:
        The headers, and the rows that need the exact path. If there are such rows, the headers are None: call
        again without them.
    """
    bounds = _bounds(heads)
    exact = np.zeros(len(heads), bool)
    exact[bounds.row_of[bounds.broken]] = True
    exact[np.searchsorted(heads.starts, rules.cr_positions(heads.octets), side="right") - 1] = True
    if exact.any():
        return None, np.flatnonzero(exact)
    parts = _parts(heads, bounds)
    names, values = pick(parts, _NAME, _PARTS), pick(parts, _VALUE, _PARTS)
    exact[bounds.row_of[rules.exact_lines(names, values)]] = True
    encoded = names.dictionary_encode()
    codes, dictionary = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()
    exact[_rows_with_repeats(bounds.row_of, codes, len(heads), len(dictionary))] = True
    if exact.any():
        return None, np.flatnonzero(exact)
    lines = _Lines(bounds.offsets, names, values, bounds.row_of, codes, dictionary)
    return MixedHeaders(lines, rules), np.empty(0, np.int64)


def _bounds(heads: Area) -> _Bounds:
    octets = heads.octets
    marks = np.flatnonzero((octets == _LF) | (octets == _COLON))
    feeds = np.flatnonzero(octets[marks] == _LF)
    positions = marks[feeds]
    # An area has one LF after its command, one after each header and one for its empty line.
    feed_bases = np.searchsorted(positions, np.append(heads.starts, heads.stops[-1:]))
    counts = np.diff(feed_bases) - 2
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    row_of = np.repeat(np.arange(len(heads)), counts)
    before = np.arange(len(row_of)) + 2 * row_of  # the LF before each line: two more per area than lines
    after_start = feeds[before] + 1  # the first mark in the line: its colon, unless it has none
    stops = positions[before + 1]
    colons = marks[after_start]
    return _Bounds(offsets, row_of, positions[before] + 1, colons, stops, np.flatnonzero(colons >= stops))


def _parts(heads: Area, bounds: _Bounds) -> pa.Array:
    """The parts of all lines in place."""
    offsets = np.empty((len(bounds.row_of), _PARTS), np.int32)
    offsets[:, 0] = bounds.starts
    offsets[:, 1] = bounds.colons
    offsets[:, 2] = bounds.colons + 1
    offsets[:, 3] = bounds.stops
    if not len(offsets):
        return pa.array([], pa.string())
    return string_array(pa.string(), offsets.reshape(-1), heads.buffer)


def _rows_with_repeats(row_of: Ints, codes: npt.NDArray[np.int32], rows: int, names: int) -> Ints:
    """The rows that have a name more than once."""
    keys = row_of * names + codes
    if names <= _COUNT_BY_TABLE:
        return np.flatnonzero(
            np.bincount(keys, minlength=rows * names).reshape(rows, -1).max(axis=1, initial=0) > 1
        )
    keys.sort()
    repeated: Ints = keys[1:][keys[1:] == keys[:-1]] // names
    return repeated
