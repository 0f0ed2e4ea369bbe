"""The exact path: frames decoded one by one. It is the reference for the headers and the body of a frame.

It reads the frames that the fast path (:mod:`spark_stomp.arrow.uniform`) leaves out, and malformed ones. The
scanner has accepted each frame, or has said why it is malformed, so nothing is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.columns import Bytes, HeaderLines, Ints
from spark_stomp.errors import FrameSyntaxError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import Frame, FrameDecoder, Limits, read_malformed

# Only bytes up to this one may come before a command: EOLs, NULs and blanks. No command begins with one.
_LAST_LEADING = 0x20
# Bytes before the commands that numpy skips, one at a time in all frames; a regular expression skips the
# rest. Usually there is one EOL. A judgement, not measured.
_SKIP_ROUNDS = 32
_LEADING = re.compile(rb"[\r\n\x00 ]*")


@dataclass(frozen=True, slots=True)
class Area:
    """Frames in a buffer, or their beginnings: frame i is ``array[starts[i]:stops[i]]``.

    A frame goes from its command to its NUL, exclusive. Frames ascend and do not overlap. ``array`` and
    ``buffer`` are the same memory.
    """

    array: Bytes
    buffer: pa.Buffer
    starts: Ints
    stops: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def subset(self, rows: Ints) -> Area:
        """The frames with these ascending indices."""
        return Area(self.array, self.buffer, self.starts[rows], self.stops[rows])


def area_of(batch: FrameBatch) -> Area:
    """The frames of a batch, without the EOLs before them (in the lenient dialect also NULs and blanks)."""
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


def exact_frames(area: Area, version: str) -> list[Frame]:
    """The frames of an area, decoded one by one.

    Raises:
        ProtocolError: a frame is malformed or incomplete, which the scanner excludes.
    """
    decoder = FrameDecoder(version, Limits.none())
    view = area.array.data
    frames: list[Frame] = []
    for start, stop in zip(area.starts.tolist(), area.stops.tolist(), strict=True):
        decoder.receive_data(bytes(view[start : stop + 1]))
        event = decoder.next_event()
        if not isinstance(event, Frame):
            raise FrameSyntaxError(f"a block holds an incomplete frame: {bytes(view[start : start + 64])!r}")
        frames.append(event)
    return frames


class ExactHeaders:
    """The headers of decoded frames; see :class:`spark_stomp.arrow.decode.Headers`."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames = frames

    def column(self, name: str) -> pa.Array:
        return pa.array([frame.get(name) for frame in self._frames], pa.string())

    def all_lines(self) -> HeaderLines:
        return _lines([frame.headers for frame in self._frames])

    def first_lines(self) -> HeaderLines:
        return _lines([_without_repeats(frame.headers) for frame in self._frames])


class MalformedRows(ExactHeaders):
    """The rows of malformed frames: the headers that can be read, and the whole frame as body."""

    def __init__(self, batch: FrameBatch) -> None:
        data = bytes(batch.data)
        ends = [int(end) for end in batch.ends]
        raw = [data[begin:end].lstrip(b"\n") for begin, end in zip([0, *ends], ends, strict=False)]
        super().__init__([Frame("MESSAGE", read_malformed(one, batch.version).headers, one) for one in raw])

    def bodies(self) -> pa.Array:
        """The frames as bytes, from the command to the NUL, inclusive."""
        return pa.array([frame.body for frame in self._frames], pa.binary())

    def texts(self) -> pa.Array:
        """The frames as text, from the command to the NUL. Bytes that are not UTF-8 become U+FFFD."""
        return pa.array([frame.body.decode(errors="replace") for frame in self._frames], pa.string())


def _without_repeats(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    first: dict[str, str] = {}
    for name, value in headers:
        first.setdefault(name, value)
    return tuple(first.items())


def _lines(rows: Sequence[Sequence[tuple[str, str]]]) -> HeaderLines:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    names = [name for row in rows for name, _ in row]
    values = [value for row in rows for _, value in row]
    return HeaderLines(offsets, pa.array(names, pa.string()), pa.array(values, pa.string()))
