"""The files that hold the status of a query: where they are, and how they are replaced.

Source and sink of a query run in different processes, so each has a file of its own. A reader takes both for
one status (:func:`spark_stomp.metrics.read_status`).
"""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn, TypeVar

from spark_stomp.errors import OptionError
from spark_stomp.locations import Location, local_path, resolve, without_credentials
from spark_stomp.logs import in_context
from spark_stomp.options import SinkOptions, SourceOptions
from spark_stomp.private_files import PRIVATE_FOLDER, create_file, replace_file

T = TypeVar("T")

BESIDE_CHECKPOINT: Final = "spark_stomp/status.json"
"""Where the status is under a checkpoint."""

# Bytes: a receiver takes about 2,000.
_LARGEST = 64 << 20
LARGEST_NUMBER: Final = 1 << 63
"""Numbers of a status are less: counts of bytes fit into 64 bits, and seconds do by far."""

# Seconds that a query's start waits to see whether there is a folder or a pipe.
_CHECK: Final = 0.5


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
    beside = f"{location.root}/{BESIDE_CHECKPOINT}"
    return StatusFile(location, beside if options.status_file is None else location.root)


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


def parsed(content: bytes) -> dict[str, Any]:
    """The JSON object in a status file; ValueError if it is none, or has numbers that no status has."""
    try:
        status = json.loads(content, parse_int=_number(int), parse_float=_number(float), parse_constant=_none)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(status, dict):
        raise ValueError("it is no JSON object")
    return status


def _number(kind: Callable[[str], float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        number = kind(text)
        return number if -LARGEST_NUMBER < number < LARGEST_NUMBER else _none(text)

    return parse


def _none(text: str) -> NoReturn:
    raise ValueError(f"a status has no number {text[:20]}")
