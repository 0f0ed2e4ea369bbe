"""The quickstart of the README, in the ways that a reader runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import quickstart


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return quickstart.save(tmp_path)


@pytest.mark.soak  # a notebook has the same program
@pytest.mark.spark
def test_as_a_script_of_an_environment_that_is_not_activated(program: Path) -> None:
    assert quickstart.shows_every_row(quickstart.run([sys.executable], program))
    # Nothing is left behind: it asked for no folder.
    assert [path.name for path in program.parent.iterdir()] == ["app.py"]


@pytest.mark.soak
@pytest.mark.spark
def test_with_spark_submit(program: Path) -> None:
    command: list[str | Path] = [Path(sys.executable).with_name("spark-submit"), "--master", "local[2]"]
    assert quickstart.shows_every_row(quickstart.run(command, program, PYSPARK_PYTHON=sys.executable))
