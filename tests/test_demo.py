"""The demonstration, small: its proof holds and its exit status says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.wheel import ROOT


@pytest.mark.spark
@pytest.mark.timeout(420)
def test_the_proof_holds(tmp_path: Path) -> None:
    plot = tmp_path / "plot.png"
    command = [sys.executable, ROOT / "notebooks" / "demo.py", "--rows", "3000", "--plot", str(plot)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "sent 3,000 = rows 3,000 = ACKed 3,000, left 0" in result.stdout
    assert "the table is equal to the file" in result.stdout
    assert "FAILED" not in result.stdout
    assert "One query will write /queue/flights into a Parquet table" in result.stdout
    assert result.stdout.rstrip().splitlines()[-1].startswith("All 3,000 flights are in the table, each once")
    assert plot.read_bytes().startswith(b"\x89PNG")
