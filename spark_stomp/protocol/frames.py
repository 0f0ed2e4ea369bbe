"""The frame, and the two things a decoder may say instead of giving one.

STOMP 1.2, "STOMP Frames": a command, header entries in order (a name may repeat) and a body of octets.
"""

from __future__ import annotations

import enum
from typing import Final, Literal, NamedTuple, TypeAlias, overload

__all__ = ["HEARTBEAT", "NEED_DATA", "Frame", "HeaderPairs", "Signal"]

HeaderPairs: TypeAlias = tuple[tuple[str, str], ...]


class Frame(NamedTuple):
    """One STOMP frame. Immutable; a named tuple, because none of Python's records is cheaper to make.

    ``headers`` are pairs in the order of the wire, unescaped, repeats kept; ``body`` is never decoded.
    """

    command: str
    headers: HeaderPairs = ()
    body: bytes = b""

    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    def get(self, name: str, default: str | None = None) -> str | None:
        """The value of the first header called ``name`` (STOMP 1.2, "Repeated Header Entries")."""
        for key, value in self.headers:
            if key == name:
                return value
        return default

    def __repr__(self) -> str:
        """Names and sizes only: values and bodies may be secret and may be long."""
        names = ", ".join(name for name, _ in self.headers)
        return f"<Frame {self.command} [{names}] {len(self.body)} octets>"


class Signal(enum.Enum):
    """What a decoder answers when it has no frame to give."""

    HEARTBEAT = "heart-beat"
    """One end of line between two frames (STOMP 1.2, "Heart-beating")."""
    NEED_DATA = "need data"
    """Nothing more can be said before more octets arrive."""


HEARTBEAT: Final[Literal[Signal.HEARTBEAT]] = Signal.HEARTBEAT
NEED_DATA: Final[Literal[Signal.NEED_DATA]] = Signal.NEED_DATA
