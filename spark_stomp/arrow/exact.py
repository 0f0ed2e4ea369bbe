"""Headers and bodies of odd frames, one by one, by the frame decoder itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.headers import HeaderLines
from spark_stomp.arrow.heads import Area
from spark_stomp.errors import FrameSyntaxError
from spark_stomp.protocol import Frame, FrameDecoder, Limits

__all__ = ["ExactHeaders", "exact_frames"]

_ANY = 2**31
_NO_LIMITS = Limits(
    max_command=_ANY, max_header_line=_ANY, max_headers=_ANY, max_body=_ANY, max_frame=_ANY
)  # the scanner has applied the limits of the connection


def exact_frames(area: Area, version: str) -> list[Frame]:
    """The frames of an area, decoded.

    Raises:
        ProtocolError: a frame is malformed or incomplete, which the scanner excludes.
    """
    decoder = FrameDecoder(version, _NO_LIMITS)
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
    """The headers of decoded frames; see :class:`spark_stomp.arrow.headers.Headers`."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames = frames

    def column(self, name: str) -> pa.Array:
        return pa.array([frame.get(name) for frame in self._frames], pa.string())

    def all_lines(self) -> HeaderLines:
        return _lines([frame.headers for frame in self._frames])

    def first_lines(self) -> HeaderLines:
        return _lines([_without_repeats(frame.headers) for frame in self._frames])


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
