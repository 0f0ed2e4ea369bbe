"""Watches the package's locks: which of them a thread holds while it does I/O."""

from __future__ import annotations

import builtins
import io
import linecache
import os
import re
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pyarrow.fs as fs
import pytest

from spark_stomp.files import locations

# The broker beside the connector, and tasks of the sink, which have a connection of their own.
_OTHERS = ("spark_stomp.devbroker", "spark_stomp.sink")
_FILES = [
    *("close", "fdatasync", "fsync", "ftruncate", "listdir", "mkdir", "open", "posix_fadvise"),
    *(
        "posix_fallocate",
        "pread",
        "preadv",
        "pwrite",
        "pwritev",
        "read",
        "readv",
        "remove",
        "rename",
        "replace",
    ),
    *("rmdir", "scandir", "stat", "truncate", "unlink", "write", "writev"),
]
_SOCKETS = ["accept", "close", "connect", "recv", "recv_into", "send", "sendall", "shutdown"]
_STORES = ["create_dir", "delete_file", "get_file_info", "open_input_file", "open_output_stream"]


class LockWatch:
    """While ``patch`` is in force, every lock that the package makes is watched.

    ``taken`` are the names of those that were taken, ``calls`` the functions that did I/O, and ``found`` the
    pairs of a lock and of what was called while it was held.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.taken: set[str] = set()
        self.calls: set[str] = set()
        self.found: dict[tuple[str, str], str] = {}
        self._held = threading.local()
        for name, kind in (("Lock", _Lock), ("RLock", _RLock)):
            patch.setattr(threading, name, self._maker(getattr(threading, name), kind))
        condition, lock = threading.Condition, threading.RLock
        patch.setattr(threading, "Condition", lambda given=None: condition(given or lock()))
        for function in _FILES:
            if hasattr(os, function):
                patch.setattr(os, function, self._watched(f"os.{function}", getattr(os, function)))
        for module in (builtins, io):
            patch.setattr(module, "open", self._watched("open", module.open))
        for method in _SOCKETS:
            watched = self._watched(f"socket.{method}", getattr(socket.socket, method))
            patch.setattr(socket.socket, method, watched, raising=False)
        select = selectors.DefaultSelector.select
        patch.setattr(selectors.DefaultSelector, "select", self._watched("select", select))
        patch.setattr(time, "sleep", self._watched("sleep", time.sleep))
        self._watch_stores(patch)

    def _watch_stores(self, patch: pytest.MonkeyPatch) -> None:
        methods = {name: self._watched(name, getattr(fs.LocalFileSystem, name)) for name in _STORES}
        watched = type("WatchedFiles", (fs.LocalFileSystem,), methods)
        find = locations._file_system

        def files_of(location: str) -> tuple[fs.FileSystem, str]:
            files, root = find(location)
            return (watched() if isinstance(files, fs.LocalFileSystem) else files), root

        patch.setattr(locations, "_file_system", files_of)

    def _maker(self, make: Callable[[], Any], kind: type[_Lock]) -> Callable[[], Any]:
        def made() -> Any:
            caller = sys._getframe(1)
            while caller.f_globals["__name__"] in (__name__, "threading") and caller.f_back is not None:
                caller = caller.f_back
            module = caller.f_globals["__name__"]
            if not module.startswith("spark_stomp") or module.startswith(_OTHERS):
                return make()
            return kind(make(), self, _name_at(caller))

        return made

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            held = self.held
            self.calls.add(name)
            for lock in held:
                self.found.setdefault((lock, name), _where())
            return call(*args, **options)

        return watched

    @property
    def held(self) -> list[str]:
        """The names of the locks that this thread holds, one for each time it took one."""
        if not hasattr(self._held, "names"):
            self._held.names = []
        names: list[str] = self._held.names
        return names


class _Lock:
    def __init__(self, lock: Any, watch: LockWatch, name: str) -> None:
        self._lock = lock
        self._watch = watch
        self._name = name

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        taken: bool = self._lock.acquire(blocking, timeout)
        if taken:
            self._watch.taken.add(self._name)
            self._watch.held.append(self._name)
        return taken

    def release(self) -> None:
        self._watch.held.remove(self._name)
        self._lock.release()

    def locked(self) -> bool:
        return bool(self._lock.locked())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _RLock(_Lock):
    """With what a condition asks of its lock."""

    def _is_owned(self) -> bool:
        return bool(self._lock._is_owned())

    def _release_save(self) -> Any:
        names = self._watch.held
        count = names.count(self._name)
        names[:] = [name for name in names if name != self._name]
        return count, self._lock._release_save()

    def _acquire_restore(self, state: Any) -> None:
        count, inner = state
        self._lock._acquire_restore(inner)
        self._watch.held.extend([self._name] * count)


def _name_at(frame: FrameType) -> str:
    """``module:Class.attribute`` of the line that makes a lock."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    attribute = re.search(r"self\.(\w+)", line)
    owner = frame.f_locals.get("self")
    module = frame.f_globals["__name__"].removeprefix("spark_stomp.")
    return f"{module}:{type(owner).__name__}.{attribute.group(1) if attribute else line.strip()}"


def _where() -> str:
    """The calls of the package that led here, innermost first."""
    frame: FrameType | None = sys._getframe(2)
    calls = []
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("spark_stomp"):
            calls.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(calls)
