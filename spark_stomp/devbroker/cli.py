"""The dev broker on the command line (``spark-stomp devbroker``)."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TextIO

from spark_stomp.devbroker.server import DevBroker

__all__ = ["run"]

_NOTICE = "In-memory and for development only: nothing is kept when it ends. Ctrl-C ends it."


def run(
    host: str,
    port: int,
    users: Mapping[str, str] | None,
    *,
    stop: threading.Event | None = None,
    output: TextIO | None = None,
) -> None:
    """Serve until Ctrl-C, SIGTERM or ``stop``; prints its URL.

    Args:
        host: address to listen on.
        port: 0 = any free one.
        users: login -> passcode; None = everybody is let in.
        stop: ends it when set.
        output: where to print, by default the standard output.

    Raises:
        OSError: the address cannot be listened on.
    """
    stopping = stop or threading.Event()
    out = output or sys.stdout
    with (
        contextlib.suppress(KeyboardInterrupt),
        DevBroker(host=host, port=port, users=users) as broker,
        _ended_by_sigterm(stopping),
    ):
        out.write(f"STOMP broker at {broker.url}\n{_NOTICE}\n")
        out.flush()
        # In slices: a wait without end would not let Ctrl-C through on every platform.
        while not stopping.wait(1.0):
            pass


@contextlib.contextmanager
def _ended_by_sigterm(stopping: threading.Event) -> Iterator[None]:
    """SIGTERM sets the event; only a main thread can arrange that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
