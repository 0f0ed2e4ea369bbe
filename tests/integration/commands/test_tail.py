"""spark-stomp tail, against the dev broker: what it shows, and what it asks for before it takes anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support.waiting import PATIENCE, wait_until

from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"
BODIES = [b"m%d" % number for number in range(25)]
PROGRAM = [sys.executable, "-c", "import sys; from spark_stomp.commands.main import main; sys.exit(main())"]


def test_the_first_messages_and_nothing_consumed(
    devbroker: DevBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    devbroker.publish_many(QUEUE, BODIES, [("content-type", "text/plain")])
    assert main(["tail", devbroker.url, QUEUE]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("#1 /queue/a  2 bytes, 20") and "\n  content-type: text/plain\n" in out
    assert [line for line in out.splitlines() if line.startswith("m")] == [
        body.decode() for body in BODIES[:10]
    ]
    assert "maxMessages (10): there may be more" in err
    view = devbroker.queue(QUEUE)
    assert (view.depth, view.delivered) == (25, 0)


def test_bodies_alone_are_what_send_takes(
    devbroker: DevBroker, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    devbroker.publish_many(QUEUE, [b"one", b"\xff\x1b[2J", b""])
    assert main(["tail", devbroker.url, QUEUE, "--bodies"]) == 0
    assert capfdbinary.readouterr().out == b"one\n\xff\x1b[2J\n\n"


def test_json(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    devbroker.publish(QUEUE, "Zoë\n".encode(), [("a", "1"), ("a", "2")])
    devbroker.publish(QUEUE, b"\xff")
    devbroker.publish(QUEUE, b"bad", raw=b"x:a\0b\n")
    assert main(["tail", devbroker.url, QUEUE, "--json"]) == 0
    first, second, third = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["destination"], first["body"], first["headers"]["a"]) == (QUEUE, "Zoë\n", "1")
    assert second["body_base64"] == "/w=="
    assert "a NUL" in third["malformed"]


def test_no_message_drives_the_terminal(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    devbroker.publish(QUEUE, b"\x1b[2J\nforged", [("colour", "\x1b]0;title\x07")])
    devbroker.publish(QUEUE, b"x" * 1000)
    devbroker.publish(QUEUE, b"bad\x1b", raw=b"x:\x1b\0b\n")
    assert main(["tail", devbroker.url, QUEUE]) == 0
    out = capsys.readouterr().out
    assert "\\x1b[2J\\nforged" in out and "colour: \\x1b]0;title\\x07" in out
    assert "x" * 500 + "..." in out and "x" * 501 not in out
    assert "malformed: " in out and "\x1b" not in out


def test_nor_does_its_json(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    body = "\x9b2J \u202e \x7f Zoë \U000e0001"
    devbroker.publish(QUEUE, body.encode())
    assert main(["tail", devbroker.url, QUEUE, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.isprintable() and line.isascii()
    assert json.loads(line)["body"] == body


class TestABrokerThatCannotBrowse:
    def test_is_asked_for_nothing_without_yes(
        self, devbroker: DevBroker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        devbroker.publish_many(QUEUE, BODIES)
        for broker, words in (("generic", "counts as a delivery"), ("artemis", "if this command is killed")):
            with pytest.raises(SystemExit) as left:
                main(["tail", devbroker.url, QUEUE, "-o", f"broker={broker}"])
            assert left.value.code == 2
            err = capsys.readouterr().err
            assert words in err and "--yes" in err and err.count("\n") == 1
        assert devbroker.queue(QUEUE).delivered == 0

    def test_gets_everything_back(self, devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
        devbroker.publish_many(QUEUE, BODIES)
        arguments = ["tail", devbroker.url, QUEUE, "-o", "broker=generic", "-o", "idleTimeout=300ms"]
        assert main([*arguments, "--yes", "-n", "30"]) == 0
        assert "#25 " in capsys.readouterr().out
        wait_until(lambda: devbroker.queue(QUEUE).unacked == 0, what="the messages given back")
        assert devbroker.bodies(QUEUE) == BODIES


class TestATopic:
    def test_needs_follow(self, devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["tail", devbroker.url, "/topic/a"])
        assert "--follow" in capsys.readouterr().err

    def test_a_queue_is_not_followed(self, devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["tail", devbroker.url, QUEUE, "--follow"])
        assert "--follow is for topics" in capsys.readouterr().err

    def test_is_shown_as_it_comes(self, devbroker: DevBroker) -> None:
        command = [*PROGRAM, "tail", devbroker.url, "/topic/a", "--follow", "--bodies", "-n", "2"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None

            def published() -> bool:
                devbroker.publish("/topic/a", b"tick")
                return process.poll() is not None

            devbroker.wait_until(lambda: devbroker.connections == 1, PATIENCE)
            wait_until(published, what="two messages")
            assert process.stdout.read() == "tick\ntick\n"
            assert process.returncode == 0
