"""spark-stomp: which command runs, and what it says of a mistake and of Ctrl-C."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from support.tcp import unused_port
from support.waiting import PATIENCE

from spark_stomp import __version__
from spark_stomp.commands import probe
from spark_stomp.commands.main import main

COMMANDS = ("probe", "send", "peek", "tail", "unsubscribe", "status", "devbroker")
PROGRAM = [sys.executable, "-m", "spark_stomp"]


def called(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, *capsys.readouterr()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(["--version"], capsys) == (0, f"spark-stomp {__version__}\n", "")


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(["--help"], capsys)
    assert code == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_examples_and_exit_codes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = called([name, "--help"], capsys)
    assert code == 0
    assert f"usage: spark-stomp {name}" in out
    assert re.search(rf"examples:\n  (\S+ \S+ \| )?spark-stomp {name}\b", out)
    assert "exit codes:\n  0 " in out


def test_without_a_command_it_shows_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    _, help_text, _ = called(["--help"], capsys)
    assert called([], capsys) == (2, "", help_text)


def test_only_what_is_missing_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = called(["send", "stomp://broker"], capsys)
    assert code == 2
    assert err.endswith("arguments are required: DESTINATION\n")


def help_of(name: str, first: Path) -> subprocess.CompletedProcess[str]:
    """What a command prints with ``--help`` if packages are looked for in ``first`` before all others."""
    return subprocess.run(
        [*PROGRAM, name, "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(first), *sys.path])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("missing", ["pyspark", "rich"])
def test_no_command_needs_spark_and_some_need_rich(tmp_path: Path, missing: str) -> None:
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError('No module', name='{missing}')\n")
    for name in COMMANDS:
        done = help_of(name, tmp_path)
        if missing == "pyspark" or name in ("devbroker", "unsubscribe"):
            assert (done.returncode, done.stderr) == (0, "")
        else:
            needed = f"spark-stomp: {name} needs the package rich, of the extra cli: pip install rich\n"
            assert (done.returncode, done.stderr) == (2, needed)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["probe", "stmp://broker"], 2, "must begin with stomp://"),
        (["probe", "stomp://ada:s3cret@broker"], 2, "use the options login and password"),
        (["probe", "stomp://broker", "-o", "s3cret"], 2, "-o takes KEY=VALUE"),
        (["probe", "stomp://broker", "-o", "password=s3cret"], 2, "list of processes"),
        (["probe", "stomp://broker", "-o", "passcode=s3cret"], 2, "--password-file"),
        (["probe", "stomp://broker", "-o", "tlsKeyPassword=s3cret"], 2, "tlskeypassword=@FILE"),
        (["probe", "stomp://broker", "-o", "colour=s3cret"], 2, "colour is not an option"),
        (["probe", "stomp://broker", "-o", "broker=x", "-o", "Broker=y"], 2, "given twice"),
        (["probe", "stomp://broker", "--login", "a", "--password-file", "/no/such"], 2, "/no/such cannot be"),
        (["peek", "stomp://broker", "/queue/a", "-n", "0"], 2, "a number from 1 on"),
        (["send", "stomp://broker", "/queue/a", "/no/such"], 2, "/no/such is not a file"),
        (["send", "stomp://broker", "/queue/a", "--header", "Authorization: s3cret"], 2, "NAME=VALUE"),
        (["probe", "stomp://broker", "--login", "ada", "--password", "s3cret"], 2, "no argument --password;"),
        (["probe", "stomp://broker", "--pass=s3cret"], 2, "None takes a password"),
        (["tail", "stomp://broker", "/queue/a", "--passcode", "s3cret"], 2, "no argument --passcode"),
        (["send", "stomp://broker", "/queue/a", "-ps3cret"], 2, "no argument -p;"),
        (["devbroker", "--password", "s3cret"], 2, "no argument --password"),
        (["peek", "stomp://broker", "x", "y", "s3cret"], 2, "2 arguments too many"),
        (["send", "stomp://broker", "/queue/a", "-o", "destination=/queue/b"], 2, "-o destination: URL and"),
        (["tail", "stomp://broker", "/queue/a", "-o", "URL=stomp://b"], 2, "-o url: URL and"),
        (["probe", "stomp://broker", "-o", "connectTimeout=99999999999s"], 2, "at most 100 years"),
        (["status", "x", "--interval", "often"], 2, "invalid float value"),
        (
            ["status", "/no/such", "--once"],
            2,
            "/no/such: nothing has been written there yet: a query writes its status",
        ),
        (["status", "nowhere://ada:s3cret@x/y"], 2, "nowhere://***@x/y"),
        (["probe", f"stomp://127.0.0.1:{unused_port()}", "--quiet"], 3, "cannot connect to"),
    ],
)
def test_a_mistake_is_a_sentence(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    got, _, err = called(arguments, capsys)
    assert (got, words in err) == (code, True), err
    assert "s3cret" not in err and "Traceback" not in err


def test_ctrl_c_ends_it_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(probe, "run", Mock(side_effect=KeyboardInterrupt))
    assert called(["probe", "stomp://broker"], capsys) == (130, "", "")


def test_the_log_is_left_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    before = list(logging.getLogger("spark_stomp").handlers)
    called(["status", "/no/such", "--once"], capsys)
    assert logging.getLogger("spark_stomp").handlers == before
