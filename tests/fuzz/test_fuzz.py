"""Runs the fuzz target."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.soak import FUZZ_SECONDS


@pytest.mark.soak
def test_the_codec_finds_nothing_undeclared(tmp_path: Path) -> None:
    assert find_spec("atheris"), "the fuzz target needs atheris (pip install atheris)"
    script = Path(__file__).with_name("fuzz_codec.py")
    command = [
        sys.executable,
        str(script),
        "--seconds",
        str(FUZZ_SECONDS),
        "--corpus",
        str(tmp_path / "corpus"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FUZZ_SECONDS + 300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert " runs in " in done.stderr
