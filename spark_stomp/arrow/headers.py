"""Reads the headers of raw frames: by the exact path one frame after another, by the fast path many together.

Both paths give the same rows; a property test compares them. The exact path is the reference. It also reads
malformed frames. Nothing is refused here, because the scanner has accepted each frame, or has said why it is
malformed. Positions have 32 bits; a frame batch has less than 2 GiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.columns import (
    Area,
    Bytes,
    Flags,
    HeaderLines,
    Ints,
    Positions,
    array_of,
    gather,
    is_text,
    nulls,
    pick,
    string_array,
    strings,
    text_of,
    unescape,
)
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import Frame, octet_headers, read_malformed, read_message
from spark_stomp.protocol.frames import is_utf8

# Only bytes up to this one may come before a command: EOLs, NULs and blanks. No command begins with one.
_LAST_LEADING = 0x20
# Bytes before the commands that numpy skips, one at a time in all frames; a regular expression skips the
# rest. Usually there is one EOL.
_SKIP_ROUNDS = 32
_LEADING = re.compile(rb"[\r\n\x00 ]*")


def area_of(batch: FrameBatch) -> Area:
    """The frames of a batch, each from its command to its NUL, exclusive.

    EOLs before them are left out, in the lenient dialect also NULs and blanks.
    """
    array = np.frombuffer(batch.data, np.uint8)
    ends = np.asarray(batch.ends, np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    _skip_leading(array, starts)
    return Area(array, pa.py_buffer(batch.data), starts, ends - 1)


def _skip_leading(array: Bytes, starts: Ints) -> None:
    """Move ``starts`` past the bytes before the commands."""
    starts += array[starts] <= _LAST_LEADING  # the usual EOL after each frame, for all rows at once
    pending = np.flatnonzero(array[starts] <= _LAST_LEADING)
    for _ in range(_SKIP_ROUNDS):
        if not pending.size:
            return
        starts[pending] += 1
        pending = pending[array[starts[pending]] <= _LAST_LEADING]
    for row in pending.tolist():  # rare: many heart-beats in a row
        found = _LEADING.match(array.data, int(starts[row]))
        starts[row] = found.end() if found else starts[row]


# --- the exact path


def exact_frames(area: Area, version: str) -> list[Frame]:
    """The frames of an area, decoded one by one.

    Raises:
        FrameSyntaxError: a frame is malformed or incomplete, which the scanner excludes.
    """
    view = area.array.data
    bounds = zip(area.starts.tolist(), area.stops.tolist(), strict=True)
    return [read_message(bytes(view[start : stop + 1]), version) for start, stop in bounds]


def not_text_headers(area: Area, version: str) -> dict[int, list[str]]:
    """By frame, the names of the headers whose value is not text; only of frames that have one."""
    view = area.array.data
    bounds = zip(area.starts.tolist(), area.stops.tolist(), strict=True)
    found = (octet_headers(bytes(view[start : stop + 1]), version) for start, stop in bounds)
    return {row: names for row, names in enumerate(found) if names}


class ExactHeaders:
    """The headers of decoded frames."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames = frames

    def column(self, name: str) -> pa.Array:
        """The first value of one header for each message; null if it is absent."""
        return strings(frame.get(name) for frame in self._frames)

    def all_lines(self) -> HeaderLines:
        """The lines as sent, repeats included."""
        return _lines([frame.headers for frame in self._frames])

    def first_lines(self) -> HeaderLines:
        """The lines without repeats: the first wins (STOMP 1.2, "Repeated Header Entries")."""
        return _lines([_without_repeats(frame.headers) for frame in self._frames])


class MalformedRows(ExactHeaders):
    """The rows of malformed frames: the headers that can be read, and the whole frame as body."""

    def __init__(self, batch: FrameBatch) -> None:
        data = bytes(batch.data)
        ends = [int(end) for end in batch.ends]
        raw = [data[begin:end].lstrip(b"\n") for begin, end in zip([0, *ends], ends, strict=False)]
        super().__init__([Frame("MESSAGE", read_malformed(one, batch.version).headers, one) for one in raw])
        self._reason = batch.malformed or ""

    def bodies(self) -> pa.Array:
        """The frames as bytes, from the command to the NUL, inclusive."""
        return strings((frame.body for frame in self._frames), pa.binary())

    def reasons(self) -> dict[int, str]:
        """Why they are malformed, by row."""
        return dict.fromkeys(range(len(self._frames)), self._reason)

    def texts(self) -> pa.Array:
        """The frames as text, from the command to the NUL. Bytes that are not UTF-8 become U+FFFD."""
        return strings(frame.body.decode(errors="replace") for frame in self._frames)


def _without_repeats(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    first: dict[str, str] = {}
    for name, value in headers:
        first.setdefault(name, value)
    return tuple(first.items())


def _lines(rows: Sequence[Sequence[tuple[str, str]]]) -> HeaderLines:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    names = [name for row in rows for name, _ in row]
    values = [value for row in rows for _, value in row]
    return HeaderLines(offsets, strings(names), strings(values))


# --- the fast path
#
# A layout is the names of a frame's headers in their order. One producer behind one broker usually sends
# frames of one layout. The fast path finds all LFs. The first frame gives the names. Frames with as many
# lines are candidates; their names are compared with the first frame's as one piece of memory. Then header k
# of all frames is every n-th value. Escaped and repeated names cost nothing, because they are resolved once,
# in the first frame. Of the frames that are left, the first gives the next layout, and so on.
#
# Left to the exact path, without a reason: frames with a line without a colon, or with a CR in a value under
# STOMP 1.2; all of the lenient dialect.
#
# It reads 1,900,000 frames a second on one core, with ten headers and bodies of 235 bytes, and 1,100,000 if
# two layouts alternate; the exact path decodes 480,000 and makes no columns (November 2026).

# Layouts read in one batch at most; frames of other layouts take the exact path.
_MOST_LAYOUTS = 64
# For each 16 frames of a batch, one more layout may be looked for. A look that finds none costs as much as
# five frames on the exact path (November 2026).
_WORTHWHILE = 16
# Bytes searched for LFs at a time. Their flags stay in the processor's cache. With this and two other
# changes, 10,000 frames took 11.0 instead of 12.3 ms (November 2026).
_SCANNED = 256 * 1024
# Only the beginning of a long frame is searched for LFs. Its size is twice the longest header area among 16
# frames of the batch, plus 1,024 bytes. A frame with a longer header area takes the exact path.
_LOOKED_AT = 16
_LEAST = 1024

_LF = 0x0A
_CR = 0x0D
_EMPTY_LINE = re.compile(rb"\n\n")
_NAME, _VALUE, _PARTS = 0, 1, 3  # a line's parts: the name with its colon, the value, the LF


class UniformHeaders:
    """The headers of frames with one layout, with the methods of :class:`ExactHeaders`."""

    def __init__(self, names: list[str], values: pa.Array, rows: int, not_text: Ints) -> None:
        """
        Args:
            names: the unescaped names of the layout.
            values: the unescaped values of all frames, frame by frame.
            rows: the number of frames.
            not_text: the indices of values that are not UTF-8 or have a NUL, ascending.
        """
        self._not_text = not_text
        self._names = names
        self._values = values
        self._rows = rows
        self._kept = [k for k, name in enumerate(names) if names.index(name) == k]
        self._columns: dict[str, pa.Array] = {}

    def not_text(self) -> dict[int, list[str]]:
        """As :func:`not_text_headers` finds them."""
        found: dict[int, list[str]] = {}
        for index in self._not_text.tolist():
            row, place = divmod(index, len(self._names))
            found.setdefault(row, []).append(self._names[place])
        return found

    def has(self, name: str) -> bool:
        """Whether the layout has a header with this name."""
        return name in self._names

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
        values = self._values.take(array_of(taken.reshape(-1)))
        return self._lines([self._names[k] for k in self._kept], values)

    def _lines(self, names: list[str], values: pa.Array) -> HeaderLines:
        offsets = np.arange(self._rows + 1, dtype=np.int32) * np.int32(len(names))
        return HeaderLines(offsets, _repeated(names, self._rows), values)


class Uniform(NamedTuple):
    """The frames of one layout.

    Attributes:
        alike: the indices of the frames, ascending.
        rows: those of them that do not need the exact path.
        headers: the headers of these.
        sizes: the sizes of their header areas, in bytes.
    """

    alike: Ints
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
    remaining = np.arange(len(area))
    for _ in range(min(_MOST_LAYOUTS, 1 + len(area) // _WORTHWHILE)):
        if not remaining.size:
            return
        found = uniform_headers(area.subset(remaining), lf, first[remaining], version)
        if found is None:
            remaining = remaining[1:]
        else:
            if found.rows.size:
                yield found._replace(rows=remaining[found.rows])
            remaining = np.delete(remaining, found.alike)


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
    alike, values = rows, pick(parts, _VALUE, _PARTS)
    if version == "1.2" and (with_cr := _with(values, _CR)).size:
        keep = np.ones(len(rows), bool)
        keep[with_cr // len(widths)] = False
        rows, bounds = _where(rows, bounds, keep)
        if not rows.size:
            return Uniform(alike, rows, UniformHeaders([], values[:0], 0, with_cr[:0]), rows)
        values = pick(_parts(area, bounds), _VALUE, _PARTS)
    values, not_text = _as_text(values)
    names = strings(name[:-1] for name in raw_names)
    if version != "1.0":
        names, values = unescape(names), unescape(values)
    sizes = bounds[:, -1, -1].astype(np.int64) + 2 - area.starts[rows]
    return Uniform(alike, rows, UniformHeaders(names.to_pylist(), values, len(rows), not_text), sizes)


def _with(values: pa.Array, octet: int) -> Ints:
    """The indices of values with this control character. In STOMP 1.2 a CR may belong to the EOL."""
    text, offsets = text_of(values)
    # Usually no byte is a control character. Then nothing has to be searched.
    if text.min(initial=octet + 1) > octet:
        return np.empty(0, np.int64)
    return np.searchsorted(offsets, np.flatnonzero(text == octet), side="right") - 1


def _as_text(values: pa.Array) -> tuple[pa.Array, Ints]:
    """The values, each octet of one that is no text as a character; and which are these."""
    text, offsets = text_of(values)
    not_text = _with(values, 0)
    if not is_text(values):
        foreign = np.unique(np.searchsorted(offsets, np.flatnonzero(text > 0x7F), side="right") - 1)
        raw = values.view(pa.binary()).take(array_of(foreign)).to_pylist()
        not_text = np.union1d(not_text, foreign[[not is_utf8(value) for value in raw]])
    if not not_text.size:
        return values, not_text
    not_text = np.unique(not_text)
    octets = values.view(pa.binary()).take(array_of(not_text)).to_pylist()
    taken = np.arange(len(values))
    taken[not_text] = np.arange(len(values), len(values) + len(not_text))
    characters = strings(value.decode("latin-1") for value in octets)
    return pa.concat_arrays([values, characters]).take(array_of(taken)), not_text


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
