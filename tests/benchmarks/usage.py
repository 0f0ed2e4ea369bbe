"""What the processes of a benchmark take: processor seconds and resident memory, by what they are for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

import psutil
from support.processes import stream_readers, task_workers

READER = "driver Python"
"""The process beside the driver that receives the messages."""
_MIB = 2**20
_METERED = ("JVM", READER, "worker")


class Processes:
    """Those of a Spark session that this process started, and of a broker, if it is given."""

    def __init__(self, broker: Iterable[int] = ()) -> None:
        self._broker = tuple(broker)

    def by_role(self) -> dict[str, list[psutil.Process]]:
        """All that are alive now. ``foreachBatch`` is this process, which runs the sink."""
        own = psutil.Process()
        found = {
            "broker": [psutil.Process(pid) for pid in self._broker if psutil.pid_exists(pid)],
            "JVM": [one for one in own.children() if _name(one) == "java" and one.pid not in self._broker],
            READER: stream_readers(),
            "worker": task_workers(own.pid),
            "foreachBatch": [own],
        }
        return {role: processes for role, processes in found.items() if processes}

    def seconds(self) -> dict[str, float]:
        """Processor seconds by role since each process began. One that ended counts no more."""
        return {f"{role} s": _sum(_seconds, those) for role, those in self.by_role().items()}

    def resident(self) -> dict[str, float]:
        """MiB of memory by role."""
        return {role: _sum(_resident, those) for role, those in self.by_role().items()}


class Meter:
    """Processor seconds from now on, by role, also of processes that end meanwhile; not those of a broker.

    What a process took when it ended is known of its parent, so the sum is exact. How it is divided is what
    was seen when it was asked for last; the rest, with processes that nobody saw, is ``ended``. Of this
    process, the thread that asks does not count.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._begun: dict[int, float] = {}
        self._seen: dict[int, tuple[str, float]] = {}
        self._own, self._all = _own_threads(), self._tree()
        self._look()
        self._begun = {pid: seconds for pid, (_, seconds) in self._seen.items()}

    def _look(self) -> None:
        found = self._processes.by_role()
        for role in _METERED:
            for one in found.get(role, []):
                with contextlib.suppress(psutil.Error):
                    self._seen[one.pid] = role, _seconds(one)

    def seconds(self) -> dict[str, float]:
        """Of each role by now."""
        every = self._tree() - self._all
        self._look()
        found = {f"{role} s": 0.0 for role in _METERED}
        for pid, (role, seconds) in self._seen.items():
            found[f"{role} s"] += seconds - self._begun.get(pid, 0.0)
        ended = max(0.0, every - sum(found.values()))
        return {**found, "ended s": ended, "foreachBatch s": _own_threads() - self._own}

    def _tree(self) -> float:
        """All that the JVM and what it started has taken, with what has ended."""
        machines = self._processes.by_role().get("JVM", [])
        return _sum(_with_ended, [two for one in machines for two in (one, *one.children(recursive=True))])


def difference(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """What was taken since ``before``, by role; nothing of those that took nothing."""
    taken = {role: spent - before.get(role, 0.0) for role, spent in after.items()}
    return {role: round(spent, 2) for role, spent in taken.items() if spent > 0}


def _sum(measure: object, processes: Iterable[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += measure(process)  # type: ignore[operator]
    return total


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _with_ended(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:4]))


def _own_threads() -> float:
    return time.process_time() - time.thread_time()


def _resident(process: psutil.Process) -> float:
    # Forked processes share pages. Linux tells each one's part of them, elsewhere each page counts for all.
    memory = process.memory_full_info()
    return float(getattr(memory, "pss", memory.rss)) / _MIB


def _name(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return str(process.name())
    return ""
