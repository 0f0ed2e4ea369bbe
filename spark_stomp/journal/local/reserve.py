"""A file that only takes up room on the disk: given up when the disk is full, for what makes room there.

Before segments are deleted, keys may have to be written, or a new segment begun. On a full disk neither could
be done, and nothing would ever be deleted.
"""

from __future__ import annotations

import os
from pathlib import Path

from spark_stomp.files.durable import lacks_room, write_fully
from spark_stomp.files.private import open_file


class Reserve:
    """``size`` bytes at ``path``, as long as the disk has them. No method raises for a lack of them.

    OSError if ``path`` is no file of ours.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size

    def fill(self) -> None:
        """Take the room, if it is there."""
        if self._path.exists() and self._path.lstat().st_size >= self._size:
            return
        try:
            # On a full disk some file systems have no room for the file itself.
            descriptor = open_file(self._path, os.O_WRONLY | os.O_CREAT)
        except OSError as error:
            if lacks_room(error):
                return
            raise
        try:
            _allocate(descriptor, self._size)
        except OSError:
            self.spend()
        finally:
            os.close(descriptor)

    def spend(self) -> bool:
        """Give the room up; False if there was none."""
        if not self._path.exists():
            return False
        self._path.unlink()
        return True


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        write_fully(descriptor, [bytes(size)])
