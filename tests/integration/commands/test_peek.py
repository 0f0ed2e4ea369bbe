"""spark-stomp peek, against the dev broker: what it shows, and what it asks for before it takes anything."""

from __future__ import annotations

import json
from contextvars import Context

import pytest
from support.waiting import wait_until

from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"
BODIES = [b"m%d" % number for number in range(25)]


def test_the_first_messages_and_nothing_consumed(
    devbroker: DevBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    devbroker.publish_many(QUEUE, BODIES, [("content-type", "text/plain")])
    assert main(["peek", devbroker.url, QUEUE]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("#1 /queue/a  2 bytes, 20") and "\n  content-type: text/plain\n" in out
    assert [line for line in out.splitlines() if line.startswith("m")] == [
        body.decode() for body in BODIES[:10]
    ]
    assert "after -n 10: there may be more" in err
    view = devbroker.queue(QUEUE)
    assert (view.depth, view.delivered) == (25, 0)


def test_bodies_alone_are_what_send_takes(
    devbroker: DevBroker, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    devbroker.publish_many(QUEUE, [b"one", b"\xff\x1b[2J", b""])
    assert main(["peek", devbroker.url, QUEUE, "--bodies"]) == 0
    assert capfdbinary.readouterr().out == b"one\n\xff\x1b[2J\n\n"


def test_json(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    devbroker.publish(QUEUE, "Zoë\n".encode(), [("a", "1"), ("a", "2")])
    devbroker.publish(QUEUE, b"\xff")
    devbroker.publish(QUEUE, b"bad", raw=b"x:a\0b\n")
    assert main(["peek", devbroker.url, QUEUE, "--json"]) == 0
    first, second, third = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["destination"], first["body"], first["headers"]["a"]) == (QUEUE, "Zoë\n", "1")
    assert second["body_base64"] == "/w=="
    assert "a NUL" in third["malformed"]


def test_no_message_drives_the_terminal(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    devbroker.publish(QUEUE, b"\x1b[2J\nforged", [("colour", "\x1b]0;title\x07")])
    devbroker.publish(QUEUE, b"x" * 1000)
    devbroker.publish(QUEUE, b"bad\x1b", raw=b"x:\x1b\0b\n")
    assert main(["peek", devbroker.url, QUEUE]) == 0
    out = capsys.readouterr().out
    assert "\\x1b[2J\\nforged" in out and "colour: \\x1b]0;title\\x07" in out
    assert "x" * 500 + "..." in out and "x" * 501 not in out
    assert "malformed: " in out and "\x1b" not in out


def test_nor_does_its_json(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    body = "\x9b2J \u202e \x7f Zoë \U000e0001"
    devbroker.publish(QUEUE, body.encode())
    assert main(["peek", devbroker.url, QUEUE, "--json"]) == 0
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
                main(["peek", devbroker.url, QUEUE, "-o", f"broker={broker}"])
            assert left.value.code == 2
            err = capsys.readouterr().err
            assert words in err and "--yes" in err and err.count("\n") == 1
        assert devbroker.queue(QUEUE).delivered == 0

    def test_gets_everything_back(self, devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
        devbroker.publish_many(QUEUE, BODIES)
        arguments = ["peek", devbroker.url, QUEUE, "-o", "broker=generic", "-o", "idleTimeout=300ms"]
        assert main([*arguments, "--yes", "-n", "30"]) == 0
        assert "#25 " in capsys.readouterr().out
        wait_until(lambda: devbroker.queue(QUEUE).unacked == 0, what="the messages given back")
        assert devbroker.bodies(QUEUE) == BODIES


def test_what_the_user_did_not_say_is_not_named(
    devbroker: DevBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty queue, one with as many messages as were asked for, and a topic."""
    devbroker.publish_many(QUEUE, BODIES)
    assert main(["peek", devbroker.url, "/queue/none", "--bodies"]) == 0
    told = "/queue/none has no messages, or they are un-acked at other consumers, or it is not there\n"
    assert capsys.readouterr() == ("", told)
    # Without what other tests of this process have noted for log lines.
    assert Context().run(main, ["peek", devbroker.url, QUEUE]) == 0
    cut = f"spark-stomp: the batch read of {QUEUE} was cut off after -n 10: there may be more\n"
    assert capsys.readouterr().err == cut
    assert main(["peek", devbroker.url, QUEUE, "-n", "26"]) == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(SystemExit):
        main(["peek", devbroker.url, "/topic/a"])
    assert "/topic/a is a topic, which keeps no messages; spark-stomp tail -f" in capsys.readouterr().err


def test_a_broker_that_shows_only_so_many(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    devbroker.publish_many(QUEUE, [b"m"] * 400)
    arguments = ["peek", devbroker.url, QUEUE, "-o", "broker=activemq", "--bodies"]
    assert main([*arguments, "-n", "1000"]) == 1
    assert "or set -n 400 to accept that many" in capsys.readouterr().err
    assert main([*arguments, "-n", "400"]) == 0
