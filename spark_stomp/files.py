"""Local files, private and durable, and the locations of journals and checkpoints.

Files contain messages, message keys or figures, so only the process's user can access them, whatever the
umask is. Somebody else may have the right to write to the folder that the user names. So a file whose name
the connector chooses is never opened through a symbolic link: a planted link could make the connector
overwrite another file of the user. The folders above it are the user's choice, and may be links.

A location may contain credentials, before the ``@`` of a URI or in its parameters. Whatever is shown or
raised about it goes through :class:`Location`, which removes them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs as fs

# --- durable writes, with the system's own calls, because ``pyarrow.fs`` never syncs


def write_fully(descriptor: int, data: bytes) -> None:
    """Write all of ``data`` at the current position.

    Raises OSError if the system does; then a part of the bytes may have been written.
    """
    rest = memoryview(data)
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


# --- private files

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
    status = _regular(descriptor, path)
    if flags & (os.O_WRONLY | os.O_RDWR) and status.st_uid == os.geteuid():
        _make_private(descriptor, status.st_mode)
    return descriptor


def open_to_read(path: str) -> tuple[int, bool]:
    """Open a regular file to read, and return its descriptor, and whether surely this user has written it.

    Not so if the file is somebody else's or others may write to it, or if it was reached by a link: others
    can lead to any file so. All of it is asked of the file that was opened.

    Raises OSError if the system does, or if ``path`` is anything but a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor, linked = os.open(path, flags | os.O_NOFOLLOW), False
    except OSError:
        descriptor, linked = os.open(path, flags), True
    status = _regular(descriptor, path)
    is_private = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return descriptor, not linked and status.st_nlink <= 1 and status.st_uid == os.geteuid() and is_private


def _regular(descriptor: int, path: Path | str) -> os.stat_result:
    """The status of an open file. Raises OSError, and closes it, if it is not a regular file."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "this is not a regular file", str(path))
    return status


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


# --- locations: a path, or a URI of a file system that ``pyarrow.fs`` knows
#
# They are read as Spark reads them (``Path`` of Hadoop): nothing in a path is an escape, also in a URI, and
# ``..`` leaves the folder that is written before it, whether or not that exists.

FILE_ERRORS = (OSError, pa.ArrowException)
"""The exceptions of file systems. Some of pyarrow's are not an OSError."""

# Where Databricks mounts object stores. Files there are written once, from front to back; no appends.
_MOUNTS = ("/dbfs", "/Volumes")
_SECRET_NAMES = re.compile(r"key|secret|token|password|credential|sig|sas", re.IGNORECASE)


@dataclass(frozen=True)
class Location:
    """A folder: the path ``root`` in the file system ``files``. ``shown`` has no credentials."""

    files: fs.FileSystem
    root: str
    shown: str
    _secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_local(self) -> bool:
        """Whether ``root`` is a path of this machine."""
        return isinstance(self.files, fs.LocalFileSystem)

    @property
    def takes_appends(self) -> bool:
        """Whether files there can be appended to: the path is local, and not a mount of an object store."""
        return self.is_local and not any(
            self.root == mount or self.root.startswith(mount + "/") for mount in _MOUNTS
        )

    def words(self, error: BaseException) -> str:
        """The text of ``error``, without credentials."""
        return _scrubbed(str(error), self._secrets)


def resolve(location: str) -> Location:
    """The folder that ``location`` names. Raises ValueError, without credentials, if it names none."""
    secrets = _secrets(location)
    try:
        files, root = _file_system(location)
    except FILE_ERRORS as error:
        raise ValueError(_scrubbed(str(error), secrets)) from None
    return Location(files, root, without_credentials(location), secrets)


def without_credentials(location: str) -> str:
    """``location`` without its parameters, and without the secrets before its ``@``."""
    base, _, _ = location.partition("?")
    return _scrubbed(base, _secrets(location))


def local_path(location: str) -> str | None:
    """The path of ``location`` on this machine; None if it is a URI of another file system. No I/O."""
    scheme, separator, rest = location.partition(":")
    if not separator or "/" in scheme:
        return os.path.normpath(Path.cwd() / location)
    path = os.path.normpath("/" + rest.lstrip("/"))
    return {"file": path, "dbfs": _mounted(path)}.get(scheme)


def _file_system(location: str) -> tuple[fs.FileSystem, str]:
    path = local_path(location)
    if path is not None:
        return fs.LocalFileSystem(), path
    scheme, _, rest = location.partition(":")
    # Hadoop has other names for S3 than pyarrow.
    scheme = "s3" if scheme in ("s3a", "s3n") else scheme
    base, mark, parameters = rest.partition("?")
    authority, slash, path = base.removeprefix("//").partition("/")
    path = quote(os.path.normpath(slash + path), safe="/@:") if path else ""
    files, root = fs.FileSystem.from_uri(f"{scheme}://{authority}{path}{mark}{parameters}")
    return files, root.rstrip("/")


def _mounted(path: str) -> str:
    """Where Databricks mounts a ``dbfs:`` path: a volume under its own path, all others under ``/dbfs``."""
    return path if path.startswith("/Volumes/") else "/dbfs" + path


def _secrets(location: str) -> tuple[str, ...]:
    """The parts of ``location`` that must not be shown: as written, unquoted and fully quoted."""
    base, _, query = location.partition("?")
    found = []
    # The user may have forgotten the slashes after the scheme.
    user, at, _ = base.partition(":")[2].lstrip("/").rpartition("@")
    if at and ":" in user:
        found += [user, user.partition(":")[2]]
    for parameter in query.split("&"):
        name, _, value = parameter.partition("=")
        if _SECRET_NAMES.search(name):
            found.append(value)
    forms = {form for one in found for form in (one, unquote(one), quote(unquote(one), safe=""))}
    # Longest first: if a longer one contains a shorter one, its rest would be left otherwise.
    return tuple(sorted(forms - {""}, key=len, reverse=True))


def _scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
