"""The frame, what a decoder returns if it has none, and how large a frame may be.

STOMP 1.2, "STOMP Frames": a command, header entries in order (a name may repeat) and a body.
STOMP 1.2, "Size Limits".
"""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass, fields, replace
from typing import Final, Literal, NamedTuple, TypeAlias, overload

from spark_stomp.errors import LocalProtocolError

HeaderPairs: TypeAlias = tuple[tuple[str, str], ...]

_KIB = 1024
_MIB = 1024 * _KIB


class Frame(NamedTuple):
    """One STOMP frame. Immutable; a named tuple, since that is the cheapest record to make.

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
        return f"<Frame {self.command} [{names}] {len(self.body)} bytes>"


class Signal(enum.Enum):
    """What a decoder returns if it has no frame."""

    HEARTBEAT = "heart-beat"
    """One end of line between two frames (STOMP 1.2, "Heart-beating")."""
    NEED_DATA = "need data"
    """Nothing is complete; more bytes must arrive first."""


HEARTBEAT: Final[Literal[Signal.HEARTBEAT]] = Signal.HEARTBEAT
NEED_DATA: Final[Literal[Signal.NEED_DATA]] = Signal.NEED_DATA


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a peer may send in one frame: bytes, except ``max_headers``. Each has its error class.

    Raises:
        LocalProtocolError: a limit is not a whole number from 1 on (0 on for headers and body).
    """

    max_command: int = 64
    """The command line, without its LF. -> CommandTooLong"""
    max_header_line: int = 64 * _KIB
    """One header line as sent (escaped), without its LF. -> HeaderLineTooLong"""
    max_headers: int = 1_000
    """Header lines in one frame. -> TooManyHeaders"""
    max_body: int = 128 * _MIB
    """The body. -> BodyTooLarge"""
    max_frame: int = 256 * _MIB
    """The frame from its command to its NUL, both included. -> FrameTooLarge"""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ("max_headers", "max_body") else 1
            if not isinstance(value, int) or value < least:
                raise LocalProtocolError(
                    f"{field.name} must be a whole number from {least} on, not {value!r}"
                )

    @classmethod
    def before_connected(cls) -> Limits:
        """For a peer that is not logged in yet: enough for CONNECT, CONNECTED and a first ERROR."""
        return cls(max_header_line=8 * _KIB, max_headers=100, max_body=64 * _KIB, max_frame=256 * _KIB)

    @classmethod
    def none(cls) -> Limits:
        """For frames that were checked when they came."""
        return cls(*[sys.maxsize] * len(fields(cls)))

    def without_messages(self) -> Limits:
        """For a broker that is asked for no MESSAGE: enough for RECEIPT and ERROR, and no more than these."""
        return replace(
            self,
            # Artemis quotes all headers of what it refuses in one.
            max_header_line=_MIB,
            max_body=_MIB,
            max_frame=2 * _MIB + 64 * _KIB,
        )
