"""The package, built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What a release is made of.
_SOURCES = ("spark_stomp", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")


def run(*command: str | Path, timeout: float = 150, **variables: str) -> str:
    """Run to the end within ``timeout`` seconds and return what was printed; fails with what was printed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | variables
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def build(target: Path) -> tuple[Path, Path]:
    """The wheel and the sdist that it was made of, in ``target``, which is emptied first.

    They are built from a copy of the sources: setuptools leaves its work in the tree that it builds from.
    """
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as copy:
        run("cp", "-r", *(ROOT / name for name in _SOURCES), copy)
        # Without --wheel it builds the sdist, and the wheel from the sdist alone.
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, copy)
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sdist
