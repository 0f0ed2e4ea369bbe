"""spark-stomp unsubscribe, against the dev broker; tests/interop has the real ones."""

from __future__ import annotations

import pytest
from support.driven import Run

from spark_stomp.commands.main import main
from spark_stomp.devbroker import DevBroker


def ended(broker: DevBroker, *arguments: str) -> int:
    return main(["unsubscribe", broker.url, *arguments])


def test_it_ends_and_its_messages_are_gone(devbroker: DevBroker) -> None:
    with Run({"url": devbroker.url, "destination": "/topic/a", "durableName": "etl"}) as query:
        query.idle()
    devbroker.publish("/topic/a", b"one")
    assert devbroker.durable("/topic/a")["etl@/topic/a"].depth == 1
    assert ended(devbroker, "/topic/a", "--durable-name", "etl") == 0
    assert devbroker.durable("/topic/a") == {}
    devbroker.wait_until(lambda: devbroker.connections == 0)


def test_not_that_of_another_client_or_name(devbroker: DevBroker) -> None:
    options = {"url": devbroker.url, "destination": "/topic/a", "durableName": "etl", "clientId": "me"}
    with Run(options) as query:
        query.idle()
    assert ended(devbroker, "/topic/a", "--durable-name", "etl") == 0
    assert ended(devbroker, "/topic/a", "--durable-name", "other", "--client-id", "me") == 0
    assert [*devbroker.durable("/topic/a")] == ["me.etl@/topic/a"]
    assert ended(devbroker, "/topic/a", "--durable-name", "etl", "--client-id", "me") == 0
    assert devbroker.durable("/topic/a") == {}


def test_those_of_several_topics(devbroker: DevBroker) -> None:
    topics = '["/topic/a", "/topic/b"]'
    with Run({"url": devbroker.url, "destination": topics, "durableName": "etl"}) as query:
        query.idle()
    assert [*devbroker.durable("/topic/b")] == ["etl@/topic/b"]
    assert ended(devbroker, topics, "--durable-name", "etl") == 0
    assert devbroker.durable("/topic/a") == devbroker.durable("/topic/b") == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/topic/a"], "--durable-name"),
        (["/topic/a", "--durable-name", "x", "-o", "durableName=y"], "-o durableName has no effect here"),
        (["/topic/a", "--durable-name", "x", "-o", "clientId=y"], "-o clientId has no effect here"),
        (["/topic/a", "--durable-name", "x", "-o", "connections=2"], "-o connections has no effect here"),
    ],
)
def test_wrong_arguments(
    devbroker: DevBroker, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        ended(devbroker, *arguments)
    assert left.value.code == 2 and said in capsys.readouterr().err


def test_a_queue_has_none(devbroker: DevBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(devbroker, "/queue/a", "--durable-name", "etl") == 1
    assert "/queue/a is not known to be a topic" in capsys.readouterr().err
    assert devbroker.queues() == {}
