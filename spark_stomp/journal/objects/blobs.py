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
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import pyarrow.fs as fs

from spark_stomp.errors import JournalDamaged, JournalError, JournalUnwritable
from spark_stomp.files.durable import lacks_room, sync_folder, write_fully
from spark_stomp.files.locations import FILE_ERRORS, Location
from spark_stomp.files.private import make_folder, open_file
from spark_stomp.journal.api import JournalFull, unwritable
from spark_stomp.journal.objects.object_names import FRAMES, RESERVE

T = TypeVar("T")

# Seconds before each further attempt, for a store that is busy or out of reach for a moment. The clients of
# pyarrow try again too. A judgement, not measured.
_DELAYS: Final = (0.2, 0.8, 2.0)
# How often to list and read again if another writer deletes objects meanwhile. A judgement.
_ATTEMPTS: Final = 5
# Bytes of the reserve on a mount, for a marker, a manifest, marks and about a thousand message keys. A
# judgement, not measured.
_RESERVE_BYTES: Final = 64 << 10
# File systems without folders: making one would leave an empty object behind.
_WITHOUT_FOLDERS: Final = ("s3", "gcs", "gs")
# The errors of file systems that cannot sync a folder.
_CANNOT_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EISDIR)


class MountFull(OSError):
    """A mount had no room for an object. Nothing of the object is there, and it was never complete."""


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
    """Local files below ``root``, each written once, from front to back, and synced.

    One of them, the reserve, only takes up room. It is given up for anything but frames: on a full mount no
    journal could be opened otherwise, and nothing be deleted. Frames are put only while it is there.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def prepare(self, folders: Iterable[str]) -> None:
        for folder in folders:
            make_folder(self._root / folder)

    def put(self, path: str, data: bytes) -> None:
        reserve = self._root / RESERVE
        try:
            if path.startswith(FRAMES) and not reserve.exists():
                self._put(RESERVE, bytes(_RESERVE_BYTES))
            self._put(path, data)
        except MountFull:
            if path.startswith(FRAMES):
                raise
            reserve.unlink(missing_ok=True)
            self._put(path, data)

    def _put(self, path: str, data: bytes) -> None:
        target = self._root / path
        is_cut_off = not target.exists() or target.stat().st_size < len(data)
        try:
            # Without O_TRUNC: a second put has the same bytes, and a reader must never see the file cut off.
            descriptor = open_file(target, os.O_WRONLY | os.O_CREAT)
            try:
                write_fully(descriptor, [data])
                is_cut_off = False
                os.fsync(descriptor)
            finally:
                # A mount of an object store uploads when the file is closed, and reports a failure here.
                os.close(descriptor)
        except OSError as error:
            if not is_cut_off or not lacks_room(error):
                raise
            # No listing counts it, and others need its room.
            target.unlink(missing_ok=True)
            raise MountFull(*error.args) from None
        _sync_folder(target.parent)

    def get(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def sizes(self, folder: str) -> dict[str, int]:
        try:
            with os.scandir(self._root / folder) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except FileNotFoundError:
            # If the folder exists, a file was deleted before its size was read: list again.
            return self.sizes(folder) if (self._root / folder).is_dir() else {}

    def delete(self, path: str) -> None:
        (self._root / path).unlink()


def open_store(location: Location) -> Store:
    """The store at ``location``: for a local path a mount, otherwise an object store."""
    return MountStore(location.root) if location.is_local else ArrowStore(location.files, location.root)


class Blobs:
    """A store whose failed calls are retried a few times.

    A call that still fails raises a JournalError, which says what failed and why, without credentials. It is
    JournalFull if a mount is full: then nothing was put.
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

    def steadily(self, folder: str, read: Callable[[], T]) -> T:
        """The result of ``read``, which is called again if another writer deletes objects meanwhile."""
        for _ in range(_ATTEMPTS):
            with suppress(FileNotFoundError):
                return read()
        raise JournalDamaged(f"objects under {folder} of the journal at {self.shown} keep vanishing")

    def _deleted(self, path: str) -> None:
        # If it is missing, an earlier attempt deleted it, or another writer did.
        with suppress(FileNotFoundError):
            self._store.delete(path)

    def _writing(self, action: Callable[[], T]) -> T:
        try:
            return self._retried(action)
        except FILE_ERRORS as error:
            kind = JournalFull if isinstance(error, MountFull) else JournalUnwritable
            raise unwritable(self.shown, self._location.words(error), kind) from None

    def _retried(self, action: Callable[[], T]) -> T:
        for delay in _DELAYS:
            try:
                return action()
            except (FileNotFoundError, PermissionError, MountFull):
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
