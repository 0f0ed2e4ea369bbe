"""Files and folders of this machine for the process's user alone, whatever the umask.

They hold messages, or figures and keys of messages. Somebody else may be allowed to write to the folder. So
no link is followed if the connector names the file itself: a link that was put there could make it write into
another file of the user's. The folders above are the user's business, and may be links.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700


def make_folder(path: Path) -> None:
    """Make ``path`` and what is missing above it; folders that are there keep their modes. OSError."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(PRIVATE_FOLDER, exist_ok=True)


def open_file(path: Path, flags: int) -> int:
    """The descriptor of a regular file; with O_CREAT it is made if it is not there.

    If it is opened to be written, nobody else may read it from then on.

    OSError, which names the path, if there is a link, or anything else that is no regular file.
    """
    try:
        # Without O_NONBLOCK, to open a pipe could block without end. For regular files it means nothing.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError:
        refuse_link(path)
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "this is no regular file", str(path))
    if flags & (os.O_WRONLY | os.O_RDWR) and status.st_uid == os.geteuid():
        _make_private(descriptor, status.st_mode)
    return descriptor


def _make_private(descriptor: int, mode: int) -> None:
    """Before more is written to it: what was restored from a copy has the mode of the umask."""
    if mode & ~PRIVATE_FILE & 0o777:
        # Mounts of stores may know no modes.
        with suppress(OSError):
            os.fchmod(descriptor, PRIVATE_FILE)


def create_file(path: Path) -> int:
    """The descriptor of a new file; one that a process left, because it was killed, is deleted first.

    OSError as by :func:`open_file`.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    try:
        return open_file(path, flags)
    except FileExistsError:
        path.unlink()
        return open_file(path, flags)


def replace_file(temporary: Path, path: Path) -> None:
    """Give ``temporary`` the name ``path``. OSError as by :func:`open_file`."""
    refuse_link(path)
    temporary.replace(path)


def refuse_link(path: Path) -> None:
    """OSError, which names ``path``, if it is a symbolic link."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "this is a symbolic link, which is not followed here", str(path))
