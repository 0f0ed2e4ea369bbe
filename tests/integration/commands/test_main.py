"""spark-stomp as a process: closed streams, Ctrl-C, and a reader that goes away."""

from __future__ import annotations

import signal
import subprocess

import pytest
from support.commands import ENVIRONMENT, PROGRAM, process
from support.waiting import PATIENCE

from spark_stomp.devbroker import DevBroker


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_stream_that_is_closed_is_no_traceback(closed: str, devbroker: DevBroker) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM, "probe", devbroker.url, "--login", "ada"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_the_terminal_cannot_show_is_escaped(devbroker: DevBroker) -> None:
    devbroker.publish("/queue/a", "Zoë".encode())
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    with process("peek", devbroker.url, "/queue/a", stderr=subprocess.PIPE, env=ascii_only) as peek:
        out, err = peek.communicate(timeout=PATIENCE)
    assert (peek.returncode, err) == (0, b"")
    assert b"Zo\\xeb" in out


@pytest.mark.parametrize("how", [["--bodies"], []])
def test_a_reader_that_goes_away_is_no_traceback(devbroker: DevBroker, how: list[str]) -> None:
    devbroker.publish_many("/queue/a", [b"x" * 5_000] * 400)
    # Without a buffer Python forgets what a pipe has not taken, so that its end is not seen.
    given = {"stderr": subprocess.PIPE, "env": {"PYTHONUNBUFFERED": ""}}
    with process("peek", devbroker.url, "/queue/a", "-n", "400", *how, **given) as peek:
        assert peek.stdout is not None and peek.stderr is not None
        peek.stdout.read(10)
        peek.stdout.close()
        assert peek.stderr.read() == b""
        assert peek.wait(PATIENCE) == 141


def test_a_real_ctrl_c(devbroker: DevBroker) -> None:
    with process("tail", devbroker.url, "/topic/a", "--follow", stderr=subprocess.PIPE) as tail:
        assert tail.stderr is not None
        # The first one asks who the broker is.
        devbroker.wait_until(lambda: devbroker.connects == 2, PATIENCE)
        tail.send_signal(signal.SIGINT)
        assert tail.stderr.read() == b""
        assert tail.wait(PATIENCE) == 130
