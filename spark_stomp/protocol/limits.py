"""How much a peer may send before it is refused (STOMP 1.2, "Size Limits")."""

from __future__ import annotations

from dataclasses import dataclass, fields

from spark_stomp.errors import LocalProtocolError

__all__ = ["Limits"]

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds on one frame. All are octets, except ``max_headers``; each has its own error class.

    Raises:
        LocalProtocolError: a limit is not a positive whole number (0 is fine for headers and body).
    """

    max_command: int = 64
    """The command line, without its LF. -> CommandTooLong"""
    max_header_line: int = 64 * KIB
    """One header line as sent (escaped), without its LF. -> HeaderLineTooLong"""
    max_headers: int = 1_000
    """Header lines in one frame. -> TooManyHeaders"""
    max_body: int = 128 * MIB
    """The body. -> BodyTooLarge"""
    max_frame: int = 256 * MIB
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
        """For a peer that has not proved who it is: what CONNECT, CONNECTED and a first ERROR need."""
        return cls(max_header_line=8 * KIB, max_headers=100, max_body=64 * KIB, max_frame=256 * KIB)
