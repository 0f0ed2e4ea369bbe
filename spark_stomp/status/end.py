"""What ended a query, as its program has said: Spark tells it neither the source nor the sink."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from typing import Final

from pyarrow.fs import FileType

from spark_stomp.files import FILE_ERRORS, resolve, without_credentials
from spark_stomp.logs import get_log
from spark_stomp.quoting import line
from spark_stomp.status.figure import VERSION, Figure, Part, Time
from spark_stomp.status.files import as_json, status_at, within

log = get_log(__name__)

JVM_ENDED: Final = "Spark's JVM has ended (killed, or out of memory?)"
"""What the program says of an error that only tells that Spark's JVM answers no more."""

# Seconds for which the program waits for the file system.
_TIMEOUT = 5.0


@dataclass(frozen=True)
class EndPart(Part):
    """What ended the query."""

    prefix = "end_"

    location: str
    why: str
    code: str | None

    @Figure()
    def version(self) -> int:
        """The version of this part: 1."""
        return VERSION

    @Figure()
    def query(self) -> str:
        """The last part of the location that was given."""
        return without_credentials(self.location).rstrip("/").rpartition("/")[2]

    @Figure()
    def host(self) -> str:
        """The machine of the program."""
        return platform.node()

    @Figure()
    def failure(self) -> str:
        """Why the query failed."""
        return line(self.why)

    @Figure()
    def failure_code(self) -> str | None:
        """The code of `failure`; null if it is no error of this package."""
        return self.code

    @Time()
    def failed_at(self) -> float:
        """When the program said so."""
        return time.time()


def keep_end(location: str, why: str, code: str | None) -> None:
    """Keep ``why`` in the status at ``location``: a checkpoint, or a status file. Never raises.

    Without either there, nothing is written.
    """

    def write() -> str:
        try:
            place = resolve(location)
            if place.files.get_file_info(place.root).type is not FileType.NotFound:
                status_at(location)[0].of_end.write(as_json(EndPart(location, why, code).shown()))
        except FILE_ERRORS as error:
            return place.words(error)
        except Exception as error:  # noqa: BLE001 - the caller has an error already
            return repr(error)
        return ""

    if problem := within(_TIMEOUT, write, "its file system does not answer"):
        log.warning("the status at %s does not get the error: %s", without_credentials(location), problem)
