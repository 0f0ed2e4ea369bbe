"""Where the header areas and the bodies of a batch's frames lie.

A header area ends with the first empty line. Here that is an LF directly after an LF. If a CR may end a line
too (STOMP 1.2, "EOL"; the lenient dialect), areas with a CR take the exact path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_stomp.arrow.columns import Bytes, Ints, Positions, gather, pieces, text_of
from spark_stomp.framebatch import FrameBatch

NO_END = -1
"""Stands for the end of a header area that has no LF directly after an LF."""

_LF = 0x0A
_LAST_LEADING = 0x20
_SKIP_ROUNDS = 32
_LEADING = re.compile(rb"[\r\n\x00 ]*")

_SCANNED = 256 * 1024
"""Bytes searched for LFs at a time: flags for so many stay in the processor's cache."""

_SCAN_MEAN = 2048
"""Bytes per frame above which finding each header's end is cheaper than finding every LF of the bodies."""

_SCAN_TOTAL = 16 * 2**20
"""Bytes of a batch above which its LFs are counted first: their positions could take too much memory."""


@dataclass(frozen=True, slots=True)
class Area:
    """Stretches of a buffer: stretch i is ``octets[starts[i]:stops[i]]``. They ascend and do not overlap.

    In a batch they are the frames, from the command up to the NUL; in a buffer made by :func:`compact` they
    are the header areas.
    """

    octets: Bytes
    buffer: pa.Buffer
    starts: Ints
    stops: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def subset(self, rows: Ints) -> Area:
        """The stretches with these ascending indices."""
        return Area(self.octets, self.buffer, self.starts[rows], self.stops[rows])


def area_of(batch: FrameBatch) -> Area:
    """The frames of a batch, without the EOLs (in the lenient dialect also NULs, blanks) before them."""
    octets = np.frombuffer(batch.data, np.uint8)
    ends = np.asarray(batch.ends, np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    _skip_leading(octets, starts)
    return Area(octets, pa.py_buffer(batch.data), starts, ends - 1)


def _skip_leading(octets: Bytes, starts: Ints) -> None:
    """Move the starts past the octets before the commands; no command begins with an octet up to 0x20."""
    starts += octets[starts] <= _LAST_LEADING  # the usual EOL after each frame: no need to pick out rows
    pending = np.flatnonzero(octets[starts] <= _LAST_LEADING)
    for _ in range(_SKIP_ROUNDS):
        if not pending.size:
            return
        starts[pending] += 1
        pending = pending[octets[starts[pending]] <= _LAST_LEADING]
    for row in pending.tolist():  # rare: many heart-beats in a row
        found = _LEADING.match(octets.data, int(starts[row]))
        starts[row] = found.end() if found else starts[row]


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


def lf_scan_pays(area: Area) -> bool:
    """Whether to find all LFs of the batch, rather than each header area's end first."""
    size = len(area.octets)
    if size > _SCAN_MEAN * len(area):
        return False
    return size <= _SCAN_TOTAL or 8 * int(np.count_nonzero(area.octets == _LF)) <= size


def ends_by_lf(area: Area, lf: Positions, first: Ints) -> Ints:
    """Where the header areas end, just after the empty line; :data:`NO_END` for one without.

    Args:
        lf: the positions of all LFs of the buffer.
        first: for each frame the index in ``lf`` of its first LF.
    """
    if not lf.size:
        return np.full(len(area), NO_END)
    empty = lf[np.flatnonzero(np.diff(lf) == 1) + 1]
    after_first = lf[np.minimum(first, len(lf) - 1)]
    found = np.searchsorted(empty, after_first, side="right")
    ends = np.append(empty, np.iinfo(np.int64).max)[found]
    return np.where(ends < area.stops, ends + 1, NO_END)


def ends_by_search(area: Area) -> Ints:
    """The same without the LFs: searches each frame up to its empty line only."""
    frames = pieces(pa.binary(), area.buffer, area.starts, area.stops)
    found = pc.find_substring(frames, b"\n\n").to_numpy(zero_copy_only=False)[::2]
    return np.where(found < 0, NO_END, area.starts + found + 2)


def compact(area: Area, ends: Ints) -> Area:
    """The header areas alone, copied side by side."""
    text, offsets = text_of(gather(pa.binary(), area.buffer, area.starts, ends))
    bounds = offsets.astype(np.int64)
    return Area(text, pa.py_buffer(text), bounds[:-1], bounds[1:])
