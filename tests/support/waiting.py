"""Waiting for a condition, bounded; never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["wait_until"]


def wait_until(
    condition: Callable[[], object], timeout: float = 20.0, what: str = "the condition", every: float = 0.01
) -> None:
    """Return once ``condition()`` is true, asked ``every`` so many seconds; AssertionError naming ``what``
    after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not hold within {timeout:g}s"
        time.sleep(every)
