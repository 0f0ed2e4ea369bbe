"""The quickstart of the README, pasted unchanged, as a reader runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.pages import README, programs

_BIN = Path(sys.executable).parent


def save(folder: Path) -> Path:
    """The program, in its own file in ``folder``."""
    path = folder / "app.py"
    path.write_text(programs(README, "Quickstart")[0], encoding="utf-8")
    return path


def run(command: Sequence[str | Path], program: Path, **variables: str) -> str:
    """Runs it where no environment is activated and Spark is not configured; returns what it printed."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not re.match(r"(PY)?SPARK_|VIRTUAL_ENV|PYTHONPATH", name)
    }
    paths = [path for path in clean["PATH"].split(os.pathsep) if Path(path) != _BIN]
    result = subprocess.run(
        [*command, program.name],
        cwd=program.parent,
        env={**clean, "PATH": os.pathsep.join(paths), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def shows_every_row(printed: str) -> bool:
    """Nine orders in their columns, and one that is no JSON as it came."""
    orders = all(re.search(rf"\| *{number}\| *{number / 4}\| *NULL\|", printed) for number in range(9))
    return orders and re.search(r"\| *NULL\| *NULL\| *order 9\|", printed) is not None
