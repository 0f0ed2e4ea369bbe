"""The status file: what the query shows of itself, written about once a second by a thread of its own.

That thread may hang in the file system for as long as it likes: nobody waits for it but the end of the query,
and that for half a second. A write that fails is tried again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

from spark_stomp.locations import FILE_ERRORS
from spark_stomp.logs import get_log, in_context
from spark_stomp.options import SourceOptions
from spark_stomp.source.status import Figures, lasting
from spark_stomp.status_files import StatusFile, status_file, within

log = get_log(__name__)

# Seconds. A store may look up credentials and the region of a bucket.
_OPEN = 10.0


def opened(options: SourceOptions) -> StatusFile | None:
    """The status file of the options, if they want any; OptionError if they name what is none.

    If a store does not answer in time, the query goes on without one.
    """
    missing = object()
    found = within(_OPEN, lambda: status_file(options), missing)
    if isinstance(found, StatusFile):
        return found
    if found is missing:
        log.warning("no status is written: its file system did not answer within %.0f s", _OPEN)
    return None


class StatusWriter:
    """Writes what ``snapshot(running)`` returns: if there is news, now and then anyway, and at the end."""

    def __init__(self, file: StatusFile, snapshot: Callable[[bool], Figures]) -> None:
        self._file = file
        self._snapshot = snapshot
        self._written: Figures | None = None
        self._written_at = 0.0
        self._failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=in_context(self._run), name="stomp-status", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Write once more, and wait for it ``timeout`` seconds at the longest."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    # Everything below runs in the writer's thread.

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._step(running=True)
            self._stopping.wait(self._file.look_every)
        self._step(running=False)

    def _step(self, *, running: bool) -> None:
        try:
            self._write(running=running)
            self._failing = False
        except FILE_ERRORS as error:
            self._warn_once(self._file.location.words(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the query is not to suffer from it
            self._warn_once(repr(error))

    def _write(self, *, running: bool) -> None:
        shown = self._snapshot(running)
        now, news = time.monotonic(), lasting(shown)
        if news == self._written and now - self._written_at < self._file.write_every:
            return
        self._file.write(json.dumps(shown, indent=1).encode() + b"\n")
        self._written, self._written_at = news, now

    def _warn_once(self, why: str) -> None:
        if not self._failing:
            log.warning(
                "the status file %s cannot be written: %s; it is tried again", self._file.location.shown, why
            )
        self._failing = True
