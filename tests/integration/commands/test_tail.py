"""spark-stomp tail of topics, against the dev broker. tests/interop/test_stream_page.py has streams."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.commands import Command, process
from support.scripted import ScriptedBroker
from support.tcp import stomp_server
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker

TOPIC = "/topic/a"


@contextmanager
def following(devbroker: DevBroker, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """The command as a process, once it is subscribed, and the lines that it writes from then on."""
    with process("tail", devbroker.url, TOPIC, "-f", *arguments, text=True) as tail:
        assert tail.stdout is not None
        out = tail.stdout

        def subscribed() -> bool:
            devbroker.publish(TOPIC, b"begun")
            return bool(select.select([out], [], [], 0.1)[0])

        try:
            wait_until(subscribed, what="the first message")
            yield tail, (line for line in out if "begun" not in line)
        finally:
            tail.kill()


def test_what_comes_to_a_topic_is_shown_at_once(devbroker: DevBroker) -> None:
    with following(devbroker, "--bodies") as (_, lines):
        for body in ("one", "two"):
            devbroker.publish(TOPIC, body.encode())
            assert next(lines) == f"{body}\n"


def test_a_malformed_message(devbroker: DevBroker) -> None:
    with following(devbroker, "--json") as (_, lines):
        devbroker.publish(TOPIC, b"bad", raw=b"no colon\n")
        assert "no colon" in next(lines)
    with following(devbroker, "-o", "onMalformed=fail") as (process, _):
        devbroker.publish(TOPIC, b"bad", raw=b"no colon\n")
        assert process.wait(PATIENCE) == 1


def test_a_broker_that_ends(devbroker: DevBroker) -> None:
    with following(devbroker) as (process, _):
        devbroker.stop()
        assert process.wait(PATIENCE) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([TOPIC], "is a topic, which keeps no messages; -f shows what comes"),
        (["/queue/a"], "a delivery limit counts. spark-stomp peek shows its oldest ones"),
        (["/queue/a", "-f"], "spark-stomp peek"),
        (['["/topic/a", "/topic/b"]', "-f"], "one stream or one topic"),
    ],
)
def test_what_it_cannot_show(
    devbroker: DevBroker, arguments: list[str], words: str, command: Command
) -> None:
    done = command("tail", devbroker.url, *arguments)
    assert done.code == 2 and words in done.err and done.err.count("\n") == 1
    assert devbroker.queues() == {}


def test_what_may_be_a_queue_is_not_read(command: Command) -> None:
    asked: list[bytes] = []

    def answer(_: int, frame: bytes) -> bytes:
        asked.append(frame)
        return b""

    with stomp_server(ScriptedBroker(b"ActiveMQ-Artemis/2.56.0", answer).serve) as url:
        done = command("tail", url, "orders", "-f")
    assert done.code == 2 and "add -o destinationType=topic" in done.err
    assert not any(frame.startswith(b"SUBSCRIBE") for frame in asked)
