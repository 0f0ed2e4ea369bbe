"""Every option on ``send``, ``peek`` and ``tail`` works, or is refused by its name; none is ignored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Command
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.options import OPTIONS

QUEUE = "/queue/a"
# fmt: off
CONNECTION = {
    "url", "login", "password", "passwordFile", "virtualHost", "acceptVersions", "heartbeat",
    "connectTimeout", "broker", "tlsServerName", "connectHeaders", "secretConnectHeaders", "clientId",
    "tlsCaFile", "tlsCertFile", "tlsKeyFile", "tlsKeySecret", "tlsKeyPassword", "tlsVerify", "tlsMinVersion",
    "maxFrameBytes", "maxBodyBytes", "maxHeaderLineBytes", "maxHeaders", "logLevel", "destination",
    "destinationType",
}
# By the connection, the sender, the encoder or the batch read, which know nothing of the command.
USED = {
    "sink": {
        "sendHeaders", "receiptWindow", "receiptWindowBytes", "receiptTimeout", "blockedTimeout",
        "reconnectTimeout", "reconnectDelay", "reconnectDelayMax", "persistent", "priority", "ttl",
        "messageType", "onError", "deadLetterDestination",
    },
    "batch": {
        "selector", "subscribeHeaders", "idleTimeout", "maxDrainTime", "allowLoss", "onMalformed",
        "startingOffsets", "endingOffsets", "failOnDataLoss", "maxBufferedBytes", "amqpBodies",
    },
}
REFUSED = {
    "sink": {
        "headerColumns": "x", "dedupKey": "body", "dedupHeader": "x", "checkpointLocation": "/c",
        "queryName": "q", "statusFile": "/s", "managementUrl": "http://b",
    },
    "batch": {"maxMessages": "5", "bodyDecodeErrors": "null", "idHeader": "x"},
}
# What `tail` says by other means.
OF_TAIL = {
    "startingOffsets": "earliest", "endingOffsets": "latest", "maxDrainTime": "1s", "allowLoss": "true",
}
# fmt: on
COMMANDS = {"sink": "send", "batch": "peek"}


@pytest.mark.parametrize("scope", COMMANDS)
def test_each_is_named_here(scope: str) -> None:
    keys = {option.key for option in OPTIONS if scope in option.scopes}
    assert keys == CONNECTION | USED[scope] | REFUSED[scope].keys()


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [(COMMANDS[scope], *pair) for scope, keys in REFUSED.items() for pair in keys.items()]
    + [("tail", *pair) for pair in (REFUSED["batch"] | OF_TAIL).items()],
)
def test_one_that_has_no_use_is_refused(
    devbroker: DevBroker, name: str, key: str, value: str, command: Command
) -> None:
    done = command(name, devbroker.url, QUEUE, "-o", f"{key.upper()}={value}")
    assert done.code == 2
    assert f"-o {key} has no effect here: " in done.err and done.err.count("\n") == 1
    assert devbroker.connects == 0


def test_the_same_in_two_ways_is_refused(devbroker: DevBroker, command: Command) -> None:
    """One of the two would be ignored."""
    done = command("send", devbroker.url, QUEUE, "--header=a=b", "-o", 'sendHeaders={"c": "d"}')
    assert done.code == 2 and "--header" in done.err


def test_lines_that_cannot_be_sent_are_counted(
    devbroker: DevBroker, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "a").write_bytes(b"fine\n" + b"x" * 3_000_000 + b"\nfine\n")
    options = ["-o", "maxBodyBytes=2m", "-o", "onError=drop"]
    done = command("send", devbroker.url, QUEUE, tmp_path / "a", *options)
    last_line = f"2 messages to {QUEUE}, confirmed by the broker; 1 left out that cannot be sent"
    assert (done.code, done.err.splitlines()[-1]) == (0, last_line)


def test_headers_that_the_option_gives(devbroker: DevBroker, tmp_path: Path, command: Command) -> None:
    (tmp_path / "a").write_text("x")
    assert command("send", devbroker.url, QUEUE, tmp_path / "a", "-o", 'sendHeaders={"a": "b"}').code == 0
    assert json.loads(command("peek", devbroker.url, QUEUE, "--json", "-n", "1").out)["headers"]["a"] == "b"


@pytest.mark.parametrize(("level", "shown"), [("debug", True), ("error", False)])
def test_the_log_level(devbroker: DevBroker, level: str, shown: bool, command: Command) -> None:
    """A read that takes the messages warns of it."""
    devbroker.publish_many(QUEUE, [b"m"])
    options = ["-o", "broker=generic", "-o", "idleTimeout=100ms", "-o", f"logLevel={level}"]
    done = command("peek", devbroker.url, QUEUE, "--yes", *options)
    assert (done.code, "gives all back" in done.err) == (0, shown)
    wait_until(lambda: devbroker.queue(QUEUE).unacked == 0, what="the messages given back")


def test_malformed_messages_may_be_an_error(devbroker: DevBroker, command: Command) -> None:
    devbroker.publish(QUEUE, b"bad", raw=b"no colon\n")
    done = command("peek", devbroker.url, QUEUE)
    assert done.code == 0 and "malformed" in done.out
    done = command("peek", devbroker.url, QUEUE, "-o", "onMalformed=fail")
    assert done.code == 1 and "[STOMP_" in done.err
