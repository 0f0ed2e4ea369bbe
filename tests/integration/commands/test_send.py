"""spark-stomp send, against the dev broker: what becomes messages, and that each is confirmed."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import PATIENCE

from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"
PROGRAM = [sys.executable, "-m", "spark_stomp"]


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    return content


def test_a_message_a_line_of_standard_input(
    devbroker: DevBroker, standard_input: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    standard_input.write("one\r\n\nZoë\nlast".encode())
    standard_input.seek(0)
    assert main(["send", devbroker.url, QUEUE]) == 0
    assert devbroker.bodies(QUEUE) == [b"one", b"", "Zoë".encode(), b"last"]
    assert capsys.readouterr() == ("", f"4 messages to {QUEUE}, confirmed by the broker\n")
    assert devbroker.disconnects == 1


def test_files_in_their_order(devbroker: DevBroker, standard_input: io.BytesIO, tmp_path: Path) -> None:
    standard_input.write(b"in between\n")
    standard_input.seek(0)
    for name, content in (("a", b"1\n2\n"), ("b", b"3")):
        (tmp_path / name).write_bytes(content)
    assert main(["send", devbroker.url, QUEUE, str(tmp_path / "b"), "-", str(tmp_path / "a"), "--quiet"]) == 0
    assert devbroker.bodies(QUEUE) == [b"3", b"in between", b"1", b"2"]


def test_whole_files(devbroker: DevBroker, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x00\xff\n\n")
    assert main(["send", devbroker.url, QUEUE, "--whole", str(tmp_path / "a")]) == 0
    assert devbroker.bodies(QUEUE) == [b"\x00\xff\n\n"]


def test_headers_and_options(
    devbroker: DevBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_text("x")
    more = ["--header", "colour=blue=green", "--header", "content-type=text/plain", "-o", "priority=9"]
    assert main(["send", devbroker.url, QUEUE, str(tmp_path / "a"), "-o", "persistent=false", *more]) == 0
    capsys.readouterr()
    assert main(["peek", devbroker.url, QUEUE, "--json"]) == 0
    out = capsys.readouterr().out
    for header in (
        '"colour": "blue=green"',
        '"content-type": "text/plain"',
        '"priority": "9"',
    ):
        assert header in out
    assert "persistent" not in out


def test_what_comes_through_a_pipe_goes_on_at_once(devbroker: DevBroker) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*PROGRAM, "send", devbroker.url, QUEUE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntw")
        process.stdin.flush()
        devbroker.wait_until(lambda: devbroker.bodies(QUEUE) == [b"one"], PATIENCE)
        out, err = process.communicate(b"o\n", PATIENCE)
        assert (process.returncode, out) == (0, None)
        assert err == b"2 messages to /queue/a, confirmed by the broker\n"
    assert devbroker.bodies(QUEUE) == [b"one", b"two"]


def test_ctrl_c_says_how_many_were_confirmed(devbroker: DevBroker) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*PROGRAM, "send", devbroker.url, QUEUE]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        process.stdin.write("one\n" * 3)
        process.stdin.flush()
        devbroker.wait_until(lambda: len(devbroker.bodies(QUEUE)) == 3, PATIENCE)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    # A receipt may have been on its way.
    assert re.fullmatch(r"\nconfirmed until now: [0-3] messages?; more may arrive\n", told)


def test_a_message_that_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("x\ny")
    with DevBroker(refuse=[QUEUE]) as broker:
        assert main(["send", broker.url, QUEUE, str(tmp_path / "a")]) == 1
    err = capsys.readouterr().err
    assert "refused SEND to /queue/a" in err and "the broker confirmed 0 messages" in err
    assert "none of them is sent again" in err and "Spark" not in err


def test_without_lines_the_login_is_tried_all_the_same(
    standard_input: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    with DevBroker(users={"ada": "s3cret"}) as broker:
        assert main(["send", broker.url, QUEUE]) == 5
