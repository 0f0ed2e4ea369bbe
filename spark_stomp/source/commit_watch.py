"""The thread that looks into the checkpoint, so that nobody else waits for a file system (contract 1.5).

A listing of an object store may take seconds, and on a network that is gone it does not end at all. Spark's
calls ask for a look and wait for it as long as they like; a task's read does not ask, and the end of the
query waits for a moment only.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from spark_stomp.errors import DeliveryError, StompError
from spark_stomp.logs import get_log, in_context

log = get_log(__name__)

# Seconds between two looks.
_PAUSE = 0.1


class CommitWatch:
    """Calls ``check`` in a thread of its own: now and then, at once when asked, and once more at the end.

    The pause between two looks is 0.1 s. While nobody asks it doubles, up to ``longest_pause`` seconds. The
    first exception of ``check`` ends the thread and becomes ``failure``. The thread is a daemon, which an
    executor's is not: a look that hangs must not keep the process alive.
    """

    def __init__(self, check: Callable[[], None], *, longest_pause: float = 0.0) -> None:
        self._check = check
        self._longest_pause = max(_PAUSE, longest_pause)
        self._asked: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._over = False
        self.failure: StompError | None = None
        self._thread = threading.Thread(
            target=in_context(self._run), name="stomp-commit-watcher", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def ask(self) -> threading.Event:
        """Look at once, and often for a while. The event is set after a look that begins after this call."""
        looked = threading.Event()
        self._asked.put(looked)
        return looked

    def look_now(self, timeout: float) -> bool:
        """Wait for a look that begins after this call. False if it did not end within ``timeout`` seconds;
        True also if there are no more looks."""
        looked = self.ask()
        return self._over or self._stopping.is_set() or looked.wait(timeout)

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the end."""
        self._stopping.wait(seconds)

    def stop(self, timeout: float) -> bool:
        """Look once more, and end. False if the thread did not end within ``timeout`` seconds."""
        self._stopping.set()
        self.ask()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # Everything below runs in the thread.

    def _run(self) -> None:
        pause, stopping = _PAUSE, False
        asked: list[threading.Event] = []
        try:
            while not stopping:
                asked = self._await_turn(pause)
                pause = _PAUSE if asked else min(pause * 2, self._longest_pause)
                stopping = self._stopping.is_set()
                self._check()
                _answer(asked)
        except StompError as error:
            self.failure = error
        except Exception as error:
            # A thread that dies in silence would leave messages without their ACK while no call comes.
            self.failure = DeliveryError(f"watching for commits failed unexpectedly: {error!r}")
            log.exception("watching for commits failed unexpectedly")
        finally:
            # In this order: who asks later sees that it is over.
            self._over = True
            _answer([*asked, *self._await_turn(0.0)])

    def _await_turn(self, pause: float) -> list[threading.Event]:
        """Wait for the next look; returns what asked for it."""
        asked = []
        with suppress(queue.Empty):
            asked.append(self._asked.get(timeout=pause))
            while True:
                asked.append(self._asked.get_nowait())
        return asked


def _answer(asked: list[threading.Event]) -> None:
    for looked in asked:
        looked.set()
