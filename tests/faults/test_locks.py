"""No lock that Spark's calls, a receiver's thread or the end of a query takes is held during I/O."""

from __future__ import annotations

import builtins
import gc
import io
import linecache
import os
import re
import selectors
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pyarrow.fs as fs
import pytest
from support.driven import Run
from support.golden import kind_of_journal
from support.waiting import wait_until

from spark_stomp import files
from spark_stomp.devbroker import DevBroker
from spark_stomp.receiver import DedupIndex

QUEUE = "/queue/a"
COUNT = 60
# The broker beside the connector, and tasks of the sink, which have a connection of their own.
OTHERS = ("spark_stomp.devbroker", "spark_stomp.sink")
FILES = [
    "close", "fdatasync", "fsync", "ftruncate", "listdir", "mkdir", "open", "posix_fadvise",
    "posix_fallocate", "pread", "preadv", "pwrite", "pwritev", "read", "readv", "remove", "rename",
    "replace", "rmdir", "scandir", "stat", "truncate", "unlink", "write", "writev",
]  # fmt: skip
SOCKETS = ["accept", "close", "connect", "recv", "recv_into", "send", "sendall", "shutdown"]
INDEX = [
    "add_new", "add", "remove", "move", "find", "remember_unconfirmed", "remember_confirmed", "confirm",
    "expect_doubles", "count_second_rows", "count_evicted",
]  # fmt: skip
STORES = ["create_dir", "delete_file", "get_file_info", "open_input_file", "open_output_stream"]


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
        for function in FILES:
            if hasattr(os, function):
                patch.setattr(os, function, self._watched(f"os.{function}", getattr(os, function)))
        for module in (builtins, io):
            patch.setattr(module, "open", self._watched("open", module.open))
        for method in SOCKETS:
            watched = self._watched(f"socket.{method}", getattr(socket.socket, method))
            patch.setattr(socket.socket, method, watched, raising=False)
        select = selectors.DefaultSelector.select
        patch.setattr(selectors.DefaultSelector, "select", self._watched("select", select))
        patch.setattr(time, "sleep", self._watched("sleep", time.sleep))
        self._watch_stores(patch)

    def _watch_stores(self, patch: pytest.MonkeyPatch) -> None:
        methods = {name: self._watched(name, getattr(fs.LocalFileSystem, name)) for name in STORES}
        watched = type("WatchedFiles", (fs.LocalFileSystem,), methods)
        find = files._file_system

        def files_of(location: str) -> tuple[fs.FileSystem, str]:
            system, root = find(location)
            return (watched() if isinstance(system, fs.LocalFileSystem) else system), root

        patch.setattr(files, "_file_system", files_of)

    def _maker(self, make: Callable[[], Any], kind: type[_Lock]) -> Callable[[], Any]:
        def made() -> Any:
            caller = sys._getframe(1)
            while caller.f_globals["__name__"] in (__name__, "threading") and caller.f_back is not None:
                caller = caller.f_back
            module = caller.f_globals["__name__"]
            if not module.startswith("spark_stomp") or module.startswith(OTHERS):
                return make()
            return kind(make(), self, _name_at(caller))

        return made

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            self.calls.add(name)
            for lock in self.held:
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
        self._lock, self._watch, self._name = lock, watch, name

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
    frames = [frame for frame, _ in traceback.walk_stack(sys._getframe(2))]
    ours = [frame for frame in frames if frame.f_globals.get("__name__", "").startswith("spark_stomp")]
    return " < ".join(f"{frame.f_code.co_name}:{frame.f_lineno}" for frame in ours)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[LockWatch]:
    # The collector would close what other tests left behind, in whatever thread, under whatever lock.
    gc.collect()
    gc.disable()
    yield LockWatch(monkeypatch)
    gc.enable()


@pytest.fixture(params=["memory", "journal", "objects"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    if request.param == "memory":
        yield {"connections": "2"}
        return
    with (
        kind_of_journal(request.param, tmp_path / request.param),
        # So that an object has to be read again.
        mock.patch("spark_stomp.journal.objects._MAX_BYTES", 9_000),
        mock.patch("spark_stomp.source.journal_writer._TRIM_OBJECTS", 1),
    ):
        # What has a limit of bytes asks for sizes.
        limit = {"maxBytesPerTrigger": "1m"}
        yield {"connections": "2", "journal": str(tmp_path / request.param), **limit}


def drive(broker: DevBroker, options: dict[str, str]) -> None:
    """Batches, a connection that ends before the commit, one that ends about when ACKs are sent, the end."""
    with Run({"url": broker.url, "destination": QUEUE, **options}) as run:
        run.idle()
        for number in range(4):
            publish(broker, run, b"%d" % number)
            run.gather(COUNT)
            broker.drop_connections()
            wait_until(lambda number=number: known(run) >= (number + 1) * COUNT, what="all once more")
            run.read()
            if number % 2:
                broker.drop_connections()
            run.commit()
            wait_until(lambda: broker.queue(QUEUE).depth == 0, what="all ACKs")
        publish(broker, run, b"left")
        run.gather(COUNT)
    # A journal has these.
    with Run({"url": broker.url, "destination": QUEUE, **options}) as run:
        run.gather(COUNT)
        run.commit()
        wait_until(lambda: broker.queue(QUEUE).depth == 0, what="all ACKs")


def publish(broker: DevBroker, run: Run, text: bytes) -> None:
    """A few at a time, so that a receiver reads them in several blocks."""
    before = received(run)
    for number in range(0, COUNT, COUNT // 6):
        broker.publish_many(QUEUE, [text + b"x" * 500] * (COUNT // 6))
        wait_until(lambda number=number: received(run) >= before + number + COUNT // 6, what="the frames")


def received(run: Run) -> int:
    return sum(one.received for one in run.status.receivers)


def known(run: Run) -> int:
    """How many messages came that were known."""
    return sum(one.counts.reattached + one.counts.dropped for one in run.status.receivers)


def test_no_lock_is_held_during_io_and_no_dedup_index_used_without_its_lock(
    devbroker: DevBroker, watch: LockWatch, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without: set[str] = set()

    def watched(name: str) -> None:
        method = getattr(DedupIndex, name)

        def called(*args: Any) -> Any:
            if "receiver.dedup:DedupIndex.lock" not in watch.held:
                without.add(name)
            return method(*args)

        monkeypatch.setattr(DedupIndex, name, called)

    for name in INDEX:
        watched(name)
    drive(devbroker, options)
    assert watch.found == {}
    assert without == set()
    # It looked: locks were taken, and bytes went to files and sockets.
    assert "receiver.dedup:DedupIndex.lock" in watch.taken
    assert "receiver.log:Log._lock" in watch.taken
    assert "socket.send" in watch.calls
    assert "journal" not in options or watch.calls & {"os.fsync", "open"}
