"""A thread that looks after a connection while its owner is busy with something else."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Pump"]


class Pump:
    """Calls ``step`` again and again in a thread of its own.

    ``step`` takes its owner's lock by itself. It returns the seconds to wait until the next call, or None
    when there is nothing to look after any more. An owner that is at work does the same under the same lock
    and owes the pump no notice, so that its work costs no wake-ups.
    """

    def __init__(self, step: Callable[[], float | None], name: str) -> None:
        self._step = step
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return when the last call of ``step`` has ended; the caller may not hold the owner's lock."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        pause: float | None = 0.0
        while pause is not None and not self._stopping.wait(pause):
            pause = self._step()
