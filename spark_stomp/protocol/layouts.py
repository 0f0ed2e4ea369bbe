"""Header layouts that keep coming back, each as one regular expression.

Brokers send the headers of one subscription in one order, so the names of a frame's headers, in order, are
nearly always those of the frame before. One compiled expression with these names in it recognises such a head
several times faster than any reading that asks where the names end. A layout is only ever learned from a
frame that the exact reader let through.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from spark_stomp.protocol.frames import HeaderPairs

__all__ = ["ANY_NUMBER", "LENGTH", "Layout", "LayoutCache"]

LENGTH: Final = "content-length"
MAX_KNOWN: Final = 8
MAX_NAMES: Final = 64
MAX_CANDIDATES: Final = 64
COMPILE_EVERY: Final = 256
"""Sightings of unknown layouts that pay for one more compilation (about 0.5 ms) once the book is full."""
ANY_NUMBER: Final = "*+" if sys.version_info >= (3, 11) else "*"
"""So many as there are. What is matched need not be given back, which is quicker where it can be said."""
_PLAIN_NAME: Final = re.compile(r"[!-9;-\[\]-~]{1,128}")
"""Printable ASCII without a colon or a backslash: the same in every version, escaped or not."""

T = TypeVar("T")


class Layout(NamedTuple):
    """A command and its header names in order."""

    command: str
    names: tuple[str, ...]

    def place(self, name: str) -> int | None:
        """Where the header that counts (the first of its name) stands; None where there is none."""
        return self.names.index(name) if name in self.names else None

    def pattern(self, captured: frozenset[int]) -> str:
        """Matches a head of this layout through its blank line, with a group for each captured line's value.

        Values may hold anything but LF, so what matched must still be checked for NUL, CR, escapes and
        character set. The first content-length is only matched where ``int`` can take it.
        """
        length_at = self.place(LENGTH)
        lines = [f"{self.command}\n"]
        for place, name in enumerate(self.names):
            value = "[0-9]{1,18}" if place == length_at else f".{ANY_NUMBER}"
            lines.append(
                f"{re.escape(name)}:({value})\n" if place in captured else f"{re.escape(name)}:{value}\n"
            )
        return "".join(lines) + "\n"


class LayoutCache(Generic[T]):
    """The few layouts in use, the latest used first, each as what ``compile_layout`` makes of it.

    A layout enters the book when it is seen for the second time. What a peer that varies its headers can make
    us spend is bounded: the book is small, and once it is full a newcomer must be preceded by
    ``COMPILE_EVERY`` frames of unknown layout.
    """

    def __init__(self, compile_layout: Callable[[Layout], T]) -> None:
        self.known: list[T] = []
        self._layouts: list[Layout] = []
        self._compile = compile_layout
        self._candidates: set[Layout] = set()
        self._credit = 0

    def used(self, place: int) -> None:
        """Move ``known[place]`` to the front."""
        if place:
            self.known.insert(0, self.known.pop(place))
            self._layouts.insert(0, self._layouts.pop(place))

    def clear(self) -> None:
        """Forget everything: the version or the limits changed."""
        self.known.clear()
        self._layouts.clear()
        self._candidates.clear()

    def saw(self, command: str, headers: HeaderPairs) -> None:
        """A frame with these headers was read by the exact reader."""
        layout = Layout(command, tuple([name for name, _ in headers]))
        if layout in self._layouts or len(headers) > MAX_NAMES:
            return
        self._credit += 1
        if layout not in self._candidates:
            if len(self._candidates) >= MAX_CANDIDATES:
                self._candidates.clear()
            self._candidates.add(layout)
        elif all(map(_PLAIN_NAME.fullmatch, layout.names)):
            self._enter(layout)

    def _enter(self, layout: Layout) -> None:
        if len(self.known) >= MAX_KNOWN:
            if self._credit < COMPILE_EVERY:
                return
            self.known.pop()
            self._layouts.pop()
        self._credit = 0
        self._candidates.discard(layout)
        self.known.insert(0, self._compile(layout))
        self._layouts.insert(0, layout)
