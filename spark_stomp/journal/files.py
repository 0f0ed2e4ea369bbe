"""Writes to files of this machine, by the system's own calls: ``pyarrow.fs`` never syncs."""

from __future__ import annotations

import os
from pathlib import Path

from spark_stomp.journal.records import Parts


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
