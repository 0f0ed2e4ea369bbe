"""The status file: what the query shows of itself, written about once a second by a thread of its own.

That thread may hang in the file system for as long as it likes: nobody waits for it but the end of the query,
and that for half a second. A write that fails is tried again.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spark_stomp.errors import OptionError
from spark_stomp.locations import FILE_ERRORS, Location, resolve, without_credentials
from spark_stomp.logs import get_log, in_context
from spark_stomp.options import SourceOptions
from spark_stomp.private_files import PRIVATE_FOLDER, create_file, replace_file
from spark_stomp.source.status import Figures, lasting

log = get_log(__name__)

_BESIDE_CHECKPOINT = "spark_stomp/status.json"


@dataclass(frozen=True)
class StatusFile:
    """The file at ``path`` of a file system. Readers see one document or the next, never a part.

    HDFS is an exception: there the file is written in place.
    """

    location: Location
    path: str

    @property
    def look_every(self) -> float:
        """How often to look for news, in seconds. In a store each write is a request that costs money."""
        return 1.0 if self.location.takes_appends else 10.0

    @property
    def write_every(self) -> float:
        """After how many seconds to write though there is no news: the file is a sign of life too."""
        return 10.0 if self.location.takes_appends else 60.0

    def write(self, content: bytes) -> None:
        """Replace what is there; raises one of FILE_ERRORS."""
        if self.location.is_local:
            self._replace(content)
            return
        with self.location.files.open_output_stream(self.path) as file:
            file.write(content)

    def _replace(self, content: bytes) -> None:
        # One level only: under a checkpoint that does not exist, nothing is made.
        path = Path(self.path)
        path.parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        # What brokers say and the names of destinations are for the user alone.
        with os.fdopen(create_file(temporary), "wb") as file:
            file.write(content)
        replace_file(temporary, path)


def status_file(options: SourceOptions) -> StatusFile | None:
    """Where the options want it: ``statusFile``, else beside the checkpoint, else nowhere."""
    if options.status_file is None and options.checkpoint_location is None:
        return None
    wanted = options.status_file or options.checkpoint_location or ""
    try:
        location = resolve(wanted)
    except ValueError as error:
        raise OptionError(f"statusFile {without_credentials(wanted)} cannot be opened: {error}") from error
    beside = f"{location.root}/{_BESIDE_CHECKPOINT}"
    return StatusFile(location, beside if options.status_file is None else location.root)


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
