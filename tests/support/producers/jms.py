"""Jakarta Messaging (JMS), by the clients of Qpid, Artemis and ActiveMQ."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from support.brokers import Broker
from support.brokers.base import HOST
from support.brokers.cache import java, libraries
from support.brokers.process import run
from support.producers.base import Target
from support.waiting import PATIENCE

_BROKERS = Path(__file__).resolve().parents[1] / "brokers"

# Lines of words, as Jms.java reads them.
Message = list[tuple[str, ...]]
PROPERTIES = [
    ("string", "String", "ü"),
    ("empty", "String", ""),
    ("boolean", "Boolean", "true"),
    ("byte", "Byte", "7"),
    ("short", "Short", "7"),
    ("int", "Integer", "-7"),
    ("long", "Long", "3000000000"),
    ("float", "Float", "0.5"),
    ("double", "Double", "1e10"),
    ("none", "null", ""),
]
ENTRIES = [
    ("symbol", "String", "ACME"),
    ("price", "Double", "12.5"),
    ("volume", "Long", "3000000000"),
    ("octets", "byte[]", "00ff"),
    ("none", "null", ""),
]
MESSAGES: dict[str, Message] = {
    "text": [("message", "Text"), ("body", "String", "ü 1")],
    "long text": [("message", "Text"), ("body", "String", "x" * 300)],
    "empty text": [("message", "Text"), ("body", "String", "")],
    "null text": [("message", "Text")],
    "bytes": [("message", "Bytes"), ("body", "byte[]", "00ff")],
    "empty bytes": [("message", "Bytes")],
    "map": [("message", "Map"), *(("entry", *entry) for entry in ENTRIES)],
    "empty map": [("message", "Map")],
    "object": [("message", "Object"), ("body", "String", "ACME")],
    "all but the body": [
        ("message", "Text"),
        ("body", "String", "{}"),
        ("correlation", "c-1"),
        ("reply-to", "replies"),
        ("type", "type"),
        ("priority", "7"),
        ("ttl", "86400000"),
        ("property", "JMSXGroupID", "String", "group"),
        ("property", "JMSXGroupSeq", "Integer", "3"),
    ],
    "correlation bytes": [("message", "Text"), ("body", "String", "{}"), ("correlation-bytes", "feff")],
    "non-persistent": [("message", "Text"), ("body", "String", "{}"), ("non-persistent",)],
    "properties": [
        ("message", "Text"),
        ("body", "String", "{}"),
        *(("property", *one) for one in PROPERTIES),
    ],
}
# RabbitMQ refuses it: a message of AMQP 1.0 has a body.
NO_BODY: dict[str, Message] = {"no body": [("message", "")]}
# Some never reach a consumer of Artemis by STOMP.
STREAM: dict[str, Message] = {
    "stream": [("message", "Stream"), *(("body", *entry[1:]) for entry in ENTRIES[:3])],
}


def sender(library: str, scheme: str) -> Callable[[Target, Iterable[Message]], None]:
    def send(target: Target, messages: Iterable[Message]) -> None:
        command = _command(library, scheme, target, "send")
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        ) as client:
            assert client.stdin is not None and client.stderr is not None
            try:
                for message in messages:
                    lines = (*message, ("send",))
                    client.stdin.write("".join("\t".join(line) + "\n" for line in lines))
                    client.stdin.flush()
                client.stdin.close()
                assert client.wait(PATIENCE) == 0, client.stderr.read()
            finally:
                client.kill()

    return send


# ActiveMQ cannot take the ACK of a message of AMQP that has an id of its own.
WITHOUT_ID: dict[str, Message] = {
    name: [*message, ("neither id nor time",)]
    for name, message in (MESSAGES | STREAM | NO_BODY).items()
    if ("ttl", "86400000") not in message
}


class Received(NamedTuple):
    """A message as a consumer sees it: its kind, its fields as text, and type and text of each property."""

    kind: str
    fields: dict[str, str]
    properties: dict[str, tuple[str, str]]


def received(library: str, scheme: str, target: Target, count: int) -> list[Received]:
    """What a consumer of the queue gets."""
    printed = run(*_command(library, scheme, target, str(count)))
    return [_received(one.split("\n")) for one in printed.strip("\n").split("\n\n")]


def _received(printed: list[str]) -> Received:
    (_, kind), *lines = (line.split("\t") for line in printed)
    properties = {line[1]: (line[2], line[3]) for line in lines if line[0] == "property"}
    return Received(kind, {line[0]: line[-1] for line in lines if line[0] != "property"}, properties)


def _command(library: str, scheme: str, target: Target, what: str) -> tuple[str | Path, ...]:
    broker, url = target.broker, f"{scheme}://{HOST}:{target.port}"
    options = (
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
    )
    classpath = libraries("jms", _BROKERS / "jms.pom.xml")
    program = (java(), *options, "-classpath", classpath, _BROKERS / "Jms.java")
    return (*program, library, url, str(broker.login), str(broker.password), name(broker, target.name), what)


def name(broker: Broker, queue: str) -> str:
    """How a client of JMS names a queue."""
    return {"rabbitmq": f"/queues/{queue}", "rabbitmq-3.10": f"/amq/queue/{queue}"}.get(broker.name, queue)
