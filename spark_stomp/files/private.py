"""Local files and folders that only the process's user can access, whatever the umask is.

They contain messages, message keys or figures. Somebody else may have the right to write to the folder that
the user names. So a file whose name the connector chooses is never opened through a symbolic link: a planted
link could make the connector overwrite another file of the user. The folders above it are the user's choice,
and may be links.
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
    """Make the folder ``path`` and the missing folders above it; existing ones keep their modes.

    Raises OSError if the system does.
    """
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(PRIVATE_FOLDER, exist_ok=True)


def open_file(path: Path, flags: int) -> int:
    """Open a regular file and return its descriptor; with O_CREAT in ``flags`` a missing file is made.

    A file of this user that is opened for writing is made private: nobody else can open it from then on.

    Raises OSError, which names the path, if ``path`` is a symbolic link or anything but a regular file.
    """
    try:
        # O_NONBLOCK: opening a pipe could block without end. It has no effect on regular files.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError:
        refuse_link(path)
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "this is not a regular file", str(path))
    if flags & (os.O_WRONLY | os.O_RDWR) and status.st_uid == os.geteuid():
        _make_private(descriptor, status.st_mode)
    return descriptor


def _make_private(descriptor: int, mode: int) -> None:
    """Take all rights of others away. A file that was restored from a copy may have the mode of the umask."""
    if mode & ~PRIVATE_FILE & 0o777:
        # A mount of an object store may not support modes.
        with suppress(OSError):
            os.fchmod(descriptor, PRIVATE_FILE)


def create_file(path: Path) -> int:
    """Make a new file and return its descriptor, open for writing only: a mount may not take more.

    If the file exists, a process that was killed has left it, and it is deleted first. Raises OSError, which
    names the path, if ``path`` is a symbolic link or a folder.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return open_file(path, flags)
    except FileExistsError:
        path.unlink()
        return open_file(path, flags)


def replace_file(temporary: Path, path: Path) -> None:
    """Rename ``temporary`` to ``path``, which may exist. Raises OSError if ``path`` is a symbolic link."""
    refuse_link(path)
    temporary.replace(path)


def refuse_link(path: Path) -> None:
    """Raise OSError, which names ``path``, if it is a symbolic link."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "this is a symbolic link, which is not followed here", str(path))
