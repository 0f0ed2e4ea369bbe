"""The quickstart of the README, pasted unchanged, in the ways that a reader runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.pages import README

BIN = Path(sys.executable).parent


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The first block of the section, in its own file."""
    section = README.read_text(encoding="utf-8").split("## Quickstart\n", 1)[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found
    path = tmp_path / "app.py"
    path.write_text(found[1], encoding="utf-8")
    return path


def run(command: list[str | Path], program: Path, **environment: str) -> str:
    """Runs it where the environment is not activated and Spark is not configured; returns what it printed."""
    clean = {
        name: value for name, value in os.environ.items() if not re.match(r"(PY)?SPARK_|VIRTUAL_ENV", name)
    }
    paths = [path for path in clean["PATH"].split(os.pathsep) if Path(path) != BIN]
    result = subprocess.run(
        [*command, program.name],
        cwd=program.parent,
        env={**clean, "PATH": os.pathsep.join(paths), **environment},
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


@pytest.mark.soak  # a notebook has the same program
@pytest.mark.spark
def test_as_a_script_of_an_environment_that_is_not_activated(program: Path) -> None:
    assert shows_every_row(run([sys.executable], program))
    # Nothing is left behind: it asked for no folder.
    assert [path.name for path in program.parent.iterdir()] == ["app.py"]


@pytest.mark.soak
@pytest.mark.spark
def test_with_spark_submit(program: Path) -> None:
    command: list[str | Path] = [BIN / "spark-submit", "--master", "local[2]"]
    assert shows_every_row(run(command, program, PYSPARK_PYTHON=sys.executable))
