"""spark-stomp status on the file of a query: printed once, or a screen until Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.commands import ENVIRONMENT, PROGRAM, Command
from support.driven import Run
from support.waiting import PATIENCE

from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"


@pytest.fixture
def ended(devbroker: DevBroker, tmp_path: Path) -> Path:
    """The status file of a run that has read three messages and ended in order."""
    path = tmp_path / "status.json"
    devbroker.publish_many(QUEUE, [b"m"] * 3)
    with Run({"url": devbroker.url, "destination": QUEUE, "statusFile": str(path)}) as run:
        run.gather(3)
        run.commit()
    return path


def test_one_look(ended: Path, tmp_path: Path, command: Command) -> None:
    """The folder of a checkpoint will do."""
    code, out, err = command("status", ended)
    assert "/queue/a  ended" in out and "rows 3" in out and (code, err) == (0, "")
    (tmp_path / "checkpoint" / "spark_stomp").mkdir(parents=True)
    ended.rename(tmp_path / "checkpoint" / "spark_stomp" / "status.json")
    assert command("status", f"{tmp_path}/checkpoint/").code == 0
    assert command("status", f"file://{tmp_path}/checkpoint").code == 0


def test_a_query_that_failed(ended: Path, command: Command) -> None:
    ended.write_text(json.dumps(json.loads(ended.read_text()) | {"failure": "[STOMP_ERROR] no"}))
    done = command("status", ended, "--once")
    assert done.code == 1 and "failed; spark-stomp why says more" in done.out
    assert command("status", ended, "--quiet") == (1, "", "")


def test_a_screen_until_ctrl_c(devbroker: DevBroker, tmp_path: Path) -> None:
    """A query begins after it, loses its broker, and the screen says so; the last table stays."""
    (path := tmp_path / "spark_stomp" / "status.json").parent.mkdir()
    with _Screen([*PROGRAM, "status", str(tmp_path), "--interval", "0.2"]) as screen:
        screen.wait_for("there is no status file")
        options: dict[str, Any] = {"url": devbroker.url, "destination": QUEUE, "statusFile": str(path)}
        with Run(options) as run:
            devbroker.publish_many(QUEUE, [b"m"] * 3)
            run.gather(3)
            screen.wait_for("up ")
            screen.wait_for("un-acked 3")
            devbroker.stop()
            screen.wait_for("1 of 1 receiver not connected")
        screen.wait_for("ended")
        screen.press("\x03")
        rest = screen.rest()
    assert rest.partition("\x1b[?1049l")[2].lstrip().startswith(("\x1b[1m/queue/a", "/queue/a"))
    assert "Traceback" not in rest
    assert screen.code == 130


class _Screen:
    """A program in its own terminal."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self.code: int | None = None

    def __enter__(self) -> _Screen:
        self._leader, follower = pty.openpty()
        terminal = {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "200"}
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), follower)
        command = [sys.executable, "-c", _IN_TERMINAL, *self._command]
        # Its own session, in which a key that is pressed becomes a signal.
        self._process = subprocess.Popen(
            command, start_new_session=True, env={**ENVIRONMENT, **terminal}, **streams
        )
        os.close(follower)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.code = self._process.wait(PATIENCE)
        os.close(self._leader)

    def wait_for(self, words: str) -> None:
        seen, deadline = "", time.monotonic() + PATIENCE
        while words not in seen:
            assert time.monotonic() < deadline, f"{words!r} did not come: {seen[-2000:]}"
            seen += self._read()

    def press(self, keys: str) -> None:
        os.write(self._leader, keys.encode())

    def rest(self) -> str:
        seen = ""
        self._process.wait(PATIENCE)
        while more := self._read():
            seen += more
        return seen

    def _read(self) -> str:
        if not select.select([self._leader], [], [], 0.2)[0]:
            return ""
        try:
            return os.read(self._leader, 1 << 16).decode(errors="replace")
        except OSError:  # the other end is closed
            return ""


# Takes the terminal that it has as standard input as its own, and becomes the program.
_IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
