"""Where a journal is: objects in folders, each put once. An object store, a mount of one, or a disk.

The journal relies on two properties of an object store or a mount:

- An object that was put completely is found by every listing that begins afterwards. This holds for the
  stores of Amazon, Google and Microsoft.
- A complete object stays complete while it is put again with the same bytes.

It relies on nothing else. An object may appear after its put failed, or after its writer died. While an
object is being written, some stores list it with a smaller size than the one in its name.

A disk has more: a lock, so that nobody else writes, and syncs. One that failed is never tried again: the
system may then say that bytes are synced which the disk does not have.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow.fs as fs

from spark_stomp.deadline import Deadline
from spark_stomp.errors import JournalError, JournalFull, JournalInUse, JournalUnwritable
from spark_stomp.files import (
    FILE_ERRORS,
    PRIVATE_FOLDER,
    Location,
    SyncFailed,
    lacks_room,
    make_folder,
    open_file,
    refuse_link,
    sync,
    sync_and_drop_cache,
    sync_folder,
    write_fully,
)
from spark_stomp.journal.formats import FRAMES, LOCK, RESERVE

T = TypeVar("T")

# Seconds before each further attempt, for a store that is busy or out of reach for a moment. The clients of
# pyarrow try again too.
_DELAYS: Final = (0.2, 0.8, 2.0)
# Bytes of the reserve. Enough for a marker, states and some ten thousand message keys.
_RESERVE_BYTES: Final = 1 << 20
# Seconds between two attempts to take the lock.
_LOCK_POLL: Final = 0.1
# File systems without folders: making one would leave an empty object behind.
_WITHOUT_FOLDERS: Final = ("s3", "gcs", "gs")
# The errors of file systems that cannot sync a folder.
_CANNOT_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EISDIR)


class ArrowStore:
    """Objects below ``root`` in a file system of ``pyarrow.fs``. Paths are relative to ``root``.

    A method that fails raises OSError or an error of pyarrow, and FileNotFoundError if the object is missing.
    """

    lacks_room = False
    """Whether the last put found no room."""

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root

    def prepare(self, folders: Iterable[str]) -> None:
        """Make the folders, if the store has folders at all."""
        if self._files.type_name in _WITHOUT_FOLDERS:
            return
        for folder in folders:
            self._files.create_dir(f"{self._root}/{folder}", recursive=True)

    def put(self, path: str, data: bytes) -> None:
        """Put an object, replacing an older one of that name. It is durable when this returns."""
        # The object exists, and is complete, once the stream is closed.
        with self._files.open_output_stream(f"{self._root}/{path}") as file:
            file.write(data)

    def get(self, path: str) -> bytes:
        """The content of an object."""
        with self._files.open_input_file(f"{self._root}/{path}") as file:
            return bytes(file.read())

    def sizes(self, folder: str) -> dict[str, int]:
        """The names of the objects in ``folder``, with their sizes in bytes."""
        selector = fs.FileSelector(f"{self._root}/{folder}".rstrip("/"), allow_not_found=True)
        infos = self._files.get_file_info(selector)
        return {info.base_name: info.size for info in infos if info.type == fs.FileType.File}

    def delete(self, path: str) -> None:
        """Delete an object."""
        self._files.delete_file(f"{self._root}/{path}")


class FolderStore:
    """Files below ``root``, with the methods of :class:`ArrowStore`, on a disk or a mount.

    Each is written once, from front to back, and synced.

    One of them, the reserve, only takes up room. It is given up if there is none, for anything but frames: on
    a full disk no journal could be opened otherwise, and nothing be deleted. Frames are put only while it is
    there. A put raises JournalFull if there is no room.
    """

    def __init__(self, root: str, reserve_bytes: int = _RESERVE_BYTES) -> None:
        self._root = Path(root)
        self._reserve_bytes = min(reserve_bytes, _RESERVE_BYTES)

    def prepare(self, folders: Iterable[str]) -> None:
        for path in (self._root / folder for folder in folders):
            refuse_link(path)
            make_folder(path)
            # The modes of a copy that was put back may be others. A mount may not support modes.
            with suppress(OSError):
                path.chmod(PRIVATE_FOLDER)
            # An earlier run may have been killed before it synced what it put there.
            _sync_folder(path)
        _sync_folder(self._root)

    def put(self, path: str, data: bytes) -> None:
        reserve = self._root / RESERVE
        is_frames = path.startswith(f"{FRAMES}/")
        try:
            if is_frames and not reserve.exists():
                self._put(RESERVE, bytes(self._reserve_bytes))
            self._put(path, data)
        except JournalFull:
            reserve.unlink(missing_ok=True)
            if is_frames:
                raise
            self._put(path, data)

    @property
    def lacks_room(self) -> bool:
        """Whether the last put found no room for frames, or there were none yet."""
        return not (self._root / RESERVE).exists()

    def _put(self, path: str, data: bytes) -> None:
        target = self._root / path
        is_cut_off = True
        try:
            try:
                descriptor = open_file(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                # Without O_TRUNC: it is put again, and what is whole must never be seen cut off.
                is_cut_off = False
                descriptor = open_file(target, os.O_WRONLY)
            try:
                write_fully(descriptor, data)
                is_cut_off = False
                sync(descriptor)
            finally:
                # A mount of an object store uploads when the file is closed, and reports a failure here.
                os.close(descriptor)
        except OSError as error:
            if not is_cut_off or not lacks_room(error):
                raise
            # No listing counts the cut-off file, and others need its room.
            target.unlink(missing_ok=True)
            free = shutil.disk_usage(self._root).free
            why = f"{error.strerror}: {len(data):,} bytes were wanted, and {free:,} are free"
            raise unwritable(str(self._root), why, JournalFull) from error
        _sync_folder(target.parent)

    def get(self, path: str) -> bytes:
        with os.fdopen(open_file(self._root / path, os.O_RDONLY), "rb") as file:
            return file.read()

    def reread(self, path: str) -> bytes:
        """The content of a file as the disk has it, durable now."""
        with os.fdopen(open_file(self._root / path, os.O_RDWR), "rb") as file:
            sync_and_drop_cache(file.fileno())
            return file.read()

    def sizes(self, folder: str) -> dict[str, int]:
        try:
            with os.scandir(self._root / folder) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except FileNotFoundError:
            # If the folder exists, a file was deleted before its size was read: list again.
            return self.sizes(folder) if (self._root / folder).is_dir() else {}

    def delete(self, path: str) -> None:
        (self._root / path).unlink()


Store: TypeAlias = ArrowStore | FolderStore


class RetryingStore:
    """A store whose failed calls are retried a few times.

    A call that still fails raises a JournalError, which says what failed and why, without credentials.
    Retrying a put is safe, because an object of one name always has the same bytes.
    """

    is_locked = False
    """Whether nobody else can write as long as this is open."""

    gather = 0.2
    """Seconds from one append to the next: each costs a put and a listing."""

    _delays: tuple[float, ...] = _DELAYS

    def __init__(self, store: Store, location: Location, pause: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._location = location
        self._pause = pause

    @property
    def shown(self) -> str:
        """The location as text, without credentials."""
        return self._location.shown

    @property
    def lacks_room(self) -> bool:
        """Whether the last put found no room. It may be that of an earlier writer."""
        return self._store.lacks_room

    def prepare(self, folders: Iterable[str]) -> None:
        """Make the folders, if the store has folders at all."""
        self._writing(lambda: self._store.prepare(folders))

    def put(self, path: str, data: bytes) -> None:
        """Put an object. It is durable when this returns; after an error it may exist, or appear later.

        After JournalFull nothing of it is there.
        """
        self._writing(lambda: self._store.put(path, data))

    def sizes(self, folder: str) -> dict[str, int]:
        """The names of the objects in ``folder``, with their sizes in bytes."""
        return self._writing(lambda: self._store.sizes(folder))

    def delete(self, folder: str, names: Iterable[str]) -> None:
        """Delete objects one after the other; missing ones are skipped."""
        for name in names:
            self._writing(lambda path=f"{folder}/{name}": self._deleted(path))  # type: ignore[misc]

    def get(self, path: str) -> bytes:
        """The content of an object. Raises FileNotFoundError if it is missing."""
        return self._reading(path, self._store.get)

    def reread(self, path: str) -> bytes:
        """The content of an object that an earlier writer may not have finished. It is durable now."""
        return self.get(path)

    def close(self) -> None:
        """Let the next writer in. It can come at any time if there is no lock."""

    def _reading(self, path: str, read: Callable[[str], bytes]) -> bytes:
        try:
            return self._retried(lambda: read(path))
        except (FileNotFoundError, SyncFailed):
            raise
        except FILE_ERRORS as error:
            raise JournalError(
                f"{path} of the journal at {self.shown} cannot be read: {self._location.words(error)}"
            ) from None

    def _deleted(self, path: str) -> None:
        # If it is missing, an earlier attempt deleted it, or another writer did.
        with suppress(FileNotFoundError):
            self._store.delete(path)

    def _writing(self, action: Callable[[], T]) -> T:
        try:
            return self._retried(action)
        except FILE_ERRORS as error:
            raise unwritable(self.shown, self._location.words(error)) from None

    def _retried(self, action: Callable[[], T]) -> T:
        for delay in self._delays:
            try:
                return action()
            except (FileNotFoundError, PermissionError):
                raise
            except FILE_ERRORS:
                self._pause(delay)
        return action()


class Disk(RetryingStore):
    """A folder on a disk. The process that has it open holds its lock, however it ends, and is alone there.

    :meth:`prepare` raises JournalInUse if another process still holds the lock after ``lock_timeout``
    seconds.
    """

    is_locked = True
    # So short that a batch hardly waits for it, and so long that a file has many messages under load:
    # ActiveMQ gave 0.93 of the rate of files that were appended to (November 2026).
    gather = 0.02
    # The reader process of a driver that was killed notices within a second and may need 5 seconds to end;
    # then the lock is free.
    lock_timeout = 30.0
    _delays = ()

    def __init__(self, location: Location, reserve_bytes: int = _RESERVE_BYTES) -> None:
        self._folder = FolderStore(location.root, reserve_bytes)
        super().__init__(self._folder, location)
        self._root = Path(location.root)
        self._lock: int | None = None

    def prepare(self, folders: Iterable[str]) -> None:
        self._writing(lambda: make_folder(self._root))
        self._lock = self._writing(self._locked)
        super().prepare(folders)

    def reread(self, path: str) -> bytes:
        try:
            return self._reading(path, self._folder.reread)
        except SyncFailed as error:
            raise unwritable(self.shown, error) from error

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _locked(self) -> int:
        descriptor = open_file(self._root / LOCK, os.O_RDWR | os.O_CREAT)
        deadline = Deadline.after(self.lock_timeout)
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                if deadline.passed:
                    os.close(descriptor)
                    raise JournalInUse(
                        f"the journal at {self.shown} is in use by another query; each query needs its own. "
                        "If the driver of the last run was killed, its reader process may still be ending"
                    ) from None
                time.sleep(_LOCK_POLL)


def open_store(location: Location, max_bytes: int) -> RetryingStore:
    """The store of a journal of ``max_bytes`` at ``location``."""
    if not location.is_local:
        return RetryingStore(ArrowStore(location.files, location.root), location)
    # A fraction that nobody misses.
    reserve_bytes = max_bytes >> 8
    if location.takes_appends:
        return Disk(location, reserve_bytes)
    return RetryingStore(FolderStore(location.root, reserve_bytes), location)


def unwritable(
    where: str, why: object, error_class: type[JournalUnwritable] = JournalUnwritable
) -> JournalUnwritable:
    """The error for a journal at ``where`` that cannot be written."""
    remedy = ". Make room there, and start the query again" if error_class is JournalFull else ""
    return error_class(
        f"the journal at {where} cannot be written: {why}. Messages that are not in the journal were neither "
        f"given to Spark nor ACKed, and stay on the broker{remedy}"
    )


def _sync_folder(path: Path) -> None:
    """Make durable which files are in the folder, if its file system can do that."""
    try:
        sync_folder(path)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
