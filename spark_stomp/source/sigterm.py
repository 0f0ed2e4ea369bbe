"""SIGTERM, by which Spark ends the process of a stream reader.

Spark sends it twice within microseconds, never calls ``stop`` then, and waits for nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


class SigtermHandler:
    """Runs ``work`` at SIGTERM and then ends the process. Only a main thread can install it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._previous: object = None

    def install(self) -> None:
        """From now on SIGTERM means ``work``."""
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._handle)

    def uninstall(self) -> None:
        """Give SIGTERM back to whoever had it."""
        if self._previous is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._previous)  # type: ignore[arg-type]
            self._previous = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # First make the second signal harmless. Then leave the work to a thread of its own: what was
        # interrupted here may hold a lock that the work needs.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=self._finish, name="stomp-terminate").start()

    def _finish(self) -> None:
        try:
            self._work()
        finally:
            # Unwinding the main thread instead would have Spark's runner report the end as an error to a JVM
            # that no longer listens.
            os._exit(128 + signal.SIGTERM)
