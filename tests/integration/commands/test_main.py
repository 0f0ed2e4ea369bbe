"""spark-stomp as a process: closed streams, Ctrl-C, and a reader that goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from support.waiting import PATIENCE

from spark_stomp.devbroker import DevBroker

PROGRAM = [sys.executable, "-m", "spark_stomp"]
# Without a buffer Python forgets what a pipe has not taken, so that its end is not seen.
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": ""}


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_stream_that_is_closed_is_no_traceback(closed: str, devbroker: DevBroker) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM, "probe", devbroker.url, "--login", "ada"]
    done = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_terminal_cannot_show_is_escaped(devbroker: DevBroker) -> None:
    devbroker.publish("/queue/a", "Zoë".encode())
    done = subprocess.run(
        [*PROGRAM, "peek", devbroker.url, "/queue/a"],
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Zo\\xeb" in done.stdout


@pytest.mark.parametrize("how", [["--bodies"], []])
def test_a_reader_that_goes_away_is_no_traceback(devbroker: DevBroker, how: list[str]) -> None:
    devbroker.publish_many("/queue/a", [b"x" * 5_000] * 400)
    command = [*PROGRAM, "peek", devbroker.url, "/queue/a", "-n", "400", *how]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 141


def test_a_real_ctrl_c(devbroker: DevBroker) -> None:
    command = [*PROGRAM, "tail", devbroker.url, "/topic/a", "--follow"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stderr is not None
        # The first one asks who the broker is.
        devbroker.wait_until(lambda: devbroker.connects == 2, PATIENCE)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 130
