"""Durable writes to local files, with the system's own calls, because ``pyarrow.fs`` never syncs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

Parts = list[bytes | memoryview]


class OpenFile:
    """A file descriptor that is closed when nothing refers to this object any more.

    This may be long after the file was deleted: a reader keeps it open.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset`` on; fewer at the end of the file."""
        parts = []
        while length > 0 and (part := os.pread(self.descriptor, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def write_fully(descriptor: int, parts: Parts) -> None:
    """Write all of ``parts`` at the current position.

    Raises OSError if the system does; then a part of the bytes may have been written.
    """
    written = os.writev(descriptor, parts)
    if written == sum(map(len, parts)):
        return
    rest = memoryview(b"".join(parts))[written:]
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class SyncFailed(OSError):
    """A sync failed: what was written to the file since its last sync may be lost.

    The system reports this only once. A second sync may succeed although the disk does not have the bytes, so
    its result must not be trusted.
    """


def lacks_room(error: OSError) -> bool:
    """Whether the only problem is that the disk, or the user's quota, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) and not isinstance(error, SyncFailed)


def sync(descriptor: int) -> None:
    """Make durable what was written to a file. Raises SyncFailed if that is not certain."""
    try:
        # fdatasync syncs the content and the length. The times that it leaves out would cost a second write.
        (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(descriptor)
    except OSError as error:
        raise SyncFailed(*error.args) from error


def sync_folder(path: Path) -> None:
    """Make durable which files are in the folder. Raises OSError if the system does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_and_drop_cache(descriptor: int) -> None:
    """Sync what an earlier run wrote to a file, and drop the file from the system's cache.

    If a sync of the earlier run failed, the cache may show bytes that the disk does not have. Raises
    SyncFailed if the file cannot be synced.
    """
    sync(descriptor)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
