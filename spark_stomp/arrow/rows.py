"""The frames of a block with their headers read, each in the cheapest way that is right for it.

1. Frames of one layout are read together (:mod:`spark_stomp.arrow.uniform`), for a few layouts.
2. The rest is read as a mixture (:mod:`spark_stomp.arrow.mixed`).
3. What is odd (:mod:`spark_stomp.arrow.oddity`) goes to the frame decoder (:mod:`spark_stomp.arrow.exact`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_stomp.arrow import heads
from spark_stomp.arrow.exact import ExactHeaders, exact_frames
from spark_stomp.arrow.headers import HeaderLines, Headers, in_order
from spark_stomp.arrow.mixed import mixed_headers
from spark_stomp.arrow.oddity import ExactPathRules
from spark_stomp.arrow.strings import Ints, Positions, gather
from spark_stomp.arrow.uniform import uniform_headers
from spark_stomp.framebatch import FrameBatch

__all__ = ["Rows", "read_rows"]

_MOST_LAYOUTS = 4
"""So many layouts are read one after another before the rest is taken for a mixture."""

_WORTHWHILE = 0.2
"""And only as long as each is that of so large a share of the frames not yet read."""


@dataclass(frozen=True)
class _Part:
    """Some frames of a block, read in one way; ``ends`` is where their header areas end in the block."""

    rows: Ints
    headers: Headers
    ends: Ints


class Rows:
    """The headers and bodies of all frames of a block, in the block's order."""

    def __init__(self, area: heads.Area, parts: Sequence[_Part]) -> None:
        self._area = area
        self._parts = parts
        self._order = _order(parts)

    def column(self, name: str) -> pa.Array:
        """The first value of one header; null where it is absent."""
        columns = [part.headers.column(name) for part in self._parts]
        return columns[0] if self._order is None else pa.concat_arrays(columns).take(pa.array(self._order))

    def first_lines(self) -> HeaderLines:
        """All header lines without repeats."""
        return self._in_order(lambda part: part.headers.first_lines())

    def all_lines(self) -> HeaderLines:
        """All header lines."""
        return self._in_order(lambda part: part.headers.all_lines())

    def bodies(self) -> pa.Array:
        """The bodies' bytes."""
        ends = np.concatenate([part.ends for part in self._parts])
        if self._order is not None:
            ends = ends[self._order]
        return gather(pa.binary(), self._area.buffer, ends, self._area.stops)

    def _in_order(self, lines_of: Callable[[_Part], HeaderLines]) -> HeaderLines:
        lines = [lines_of(part) for part in self._parts]
        return lines[0] if self._order is None else in_order(lines, self._order)


def _order(parts: Sequence[_Part]) -> Ints | None:
    """For each frame its place in the parts put one after another; None where there is one part."""
    if len(parts) == 1:
        return None
    rows = np.concatenate([part.rows for part in parts])
    order = np.empty(len(rows), np.int64)
    order[rows] = np.arange(len(rows))
    return order


def read_rows(block: FrameBatch) -> Rows:
    """Read the headers of a block's frames, of which there must be one at least."""
    area, oddity = heads.area_of(block), ExactPathRules(block.version)
    parts = _in_place(area, oddity) if heads.lf_scan_pays(area) else _copied_out(area, oddity)
    return Rows(area, parts)


def _in_place(area: heads.Area, oddity: ExactPathRules) -> list[_Part]:
    """The header areas are read where they lie."""
    lf = heads.line_feeds(area.octets)
    first = heads.first_feeds(area, lf)
    parts = list(_by_layout(area, lf, first, oddity))
    rest = _rows_left(area, parts)
    if rest.size:
        ends = heads.ends_by_lf(area.subset(rest), lf, first[rest])
        parts.extend(_as_mixture(area, rest, ends, oddity))
    return parts


def _copied_out(area: heads.Area, oddity: ExactPathRules) -> list[_Part]:
    """The header areas are found, and copied side by side, before anything is read."""
    ends = heads.ends_by_search(area)
    plain = np.flatnonzero(ends != heads.NO_END)
    parts: list[_Part] = []
    if plain.size:
        compact = heads.compact(area.subset(plain), ends[plain])
        lf = heads.line_feeds(compact.octets)
        for part in _by_layout(compact, lf, heads.first_feeds(compact, lf), oddity):
            rows = plain[part.rows]
            parts.append(_Part(rows, part.headers, ends[rows]))
    rest = _rows_left(area, parts)
    if rest.size:
        parts.extend(_as_mixture(area, rest, ends[rest], oddity))
    return parts


def _rows_left(area: heads.Area, parts: Sequence[_Part]) -> Ints:
    """The frames that are in no part yet."""
    left = np.ones(len(area), bool)
    for part in parts:
        left[part.rows] = False
    return np.flatnonzero(left)


def _by_layout(area: heads.Area, lf: Positions, first: Ints, oddity: ExactPathRules) -> Iterator[_Part]:
    """The commonest layouts, each with its frames, as long as that is worth its while."""
    rest = np.arange(len(area))
    for _ in range(_MOST_LAYOUTS):
        found = uniform_headers(area.subset(rest), lf, first[rest], oddity)
        if found is None:
            return
        yield _Part(rest[found.rows], found.headers, found.ends)
        if len(found.rows) == len(rest) or len(found.rows) < _WORTHWHILE * len(rest):
            return
        rest = np.delete(rest, found.rows)


def _as_mixture(area: heads.Area, rows: Ints, ends: Ints, oddity: ExactPathRules) -> Iterator[_Part]:
    """Frames of any layout: the plain ones in one part, the odd ones in another.

    Args:
        rows: which frames of the area.
        ends: where their header areas end.
    """
    plain = np.flatnonzero(ends != heads.NO_END)
    while plain.size:  # three rounds at most: the odd areas are found first, then the odd lines
        headers, odd = mixed_headers(heads.compact(area.subset(rows[plain]), ends[plain]), oddity)
        if headers is not None:
            yield _Part(rows[plain], headers, ends[plain])
            break
        plain = np.delete(plain, odd)
    rest = np.delete(rows, plain)
    if rest.size:
        yield _one_by_one(area.subset(rest), rest, oddity.version)


def _one_by_one(area: heads.Area, rows: Ints, version: str) -> _Part:
    frames = exact_frames(area, version)
    return _Part(rows, ExactHeaders(frames), area.stops - np.array([len(frame.body) for frame in frames]))
