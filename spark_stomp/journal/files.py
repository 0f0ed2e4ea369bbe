"""Files of this machine, by the system's own calls: ``pyarrow.fs`` never syncs."""

from __future__ import annotations

import os
from pathlib import Path

from spark_stomp.journal.records import Parts


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


def sync_folder(path: Path) -> None:
    """Make durable which files are in the folder; OSError as the system raises it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
