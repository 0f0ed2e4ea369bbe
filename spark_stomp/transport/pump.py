"""Keeps a connection alive while its owner does something else.

Spark may compute for a long time between two messages that it sends, or take long for a batch of rows. Nobody
else would send heart-beats then, and the broker would give the connection up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from spark_stomp.errors import DeliveryError, StompError
from spark_stomp.logs import get_log, in_context
from spark_stomp.transport.connection import Connection

log = get_log(__name__)

# How often the pump runs, in seconds: the longest that a message waits to be sent if no other follows, and
# the most that a heart-beat is late.
_TICK = 0.05


class Pump:
    """Does ``work`` on a connection again and again in a thread of its own.

    The owner uses the connection only with ``lock`` held, as the pump does. It does the same work then and
    does not notify the pump, so it causes no wake-ups. The pump ends if ``work`` fails; ``failure`` is why.
    It is raised at the end of a ``with`` block that has no error of its own.
    """

    def __init__(
        self, connection: Connection, work: Callable[[], object], lock: threading.Lock, name: str
    ) -> None:
        self.failure: StompError | None = None
        self._work = work
        self._lock = lock
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=in_context(self._run), name=f"{name}-{connection.peer}", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Pump:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None and self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Return when the pump works no more; the caller must not hold the lock. Stopping twice is fine."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(_TICK):
            with self._lock:
                try:
                    self._work()
                except StompError as error:
                    self.failure = error
                    return
                except Exception as error:
                    # A thread that dies in silence would leave the connection to itself.
                    self.failure = DeliveryError(f"{self._thread.name} failed unexpectedly: {error!r}")
                    log.exception("failed unexpectedly")
                    return
