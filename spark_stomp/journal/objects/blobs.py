"""Immutable objects in folders: on object stores, and on mounts whose files cannot be appended to.

The journal relies on two properties of the store:

- An object that was put completely is found by every listing that begins afterwards. This holds for the
  stores of Amazon, Google and Microsoft.
- A complete object stays complete while it is put again with the same bytes.

It relies on nothing else. An object may appear after its put failed, or after its writer died. While an
object is being written, some stores list it with a smaller size than the one in its name.
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

# Seconds before each further attempt, for a store that is busy or out of reach for a moment. The clients of
# pyarrow try again too. A judgement, not measured.
_DELAYS: Final = (0.2, 0.8, 2.0)
# File systems without folders: making one would leave an empty object behind.
_WITHOUT_FOLDERS: Final = ("s3", "gcs", "gs")
# The errors of file systems that cannot sync a folder.
_CANNOT_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EISDIR)


class Store(Protocol):
    """Where objects are put. Paths are relative to its root.

    A method that fails raises OSError or an error of pyarrow, and FileNotFoundError if the object is missing.
    """

    def prepare(self, folders: Iterable[str]) -> None:
        """Make the folders, if the store has folders at all."""

    def put(self, path: str, data: bytes) -> None:
        """Put an object, replacing an older one of that name. It is durable when this returns."""

    def get(self, path: str) -> bytes:
        """The content of an object."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The names of the objects in ``folder``, with their sizes in bytes."""

    def delete(self, path: str) -> None:
        """Delete an object."""


class ArrowStore:
    """Objects below ``root`` in a file system of ``pyarrow.fs``."""

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root

    def prepare(self, folders: Iterable[str]) -> None:
        if self._files.type_name in _WITHOUT_FOLDERS:
            return
        for folder in folders:
            self._files.create_dir(f"{self._root}/{folder}", recursive=True)

    def put(self, path: str, data: bytes) -> None:
        # The object exists, and is complete, once the stream is closed.
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
    """Local files below ``root``, each written once, from front to back, and synced."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def prepare(self, folders: Iterable[str]) -> None:
        for folder in folders:
            make_folder(self._root / folder)

    def put(self, path: str, data: bytes) -> None:
        target = self._root / path
        # Without O_TRUNC: a second put has the same bytes, and a reader must never see the file cut off.
        descriptor = open_file(target, os.O_WRONLY | os.O_CREAT)
        try:
            write_fully(descriptor, [data])
            os.fsync(descriptor)
        finally:
            # A mount of an object store uploads when the file is closed, and reports a failure here.
            os.close(descriptor)
        _sync_folder(target.parent)

    def get(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def sizes(self, folder: str) -> dict[str, int]:
        try:
            with os.scandir(self._root / folder) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except FileNotFoundError:
            # If the folder exists, a file was deleted before its size was read: list again.
            if (self._root / folder).is_dir():
                return self.sizes(folder)
            return {}

    def delete(self, path: str) -> None:
        (self._root / path).unlink()


def open_store(location: Location) -> Store:
    """The store at ``location``: for a local path a mount, otherwise an object store."""
    return MountStore(location.root) if location.is_local else ArrowStore(location.files, location.root)


class Blobs:
    """A store whose failed calls are retried a few times.

    A call that still fails raises a JournalError, which says what failed and why, without credentials.
    Retrying a put is safe, because an object of one name always has the same bytes.
    """

    def __init__(self, store: Store, location: Location, pause: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._location = location
        self._pause = pause

    @property
    def shown(self) -> str:
        """The location as text, without credentials."""
        return self._location.shown

    def prepare(self, folders: Iterable[str]) -> None:
        """Make the folders, if the store has folders at all."""
        self._writing(lambda: self._store.prepare(folders))

    def put(self, path: str, data: bytes) -> None:
        """Put an object. It is durable when this returns; after an error it may exist, or appear later."""
        self._writing(lambda: self._store.put(path, data))

    def names(self, folder: str) -> dict[str, int]:
        """The names of the objects in ``folder``, with their sizes in bytes."""
        return self._writing(lambda: self._store.sizes(folder))

    def delete(self, folder: str, names: Iterable[str]) -> None:
        """Delete objects one after the other; missing ones are skipped."""
        for name in names:
            self._writing(lambda path=f"{folder}/{name}": self._deleted(path))  # type: ignore[misc]

    def get(self, path: str) -> bytes:
        """The content of an object. Raises FileNotFoundError if it is missing."""
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
            # An earlier attempt deleted it, or another writer did.
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
    """Make durable which files are in the folder, if its file system can do that."""
    try:
        sync_folder(path)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
