"""Processes of a benchmark's own: a module run with settings, which prints what it found as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_TESTS = Path(__file__).parents[1]


class Program:
    """``python -m benchmarks.NAME SETTINGS``, running. Each line that it prints is a JSON object."""

    def __init__(self, name: str, settings: Json) -> None:
        self._name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{name}", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_TESTS,
            text=True,
        )
        self.pid = self._process.pid

    def line(self) -> Json:
        """The next line that it prints; RuntimeError if it ended without one."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"benchmarks.{self._name} ended with status {self._process.wait()}")
        found: Json = json.loads(line)
        return found

    def close(self) -> None:
        """End it, by closing its input or, if it does not watch that, by SIGTERM."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
        self._process.stdout.close()


@contextmanager
def program(name: str, settings: Json) -> Iterator[Program]:
    """The program while the block runs."""
    running = Program(name, settings)
    try:
        yield running
    finally:
        running.close()


def result_of(name: str, settings: Json) -> Json:
    """The one line of a program that ends by itself."""
    with program(name, settings) as running:
        return running.line()


def end_with_parent() -> None:
    """Return when the process that started this program has closed its input, or is gone."""
    sys.stdin.read()
