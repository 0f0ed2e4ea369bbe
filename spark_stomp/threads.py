"""The threads of this package: each has a name, reports the error that ends it, and is waited for in bounds.

A thread that ends in silence looks like an empty queue, like ACKs that wait, or like a broker that hangs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

from spark_stomp.errors import DeliveryError, StompError
from spark_stomp.logs import get_log

log = get_log(__name__)

T = TypeVar("T")


class Worker:
    """A thread that does ``work``. :meth:`start` it once; its log lines name what those of the caller name.

    Args:
        name: the name of the thread.
        work: what it does. It ends once :attr:`is_stopping`; :meth:`wait` says that too.
        ended: called in the thread after ``work``, when ``failure`` is set.
        unexpected: the class of ``failure`` for what is no StompError, which is logged with its traceback.
        daemon: whether the process may end before it. A call that hangs must not keep it alive.

    Attributes:
        failure: the error that ended ``work``; None if none did.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        *,
        ended: Callable[[], object] = lambda: None,
        unexpected: type[StompError] = DeliveryError,
        daemon: bool = True,
    ) -> None:
        self.failure: StompError | None = None
        self._work = work
        self._ended = ended
        self._unexpected = unexpected
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._context = copy_context()
        self._thread = threading.Thread(target=lambda: self._context.run(self._run), name=name, daemon=daemon)

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if the system has none left."""
        self._context = copy_context()
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether it is the thread that asks."""
        return threading.current_thread() is self._thread

    @property
    def is_stopping(self) -> bool:
        """Whether it is to end."""
        return self._stopping.is_set()

    def wake(self) -> None:
        """End its :meth:`wait`, or the next one. Any thread may call this."""
        self._woken.set()

    def wait(self, seconds: float | None = None) -> bool:
        """In the thread: wait so long, or until somebody wakes it. Whether it was woken."""
        woken = self._woken.wait(seconds)
        if woken:  # otherwise it may be woken now, and that is the next one's
            self._woken.clear()
            if self.is_stopping:
                self.wake()  # from now on it waits no more
        return woken

    def goes_on(self, seconds: float) -> bool:
        """In the thread: wait so long, or until somebody wakes it. Whether it is not to end."""
        self.wait(seconds)
        return not self.is_stopping

    def sleep(self, seconds: float) -> None:
        """In the thread: wait so long, or until it is to end. Nobody wakes it."""
        self._stopping.wait(seconds)

    def stop(self, timeout: float) -> bool:
        """Let it end. Whether it has, within ``timeout`` seconds, or was never started. Twice is fine."""
        self._stopping.set()
        self.wake()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self.is_alive

    def _run(self) -> None:
        try:
            self._work()
        except StompError as error:
            self.failure = error
        except Exception as error:
            self.failure = self._unexpected(f"{self._thread.name} failed unexpectedly: {error!r}")
            log.exception("%s failed unexpectedly", self._thread.name)
        try:
            self._ended()
        except Exception:
            log.exception("%s did not end in order", self._thread.name)


def aside(work: Callable[[], T]) -> Future[T]:
    """Do ``work`` in a thread of its own. Returns what it will return or raise."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised for who asks
            future.set_exception(error)

    Worker("stomp-aside", run).start()
    return future
