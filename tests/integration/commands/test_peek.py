"""spark-stomp peek, against the dev broker: what it shows, and what it asks for before it takes anything."""

from __future__ import annotations

import json
from contextvars import Context

import pytest
from support.commands import Command, Done
from support.waiting import wait_until

from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"
BODIES = [b"m%d" % number for number in range(25)]


@pytest.fixture
def peek(devbroker: DevBroker, command: Command) -> Command:
    def run(*arguments: str, destination: str = QUEUE) -> Done:
        return command("peek", devbroker.url, destination, *arguments)

    return run


def test_the_first_messages_and_nothing_consumed(devbroker: DevBroker, peek: Command) -> None:
    devbroker.publish_many(QUEUE, BODIES, [("content-type", "text/plain")])
    code, out, err = peek()
    assert code == 0
    assert out.startswith("#1 /queue/a  2 bytes, 20") and "\n  content-type: text/plain\n" in out
    shown = [line.encode() for line in out.splitlines() if line.startswith("m")]
    assert shown == BODIES[:10]
    assert "after -n 10: there may be more" in err
    view = devbroker.queue(QUEUE)
    assert (view.depth, view.delivered) == (25, 0)


def test_bodies_alone_are_what_send_takes(
    devbroker: DevBroker, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    devbroker.publish_many(QUEUE, [b"one", b"\xff\x1b[2J", b""])
    assert main(["peek", devbroker.url, QUEUE, "--bodies"]) == 0
    assert capfdbinary.readouterr().out == b"one\n\xff\x1b[2J\n\n"


def test_json(devbroker: DevBroker, peek: Command) -> None:
    """What is in it drives no terminal."""
    bodies = ["Zoë\n", "\x9b2J \u202e \x7f Zoë \U000e0001"]
    for body in bodies:
        devbroker.publish(QUEUE, body.encode(), [("a", "1"), ("a", "2")])
    devbroker.publish(QUEUE, b"\xff")
    devbroker.publish(QUEUE, b"bad", raw=b"no colon\n")
    lines = peek("--json").out.splitlines()
    assert all(line.isprintable() and line.isascii() for line in lines)
    *texts, binary, malformed = map(json.loads, lines)
    assert [one["body"] for one in texts] == bodies
    assert (texts[0]["destination"], texts[0]["headers"]["a"]) == (QUEUE, "1")
    assert binary["body_base64"] == "/w=="
    assert "no colon" in malformed["malformed"]


def test_no_message_drives_the_terminal(devbroker: DevBroker, peek: Command) -> None:
    devbroker.publish(QUEUE, b"\x1b[2J\nforged", [("colour", "\x1b]0;title\x07")])
    devbroker.publish(QUEUE, b"x" * 1000)
    devbroker.publish(QUEUE, b"bad\x1b", raw=b"no colon\x1b\n")
    out = peek().out
    assert "\\x1b[2J\\nforged" in out and "colour: \\x1b]0;title\\x07" in out
    assert "x" * 500 + "..." in out and "x" * 501 not in out
    assert "malformed: " in out and "\x1b" not in out


def test_a_broker_that_cannot_browse(devbroker: DevBroker, peek: Command) -> None:
    """It is asked for nothing without --yes, and gets everything back."""
    devbroker.publish_many(QUEUE, BODIES)
    for broker, words in (("generic", "counts as a delivery"), ("artemis", "if this command is killed")):
        done = peek("-o", f"broker={broker}")
        assert done.code == 2
        assert words in done.err and "--yes" in done.err and done.err.count("\n") == 1
    assert devbroker.queue(QUEUE).delivered == 0
    done = peek("-o", "broker=generic", "-o", "idleTimeout=300ms", "--yes", "-n", "30")
    assert done.code == 0 and "#25 " in done.out
    wait_until(lambda: devbroker.queue(QUEUE).unacked == 0, what="the messages given back")
    assert devbroker.bodies(QUEUE) == BODIES


def test_what_the_user_did_not_say_is_not_named(devbroker: DevBroker, peek: Command) -> None:
    """An empty queue, one with as many messages as were asked for, and a topic."""
    devbroker.publish_many(QUEUE, BODIES)
    sentence = "/queue/none has no messages, or they are un-acked at other consumers, or it is not there\n"
    assert peek("--bodies", destination="/queue/none") == (0, "", sentence)
    # Without what other tests of this process have noted for log lines.
    done = Context().run(peek)
    cut = f"spark-stomp: the batch read of {QUEUE} was cut off after -n 10: there may be more\n"
    assert (done.code, done.err) == (0, cut)
    done = peek("-n", "26")
    assert (done.code, done.err) == (0, "")
    sentence = "/topic/a is a topic, which keeps no messages; spark-stomp tail -f"
    assert sentence in peek(destination="/topic/a").err


def test_a_broker_that_shows_only_so_many(devbroker: DevBroker, peek: Command) -> None:
    devbroker.publish_many(QUEUE, [b"m"] * 400)
    done = peek("-o", "broker=activemq", "--bodies", "-n", "1000")
    assert done.code == 1 and "or set -n 400 to accept that many" in done.err
    assert peek("-o", "broker=activemq", "--bodies", "-n", "400").code == 0
