"""Points where a process stops or dies: they fire where they are armed, once, and nowhere else."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json.decoder import JSONDecoder
from pathlib import Path
from typing import Any

import pytest
from support.points import Point, Points
from support.waiting import PATIENCE

# Calls a function that is imported by name, and a method, as often as its argument says.
PROGRAM = """
import sys
from json import dumps
from json.decoder import JSONDecoder
for number in range(int(sys.argv[1])):
    print(number, flush=True)
    dumps({})
    JSONDecoder().decode("{}")
"""


@contextmanager
def program(points: Points | None, calls: int) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, **(points.environment() if points else {})}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(calls)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def run(points: Points | None, calls: int) -> tuple[int, int]:
    """The exit status, and how many rounds were begun."""
    with program(points, calls) as process:
        printed, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, len(printed.split())


@pytest.mark.parametrize(
    ("where", "function"), [(Point.before, JSONDecoder.decode), (Point.after, json.dumps)]
)
@pytest.mark.parametrize("action", ["kill", "kill-driver", "kill-session"])
def test_the_third_call_is_the_last(
    tmp_path: Path, where: Callable[..., Point], function: Callable[..., Any], action: str
) -> None:
    points = Points(tmp_path, where(function, 3, action))
    assert run(points, 5) == (-signal.SIGKILL, 3)
    assert points.reached()


def test_it_fires_once_over_all_restarts(tmp_path: Path) -> None:
    points = Points(tmp_path, Point.before(json.dumps, 5, "kill"))
    assert run(points, 3) == (0, 3)
    assert run(points, 3) == (-signal.SIGKILL, 2)
    assert run(points, 9) == (0, 9)


def test_whoever_holds_goes_on_when_released(tmp_path: Path) -> None:
    points = Points(tmp_path, *(Point.before(json.dumps, nth, "hold") for nth in (2, 3)))
    with program(points, 4) as process:
        for index in range(2):
            assert points.wait_reached(index) == process.pid
            assert process.poll() is None
            points.release(index)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0


TESTS = Path(__file__).parents[1]
OTHERS = [path for path in sorted(TESTS.rglob("*.py")) if path != Path(__file__)]


def points_of(path: Path) -> list[tuple[dict[str, str], str]]:
    """The functions that points are made of there, each with where the names come from that are imported."""
    text = path.read_text(encoding="utf-8")
    if "Point." not in text:
        return []
    tree = ast.parse(text)
    imported = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [call for call in calls if ast.unparse(call.func) in ("Point.before", "Point.after")]
    return [(imported, ast.unparse(call.args[0])) for call in made]


@pytest.mark.parametrize(
    ("imported", "function"),
    [
        pytest.param(*point, id=f"{path.relative_to(TESTS)} {point[1]}")
        for path in OTHERS
        for point in points_of(path)
    ],
)
def test_every_point_of_the_suite_names_a_function(imported: dict[str, str], function: str) -> None:
    """Also those that only a long run would come to."""
    name, *attributes = function.split(".")
    module, _, original = imported[name].partition(":")
    found = functools.reduce(getattr, [original, *attributes], importlib.import_module(module))
    assert Point.before(found, 1, "hold").qualname == found.__qualname__


def test_no_point_is_written_by_hand() -> None:
    spelled = re.compile(r"[\w.]+:[\w.]+@(before|after)#[1-9]")
    found = [path.name for path in OTHERS if spelled.search(path.read_text(encoding="utf-8"))]
    assert found == ["points.py"]
