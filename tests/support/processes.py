"""Which processes of ours are alive."""

from __future__ import annotations

import contextlib
import os
import signal

import psutil


def kill(*processes: int) -> None:
    """SIGKILL; one that is gone already is as it should be."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def lives(pid: int) -> bool:
    """Whether the process runs; a dead one that nobody asked for its status does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def descendants(pid: int | None = None) -> list[psutil.Process]:
    """All processes below ``pid``, this process by default."""
    return list(psutil.Process(pid).children(recursive=True))


def stream_readers(pid: int | None = None) -> list[psutil.Process]:
    """The driver-side stream readers below ``pid``, this process by default."""
    # Forked workers carry the command line of their daemon, which names other modules.
    return [process for process in descendants(pid) if _runs(process, "python_streaming_source_runner")]


def task_workers(pid: int) -> list[psutil.Process]:
    """The Python workers below ``pid`` that run tasks: what its daemon has forked."""
    daemons = {process.pid for process in descendants(pid) if _runs(process, "pyspark.daemon")}
    return [process for process in descendants(pid) if _parent(process) in daemons]


def _parent(process: psutil.Process) -> int | None:
    with contextlib.suppress(psutil.Error):
        return int(process.ppid())
    return None


def executors(pid: int) -> list[psutil.Process]:
    """The executors of a local cluster below ``pid``."""
    return [process for process in descendants(pid) if _runs(process, "CoarseGrainedExecutorBackend")]


def _runs(process: psutil.Process, module: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(part.endswith(module) for part in process.cmdline())
    return False
