"""Spares a Python worker of Spark what it repeats or waits for around every task without need."""

from __future__ import annotations

import gc
import socket
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePath
from zipimport import zipimporter

# Collections of the middle generation before the collector looks at all objects; Python's default is 10.
_RARELY = 1_000
_OF_SPARK = "pyspark.zip"
_OPEN_FILES = Path("/proc/self/fd")


def expect_input() -> None:
    """Spark has sent a task to this worker, and sends its input next: have that come without a delay.

    Both are small, and Spark's socket has no TCP_NODELAY, so that the second waits for the ACK of the first.
    Linux puts this ACK off by 40 ms, since a worker that has sent rows is about to send more.
    """
    if hasattr(socket, "TCP_QUICKACK"):
        for number in _open_files():
            # It may be none of TCP, or closed by another thread meanwhile.
            with suppress(OSError):
                _ack_at_once(number)


def _open_files() -> list[int]:
    try:
        return [int(path.name) for path in _OPEN_FILES.iterdir()]
    except OSError:
        # They are not to be seen here. A task does not fail over this.
        return []


def _ack_at_once(number: int) -> None:
    # Which of the sockets is that of Spark is not to be seen; the others lose nothing by it. With this type
    # Python leaves alone whether the socket blocks, even if somebody has called socket.setdefaulttimeout().
    opened = socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK, fileno=number)
    try:
        if opened.family in (socket.AF_INET, socket.AF_INET6):
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    finally:
        opened.detach()


def collect_rarely() -> None:
    """This process holds very many objects for long, and next to no cycles: look at all of them rarely.

    With a journal these are the keys of 250,000 messages, and to look for cycles among them took a fifth of
    the time of the process that receives.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _RARELY)


def spare_the_next_task() -> None:
    """The task that this worker runs has done its work: make the next ones cheaper.

    May be called after every task. What other tasks do in this worker stays as it is.
    """
    _spare_the_collector()
    _forget_finders()


@cache
def _spare_the_collector() -> None:
    # After each task the worker collects garbage, and with pyarrow, numpy and pandas it looks at so much that
    # this takes 45 ms of processor time and more. What was imported is no garbage, so once is enough.
    gc.freeze()


def _forget_finders() -> None:
    # Before each task Spark 4.0 and 4.1 have all finders of modules look anew, and each one of an archive
    # reads its whole directory: 17 times that of pyspark.zip, 100 ms and more. Python makes a finder again if
    # it needs one, from a directory that it has read. The archive of Spark does not change; others may.
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and PurePath(finder.archive).name == _OF_SPARK:
            sys.path_importer_cache.pop(path, None)
