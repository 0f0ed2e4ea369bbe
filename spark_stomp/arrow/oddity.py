"""What the vectorised decoder leaves to the exact one, per protocol version.

The scanner has accepted every frame, so nothing here is about errors: it is about the few things that make a
line mean something else than its bytes between the LFs.

* A CR, where it may belong to the end of a line: STOMP 1.2 ("EOL") and the lenient dialect. In 1.0 and 1.1 it
  is data.
* In the lenient dialect: blanks at either end of a value, which are stripped, and names with anything but
  lower-case ASCII, which are folded. Any octet outside the printable ones of ASCII counts, to be safe.

Escapes (1.1 and 1.2) are no oddity in values: they are resolved in bulk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_stomp.arrow.strings import Bytes, Ints, text_of, unescape

__all__ = ["ExactPathRules"]

_CR = 0x0D
_BACKSLASH = 0x5C

_NOT_PLAIN = np.ones(256, bool)
_NOT_PLAIN[0x21:0x7F] = False
_NOT_PLAIN_IN_NAME = _NOT_PLAIN.copy()
_NOT_PLAIN_IN_NAME[ord("A") : ord("Z") + 1] = True


@dataclass(frozen=True, slots=True)
class ExactPathRules:
    """What is odd in one protocol version."""

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
        """Names or values as they read."""
        return unescape(strings) if self._escapes else strings

    def in_name(self, name: bytes) -> bool:
        """Whether a name on the wire is odd."""
        if self.lenient:
            return bool(_NOT_PLAIN_IN_NAME[np.frombuffer(name, np.uint8)].any())
        return self._cr_ends_lines and b"\r" in name

    def in_values(self, values: pa.Array) -> bool:
        """Whether any value on the wire is odd."""
        if not self._cr_ends_lines:
            return False
        text, offsets = text_of(values)
        return _has_cr(text) or (self.lenient and bool(_bad_ends(text, offsets).any()))

    def cr_positions(self, heads: Bytes) -> Ints:
        """Where in a buffer of header areas a CR makes one odd."""
        return np.flatnonzero(heads == _CR) if self._cr_ends_lines else np.empty(0, np.int64)

    def odd_lines(self, names: pa.Array, values: pa.Array) -> Ints:
        """Those lines of a mixture whose name or value is odd; escaped names are, to a mixture."""
        text, offsets = text_of(names)
        bad = np.zeros(len(names), bool)
        if self._escapes:
            bad[_elements(offsets, np.flatnonzero(text == _BACKSLASH))] = True
        if self.lenient:
            bad[_elements(offsets, np.flatnonzero(_NOT_PLAIN_IN_NAME[text]))] = True
            bad |= _bad_ends(*text_of(values))
        return np.flatnonzero(bad)


def _has_cr(text: Bytes) -> bool:
    lowest = text.min(initial=_CR + 1)  # mostly above all controls: then that is all there is to know
    return bool(lowest == _CR or (lowest < _CR and (text == _CR).any()))


def _elements(offsets: npt.NDArray[np.int32], positions: Ints) -> Ints:
    """The elements that hold these positions of the text."""
    return np.searchsorted(offsets, positions, side="right") - 1


def _bad_ends(text: Bytes, offsets: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """For each value whether it begins or ends with anything but a printable octet of ASCII."""
    filled = np.flatnonzero(offsets[1:] > offsets[:-1])
    bad = np.zeros(len(offsets) - 1, bool)
    bad[filled] = _NOT_PLAIN[text[offsets[filled]]] | _NOT_PLAIN[text[offsets[filled + 1] - 1]]
    return bad
