"""The end of the process that started this one is noticed, and only under Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.waiting import PATIENCE, wait_until

from spark_stomp.source.process_end import ParentWatch

# A parent, which waits to be killed, and its child, which shows by files that it lives.
_CHILD = """
import os, sys, threading
from pathlib import Path
from spark_stomp.source.process_end import ParentWatch
folder = Path(sys.argv[1])

def noticed():
    (folder / "noticed").touch()
    os._exit(0)

ParentWatch(noticed).start()
(folder / "watching").touch()
threading.Event().wait(120)
"""
_PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
_SPARK = {"PYTHON_WORKER_FACTORY_PORT": "1"}


def test_the_end_of_the_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, _CHILD, str(tmp_path)],
        env={**os.environ, **_SPARK, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        wait_until((tmp_path / "watching").exists, what="the child")
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait(PATIENCE)
    wait_until((tmp_path / "noticed").exists, 10, "the child to notice")


def test_a_parent_that_lives_and_one_that_is_not_spark_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noticed = threading.Event()
    parents = iter([7, 7, 7, 8])
    asked = threading.Event()

    def parent() -> int:
        asked.set()
        return next(parents, 8)

    monkeypatch.setattr("spark_stomp.source.process_end.os.getppid", parent)
    for name in ("PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SOCK_PATH"):
        monkeypatch.delenv(name, raising=False)
    alone = ParentWatch(noticed.set)
    alone.start()
    alone.stop()
    assert not asked.is_set()
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SOCK_PATH", "/tmp/socket")
    watch = ParentWatch(noticed.set)
    watch.start()
    assert noticed.wait(PATIENCE)
    watch.stop()
