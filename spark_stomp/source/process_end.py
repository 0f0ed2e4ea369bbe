"""How the process of a stream reader ends: by SIGTERM, or with the JVM that started it.

Spark sends SIGTERM twice within microseconds, does not call ``stop``, and does not wait. A JVM that is killed
sends none. Spark's runner notices that at the next read of its socket, but not while a call of the reader
waits for messages, perhaps for minutes: with connections, and with the lock of the journal.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from spark_stomp.logs import get_log, in_context

log = get_log(__name__)

_PERIOD = 0.25
# By these Spark tells its Python processes how to reach the JVM. In any other process, such as a program that
# is to outlive its shell, the end of the parent means nothing.
_STARTED_BY_SPARK = ("PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SOCK_PATH")


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


class ParentWatch:
    """Calls ``work``, once, when the process that started this one has ended; only under Spark.

    The system gives an orphan another parent at once, so asking for the parent's id is enough. A script as
    ``PYSPARK_PYTHON`` must ``exec`` Python; otherwise the parent is the script, which outlives the JVM.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._stopping = threading.Event()

    def start(self) -> None:
        if any(name in os.environ for name in _STARTED_BY_SPARK):
            parent = os.getppid()
            watch = in_context(lambda: self._watch(parent))
            threading.Thread(target=watch, name="stomp-parent-watch", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _watch(self, parent: int) -> None:
        while not self._stopping.wait(_PERIOD):
            if os.getppid() != parent:
                log.warning("the driver's JVM has ended, and so does this process")
                self._work()
                return
