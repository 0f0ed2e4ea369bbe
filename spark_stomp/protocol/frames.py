"""The frame, the signals of a decoder that has no frame, and the limits on the size of a frame.

STOMP 1.2, "STOMP Frames" (a command, headers in order, whose names may repeat, and a body) and "Size Limits".
"""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass, fields, replace
from typing import Final, Literal, NamedTuple, TypeAlias, overload

HeaderPairs: TypeAlias = tuple[tuple[str, str], ...]

_KIB = 1024
_MIB = 1024 * _KIB


class Frame(NamedTuple):
    """One STOMP frame. Immutable; a named tuple, because no other kind of record is as cheap to make.

    ``headers`` are unescaped names and values in the order of the wire; a name may repeat. ``body`` is never
    decoded.
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
        """Only names and sizes, because values and bodies may be secret or long."""
        names = ", ".join(name for name, _ in self.headers)
        return f"<Frame {self.command} [{names}] {len(self.body)} bytes>"


class Signal(enum.Enum):
    """A decoder returns one of these if it has no frame."""

    HEARTBEAT = "heart-beat"
    """One or more ends of line between two frames (STOMP 1.2, "Heart-beating")."""
    NEED_DATA = "need data"
    """Nothing is complete; more bytes must arrive first."""


HEARTBEAT: Final[Literal[Signal.HEARTBEAT]] = Signal.HEARTBEAT
NEED_DATA: Final[Literal[Signal.NEED_DATA]] = Signal.NEED_DATA


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a peer may send in one frame. Anything beyond is a LimitExceeded.

    All are in bytes, except ``max_headers``. The defaults are judgements, not measured: far more than usual
    messages have, and little enough to be held in memory.
    """

    max_command: int = 64
    """The command line, without its LF."""
    max_header_line: int = 64 * _KIB
    """One header line as sent (escaped), without its LF."""
    max_headers: int = 1_000
    """Header lines in one frame."""
    max_body: int = 128 * _MIB
    """The body."""
    max_frame: int = 256 * _MIB
    """The frame from its command to its NUL, both included."""

    @classmethod
    def before_connected(cls) -> Limits:
        """Limits for a peer that is not logged in yet: enough for CONNECT, CONNECTED and a first ERROR.

        The numbers are judgements, not measured.
        """
        return cls(max_header_line=8 * _KIB, max_headers=100, max_body=64 * _KIB, max_frame=256 * _KIB)

    @classmethod
    def none(cls) -> Limits:
        """No limits, for frames that were checked when they were received."""
        return cls(*[sys.maxsize] * len(fields(cls)))

    def without_messages(self) -> Limits:
        """Limits for a connection without subscriptions, whose broker sends only RECEIPT and ERROR frames.

        An ERROR with a body of 128 MiB, the default of ``max_body``, takes four times as much memory
        (November 2026). The numbers here are judgements, not measured.
        """
        return replace(
            self,
            # Artemis quotes all headers of a refused frame in one header of its ERROR.
            max_header_line=_MIB,
            max_body=_MIB,
            max_frame=2 * _MIB + 64 * _KIB,
        )
