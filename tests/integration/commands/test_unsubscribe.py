"""spark-stomp unsubscribe, against the dev broker; tests/interop has the real ones."""

from __future__ import annotations

import pytest
from support.commands import Command
from support.driven import Run

from spark_stomp.devbroker import DevBroker

ETL = ("--durable-name", "etl")


def subscribed(broker: DevBroker, destination: str = "/topic/a", **options: str) -> None:
    """A query that has ended."""
    with Run({"url": broker.url, "destination": destination, "durableName": "etl", **options}) as query:
        query.idle()


def test_it_ends_and_its_messages_are_gone(devbroker: DevBroker, command: Command) -> None:
    subscribed(devbroker)
    devbroker.publish("/topic/a", b"one")
    assert devbroker.durable("/topic/a")["etl@/topic/a"].depth == 1
    assert command("unsubscribe", devbroker.url, "/topic/a", *ETL).code == 0
    assert devbroker.durable("/topic/a") == {}
    devbroker.wait_until(lambda: devbroker.connections == 0)


def test_not_that_of_another_client_or_name(devbroker: DevBroker, command: Command) -> None:
    subscribed(devbroker, clientId="me")
    for other in (ETL, ("--durable-name", "other", "--client-id", "me")):
        assert command("unsubscribe", devbroker.url, "/topic/a", *other).code == 0
    assert [*devbroker.durable("/topic/a")] == ["me.etl@/topic/a"]
    assert command("unsubscribe", devbroker.url, "/topic/a", *ETL, "--client-id", "me").code == 0
    assert devbroker.durable("/topic/a") == {}


def test_those_of_several_topics(devbroker: DevBroker, command: Command) -> None:
    topics = '["/topic/a", "/topic/b"]'
    subscribed(devbroker, topics)
    assert [*devbroker.durable("/topic/b")] == ["etl@/topic/b"]
    assert command("unsubscribe", devbroker.url, topics, *ETL).code == 0
    assert devbroker.durable("/topic/a") == devbroker.durable("/topic/b") == {}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["/topic/a"], 2, "--durable-name"),
        (["/topic/a", *ETL, "-o", "durableName=y"], 2, "-o durableName has no effect here"),
        (["/topic/a", *ETL, "-o", "clientId=y"], 2, "-o clientId has no effect here"),
        (["/topic/a", *ETL, "-o", "connections=2"], 2, "-o connections has no effect here"),
        (["/queue/a", *ETL], 1, "/queue/a is not known to be a topic"),
    ],
)
def test_wrong_arguments(
    devbroker: DevBroker, arguments: list[str], code: int, said: str, command: Command
) -> None:
    done = command("unsubscribe", devbroker.url, *arguments)
    assert done.code == code and said in done.err
    assert devbroker.queues() == {}
