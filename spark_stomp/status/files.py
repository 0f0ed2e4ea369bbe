"""The files that hold the status of a query: where they are, how they are replaced, and the source's writer.

The sources of a query and its sink run in different processes, so each has its own file:
``status.json``, ``status-2.json`` and so on, and ``status.sink.json``. A file system may hang, so separate
threads use it, and the query never waits long for them.

Spark does not tell a source that there are others, so each looks for its file when it starts
(:meth:`StatusWriter.start`). Spark starts them one after the other. A file is taken if its last status is
that of a running source of the same driver. It is free if that source is being stopped, or if it is of
another driver: a driver that was killed can leave a source that runs for a moment beside the next one.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from pyarrow.fs import FileType

from spark_stomp.errors import OptionError
from spark_stomp.files import (
    FILE_ERRORS,
    PRIVATE_FOLDER,
    Location,
    create_file,
    local_path,
    open_to_read,
    replace_file,
    resolve,
    without_credentials,
)
from spark_stomp.logs import Once, get_log
from spark_stomp.options import SinkOptions, SourceOptions
from spark_stomp.quoting import listed
from spark_stomp.status.source import Figures, ids_space, lasting
from spark_stomp.threads import Worker, aside

log = get_log(__name__)

T = TypeVar("T")

_BESIDE_CHECKPOINT: Final = "spark_stomp/status.json"

# Bytes of a status file that are read at most: room for 30,000 receivers, which take 2,000 each.
_LARGEST: Final = 64 << 20
# Seconds for which the start of a query waits: to see whether statusFile is a folder or a pipe, and for its
# file system. A store may look up credentials and the region of a bucket.
_CHECK: Final = 0.5
_OPEN: Final = 10.0


@dataclass(frozen=True)
class StatusFile:
    """The file at ``path`` of a file system. Readers see the whole old document or the whole new one.

    HDFS is an exception: there the file is written in place.
    """

    location: Location
    path: str

    @property
    def look_every(self) -> float:
        """Seconds between two looks for news. In a store each write is a request that costs money."""
        return 1.0 if self.location.takes_appends else 10.0

    @property
    def write_every(self) -> float:
        """Seconds after which the file is written even without news: it is a sign of life too."""
        return 10.0 if self.location.takes_appends else 60.0

    @property
    def shown(self) -> str:
        """The location of the file, without credentials."""
        return self.path if self.location.is_local else self.location.shown

    @property
    def of_sink(self) -> StatusFile:
        """The file with the sink's part, beside this one: two processes cannot write one file."""
        return self._beside(".sink")

    @property
    def of_end(self) -> StatusFile:
        """The file with what ended the query, beside this one."""
        return self._beside(".end")

    def of_sources(self) -> Iterator[StatusFile]:
        """The files of all sources of a query, without end: this one, and those beside it."""
        yield self
        for number in count(2):
            yield self._beside(f"-{number}")

    def _beside(self, ending: str) -> StatusFile:
        name = PurePosixPath(self.path)
        return replace(self, path=str(name.with_name(f"{name.stem}{ending}{name.suffix}")))

    def read(self) -> bytes:
        """The content of the file. Raises one of FILE_ERRORS, FileNotFoundError if there is no file."""
        return self.read_owned()[0]

    def read_owned(self) -> tuple[bytes, bool]:
        """The same, and whether surely this user has written it. In a store nobody knows."""
        own = False
        if self.location.is_local:
            descriptor, own = open_to_read(self.path)
            with os.fdopen(descriptor, "rb") as opened:
                content = opened.read(_LARGEST + 1)
        else:
            with self.location.files.open_input_stream(self.path) as file:
                content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise OSError(errno.EFBIG, f"it has more than {_LARGEST:,} bytes, so it is no status", self.path)
        return content, own

    def write(self, content: bytes) -> None:
        """Replace the content of the file. Raises one of FILE_ERRORS."""
        if self.location.is_local:
            self._replace(content)
            return
        with self.location.files.open_output_stream(self.path) as file:
            file.write(content)

    def _replace(self, content: bytes) -> None:
        # Make only the last folder of the path. If the checkpoint does not exist, this fails and makes
        # nothing.
        path = Path(self.path)
        path.parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        # Only the user may read it: it has the broker's errors and the names of destinations.
        with os.fdopen(create_file(temporary), "wb") as file:
            file.write(content)
        replace_file(temporary, path)


def status_file(options: SourceOptions | SinkOptions) -> StatusFile | None:
    """The status file of a query: ``statusFile``, else a file in its checkpoint, else None.

    Raises OptionError if ``statusFile`` names something that cannot be the file.
    """
    if options.status_file is None and options.checkpoint_location is None:
        return None
    wanted = options.status_file or options.checkpoint_location or ""
    _refuse_what_is_there(options)
    try:
        location = resolve(wanted)
    except ValueError as error:
        raise OptionError(f"statusFile {without_credentials(wanted)} cannot be opened: {error}") from error
    return StatusFile(location, location.root) if options.status_file else _beside(location)


def status_at(place: str) -> tuple[StatusFile, bool]:
    """The status file at this path or URI, or the first one in the checkpoint there; and whether it is that.

    Raises ValueError if no file system fits.
    """
    location = resolve(place)
    is_folder = location.files.get_file_info(location.root).type is FileType.Directory
    return _beside(location) if is_folder else StatusFile(location, location.root), is_folder


def _beside(checkpoint: Location) -> StatusFile:
    return StatusFile(checkpoint, f"{checkpoint.root.rstrip('/')}/{_BESIDE_CHECKPOINT}")


def query_name(options: SourceOptions | SinkOptions) -> str:
    """What to call the query: the last part of its checkpoint's location, else its destinations.

    In a sink, the name that the user gave the query has priority. Spark does not pass it to a source.
    """
    checkpoint = without_credentials(options.checkpoint_location or "").rstrip("/").rpartition("/")[2]
    if isinstance(options, SourceOptions):
        return checkpoint or listed(options.destinations)
    return options.query_name or checkpoint or options.destination or "stomp"


def check_status_file(options: SourceOptions | SinkOptions) -> None:
    """Raise OptionError if ``statusFile`` is a folder, a pipe or a device. Waits half a second at most."""
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
        file_types = {stat.S_IFDIR: "folder: name a file in it, such as status.json", stat.S_IFIFO: "pipe"}
        file_type = file_types.get(stat.S_IFMT(mode), "device or a socket")
        raise OptionError(f"statusFile {path} is a {file_type}")


def within(timeout: float, work: Callable[[], T], instead: T) -> T:
    """What ``work`` returns or raises; ``instead`` if it takes more than ``timeout`` seconds.

    The work is done in another thread, and goes on there after the timeout: a file system may hang.
    """
    future = aside(work)
    return future.result() if wait([future], timeout).done else instead


def as_json(status: Figures) -> bytes:
    return json.dumps(status, indent=1).encode() + b"\n"


def parsed(content: bytes) -> Figures:
    """The JSON object in a status file. Raises ValueError if there is none."""
    try:
        status = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(status, dict):
        raise ValueError("it is no JSON object")
    return status


class StatusWriter:
    """Writes the status of a source, in its own thread: on news, at intervals, and at the end.

    ``snapshot(running)`` returns the status, of which ``number`` is a part: the number of this source among
    those of the query, 1 for the first.
    """

    def __init__(self, options: SourceOptions, snapshot: Callable[[bool], Figures]) -> None:
        self.number = 1
        self._options = options
        self._snapshot = snapshot
        self._file: StatusFile
        self._claimed: Future[None] = Future()
        self._written: Figures | None = None
        self._written_at = 0.0
        self._once = Once(log)
        self._worker = Worker("stomp-status", self._run)

    def start(self) -> None:
        """Begin to write. Waits at most 10 s until the file is this source's, so that the next one sees it.

        Raises OptionError if ``statusFile`` names something that cannot be the file.
        """
        self._worker.start()
        if wait([self._claimed], _OPEN).done:
            self._claimed.result()
        else:
            log.warning("the file system of the status file has not answered for %.0f s", _OPEN)

    def write_soon(self) -> None:
        """Look for news now."""
        self._worker.wake()

    def stop(self, timeout: float) -> None:
        """Write once more, then end. Waits at most ``timeout`` seconds for that."""
        self._worker.stop(timeout)

    # Everything below runs in the writer's thread.

    def _run(self) -> None:
        try:
            self._open()
        except BaseException as error:  # noqa: BLE001 - raised by ``start``
            self._claimed.set_exception(error)
            return
        self._claimed.set_result(None)
        while not self._worker.is_stopping:
            self._step(running=True)
            self._worker.wait(self._file.look_every)
        self._step(running=False)

    def _open(self) -> None:
        file = status_file(self._options)
        assert file is not None, "the options name no status file"
        self._file = file
        if self._options.status_file is None:
            self.number, self._file = self._unclaimed(file)
            # Now the query's next source sees that the file is taken.
            self._step(running=True)

    def _unclaimed(self, first: StatusFile) -> tuple[int, StatusFile]:
        """The first file that no running source of this query has, and its number.

        If one of these had the same receivers in an earlier run, it is that one: after a restart, Spark may
        start the sources in another order.
        """
        own = self._snapshot(True)
        free = []
        for number, file in enumerate(first.of_sources(), 1):
            before = _last_status(file)
            if before is None:
                free.append((number, file))
                break
            if not _runs_beside(before, own):
                free.append((number, file))
                had = before.get("receivers")
                if isinstance(had, dict) and had.keys() == own["receivers"].keys():
                    return number, file
        return free[0]

    def _step(self, *, running: bool) -> None:
        try:
            self._write(running=running)
            self._once.over("write")
        except FILE_ERRORS as error:
            self._warn_once(self._file.location.words(error))
        except Exception as error:  # noqa: BLE001 - no error of the status may fail the query
            self._warn_once(repr(error))

    def _write(self, *, running: bool) -> None:
        shown = self._snapshot(running)
        now, news = time.monotonic(), lasting(shown)
        if news == self._written and now - self._written_at < self._file.write_every:
            return
        if not running and self._written and self._has_next_run(shown):
            return
        self._file.write(as_json(shown))
        self._written, self._written_at = news, now

    def _has_next_run(self, shown: Figures) -> bool:
        """Whether a later run has the file already: it need not wait until this one has ended."""
        there = _last_status(self._file)
        return there is not None and there.get("run") != shown.get("run")

    def _warn_once(self, why: str) -> None:
        text = "the status file %s cannot be written: %s; it is tried again"
        self._once.warning("write", text, self._file.shown, why)


def _last_status(file: StatusFile) -> Figures | None:
    """What the file holds; None without a file, or if it cannot be read."""
    with suppress(ValueError, *FILE_ERRORS):
        return parsed(file.read())
    return None


def _runs_beside(other: Figures, own: Figures) -> bool:
    """Whether ``other`` is the status of a source that runs under the same driver as that of ``own``."""
    same = all(other.get(key) == own[key] for key in ("host", "driver", "running"))
    return same and not other.get("stopping") and _lives(other.get("pid"))


def is_gone(status: Mapping[str, Any]) -> bool:
    """Whether the process that wrote ``status`` is known to have ended; False if it may be elsewhere."""
    here = status.get("host") == platform.node()
    same_ids = str(status.get("driver")).partition("@")[2].partition("@")[2] == ids_space()
    return here and same_ids and not _lives(status.get("pid"))


def _lives(pid: Any) -> bool:
    """Whether there is a process with this id."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (TypeError, OverflowError, OSError):
        return False
    return True
