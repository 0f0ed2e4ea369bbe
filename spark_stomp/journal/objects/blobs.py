"""Immutable objects in folders: on object stores, and on mounts whose files cannot be appended to.

What the rest of the journal relies on:

- An object that was put completely is found by every listing that begins afterwards (S3, Google's and Azure's
  stores keep this).
- A complete object stays complete while it is put again with the same bytes.

Nothing else is relied on. An object may appear after its writer was told of a failure, or although its writer
is dead. While it is being written, some stores show it with a smaller size than its name tells.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import pyarrow.fs as fs

from spark_stomp.errors import JournalError
from spark_stomp.files.durable import sync_folder, write_fully
from spark_stomp.files.locations import FILE_ERRORS, Location
from spark_stomp.files.private import make_folder, open_file
from spark_stomp.journal.api import unwritable

T = TypeVar("T")

# A store that is busy or out of reach for a moment; pyarrow's own clients try again as well.
_DELAYS: Final = (0.2, 0.8, 2.0)
# These have no folders, only names; "making" one leaves an empty object behind.
_WITHOUT_FOLDERS: Final = ("s3", "gcs", "gs")
# The answers of file systems that cannot sync a folder.
_CANNOT_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EISDIR)


class Store(Protocol):
    """A method that fails raises OSError or a pyarrow error, FileNotFoundError if there is no such object."""

    def prepare(self, folders: Iterable[str]) -> None:
        """Make the folders, if the store knows such a thing."""

    def put(self, path: str, data: bytes) -> None:
        """Durable when this returns; an older object of that name is replaced."""

    def get(self, path: str) -> bytes: ...

    def sizes(self, folder: str) -> dict[str, int]:
        """The names of the objects in ``folder`` with their sizes."""

    def delete(self, path: str) -> None: ...


class ArrowStore:
    """Objects below ``root`` of a file system of pyarrow's."""

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root

    def prepare(self, folders: Iterable[str]) -> None:
        if self._files.type_name in _WITHOUT_FOLDERS:
            return
        for folder in folders:
            self._files.create_dir(f"{self._root}/{folder}", recursive=True)

    def put(self, path: str, data: bytes) -> None:
        # The object is there, as a whole, once the stream is closed.
        with self._files.open_output_stream(f"{self._root}/{path}") as file:
            file.write(data)

    def get(self, path: str) -> bytes:
        with self._files.open_input_file(f"{self._root}/{path}") as file:
            return bytes(file.read())

    def sizes(self, folder: str) -> dict[str, int]:
        selector = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        infos = self._files.get_file_info(selector)
        return {info.base_name: info.size for info in infos if info.type == fs.FileType.File}

    def delete(self, path: str) -> None:
        self._files.delete_file(f"{self._root}/{path}")


class MountStore:
    """Files below ``root`` of this machine, each written once, from front to back, and synced."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def prepare(self, folders: Iterable[str]) -> None:
        for folder in folders:
            make_folder(self._root / folder)

    def put(self, path: str, data: bytes) -> None:
        target = self._root / path
        # Not truncated: a second put has the same bytes, and a reader must not see the file cut off.
        descriptor = open_file(target, os.O_WRONLY | os.O_CREAT)
        try:
            write_fully(descriptor, [data])
            os.fsync(descriptor)
        finally:
            # A mount uploads at this call, and reports here if it could not.
            os.close(descriptor)
        _sync_folder(target.parent)

    def get(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def sizes(self, folder: str) -> dict[str, int]:
        try:
            with os.scandir(self._root / folder) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except FileNotFoundError:
            # The folder is missing, or a file vanished while its size was read: then list again.
            if (self._root / folder).is_dir():
                return self.sizes(folder)
            return {}

    def delete(self, path: str) -> None:
        (self._root / path).unlink()


def open_store(location: Location) -> Store:
    """The store at ``location``."""
    return MountStore(location.root) if location.is_local else ArrowStore(location.files, location.root)


class Blobs:
    """A store whose failing calls are tried again a few times.

    Then they raise a JournalError that says what failed and why, without credentials. Putting again is safe
    because a name is only ever put with the same bytes.
    """

    def __init__(self, store: Store, location: Location, pause: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._location = location
        self._pause = pause

    @property
    def shown(self) -> str:
        """The location for people to read."""
        return self._location.shown

    def prepare(self, folders: Iterable[str]) -> None:
        self._writing(lambda: self._store.prepare(folders))

    def put(self, path: str, data: bytes) -> None:
        """Durable when this returns; after an error it may be there, or appear later."""
        self._writing(lambda: self._store.put(path, data))

    def names(self, folder: str) -> dict[str, int]:
        """The names of the objects in ``folder`` with their sizes."""
        return self._writing(lambda: self._store.sizes(folder))

    def delete(self, folder: str, names: Iterable[str]) -> None:
        """One after the other; those that are not there are skipped."""
        for name in names:
            self._writing(lambda path=f"{folder}/{name}": self._deleted(path))  # type: ignore[misc]

    def get(self, path: str) -> bytes:
        """FileNotFoundError if there is no such object."""
        try:
            return self._retried(lambda: self._store.get(path))
        except FileNotFoundError:
            raise
        except FILE_ERRORS as error:
            raise JournalError(
                f"{path} of the journal at {self.shown} cannot be read: {self._location.words(error)}"
            ) from None

    def _deleted(self, path: str) -> None:
        try:
            self._store.delete(path)
        except FileNotFoundError:
            # An earlier try did it, or another writer.
            return

    def _writing(self, action: Callable[[], T]) -> T:
        try:
            return self._retried(action)
        except FILE_ERRORS as error:
            raise unwritable(self.shown, self._location.words(error)) from None

    def _retried(self, action: Callable[[], T]) -> T:
        for delay in _DELAYS:
            try:
                return action()
            except (FileNotFoundError, PermissionError):
                raise
            except FILE_ERRORS:
                self._pause(delay)
        return action()


def _sync_folder(path: Path) -> None:
    """Make durable which files are in the folder, if its file system has a way to do so."""
    try:
        sync_folder(path)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
