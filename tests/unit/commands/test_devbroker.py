"""spark-stomp devbroker: what it takes, what it says, and how the broker ends."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.options import source_options
from support.waiting import PATIENCE

from spark_stomp import cli
from spark_stomp.commands import devbroker as command
from spark_stomp.commands.devbroker import moved, run_devbroker
from spark_stomp.devbroker import DevBroker, QueueView
from spark_stomp.errors import LoginRefused
from spark_stomp.transport import open_connection


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The calls of the dev broker's entry, which returns at once."""
    calls: list[tuple[object, ...]] = []

    def run(host: str, port: int, users: Mapping[str, str] | None, *, verbose: bool) -> None:
        calls.append((host, port, users))

    monkeypatch.setattr(command, "run_devbroker", run)
    return calls


def test_devbroker_by_default(runs: list[tuple[object, ...]]) -> None:
    assert cli.main(["devbroker"]) == 0
    assert runs == [("127.0.0.1", 61613, None)]


def test_devbroker_with_everything(runs: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_STOMP_DEVBROKER_PASSWORD", "b:c")
    users = ["--user", "a", "--user", "d"]
    assert cli.main(["devbroker", "--host", "::1", "--port", "0", *users]) == 0
    assert runs == [("::1", 0, {"a": "b:c", "d": "b:c"})]


def test_passwords_from_files(
    runs: list[tuple[object, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each user, in their order; the end of the line is no part of it."""
    monkeypatch.setenv("SPARK_STOMP_DEVBROKER_PASSWORD", "another")
    for name, content in (("one", "b:c \n"), ("two", "")):
        (tmp_path / name).write_text(content)
    users = ["--user", "a", "--password-file", str(tmp_path / "one")]
    users += ["--password-file", str(tmp_path / "two"), "--user", "d"]
    assert cli.main(["devbroker", *users]) == 0
    assert runs == [("127.0.0.1", 61613, {"a": "b:c ", "d": ""})]


def test_a_password_on_the_command_line_is_refused_and_not_repeated(
    runs: list[tuple[object, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Everybody on the machine can read it in the list of processes."""
    with pytest.raises(SystemExit):
        cli.main(["devbroker", "--user", "ada:s3cret"])
    told = capsys.readouterr().err
    assert runs == []
    assert "list of processes" in told and "--password-file" in told
    assert "s3cret" not in told


def test_the_help_says_where_passwords_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["devbroker", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "--password-file FILE" in told and "SPARK_STOMP_DEVBROKER_PASSWORD" in told
    assert "list of processes" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["devbroker", "--port", "65536"], "from 0 to 65535"),
        (["devbroker", "--port", "-1"], "--port"),
        (["devbroker", "--user", "nobody"], "SPARK_STOMP_DEVBROKER_PASSWORD"),
        (["devbroker", "--user", ""], "must not be empty"),
        (["devbroker", "--user", "ada", "--password-file", "/no/such.file"], "/no/such.file"),
        (["devbroker", "--password-file", "/dev/null"], "as many --password-file as --user"),
        (["devbroker", "--user", "a", "--user", "b", "--password-file", "/dev/null"], "as many"),
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
        cli.main(arguments)
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_a_real_broker_until_sigterm() -> None:
    command = [sys.executable, "-c", "import sys; from spark_stomp.cli import main; sys.exit(main())"]
    with subprocess.Popen(
        [*command, "devbroker", "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        os.kill(process.pid, signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(PATIENCE) == 0
    assert "stomp://127.0.0.1:" in first
    assert "development only" in rest


def test_prints_its_url_and_what_it_is_for() -> None:
    stop, output = threading.Event(), io.StringIO()
    stop.set()
    run_devbroker("127.0.0.1", 0, None, stop=stop, output=output)
    assert "stomp://127.0.0.1:" in output.getvalue()
    assert "for development only" in output.getvalue()


def test_leaves_the_signal_handler_as_it_was() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stop = threading.Event()
    stop.set()
    run_devbroker("127.0.0.1", 0, None, stop=stop, output=io.StringIO())
    assert signal.getsignal(signal.SIGTERM) is before


def test_runs_in_any_thread() -> None:
    stop, output = threading.Event(), io.StringIO()
    thread = threading.Thread(
        target=run_devbroker, args=("127.0.0.1", 0, {"a": "b"}), kwargs={"stop": stop, "output": output}
    )
    thread.start()
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert "stomp://" in output.getvalue()


def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with DevBroker() as broker:
        assert cli.main(["devbroker", "--port", str(broker.port)]) == 1
        told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"port {broker.port} of 127.0.0.1 is in use" in told and "--port 0" in told


def test_an_address_of_another_machine_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devbroker", "--host", "192.0.2.1", "--port", "0"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("spark-stomp: cannot listen on port 0 of 192.0.2.1: ") and told.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    code = "from spark_stomp.commands.devbroker import run_devbroker; run_devbroker('127.0.0.1', 0, None)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
        process.send_signal(number)
        assert process.wait(10) == 0


def test_verbose_says_who_comes_and_what_moves() -> None:
    command = [sys.executable, "-c", "import sys; from spark_stomp.cli import main; sys.exit(main())"]
    with subprocess.Popen(
        [*command, "devbroker", "--port", "0", "--verbose"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        with open_connection(source_options(url, login="ada", password="s3cret").connection) as connection:
            session = connection.session
            session.subscribe("0", "/queue/in", ack="client")
            for destination in ("/queue/a", "/queue/a", "/queue/b\x1b[2J"):
                session.send(destination, b"x")
            connection.disconnect(PATIENCE)
        told = ""
        while "/queue/a: depth" not in told:
            told += process.stdout.readline()
        process.terminate()
        told += process.stdout.read()
        assert process.wait(PATIENCE) == 0
    assert "a connection from 127.0.0.1:" in told and "login 'ada'" in told
    assert "subscribes to '/queue/in', ack:client" in told
    assert told.count("sends to '/queue/a'") == 1
    assert "/queue/a: depth 2 (0 un-acked), +2 enqueued" in told
    assert "is gone" in told
    assert "s3cret" not in told and "\x1b" not in told


def test_what_moved_is_told_by_the_difference() -> None:
    before = {"/queue/a": QueueView(3, 1, 3, 1, 0, 0), "/queue/b": QueueView(1, 0, 1, 0, 0, 0)}
    now = {**before, "/queue/a": QueueView(2, 0, 4, 4, 1, 2), "/queue/c": QueueView(1, 0, 1, 0, 0, 0)}
    assert list(moved(before, now)) == [
        "/queue/a: depth 2 (0 un-acked), +1 enqueued, +3 delivered, +1 redelivered, +2 acked",
        "/queue/c: depth 1 (0 un-acked), +1 enqueued",
    ]


@pytest.mark.parametrize(
    ("login", "words"), [(None, "was started with --user"), ("bob", "no user 'bob' with")]
)
def test_who_is_not_let_in_is_told_what_to_do(login: str | None, words: str) -> None:
    given = {} if login is None else {"login": login, "password": "wrong"}
    with DevBroker(users={"ada": "s3cret"}) as broker, pytest.raises(LoginRefused) as refused:
        open_connection(source_options(broker.url, **given).connection)
    assert words in str(refused.value)
    assert "None" not in str(refused.value) and "ada" not in str(refused.value)
