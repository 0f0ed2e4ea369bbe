"""Spark drivers in processes of their own, to be killed and started again on one checkpoint."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from support.points import Points, session_members
from support.processes import kill, lives, stream_readers, task_workers
from support.waiting import wait_until

# A driver starts a JVM, which takes its time on a busy machine.
START = 180.0
_TESTS = Path(__file__).parents[1]
_DRIVER = _TESTS / "streaming" / "driver.py"
_GOODBYE = 120.0
# On a machine that is too busy Spark itself gives up on its workers now and then.
_FAILURES_AT_MOST = 20


def _started(
    script: Path, log: Path, given: Sequence[str], points: Points | None, python: str = sys.executable
) -> subprocess.Popen[bytes]:
    """``script`` in its own session; its output goes to the end of ``log``."""
    paths = [*filter(None, sys.path)] if python == sys.executable else []
    environment = {
        **os.environ,
        **dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), python),
        "PYTHONPATH": os.pathsep.join([str(_TESTS), *paths]),
        **(points.environment() if points is not None else {}),
    }
    with log.open("ab") as output:
        return subprocess.Popen(
            [python, str(script), *given],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


@contextmanager
def application(
    script: Path, folder: Path, *given: str, points: Points | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """``script`` while the block runs, with all that it starts; its output is ``folder/log``."""
    process = _started(script, folder / "log", given, points)
    with process:
        try:
            yield process
        finally:
            kill(*session_members(process.pid))


class SparkDriver:
    """One query in ``folder``, in a driver that a test starts, kills and starts again; a context manager.

    ``mode`` is that of ``streaming/driver.py``; ``points`` are armed in all its processes. ``python`` is the
    interpreter of the next start, in whose environment is its Spark.
    """

    def __init__(
        self, folder: Path, mode: str, queue: str, options: dict[str, str], points: Points | None = None
    ) -> None:
        self.folder, self.mode, self.queue, self.options, self.points = folder, mode, queue, options, points
        self.starts = self.failures = 0
        self.python = sys.executable
        self._process: subprocess.Popen[bytes] | None = None
        self.output.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> SparkDriver:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_everything()

    @property
    def output(self) -> Path:
        """Where the rows go."""
        return self.folder / "output"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the driver lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, in its own session, on the checkpoint that it has; an earlier one has ended."""
        self._reap()
        given = (str(self.folder), self.mode, self.queue, json.dumps(self.options))
        self.starts += 1
        self._process = _started(_DRIVER, self.folder / "log", given, self.points, self.python)

    def supervise(self) -> None:
        """Start it again if it has ended, as an operator would; fail if that happens too often."""
        if not self.running:
            self.failures += 1
            assert self.failures <= _FAILURES_AT_MOST, f"the query fails again and again:\n{self.log}"
            self.start()

    def stop(self) -> None:
        """The orderly end."""
        assert self._process is not None
        self._process.communicate(b"stop\n", timeout=_GOODBYE)

    def kill_driver(self) -> None:
        """SIGKILL of the driver and its JVM; Python's workers and the stream reader notice and end."""
        if not self.running:
            return
        processes = set(session_members(self.pid)) - {self.pid}
        os.killpg(self.pid, signal.SIGKILL)
        self._reap()
        wait_until(lambda: not any(map(lives, processes)), _GOODBYE, "the end of the driver's workers")

    def kill_jvm(self) -> int:
        """SIGKILL of the driver and its JVM while a stream reader runs, whose id is returned: it lives on."""
        (reader,) = stream_readers(self.pid)
        kill(self.pid, reader.ppid())
        self._reap()
        return int(reader.pid)

    def kill_everything(self) -> None:
        """SIGKILL of all its processes at once, as in a power cut; also if the driver has ended already."""
        if self._process is None:
            return
        # What is being forked at this moment is not among them yet.
        while living := [member for member in session_members(self.pid) if lives(member)]:
            kill(*living)
        self._reap()

    def kill_reader(self) -> bool:
        """SIGKILL of the stream reader's process; False where there is none now."""
        return self._kill(stream_readers)

    def kill_worker(self) -> bool:
        """SIGKILL of a worker that runs tasks; False where there is none now."""
        return self._kill(lambda pid: task_workers(pid)[:1])

    def _kill(self, which: Callable[[int], list[psutil.Process]]) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            found = which(self.pid) if self.running else []
            kill(*(process.pid for process in found))
            return bool(found)
        return False

    @property
    def log(self) -> str:
        """The end of what its processes wrote."""
        return (self.folder / "log").read_text(errors="replace")[-4_000:]

    def rows(self) -> list[str]:
        """The bodies that the sink has, as a reader of it sees them."""
        if self.mode in ("files", "parquet") or self.mode.startswith("recipe "):
            return [body for body, _ in self.records()]
        return rows_of(self.output)

    def records(self) -> list[tuple[str, str | None]]:
        """Body and stable id of each row that Spark's file sink, or a recipe's table, has."""
        if (self.output / "_delta_log").exists():
            # Here, since the core tests run without deltalake.
            from deltalake import DeltaTable

            table = DeltaTable(self.output).to_pyarrow_table()
            return list(zip(table["body"].to_pylist(), table["stable_id"].to_pylist(), strict=True))
        return [
            (row["body"], row.get("stable_id"))
            for path in _committed_files(self.output)
            for row in (_json_rows(path) if self.mode == "files" else pq.read_table(path).to_pylist())
        ]

    @property
    def uncommitted(self) -> bool:
        """Whether Spark has planned a batch that it has not committed."""
        planned, committed = (
            max((int(path.name) for path in (self.folder / "checkpoint" / log).glob("[0-9]*")), default=-1)
            for log in ("offsets", "commits")
        )
        return planned > committed

    def _reap(self) -> None:
        if self._process is None:
            return
        self._process.wait(_GOODBYE)
        if self._process.stdin is not None:
            self._process.stdin.close()


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, path.read_text().splitlines())


def _committed_files(output: Path) -> set[Path]:
    """The files that the log of Spark's file sink names; others are leftovers of tasks that died."""
    found: set[Path] = set()
    for log in (output / "_spark_metadata").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            found.add(output / Path(json.loads(line)["path"]).name)
    return found


def rows_of(output: Path) -> list[str]:
    """The bodies in a folder of ``batch-N`` files, in the order of batches."""
    batches = sorted(output.glob("batch-*"), key=lambda path: int(path.name.partition("-")[2]))
    return [line for batch in batches for line in batch.read_text().splitlines()]
