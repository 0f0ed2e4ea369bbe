"""Locations of journals and checkpoints: a path, or a URI of a file system that ``pyarrow.fs`` knows.

They are read as Spark reads them (``Path`` of Hadoop): nothing in a path is an escape, also in a URI, and
``..`` leaves the folder that is written before it, whether or not that exists.

A URI may contain credentials, before its ``@`` or in its parameters. Whatever is shown or raised about a
location goes through :class:`Location`, which removes them.
"""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs as fs

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
