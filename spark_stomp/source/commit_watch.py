"""The thread that looks into the checkpoint, so that nobody else waits for a file system (contract 1.5).

A listing of an object store may take seconds, and on a network that is gone it does not end at all. Spark's
calls ask for a look and wait for it as long as they like; a task's read does not ask, and the end of the
query waits for a moment only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from spark_stomp.errors import DeliveryError, StompError
from spark_stomp.logs import get_log, in_context

log = get_log(__name__)

_PAUSE = 0.1


class CommitWatch:
    """Calls ``check`` in a thread of its own: now and then, at once when asked, and once more at the end.

    The pause between two looks is 0.1 s. While nobody asks it doubles, up to ``longest_pause`` seconds. No
    lock is held during a look. The first exception of ``check`` ends the thread and becomes ``failure``.
    """

    def __init__(self, check: Callable[[], None], *, longest_pause: float = 0.0) -> None:
        self._check = check
        self._longest_pause = max(_PAUSE, longest_pause)
        self._pause = _PAUSE
        self._news = threading.Condition()
        self._asked = self._answered = 0
        self._stopping = self._over = False
        self.failure: StompError | None = None
        self._thread = threading.Thread(
            target=in_context(self._run), name="stomp-commit-watcher", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    @property
    def stopping(self) -> bool:
        """Whether it was told to end."""
        return self._stopping

    def ask(self) -> int:
        """Look at once, and often for a while; the number of this request."""
        with self._news:
            self._asked += 1
            self._pause = _PAUSE
            self._news.notify_all()
            return self._asked

    def look_now(self, timeout: float) -> bool:
        """Wait for a look that begins after this call. False if it did not end within ``timeout`` seconds;
        True also if there are no more looks."""
        asked = self.ask()
        with self._news:
            return self._news.wait_for(
                lambda: self._answered >= asked or self._stopping or self._over, timeout
            )

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the end."""
        with self._news:
            self._news.wait_for(lambda: self._stopping, seconds)

    def stop(self, timeout: float) -> bool:
        """Look once more, and end. False if the thread did not end within ``timeout`` seconds."""
        with self._news:
            self._stopping = True
            self._news.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # Everything below runs in the thread.

    def _run(self) -> None:
        try:
            more = True
            while more:
                asked, more = self._await_turn()
                self._check()
                self._answer(asked)
        except StompError as error:
            self.failure = error
        except Exception as error:
            # A thread that dies in silence would leave messages without their ACK while no call comes.
            self.failure = DeliveryError(f"watching for commits failed unexpectedly: {error!r}")
            log.exception("watching for commits failed unexpectedly")
        finally:
            with self._news:
                self._over = True
                self._news.notify_all()

    def _await_turn(self) -> tuple[int, bool]:
        """Wait for the next look: the last request before it, and whether more looks follow."""
        with self._news:
            self._news.wait_for(lambda: self._asked > self._answered or self._stopping, self._pause)
            self._pause = min(self._pause * 2, self._longest_pause)
            return self._asked, not self._stopping

    def _answer(self, asked: int) -> None:
        with self._news:
            self._answered = asked
            self._news.notify_all()
