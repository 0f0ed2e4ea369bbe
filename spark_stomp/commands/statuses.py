"""Reads the status of the sources of one query for a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyarrow.fs import FileType

from spark_stomp.commands import UsageError
from spark_stomp.files import FILE_ERRORS, resolve, without_credentials
from spark_stomp.quoting import shown
from spark_stomp.status import QueryStatus
from spark_stomp.status.files import StatusFile
from spark_stomp.status.reading import read_owned

T = TypeVar("T")

# A query counts as gone after this many missed writes of its status.
_MISSED = 3
_BEGINS = (
    "a query writes its status once its Python processes run, up to a minute after its start (longer on a "
    "busy machine)"
)


class Unread(Exception):
    """The status cannot be read; the text says why, and names the file."""


class StatusSource:
    """Where the status of a query is: a file, or the folder of a checkpoint.

    Raises UsageError if no file system fits the name.

    Attributes:
        silence: seconds after which a query that has written nothing counts as gone.
        is_own: whether surely this user alone has written all that was last read.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.is_own = False
        try:
            self._location = resolve(name)
        except ValueError as error:
            raise UsageError(f"{without_credentials(name)} cannot be opened: {error}") from error
        self.silence = _MISSED * StatusFile(self._location, self._location.root).write_every

    def read(self, use: Callable[[list[QueryStatus]], T]) -> T:
        """What ``use`` returns for the status of each source of the query.

        Raises Unread, also if the content makes ``use`` fail; and UsageError if there is neither a file nor a
        folder of this name.
        """
        place = self._location
        try:
            statuses, self.is_own = read_owned(self._name)
            return use(statuses)
        except FileNotFoundError:
            if place.files.get_file_info(place.root).type is FileType.NotFound:
                raise UsageError(
                    f"{place.shown}: nothing has been written there yet: {_BEGINS}; or the path is wrong"
                ) from None
            why = f"there is no status file yet: {_BEGINS}, with checkpointLocation or statusFile"
        except FILE_ERRORS as error:
            why = place.words(error)
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
            words = shown(place.words(error), 200)
            why = words if "status" in words else f"its content is not the status of a query: {words}"
        # Most reasons already begin with the name of the file.
        raise Unread(why if why.startswith(place.shown) else f"{place.shown}: {why}")
