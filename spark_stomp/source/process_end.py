"""How the process of a stream reader ends: by SIGTERM, or with the JVM that started it.

Spark sends SIGTERM twice within microseconds, does not call ``stop``, and does not wait. A JVM that is killed
sends nothing. Spark's runner notices this only when it next reads its socket. Before that, a call of the
reader may wait minutes for messages, and would keep its connections and the journal's lock.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from spark_stomp.logs import get_log
from spark_stomp.threads import Worker

log = get_log(__name__)

# Seconds between two looks at the parent process.
_PERIOD = 0.25
# Spark sets these in its Python processes, so that they can reach the JVM. In any other process the end of
# the parent means nothing: a program may be meant to outlive its shell.
_STARTED_BY_SPARK = ("PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SOCK_PATH")


def started_by_spark() -> bool:
    """Whether the parent of this process is the JVM of a driver."""
    return any(name in os.environ for name in _STARTED_BY_SPARK)


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
        # First ignore a second signal. Then start a thread for the work, because the interrupted code may
        # hold a lock that the work needs.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Worker("stomp-terminate", self.finish, daemon=False).start()

    def finish(self) -> None:
        """Run ``work`` and end the process."""
        try:
            self._work()
        except Exception:
            log.exception("the query could not be stopped in order")
        finally:
            # With an ordinary exit Spark's runner would report an error to a JVM that no longer listens.
            os._exit(128 + signal.SIGTERM)


class ParentWatch:
    """Calls ``work`` once, when the parent process has ended. Does nothing in a process not started by Spark.

    The system gives an orphan another parent at once, so it is enough to compare the parent's id. If
    ``PYSPARK_PYTHON`` is a script, it must ``exec`` Python: otherwise the parent is the script, which
    outlives the JVM.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._worker = Worker("stomp-parent-watch", self._watch)

    def start(self) -> None:
        if started_by_spark():
            self._parent = os.getppid()
            self._worker.start()

    def stop(self) -> None:
        self._worker.stop(0.0)

    def _watch(self) -> None:
        while self._worker.goes_on(_PERIOD):
            if os.getppid() != self._parent:
                log.warning("the driver's JVM has ended, so this process ends too")
                self._work()
                return
