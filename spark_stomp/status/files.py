"""The files that hold the status of a query: where they are, how they are replaced, and the writer of the
source's.

Source and sink of a query run in different processes, so each has a file of its own. A reader takes both for
one status (:func:`spark_stomp.status.read_status`). File systems may hang: nobody waits for them but a thread
of its own.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from pyarrow.fs import FileType

from spark_stomp.errors import OptionError
from spark_stomp.files.locations import FILE_ERRORS, Location, local_path, resolve, without_credentials
from spark_stomp.files.private import PRIVATE_FOLDER, create_file, replace_file
from spark_stomp.logs import get_log, in_context
from spark_stomp.options import SinkOptions, SourceOptions
from spark_stomp.status.source import Figures, lasting

log = get_log(__name__)

T = TypeVar("T")

_BESIDE_CHECKPOINT: Final = "spark_stomp/status.json"

# Bytes: a receiver takes about 2,000.
_LARGEST: Final = 64 << 20
# Seconds that a query's start waits to see whether there is a folder or a pipe, and for the file system of
# its status: a store may look up credentials and the region of a bucket.
_CHECK: Final = 0.5
_OPEN: Final = 10.0


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

    @property
    def shown(self) -> str:
        """Where it is, without credentials."""
        return self.path if self.location.is_local else self.location.shown

    @property
    def of_sink(self) -> StatusFile:
        """The part of the sink: a file beside it, since two processes cannot write one."""
        name = PurePosixPath(self.path)
        return replace(self, path=str(name.with_name(f"{name.stem}.sink{name.suffix}")))

    def read(self) -> bytes:
        """What is there; raises one of FILE_ERRORS, FileNotFoundError if nothing is."""
        if self.location.is_local:
            # Without O_NONBLOCK, to open a pipe could wait for ever.
            with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
                if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                    raise OSError(errno.EINVAL, "this is no regular file", self.path)
                content = opened.read(_LARGEST + 1)
        else:
            with self.location.files.open_input_stream(self.path) as file:
                content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise OSError(errno.EFBIG, f"it has more than {_LARGEST:,} bytes, and is no status", self.path)
        return content

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


def status_file(options: SourceOptions | SinkOptions) -> StatusFile | None:
    """Where the options want it: ``statusFile``, else beside the checkpoint, else nowhere."""
    if options.status_file is None and options.checkpoint_location is None:
        return None
    wanted = options.status_file or options.checkpoint_location or ""
    _refuse_what_is_there(options)
    try:
        location = resolve(wanted)
    except ValueError as error:
        raise OptionError(f"statusFile {without_credentials(wanted)} cannot be opened: {error}") from error
    return StatusFile(location, location.root) if options.status_file else _beside(location)


def status_at(place: str) -> StatusFile:
    """The file at this path or URI, or under the checkpoint there; ValueError if it is none of either."""
    location = resolve(place)
    is_folder = location.files.get_file_info(location.root).type is FileType.Directory
    return _beside(location) if is_folder else StatusFile(location, location.root)


def _beside(checkpoint: Location) -> StatusFile:
    return StatusFile(checkpoint, f"{checkpoint.root.rstrip('/')}/{_BESIDE_CHECKPOINT}")


def query_name(options: SourceOptions | SinkOptions) -> str:
    """What to call the query: the user's name for it, else the last part of its checkpoint's location, else
    its destinations. Spark does not tell a source the name that the user gave the query."""
    checkpoint = without_credentials(options.checkpoint_location or "").rstrip("/").rpartition("/")[2]
    if isinstance(options, SourceOptions):
        return checkpoint or ",".join(options.destinations)
    return options.query_name or checkpoint or options.destination or "stomp"


def check_status_file(options: SourceOptions | SinkOptions) -> None:
    """Raises OptionError if ``statusFile`` names what is no file. A mount that hangs is not waited for."""
    within(_CHECK, lambda: _refuse_what_is_there(options), None)


def _refuse_what_is_there(options: SourceOptions | SinkOptions) -> None:
    path = None if options.status_file is None else local_path(options.status_file)
    if path is None:
        return
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "folder: name a file in it, such as status.json", stat.S_IFIFO: "pipe"}
        kind = kinds.get(stat.S_IFMT(mode), "device or a socket")
        raise OptionError(f"statusFile {path} is a {kind}")


def within(timeout: float, work: Callable[[], T], instead: T) -> T:
    """What ``work`` returns or raises; ``instead`` if that takes more than ``timeout`` seconds.

    It is done in a thread of its own, and goes on there: a file system may hang for as long as it likes.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised below
            future.set_exception(error)

    threading.Thread(target=in_context(run), name="stomp-aside", daemon=True).start()
    return future.result() if wait([future], timeout).done else instead


def as_json(status: Figures) -> bytes:
    return json.dumps(status, indent=1).encode() + b"\n"


def parsed(content: bytes) -> Figures:
    """The JSON object in a status file; ValueError if it is none."""
    try:
        status = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(status, dict):
        raise ValueError("it is no JSON object")
    return status


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
        self._file.write(as_json(shown))
        self._written, self._written_at = news, now

    def _warn_once(self, why: str) -> None:
        if not self._failing:
            log.warning("the status file %s cannot be written: %s; it is tried again", self._file.shown, why)
        self._failing = True
