"""The files that hold the status of a query: where they are, and how they are replaced.

Source and sink of a query run in different processes, so each has a file of its own. A reader takes both for
one status (:func:`spark_stomp.metrics.read_status`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from spark_stomp.errors import OptionError
from spark_stomp.locations import Location, resolve, without_credentials
from spark_stomp.options import SinkOptions, SourceOptions
from spark_stomp.private_files import PRIVATE_FOLDER, create_file, replace_file

BESIDE_CHECKPOINT: Final = "spark_stomp/status.json"
"""Where the status is under a checkpoint."""


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
        with self.location.files.open_input_stream(self.path) as file:
            content: bytes = file.read()
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
    try:
        location = resolve(wanted)
    except ValueError as error:
        raise OptionError(f"statusFile {without_credentials(wanted)} cannot be opened: {error}") from error
    beside = f"{location.root}/{BESIDE_CHECKPOINT}"
    return StatusFile(location, beside if options.status_file is None else location.root)
