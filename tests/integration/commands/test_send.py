"""spark-stomp send, against the dev broker: what becomes messages, and that each is confirmed."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import Command, process
from support.waiting import PATIENCE

from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    return content


def test_a_message_a_line_of_standard_input(
    devbroker: DevBroker, standard_input: io.BytesIO, command: Command
) -> None:
    standard_input.write("one\r\n\nZoë\nlast".encode())
    standard_input.seek(0)
    assert command("send", devbroker.url, QUEUE) == (
        0,
        "",
        f"4 messages to {QUEUE}, confirmed by the broker\n",
    )
    assert devbroker.bodies(QUEUE) == [b"one", b"", "Zoë".encode(), b"last"]
    assert devbroker.disconnects == 1


def test_files_in_their_order_and_whole_ones(
    devbroker: DevBroker, standard_input: io.BytesIO, tmp_path: Path, command: Command
) -> None:
    standard_input.write(b"in between\n")
    standard_input.seek(0)
    for name, content in (("a", b"1\n2\n"), ("b", b"3"), ("c", b"\x00\xff\n\n")):
        (tmp_path / name).write_bytes(content)
    assert command("send", devbroker.url, QUEUE, tmp_path / "b", "-", tmp_path / "a", "--quiet").code == 0
    assert command("send", devbroker.url, QUEUE, "--whole", tmp_path / "c").code == 0
    assert devbroker.bodies(QUEUE) == [b"3", b"in between", b"1", b"2", b"\x00\xff\n\n"]


def test_headers_and_options(devbroker: DevBroker, tmp_path: Path, command: Command) -> None:
    (tmp_path / "a").write_text("x")
    headers = ["--header", "colour=blue=green", "--header", "content-type=text/plain"]
    options = ["-o", "priority=9", "-o", "persistent=false"]
    assert command("send", devbroker.url, QUEUE, tmp_path / "a", *headers, *options).code == 0
    out = command("peek", devbroker.url, QUEUE, "--json").out
    for header in ('"colour": "blue=green"', '"content-type": "text/plain"', '"priority": "9"'):
        assert header in out
    assert "persistent" not in out


def test_what_comes_through_a_pipe_goes_on_at_once(devbroker: DevBroker) -> None:
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with process("send", devbroker.url, QUEUE, **pipes) as sending:
        assert sending.stdin is not None
        sending.stdin.write(b"one\ntw")
        sending.stdin.flush()
        devbroker.wait_until(lambda: devbroker.bodies(QUEUE) == [b"one"], PATIENCE)
        out, err = sending.communicate(b"o\n", PATIENCE)
        assert (sending.returncode, out) == (0, b"")
        assert err == b"2 messages to /queue/a, confirmed by the broker\n"
    assert devbroker.bodies(QUEUE) == [b"one", b"two"]


def test_ctrl_c_says_how_many_were_confirmed(devbroker: DevBroker) -> None:
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with process("send", devbroker.url, QUEUE, **pipes) as sending:
        assert sending.stdin is not None
        sending.stdin.write(b"one\n" * 3)
        sending.stdin.flush()
        devbroker.wait_until(lambda: len(devbroker.bodies(QUEUE)) == 3, PATIENCE)
        sending.send_signal(signal.SIGINT)
        _, last_words = sending.communicate(timeout=PATIENCE)
    assert sending.returncode == 130
    # A receipt may have been on its way.
    assert re.fullmatch(rb"\nconfirmed until now: [0-3] messages?; more may arrive\n", last_words)


def test_a_message_that_is_refused(tmp_path: Path, command: Command) -> None:
    (tmp_path / "a").write_text("x\ny")
    with DevBroker(refuse=[QUEUE]) as broker:
        code, _, err = command("send", broker.url, QUEUE, tmp_path / "a")
    assert code == 1
    assert "refused SEND to /queue/a" in err and "the broker confirmed 0 messages" in err
    assert "none of them is sent again" in err and "Spark" not in err


@pytest.mark.usefixtures("standard_input")
def test_without_lines_the_login_is_tried_all_the_same(command: Command) -> None:
    with DevBroker(users={"ada": "s3cret"}) as broker:
        assert command("send", broker.url, QUEUE).code == 5
