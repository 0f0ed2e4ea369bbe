"""spark-stomp devbroker: what it takes, what it says, and how the broker ends."""

from __future__ import annotations

import signal
import subprocess

import pytest
from support.commands import Command, process
from support.options import source_options
from support.session import send, subscribe
from support.waiting import PATIENCE

from spark_stomp.commands.devbroker import moved
from spark_stomp.devbroker import DevBroker, QueueView
from spark_stomp.errors import LoginRefused
from spark_stomp.transport import open_connection


def started(*arguments: str) -> subprocess.Popen[str]:
    given = {"SPARK_STOMP_DEVBROKER_PASSWORD": "s3cret"}
    return process("devbroker", "--port", "0", *arguments, env=given, text=True, stderr=subprocess.STDOUT)


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
    arguments: list[str], message: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_STOMP_DEVBROKER_PASSWORD", raising=False)
    done = command("devbroker", *arguments)
    assert done.code == 2 and message in done.err and "s3cret" not in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    """It lets everybody in."""
    with started() as broker:
        assert broker.stdout is not None
        first = broker.stdout.readline()
        with open_connection(source_options(first.split()[-1]).connection):
            broker.send_signal(number)
            rest = broker.stdout.read()
        assert broker.wait(PATIENCE) == 0
    assert first.startswith("STOMP broker at stomp://127.0.0.1:")
    assert "development only" in rest


def test_only_the_login_that_is_given_is_let_in() -> None:
    with started("--login", "ada") as broker:
        assert broker.stdout is not None
        url = broker.stdout.readline().split()[-1]
        for given in ({}, {"login": "ada", "password": "wrong"}, {"login": "bob", "password": "s3cret"}):
            with pytest.raises(LoginRefused):
                open_connection(source_options(url, **given).connection)
        open_connection(source_options(url, login="ada", password="s3cret").connection).close()
        broker.terminate()
        assert "s3cret" not in broker.stdout.read()


def test_an_address_that_is_taken_or_of_another_machine_is_one_line(
    devbroker: DevBroker, command: Command
) -> None:
    done = command("devbroker", "--port", devbroker.port)
    assert done.code == 1 and done.err.count("\n") == 1
    assert f"port {devbroker.port} of 127.0.0.1 is in use" in done.err and "--port 0" in done.err
    done = command("devbroker", "--host", "192.0.2.1", "--port", "0")
    assert done.code == 1 and done.err.count("\n") == 1
    assert done.err.startswith("spark-stomp: cannot listen on port 0 of 192.0.2.1: ")


def test_verbose_says_who_comes_and_what_moves() -> None:
    with started("--verbose") as broker:
        assert broker.stdout is not None
        url = broker.stdout.readline().split()[-1]
        with open_connection(source_options(url, login="ada", password="s3cret").connection) as connection:
            subscribe(connection.session, "0", "/queue/in", ack="client")
            for destination in ("/queue/a", "/queue/a", "/queue/b\x1b[2J"):
                send(connection.session, destination, b"x")
            connection.disconnect(PATIENCE)
        printed = ""
        while "/queue/a: depth" not in printed:
            printed += broker.stdout.readline()
        broker.terminate()
        printed += broker.stdout.read()
        assert broker.wait(PATIENCE) == 0
    assert "a connection from 127.0.0.1:" in printed and "login 'ada'" in printed
    assert "subscribes to '/queue/in', ack:client" in printed
    assert "/queue/a: depth 2 (0 un-acked), +2 enqueued" in printed
    assert "disconnected" in printed
    assert "s3cret" not in printed and "\x1b" not in printed


def test_what_moved_is_told_by_the_difference() -> None:
    before = {"/queue/a": QueueView(3, 1, 3, 1, 0, 0), "/queue/b": QueueView(1, 0, 1, 0, 0, 0)}
    now = {**before, "/queue/a": QueueView(2, 0, 4, 4, 1, 2), "/queue/c": QueueView(1, 0, 1, 0, 0, 0)}
    assert list(moved(before, now)) == [
        "/queue/a: depth 2 (0 un-acked), +1 enqueued, +3 delivered, +1 redelivered, +2 acked",
        "/queue/c: depth 1 (0 un-acked), +1 enqueued",
    ]
