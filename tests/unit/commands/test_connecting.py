"""Where login, password and options come from, and that no password needs to be an argument."""

from __future__ import annotations

import io
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from unittest.mock import Mock

import pytest

from spark_stomp.commands import UsageError, connecting
from spark_stomp.commands.connecting import add_broker_arguments, option_texts

URL = "stomp://broker"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_STOMP_LOGIN", "SPARK_STOMP_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def given(*arguments: str) -> Namespace:
    parser = ArgumentParser()
    add_broker_arguments(parser)
    return parser.parse_args([URL, *arguments])


def test_options_win_over_defaults_in_any_case() -> None:
    arguments = given("-o", "IdleTimeout=5s", "-o", "tlsCaFile=a=b")
    texts = option_texts(arguments, idleTimeout="1s", maxMessages="3")
    assert texts == {"url": URL, "idletimeout": "5s", "tlscafile": "a=b", "maxmessages": "3"}


def test_a_password_from_a_file(tmp_path: Path) -> None:
    """Which is the option, so the file is read for each connection."""
    (file := tmp_path / "secret").write_text("s3cret\n")
    texts = option_texts(given("--login", "ada", "--password-file", str(file)))
    assert texts == {"url": URL, "login": "ada", "passwordfile": str(file)}
    assert option_texts(given("-o", "login=ada", "-o", f"passwordFile={file}")) == texts


def test_a_password_from_a_pipe_is_read_once() -> None:
    """As of the shell's ``<(...)``."""
    reader, writer = os.pipe()
    os.write(writer, "p: ä\r\nnot this".encode())
    os.close(writer)
    texts = option_texts(given("--login", "ada", "--password-file", f"/dev/fd/{reader}"))
    os.close(reader)
    assert (texts["login"], texts["password"]) == ("ada", "p: ä")


def test_a_password_from_standard_input_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"s3cret\nmessage\n")))
    assert option_texts(given("--login", "ada", "--password-file", "-"))["password"] == "s3cret"
    assert sys.stdin.buffer.read() == b"message\n"


def test_login_and_password_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_STOMP_PASSWORD", "s3cret")
    # Not sent to whoever did not ask for it.
    assert "password" not in option_texts(given())
    monkeypatch.setenv("SPARK_STOMP_LOGIN", "ada")
    assert option_texts(given())["login"] == "ada"
    assert option_texts(given("--login", "bob"))["password"] == "s3cret"
    (tmp_path / "other").write_text("other")
    texts = option_texts(given("--password-file", str(tmp_path / "other")))
    assert "password" not in texts and texts["passwordfile"] == str(tmp_path / "other")


def test_a_password_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Mock(return_value="s3cret")
    monkeypatch.setattr(connecting.getpass, "getpass", asked)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert "password" not in option_texts(given("--login", "ada"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert option_texts(given("--login", "ada"))["password"] == "s3cret"
    asked.assert_called_once_with("Password of ada: ", sys.stderr)


def test_no_answer_to_the_question_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-D."""

    for name in ("stdin", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True, raising=False)
    monkeypatch.setattr(connecting.getpass, "getpass", Mock(side_effect=EOFError))
    with pytest.raises(UsageError, match="no password was typed"):
        option_texts(given("--login", "ada"))


def test_secret_options_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text('{"token": "s3cret"}\n')
    (tmp_path / "password").write_text("pass\nword")
    texts = option_texts(
        given("-o", f"secretConnectHeaders=@{tmp_path}/headers", "-o", f"password=@{tmp_path}/password")
    )
    assert texts["secretconnectheaders"] == '{"token": "s3cret"}'
    assert texts["password"] == "pass"
