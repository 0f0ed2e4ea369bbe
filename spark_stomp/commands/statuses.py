"""Reads the status of the sources of one query for a command."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyarrow.fs import FileType

from spark_stomp.commands import UsageError
from spark_stomp.files import FILE_ERRORS, resolve, without_credentials
from spark_stomp.quoting import shown
from spark_stomp.status import QueryStatus, read_statuses
from spark_stomp.status.files import StatusFile, status_at

T = TypeVar("T")

# A query counts as gone after this many missed writes of its status.
_MISSED = 3


class Unread(Exception):
    """The status cannot be read; the text says why, and names the file."""


class StatusSource:
    """Where the status of a query is: a file, or the folder of a checkpoint.

    Raises UsageError if no file system fits the name.

    Attributes:
        silence: seconds after which a query that has written nothing counts as gone.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        try:
            self._location = resolve(name)
        except ValueError as error:
            raise UsageError(f"{without_credentials(name)} cannot be opened: {error}") from error
        self.silence = _MISSED * StatusFile(self._location, self._location.root).write_every

    @property
    def is_own(self) -> bool:
        """Whether only this user can have written it, or it is in a store, where nobody knows."""
        if not self._location.is_local:
            return True
        first, _ = status_at(self._name)
        files = (Path(one.path) for one in (first, first.of_sink))
        return all(one.stat().st_uid == os.getuid() for one in files if one.exists())

    def read(self, use: Callable[[list[QueryStatus]], T]) -> T:
        """What ``use`` returns for the status of each source of the query.

        Raises Unread, also if the content makes ``use`` fail; and UsageError if there is neither a file nor a
        folder of this name.
        """
        place = self._location
        try:
            return use(read_statuses(self._name))
        except FileNotFoundError:
            if place.files.get_file_info(place.root).type is FileType.NotFound:
                raise UsageError(f"{place.shown}: there is no such file or folder") from None
            why = "there is no status file yet; a source writes one with checkpointLocation or statusFile"
        except FILE_ERRORS as error:
            why = place.words(error)
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
            words = shown(place.words(error), 200)
            why = words if "status" in words else f"its content is not the status of a query: {words}"
        # Most reasons already begin with the name of the file.
        raise Unread(why if why.startswith(place.shown) else f"{place.shown}: {why}")
