"""spark-stomp devbroker: what it takes, what it says, and how the broker ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from support.options import source_options
from support.session import send, subscribe
from support.waiting import PATIENCE

from spark_stomp.commands.devbroker import moved
from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker, QueueView
from spark_stomp.errors import LoginRefused
from spark_stomp.transport import open_connection

PROGRAM = [sys.executable, "-m", "spark_stomp", "devbroker"]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(sys.path),
    "SPARK_STOMP_DEVBROKER_PASSWORD": "s3cret",
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "65536"], "from 0 to 65535"),
        (["--port", "-1"], "--port"),
        (["--login", "nobody"], "SPARK_STOMP_DEVBROKER_PASSWORD"),
        (["--login", ""], "needs a login"),
        (["--login", "ada:s3cret"], "takes a login alone"),
    ],
)
def test_refused(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_STOMP_DEVBROKER_PASSWORD", raising=False)
    with pytest.raises(SystemExit) as left:
        main(["devbroker", *arguments])
    assert left.value.code == 2
    err = capsys.readouterr().err
    assert message in err and "s3cret" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    """It lets everybody in."""
    with subprocess.Popen(
        [*PROGRAM, "--port", "0"], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        with open_connection(source_options(first.split()[-1]).connection):
            process.send_signal(number)
            rest = process.stdout.read()
        assert process.wait(PATIENCE) == 0
    assert first.startswith("STOMP broker at stomp://127.0.0.1:")
    assert "development only" in rest


def test_only_the_login_that_is_given_is_let_in() -> None:
    with subprocess.Popen(
        [*PROGRAM, "--port", "0", "--login", "ada"], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        for given in ({}, {"login": "ada", "password": "wrong"}, {"login": "bob", "password": "s3cret"}):
            with pytest.raises(LoginRefused):
                open_connection(source_options(url, **given).connection)
        open_connection(source_options(url, login="ada", password="s3cret").connection).close()
        process.terminate()
        assert "s3cret" not in process.stdout.read()


def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with DevBroker() as broker:
        assert main(["devbroker", "--port", str(broker.port)]) == 1
        told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"port {broker.port} of 127.0.0.1 is in use" in told and "--port 0" in told


def test_an_address_of_another_machine_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devbroker", "--host", "192.0.2.1", "--port", "0"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("spark-stomp: cannot listen on port 0 of 192.0.2.1: ") and told.count("\n") == 1


def test_verbose_says_who_comes_and_what_moves() -> None:
    with subprocess.Popen(
        [*PROGRAM, "--port", "0", "--verbose"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        with open_connection(source_options(url, login="ada", password="s3cret").connection) as connection:
            session = connection.session
            subscribe(session, "0", "/queue/in", ack="client")
            for destination in ("/queue/a", "/queue/a", "/queue/b\x1b[2J"):
                send(session, destination, b"x")
            connection.disconnect(PATIENCE)
        told = ""
        while "/queue/a: depth" not in told:
            told += process.stdout.readline()
        process.terminate()
        told += process.stdout.read()
        assert process.wait(PATIENCE) == 0
    assert "a connection from 127.0.0.1:" in told and "login 'ada'" in told
    assert "subscribes to '/queue/in', ack:client" in told
    assert "/queue/a: depth 2 (0 un-acked), +2 enqueued" in told
    assert "disconnected" in told
    assert "s3cret" not in told and "\x1b" not in told


def test_what_moved_is_told_by_the_difference() -> None:
    before = {"/queue/a": QueueView(3, 1, 3, 1, 0, 0), "/queue/b": QueueView(1, 0, 1, 0, 0, 0)}
    now = {**before, "/queue/a": QueueView(2, 0, 4, 4, 1, 2), "/queue/c": QueueView(1, 0, 1, 0, 0, 0)}
    assert list(moved(before, now)) == [
        "/queue/a: depth 2 (0 un-acked), +1 enqueued, +3 delivered, +1 redelivered, +2 acked",
        "/queue/c: depth 1 (0 un-acked), +1 enqueued",
    ]
