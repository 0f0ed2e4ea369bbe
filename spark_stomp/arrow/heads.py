"""Where the frames of a batch and their lines lie."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.columns import Bytes, Ints, Positions, gather, text_of
from spark_stomp.frame_batch import FrameBatch

_LF = 0x0A
_LAST_LEADING = 0x20
_SKIP_ROUNDS = 32
_EMPTY_LINE = re.compile(rb"\n\n")
_LEADING = re.compile(rb"[\r\n\x00 ]*")

_SCANNED = 256 * 1024
"""Bytes searched for LFs at a time: flags for so many stay in the processor's cache."""

_LOOKED_AT = 16
_LEAST = 1024
"""Of each frame twice as many bytes as the longest of some heads, and these, are searched for LFs."""


@dataclass(frozen=True, slots=True)
class Area:
    """Stretches of a buffer: stretch i is ``octets[starts[i]:stops[i]]``. They ascend and do not overlap.

    They are frames from the command up to the NUL, or the beginnings of such.
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
