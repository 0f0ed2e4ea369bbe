"""A small engine that drives the connector as Spark 4.2 and later do, in processes that start within moments.

A query has a driver with its checkpoint and its sink, a stream reader in its own process, and a worker
for tasks in another, connected by pipes; each may be killed. The driver keeps Spark's order: ask for the
latest offset with the last committed end, write the offset log, tell the reader of the earlier commit, plan,
read (a failed task is tried again, a lost reader ends the query), write to the sink, write the commit log. A
start with a batch that the commit log lacks begins with that batch, from the offsets that were logged. The
sink remembers batch ids and skips what it has, as an idempotent sink does.

All processes are forked from one that has imported everything and has no threads: ``Engine`` starts that one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType
from support.drivers import rows_of
from support.points import Point, Points, arm
from support.processes import lives
from support.waiting import PATIENCE, wait_until

from spark_stomp.errors import StompError
from spark_stomp.spark.datasource import StompDataSource

_TASK_TRIES = 4
_POLL = 0.01
_FORK = multiprocessing.get_context("fork")


# --- the test's side


class Engine:
    """The process that queries are forked from; a context manager."""

    def __init__(self) -> None:
        tests = str(Path(__file__).parents[1])
        self._process = subprocess.Popen(
            # Not -m: points name this module, and it would be there twice.
            [sys.executable, "-c", "from faults.engine import main; main()"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([tests, *filter(None, sys.path)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=PATIENCE)

    def start(self, query: Query) -> int:
        """Start the query's driver; its process id, which is also that of its session."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(query.description()) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@dataclass
class Query:
    """One query: a folder for its checkpoint, its output and its log, options, and points that are armed."""

    engine: Engine
    folder: Path
    options: dict[str, str]
    points: Points | None = None
    starts: int = 0
    _driver: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for name in ("checkpoint/offsets", "checkpoint/commits", "output"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def description(self) -> dict[str, Any]:
        """For the engine's process."""
        points = self.points or Points(self.folder / "points")
        armed = {"points": list(map(str, points.points)), "at": str(points.folder)}
        return {"folder": str(self.folder), "options": self.options, **armed}

    def start(self) -> None:
        """Start it, on the checkpoint that it has."""
        for name in ("stop", "failure", "processes"):
            (self.folder / name).unlink(missing_ok=True)
        self.starts += 1
        self._driver = self.engine.start(self)

    @property
    def running(self) -> bool:
        """Whether its driver lives."""
        return bool(self._driver) and lives(self._driver)

    def process(self, role: str) -> int:
        """The process id of its ``driver``, ``reader`` or ``worker``."""
        wait_until((self.folder / "processes").exists, what="the query's processes")
        return int(json.loads((self.folder / "processes").read_text())[role])

    def kill(self, role: str) -> None:
        """SIGKILL one process; ``everything`` is all of them."""
        if role == "everything":
            os.killpg(self._driver, signal.SIGKILL)
            wait_until(lambda: not self.running, what="the end of the driver")
        else:
            process = self.process(role)
            os.kill(process, signal.SIGKILL)
            wait_until(lambda: not lives(process), what=f"the end of the {role}")

    def stop(self) -> None:
        """The orderly end."""
        (self.folder / "stop").touch()
        wait_until(lambda: not self.running, what="the end of the query")

    @property
    def failure(self) -> str:
        """What ended the query; empty if nothing did."""
        return self._text("failure")

    @property
    def log(self) -> str:
        """What its processes wrote to their standard error."""
        return self._text("log")

    def _text(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def rows(self) -> list[str]:
        """What the sink has, batch by batch."""
        return rows_of(self.folder / "output")

    def attempts(self, batch: int) -> list[list[str]]:
        """What the sink was given as that batch, each time."""
        lines = (self.folder / "output" / "attempts").read_text().splitlines()
        return [rows for number, rows in map(json.loads, lines) if number == batch]

    def wait_failed(self, timeout: float = PATIENCE) -> str:
        """Wait until the query ends without being stopped; returns what ended it."""
        wait_until(lambda: not self.running, timeout, "the failure")
        return self.failure


# --- the driver and its children


class Log:
    """The offset log or the commit log: one file a batch, written at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def latest(self) -> int:
        """The newest batch id; -1 if there is none."""
        return max((int(path.name) for path in self._folder.iterdir() if path.name.isdigit()), default=-1)

    def read(self, batch: int) -> Any:
        return json.loads((self._folder / str(batch)).read_text().splitlines()[-1])

    def append(self, batch: int, entry: Any) -> None:
        _write(self._folder / str(batch), f"v1\n{json.dumps(entry)}")


class CommitLog(Log):
    """Apart, so that a point can name its methods."""

    def append(self, batch: int, entry: Any) -> None:
        super().append(batch, entry)


class Sink:
    """One file a batch; a batch that it has is skipped. What it was given is noted beside, each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, batch: int, bodies: list[bytes]) -> None:
        rows = [body.decode() for body in bodies]
        with (self._folder / "attempts").open("a") as attempts:
            attempts.write(json.dumps([batch, rows]) + "\n")
        target = self._folder / f"batch-{batch}"
        if not target.exists():
            _write(target, "\n".join(rows))


Work = Callable[..., Any]
Begin = Callable[[], AbstractContextManager[Work]]


class Child:
    """A forked process that answers one question at a time, until its pipe ends."""

    def __init__(self, begin: Begin, others: list[Connection]) -> None:
        self.pipe, theirs = _FORK.Pipe()
        self._process = _FORK.Process(target=_answer, args=(begin, theirs, [self.pipe, *others]))
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def ask(self, *question: Any) -> Any:
        """Its answer; _Failed with what it failed with, _Gone if it has died."""
        try:
            self.pipe.send(question)
            well, answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise _Gone from error
        if not well:
            raise _Failed(answer)
        return answer

    def terminate(self) -> None:
        """As Spark ends its processes: SIGTERM, twice in a row."""
        for _ in range(2):
            self._process.terminate()
        self._process.join(PATIENCE)


def _answer(begin: Begin, pipe: Connection, others: list[Connection]) -> None:
    # Else the end of the driver would not be the end of its pipes.
    for other in others:
        other.close()
    with begin() as work, contextlib.suppress(EOFError):
        while True:
            question = pipe.recv()
            try:
                answer = True, work(*question)
            except StompError as error:
                answer = False, str(error)
            with contextlib.suppress(BrokenPipeError):
                pipe.send(answer)


class _Failed(Exception):
    pass


class _Gone(Exception):
    pass


class Driver:
    """The query's main loop."""

    def __init__(self, folder: Path, options: dict[str, str]) -> None:
        self._folder = folder
        self._offsets = Log(folder / "checkpoint" / "offsets")
        self._commits = CommitLog(folder / "checkpoint" / "commits")
        self._sink = Sink(folder / "output")
        self._pickled = pickle.dumps(_new_reader(options))
        self._reader = Child(functools.partial(_reads_a_stream, options), [])
        self._worker = self._new_worker()

    def run(self) -> None:
        """Until the file ``stop`` appears."""
        batch, committed = self._offsets.latest(), self._commits.latest()
        start = self._offsets.read(committed) if committed >= 0 else self._reader.ask("initialOffset")
        if batch > committed:
            end = self._offsets.read(batch)
            self._run_batch(batch, start, end)
            start = end
        while not (self._folder / "stop").exists():
            end = self._reader.ask("latestOffset", start, None)
            if end == start:
                time.sleep(_POLL)
                continue
            batch += 1
            self._offsets.append(batch, end)
            self._reader.ask("commit", start)
            self._run_batch(batch, start, end)
            start = end
        self._reader.terminate()
        self._worker.terminate()

    def _run_batch(self, batch: int, start: Any, end: Any) -> None:
        partitions = self._reader.ask("partitions", start, end)
        self._sink.write(batch, [body for part in partitions for body in self._read(part)])
        self._commits.append(batch, {"nextBatchWatermarkMs": 0})

    def _read(self, partition: Any) -> list[bytes]:
        for attempt in range(_TASK_TRIES):
            try:
                bodies: list[bytes] = self._worker.ask(self._pickled, partition)
                return bodies
            except _Gone:
                self._worker = self._new_worker()
            except _Failed:
                if attempt == _TASK_TRIES - 1:
                    raise
        raise _Failed("the task's worker died again and again")

    def _new_worker(self) -> Child:
        worker = Child(_runs_tasks, [self._reader.pipe])
        roles = {"driver": os.getpid(), "reader": self._reader.pid, "worker": worker.pid}
        _write(self._folder / "processes", json.dumps(roles))
        return worker


@contextmanager
def _reads_a_stream(options: dict[str, str]) -> Iterator[Work]:
    """The stream reader's process: methods by name; the end of the driver means ``stop``."""
    reader = _new_reader(options)
    yield lambda name, *given: getattr(reader, name)(*given)
    reader.stop()


@contextmanager
def _runs_tasks() -> Iterator[Work]:
    """A Python worker: unpickles the reader and reads partitions to their end."""
    yield lambda pickled, partition: [
        body for part in pickle.loads(pickled).read(partition) for body in _bodies(part)
    ]


def _bodies(rows: Any) -> Iterator[bytes]:
    """The bodies of a record batch. A malformed message's row has the whole frame: what that ends with."""
    for row in rows.to_pylist():
        body: bytes = row["body"]
        yield body if row["malformed"] is None else body.rpartition(b"\n\n")[2].removesuffix(b"\0")


def _new_reader(options: dict[str, str]) -> Any:
    schema = StructType().add("body", "binary").add("malformed", "string")
    return StompDataSource({key.lower(): value for key, value in options.items()}).streamReader(schema)


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text)
    temporary.rename(path)


# --- the process that everything is forked from


def _drive(description: dict[str, Any]) -> None:
    """A driver's life."""
    os.setsid()
    folder = Path(description["folder"])
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    arm(Path(description["at"]), [Point.parse(text) for text in description["points"]])
    try:
        Driver(folder, description["options"]).run()
    except (_Failed, _Gone) as error:
        _write(folder / "failure", str(error) or "the reader process died")
        os._exit(1)


def main() -> None:
    """Fork a driver for each line of the standard input; at its end, end them all."""
    # So that no dead driver waits to be asked for its status.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    started: list[int] = []
    for line in sys.stdin:
        driver = os.fork()
        if not driver:
            _drive(json.loads(line))
            os._exit(0)
        started.append(driver)
        sys.stdout.write(f"{driver}\n")
        sys.stdout.flush()
    for driver in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver, signal.SIGKILL)


if __name__ == "__main__":
    main()
