"""Runs the fuzz target for FUZZ_SECONDS (600 by default)."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.soak
def test_the_codec_finds_nothing_undeclared(tmp_path: Path) -> None:
    assert find_spec("atheris"), "the fuzz target needs atheris (pip install atheris)"
    seconds = int(os.environ.get("FUZZ_SECONDS", "600"))
    script = Path(__file__).with_name("fuzz_codec.py")
    command = [sys.executable, str(script), "--seconds", str(seconds), "--corpus", str(tmp_path / "corpus")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert " runs in " in done.stderr
