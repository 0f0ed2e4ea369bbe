"""The exact path: frames decoded one by one, for what the fast path does not read, and malformed messages.

The scanner has accepted every frame, or said why it is malformed, so nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.columns import HeaderLines
from spark_stomp.arrow.heads import Area
from spark_stomp.errors import FrameSyntaxError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import Frame, FrameDecoder, Limits, read_malformed


def exact_frames(area: Area, version: str) -> list[Frame]:
    """The frames of an area, decoded one by one.

    Raises:
        ProtocolError: a frame is malformed or incomplete, which the scanner excludes.
    """
    decoder = FrameDecoder(version, Limits.none())
    view = area.octets.data
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
    """A batch of malformed frames: the headers that are readable, and the whole frame as body."""

    def __init__(self, batch: FrameBatch) -> None:
        data = bytes(batch.data)
        ends = [int(end) for end in batch.ends]
        raw = [data[begin:end].lstrip(b"\n") for begin, end in zip([0, *ends], ends, strict=False)]
        super().__init__([Frame("MESSAGE", read_malformed(one, batch.version).headers, one) for one in raw])

    def bodies(self) -> pa.Array:
        """The frames from their commands to their NULs."""
        return pa.array([frame.body for frame in self._frames], pa.binary())

    def texts(self) -> pa.Array:
        """The same as text; what is not UTF-8 is replaced by U+FFFD."""
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
