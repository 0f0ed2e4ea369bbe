"""spark-stomp, in this process and in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from spark_stomp.commands.main import main


class Done(NamedTuple):
    """The exit code of a command, and what it wrote."""

    code: Any
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs spark-stomp with these arguments."""

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        try:
            code: Any = main([*map(str, arguments)])
        except SystemExit as ended:
            code = ended.code
        return Done(code, *capsys.readouterr())

    return run


PROGRAM = [sys.executable, "-m", "spark_stomp"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def process(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[Any]:
    """The command in a process; standard output is a pipe, unless the options of Popen say otherwise."""
    pipe = {"stdout": subprocess.PIPE, "env": {**ENVIRONMENT, **(env or {})}}
    return subprocess.Popen([*PROGRAM, *arguments], **{**pipe, **options})
