"""SIGTERM, by which Spark ends the process of a stream reader.

Spark sends it twice within microseconds, does not call ``stop``, and does not wait.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from spark_stomp.logs import get_log, in_context

log = get_log(__name__)


class SigtermHandler:
    """Runs ``work`` at SIGTERM and then ends the process. Only a main thread can install it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._previous: object = None

    def install(self) -> None:
        """From now on SIGTERM runs ``work``."""
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._handle)

    def uninstall(self) -> None:
        """Restore the handler that SIGTERM had before."""
        if self._previous is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._previous)  # type: ignore[arg-type]
            self._previous = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # First make the second signal harmless. Then leave the work to a thread of its own: the interrupted
        # code may hold a lock that the work needs.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=in_context(self.finish), name="stomp-terminate").start()

    def finish(self) -> None:
        """Run ``work`` and end the process."""
        try:
            self._work()
        except Exception:
            log.exception("the query could not be stopped in order")
        finally:
            # If the main thread were unwound instead, Spark's runner would report an error to a JVM that no
            # longer listens.
            os._exit(128 + signal.SIGTERM)
