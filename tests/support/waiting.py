"""Waiting for a condition, bounded."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

PATIENCE = float(os.environ.get("SPARK_STOMP_TEST_PATIENCE", "60"))
"""Seconds until something that should have happened counts as hung. It costs nothing while all is well, so it
is long enough for a machine that is busy with other things. Runs that expect failures may shorten it."""


def wait_until(
    condition: Callable[[], object],
    timeout: float = PATIENCE,
    what: str = "the condition",
    every: float | None = None,
) -> None:
    """Return once ``condition()`` is true; AssertionError naming ``what`` after ``timeout`` seconds.

    It is asked every ``every`` seconds. By default that is 10 ms at first, and then a twentieth of the time
    that has passed, at most 0.1 s: asking takes a share of the processor that what is awaited needs.
    """
    begun = time.monotonic()
    while not condition():
        passed = time.monotonic() - begun
        assert passed < timeout, f"{what} did not hold within {timeout:g}s"
        time.sleep(min(max(0.01, passed / 20), 0.1) if every is None else every)


def pause(seconds: float) -> None:
    """Let time pass where that is the point: nothing else shows that a deadline does not run out."""
    time.sleep(seconds)
