"""What a task needs to fetch a range: where, with which token, and which frames."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field

__all__ = ["AUTHORIZATION", "ExchangeAddress", "RangeTicket", "new_token"]

AUTHORIZATION = "authorization"


def new_token() -> str:
    """A token for one query: 256 random bits."""
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class ExchangeAddress:
    """Where an exchange listens and the token it wants; the token stays out of ``repr``."""

    host: str
    port: int
    token: str = field(repr=False)

    @property
    def location(self) -> str:
        """The address as a Flight location."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"grpc+tcp://{host}:{self.port}"


@dataclass(frozen=True)
class RangeTicket:
    """The frames ``[low, high)`` of one epoch."""

    epoch: str
    low: int
    high: int

    def to_bytes(self) -> bytes:
        return json.dumps([self.epoch, self.low, self.high]).encode()

    @classmethod
    def from_bytes(cls, raw: bytes) -> RangeTicket:
        epoch, low, high = json.loads(raw)
        return cls(str(epoch), int(low), int(high))
