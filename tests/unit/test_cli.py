"""spark_stomp.cli: what the command takes, and that it hands over what it was given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

import pytest
from support.waiting import PATIENCE

from spark_stomp import __version__, cli
from spark_stomp.devbroker import cli as devbroker_cli


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The calls of the dev broker's entry, which returns at once."""
    calls: list[tuple[object, ...]] = []

    def run(host: str, port: int, users: Mapping[str, str] | None) -> None:
        calls.append((host, port, users))

    monkeypatch.setattr(devbroker_cli, "run", run)
    return calls


def test_devbroker_by_default(runs: list[tuple[object, ...]]) -> None:
    assert cli.main(["devbroker"]) == 0
    assert runs == [("127.0.0.1", 61613, None)]


def test_devbroker_with_everything(runs: list[tuple[object, ...]]) -> None:
    users = ["--user", "a:b:c", "--user", "d:"]
    assert cli.main(["devbroker", "--host", "::1", "--port", "0", *users]) == 0
    assert runs == [("::1", 0, {"a": "b:c", "d": ""})]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required"),
        (["broker"], "invalid choice"),
        (["devbroker", "--port", "65536"], "from 0 to 65535"),
        (["devbroker", "--port", "-1"], "--port"),
        (["devbroker", "--user", "nobody"], "LOGIN:PASSWORD"),
        (["devbroker", "--user", ":secret"], "LOGIN:PASSWORD"),
    ],
)
def test_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"spark-stomp {__version__}\n"


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
