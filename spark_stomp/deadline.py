"""A moment by which something has to be done: it is handed down, so that parts of a wait share one limit."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """``at`` is in seconds of the monotonic clock."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The moment so many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.at

    def left(self, least: float = 0.0) -> float:
        """Seconds that are left, at least ``least``. A socket takes 0 for "do not wait"."""
        return max(least, self.at - time.monotonic())
