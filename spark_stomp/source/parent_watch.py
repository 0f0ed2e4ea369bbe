"""The end of the JVM that started the process of a stream reader.

A JVM that is killed sends no SIGTERM. Spark's runner notices it at the next read of its socket, but not while
a call of the reader waits for messages, perhaps for minutes: with connections, and with the journal's lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from spark_stomp.logs import get_log, in_context

log = get_log(__name__)

_PERIOD = 0.25
# By these Spark tells its Python processes how to reach the JVM. In any other process, such as a program that
# is to outlive its shell, the end of the parent means nothing.
_STARTED_BY_SPARK = ("PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SOCK_PATH")


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
