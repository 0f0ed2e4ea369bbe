"""Files of this machine, by the system's own calls: ``pyarrow.fs`` never syncs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

Parts = list[bytes | memoryview]


class OpenFile:
    """A file's descriptor, closed when its last user is gone, maybe long after the file was deleted."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """So many bytes; fewer at the end of the file."""
        parts = []
        while length > 0 and (part := os.pread(self.descriptor, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def write_fully(descriptor: int, parts: Parts) -> None:
    """Write all of ``parts``; OSError as the system raises it."""
    written = os.writev(descriptor, parts)
    if written == sum(map(len, parts)):
        return
    rest = memoryview(b"".join(parts))[written:]
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class SyncFailed(OSError):
    """What was written to a file since its last sync may be gone.

    The system tells of it once: after that it may take the same bytes for synced, though the disk has others.
    So the file must not be synced again and believed.
    """


def lacks_room(error: OSError) -> bool:
    """Whether nothing is wrong but that the disk is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) and not isinstance(error, SyncFailed)


def sync(descriptor: int) -> None:
    """Make durable what was written to a file; SyncFailed if that is not sure."""
    try:
        # It also syncs the length of the file; its times are not worth a second write.
        (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(descriptor)
    except OSError as error:
        raise SyncFailed(*error.args) from error


def sync_folder(path: Path) -> None:
    """Make durable which files are in the folder; OSError as the system raises it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_anew(descriptor: int) -> None:
    """Make durable what an earlier run wrote to a file, and read it from the disk from now on.

    After a sync that failed, the system's cache may show bytes that the disk does not have. SyncFailed.
    """
    sync(descriptor)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
