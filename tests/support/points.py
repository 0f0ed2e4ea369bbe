"""Points inside any function where a process stops or dies, without a line in the code that is tested.

A point is made of the function itself, ``Point.before(Sink.write, 3, "hold")``: before (or ``after``) the
third call of that function, in whichever process it comes, counted over all processes and restarts that share
a folder. Other processes are told of it as ``module:qualname@before#3=hold``. What happens there:

- ``kill``: SIGKILL of that process;
- ``kill-driver``: SIGKILL of the process group that began its session, that is of Spark's driver;
- ``kill-session``: SIGKILL of every process of the session;
- ``hold``: the calling thread waits for :meth:`Points.release`, and the test does what it likes meanwhile.

Each fires once. A test arms the processes that it starts by giving them :meth:`Points.environment`: Python
imports ``sitecustomize`` from the folder ``armed`` then, also in the workers that Spark starts, and every
module named in a point is wrapped as soon as it is imported. Nothing is imported for it, and without those
variables nothing happens.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from support.waiting import wait_until

_POINTS, _FOLDER = "SPARK_STOMP_TEST_POINTS", "SPARK_STOMP_TEST_POINTS_FOLDER"
_SPELLING = re.compile(r"([\w.]+):([\w.]+)@(before|after)#([1-9]\d*)=(hold|kill|kill-driver|kill-session)")
_LOOK = 0.01


@dataclass(frozen=True)
class Point:
    """One point, as in the module's docstring."""

    module: str
    qualname: str
    when: str
    nth: int
    action: str

    @classmethod
    def before(cls, function: Callable[..., Any], nth: int, action: str) -> Point:
        """Before the ``nth`` call of ``function``, which other modules must be able to name."""
        return cls._at(function, "before", nth, action)

    @classmethod
    def after(cls, function: Callable[..., Any], nth: int, action: str) -> Point:
        """After the ``nth`` call of ``function``, if it returns."""
        return cls._at(function, "after", nth, action)

    @classmethod
    def _at(cls, function: Callable[..., Any], when: str, nth: int, action: str) -> Point:
        module, qualname = function.__module__, function.__qualname__
        with contextlib.suppress(AttributeError):
            named: object = functools.reduce(getattr, qualname.split("."), sys.modules[module])
            if named is function:
                return cls.parse(f"{module}:{qualname}@{when}#{nth}={action}")
        raise ValueError(f"{module}:{qualname} does not name {function!r}")

    @classmethod
    def parse(cls, text: str) -> Point:
        """What :meth:`__str__` gives; ValueError for any other spelling."""
        found = _SPELLING.fullmatch(text)
        if found is None:
            raise ValueError(f"not a point: {text!r}; its form is {_SPELLING.pattern}")
        return cls(found[1], found[2], found[3], int(found[4]), found[5])

    def __str__(self) -> str:
        return f"{self.module}:{self.qualname}@{self.when}#{self.nth}={self.action}"

    @property
    def place(self) -> str:
        """What is counted, as the name of a file."""
        return f"{self.module}.{self.qualname}-{self.when}"

    def file(self, folder: Path, ending: str) -> Path:
        """``at`` has the process that got there; with ``go`` it may go on."""
        return folder / f"{self.place}-{self.nth}-{self.action}.{ending}"


class Points:
    """A test's side: which points are armed, and what became of them. ``folder`` is theirs alone."""

    def __init__(self, folder: Path, *points: Point) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.points = points

    def environment(self) -> dict[str, str]:
        """What to add to the environment of a process, and so of all its children."""
        tests = Path(__file__).parents[1]
        path = [str(Path(__file__).with_name("armed")), str(tests), *filter(None, sys.path)]
        return {
            "PYTHONPATH": os.pathsep.join(path),
            _POINTS: json.dumps([str(point) for point in self.points]),
            _FOLDER: str(self.folder),
        }

    def reached(self, index: int = 0) -> bool:
        """Whether a process got there."""
        return self.points[index].file(self.folder, "at").exists()

    def wait_reached(self, index: int = 0, timeout: float = 30.0) -> int:
        """Wait until a process gets there; its id."""
        wait_until(lambda: self.reached(index), timeout, f"the point {self.points[index]}")
        return int(self.points[index].file(self.folder, "at").read_text())

    def release(self, index: int = 0) -> None:
        """Whoever waits there, now or later, goes on."""
        self.points[index].file(self.folder, "go").touch()


def arm(folder: Path, points: Iterable[Point]) -> None:
    """Arm ``points`` in this process: in modules that it has already, and in those that it will import."""
    expected: dict[str, list[Point]] = {}
    for point in points:
        expected.setdefault(point.module, []).append(point)
    for module in expected.keys() & sys.modules.keys():
        _wrap_all(sys.modules[module], expected.pop(module), folder)
    if expected:
        sys.meta_path.insert(0, _Watcher(folder, expected))


def arm_from_environment() -> None:
    """What ``sitecustomize`` calls."""
    texts = json.loads(os.environ.get(_POINTS, "[]"))
    if texts:
        arm(Path(os.environ[_FOLDER]), [Point.parse(text) for text in texts])


def session_members(session: int) -> list[int]:
    """The ids of all living processes of a session."""
    # Here, since every process of a test imports this module, and few need it.
    import psutil

    found = []
    for process in psutil.pids():
        with contextlib.suppress(OSError):  # it ended meanwhile
            found += [process] * (os.getsid(process) == session)
    return found


class _Watcher(MetaPathFinder):
    """Finds the expected modules as ever, and wraps their functions once they are executed."""

    def __init__(self, folder: Path, expected: dict[str, list[Point]]) -> None:
        self._folder = folder
        self._expected = expected

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        points = self._expected.get(fullname)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target) if points else None
        if points and spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_wrap(module: ModuleType) -> None:
                execute(module)
                _wrap_all(module, points, self._folder)

            spec.loader.exec_module = execute_and_wrap  # type: ignore[method-assign]
        return spec


def _wrap_all(module: ModuleType, points: Sequence[Point], folder: Path) -> None:
    # The points of one function share a count: whoever dies at one of them has passed the others as well.
    for place in {point.place for point in points}:
        _wrap(module, [point for point in points if point.place == place], folder)


def _wrap(module: ModuleType, points: Sequence[Point], folder: Path) -> None:
    *outer, name = points[0].qualname.split(".")
    owner: Any = functools.reduce(getattr, outer, module)
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if points[0].when == "before":
            _pass(points, folder)
        result = function(*args, **kwargs)
        if points[0].when == "after":
            _pass(points, folder)
        return result

    setattr(owner, name, wrapped)


def _pass(points: Sequence[Point], folder: Path) -> None:
    """A call: count, and act if it is that of a point."""
    # No two processes get the same number: it is where this process' own byte ended.
    counter = os.open(folder / f"{points[0].place}.count", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(counter, b".")
        count = os.lseek(counter, 0, os.SEEK_CUR)
    finally:
        os.close(counter)
    for point in points:
        if count == point.nth:
            temporary = point.file(folder, "tmp")
            temporary.write_text(str(os.getpid()))
            temporary.rename(point.file(folder, "at"))
            _act(point, folder)


def _act(point: Point, folder: Path) -> None:
    session = os.getsid(0)
    if point.action == "hold":
        while not point.file(folder, "go").exists():
            time.sleep(_LOOK)
    elif point.action == "kill-driver":
        os.killpg(session, signal.SIGKILL)
    else:
        # This process is the last.
        others = set(session_members(session)) - {os.getpid()} if point.action == "kill-session" else ()
        for process in (*others, os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
