"""Which processes of ours are alive."""

from __future__ import annotations

import contextlib

import psutil

__all__ = ["descendants", "executors", "lives", "stream_readers"]


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


def executors(pid: int) -> list[psutil.Process]:
    """The executors of a local cluster below ``pid``."""
    return [process for process in descendants(pid) if _runs(process, "CoarseGrainedExecutorBackend")]


def _runs(process: psutil.Process, module: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(part.endswith(module) for part in process.cmdline())
    return False
