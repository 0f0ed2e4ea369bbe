"""Header layouts that keep coming back, each as one regular expression.

Brokers send the headers of one subscription in one order, so the names of a frame's headers, in order, are
nearly always those of the frame before. One compiled expression with these names in it recognises such a head
several times faster than a search for the end of each name. A layout is only learned from a frame that the
exact reader accepted.
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
"""Sightings of unknown layouts that pay for one more compilation (about 0.5 ms) once the cache is full."""
ANY_NUMBER: Final = "*+" if sys.version_info >= (3, 11) else "*"
"""Any number of times; possessive, hence without backtracking, if Python has that."""
_PLAIN_NAME: Final = re.compile(r"[!-9;-\[\]-~]{1,128}")
"""Printable ASCII without a colon or a backslash: the same in every version, escaped or not."""

T = TypeVar("T")


class Layout(NamedTuple):
    """A command and its header names in order."""

    command: str
    names: tuple[str, ...]

    def position(self, name: str) -> int | None:
        """The index of the first header called ``name``, which is the one that counts; None without one."""
        return self.names.index(name) if name in self.names else None

    def pattern(self, captured: frozenset[int]) -> str:
        """An expression for a head of this layout, blank line included; ``captured`` values are groups.

        Values may be anything without LF, so a match must still be checked for NUL, CR, escapes and
        character set. The first content-length must be a number that ``int`` can take.
        """
        length_at = self.position(LENGTH)
        lines = [f"{self.command}\n"]
        for position, name in enumerate(self.names):
            value = "[0-9]{1,18}" if position == length_at else f".{ANY_NUMBER}"
            lines.append(
                f"{re.escape(name)}:({value})\n" if position in captured else f"{re.escape(name)}:{value}\n"
            )
        return "".join(lines) + "\n"


class LayoutCache(Generic[T]):
    """The few layouts in use, the last used first, each compiled by ``compile_layout``.

    A layout enters when it is seen for the second time. A peer that varies its headers cannot make us compile
    without bound: the cache is small, and once it is full a new layout needs ``COMPILE_EVERY`` frames of
    unknown layout before it.
    """

    def __init__(self, compile_layout: Callable[[Layout], T]) -> None:
        self.known: list[T] = []
        self._layouts: list[Layout] = []
        self._compile = compile_layout
        self._candidates: set[Layout] = set()
        self._credit = 0

    def used(self, rank: int) -> None:
        """Move ``known[rank]`` to the front."""
        if rank:
            self.known.insert(0, self.known.pop(rank))
            self._layouts.insert(0, self._layouts.pop(rank))

    def clear(self) -> None:
        """Forget everything: the version or the limits changed."""
        self.known.clear()
        self._layouts.clear()
        self._candidates.clear()

    def saw(self, command: str, headers: HeaderPairs) -> None:
        """The exact reader accepted a frame with these headers."""
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
