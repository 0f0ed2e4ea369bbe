"""The exact path: which frames the fast path leaves out, per protocol version, and how they are decoded.

The scanner has accepted every frame, so this is not about errors. It is about the few things that make a line
mean something else than its bytes between the LFs:

* A CR, if it may belong to the end of a line: STOMP 1.2 ("EOL") and the lenient dialect. In 1.0 and 1.1 it
  is data.
* In the lenient dialect: blanks at either end of a value, which are stripped, and names with anything but
  lower-case ASCII, which are folded. Any octet outside printable ASCII counts, to be safe.

Escapes (1.1 and 1.2) in values stay on the fast path: they are resolved in bulk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.columns import Bytes, Flags, HeaderLines, Ints, Positions, text_of, unescape
from spark_stomp.arrow.heads import Area
from spark_stomp.errors import FrameSyntaxError
from spark_stomp.protocol import Frame, FrameDecoder, Limits

_CR = 0x0D
_BACKSLASH = 0x5C

_NOT_PLAIN = np.ones(256, bool)
_NOT_PLAIN[0x21:0x7F] = False
_NOT_PLAIN_IN_NAME = _NOT_PLAIN.copy()
_NOT_PLAIN_IN_NAME[ord("A") : ord("Z") + 1] = True

_ANY = 2**31
_NO_LIMITS = Limits(
    max_command=_ANY, max_header_line=_ANY, max_headers=_ANY, max_body=_ANY, max_frame=_ANY
)  # the scanner has applied the limits of the connection


@dataclass(frozen=True, slots=True)
class ExactPathRules:
    """What needs the exact path in one protocol version. Names and values are taken as on the wire."""

    version: str

    @property
    def lenient(self) -> bool:
        return self.version == "lenient"

    @property
    def _escapes(self) -> bool:
        return self.version in ("1.1", "1.2")

    @property
    def _cr_ends_lines(self) -> bool:
        return self.version in ("1.2", "lenient")

    def unescaped(self, strings: pa.Array) -> pa.Array:
        """Names or values with their escapes resolved."""
        return unescape(strings) if self._escapes else strings

    def name_needs_exact(self, name: bytes) -> bool:
        """Whether a name needs the exact path."""
        if self.lenient:
            return bool(_NOT_PLAIN_IN_NAME[np.frombuffer(name, np.uint8)].any())
        return self._cr_ends_lines and b"\r" in name

    def values_need_exact(self, values: pa.Array) -> bool:
        """Whether any of the values needs the exact path."""
        if not self._cr_ends_lines:
            return False
        text, offsets = text_of(values)
        return _has_cr(text) or (self.lenient and bool(_bad_ends(text, offsets).any()))

    def cr_positions(self, heads: Bytes) -> Ints:
        """Where a buffer of header areas has a CR that sends its area to the exact path."""
        return np.flatnonzero(heads == _CR) if self._cr_ends_lines else np.empty(0, np.int64)

    def exact_lines(self, names: pa.Array, values: pa.Array) -> Ints:
        """The lines of mixed layouts that need the exact path; here escaped names need it too."""
        text, offsets = text_of(names)
        bad = np.zeros(len(names), bool)
        if self._escapes:
            bad[_elements(offsets, np.flatnonzero(text == _BACKSLASH))] = True
        if self.lenient:
            bad[_elements(offsets, np.flatnonzero(_NOT_PLAIN_IN_NAME[text]))] = True
            bad |= _bad_ends(*text_of(values))
        return np.flatnonzero(bad)


def _has_cr(text: Bytes) -> bool:
    lowest = text.min(initial=_CR + 1)  # mostly above all controls, and then nothing else has to be searched
    return bool(lowest == _CR or (lowest < _CR and (text == _CR).any()))


def _elements(offsets: Positions, positions: Ints) -> Ints:
    """The elements that hold these positions of the text."""
    return np.searchsorted(offsets, positions, side="right") - 1


def _bad_ends(text: Bytes, offsets: Positions) -> Flags:
    """For each value whether it begins or ends with anything but printable ASCII."""
    filled = np.flatnonzero(offsets[1:] > offsets[:-1])
    bad = np.zeros(len(offsets) - 1, bool)
    bad[filled] = _NOT_PLAIN[text[offsets[filled]]] | _NOT_PLAIN[text[offsets[filled + 1] - 1]]
    return bad


def exact_frames(area: Area, version: str) -> list[Frame]:
    """The frames of an area, decoded one by one.

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
    """The headers of decoded frames; see :class:`spark_stomp.arrow.decode.Headers`."""

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
