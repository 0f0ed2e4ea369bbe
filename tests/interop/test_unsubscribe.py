"""spark-stomp unsubscribe on every broker."""

from __future__ import annotations

import secrets

import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_every_broker
from support.driven import Run, publish

from spark_stomp.brokers import dialect_named
from spark_stomp.commands.main import main

# Exit codes while a query is connected. RabbitMQ does not mind; the query then subscribes again.
CONNECTED = {"devbroker": 1, "rabbitmq": 0, "activemq": 5, "artemis": 1}
# Exit codes if there is no such subscription. Only ActiveMQ says so.
NONE = {"devbroker": 0, "rabbitmq": 0, "activemq": 1, "artemis": 0}


@on_every_broker
@pytest.mark.usefixtures("credentials")
def test_the_broker_keeps_nothing_any_more(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    topics, queue, client = [broker.new_topic(), broker.new_topic()], broker.new_queue(), secrets.token_hex(4)
    destinations = f'["{topics[0]}", "{topics[1]}", "{queue}"]'
    ending = ["unsubscribe", broker.url, destinations, "--durable-name", "etl", "--client-id", client]

    def send() -> None:
        for one in (*topics, queue):
            publish(broker.options(), one, [b"one", b"two"])

    options = broker.options(destination=destinations, durableName="etl", clientId=client)
    with Run(options) as query:
        query.idle()
        assert main(ending) == CONNECTED[broker.dialect]
        said = "a query is still connected, which you stop first" in capsys.readouterr().err
        assert said == bool(CONNECTED[broker.dialect])
    with Run(options) as query:
        query.idle()
    send()
    broker.wait_for_all(topics, ready=4)

    capsys.readouterr()
    assert main(ending) == 0
    out = capsys.readouterr().out
    assert out == "".join(f"{one}: the broker has no durable subscription etl any more\n" for one in topics)
    send()
    broker.wait_for_all(topics, ready=0)
    # That of the queue is kept.
    broker.wait_for(queue, ready=4)

    assert main(ending) == NONE[broker.dialect]
    assert ("or there is none of this name" in capsys.readouterr().err) == bool(NONE[broker.dialect])


@on_every_broker
@pytest.mark.usefixtures("credentials")
def test_one_with_a_selector(broker: Broker) -> None:
    if not dialect_named(broker.dialect).selectors:
        return  # refused, as in a query
    topic, client, selector = broker.new_topic(), secrets.token_hex(4), "colour = 'red'"
    options = broker.options(destination=topic, durableName="etl", clientId=client, selector=selector)
    with Run(options) as query:
        query.idle()
    publish(broker.options(), topic, [b"one"], ("colour", "red"))
    broker.wait_for(topic, ready=1)
    arguments = ["--durable-name", "etl", "--client-id", client, "-o", f"selector={selector}"]
    assert main(["unsubscribe", broker.url, topic, *arguments]) == 0
    publish(broker.options(), topic, [b"two"], ("colour", "red"))
    broker.wait_for(topic, ready=0)


def test_one_that_rabbitmq_would_keep_is_refused(
    rabbitmq: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # RabbitMQ confirms UNSUBSCRIBE from an exchange, and deletes only the queues of /topic/.
    exchange = f"/exchange/amq.topic/{secrets.token_hex(6)}"
    options = rabbitmq.options(destination=exchange, durableName="etl")
    with Run(options) as query:
        query.idle()
    publish(rabbitmq.options(), exchange, [b"one"])
    monkeypatch.setenv("SPARK_STOMP_LOGIN", rabbitmq.login or "")
    monkeypatch.setenv("SPARK_STOMP_PASSWORD", rabbitmq.password or "")
    arguments = [f'["{rabbitmq.new_topic()}", "{exchange}"]', "--durable-name", "etl"]
    assert main(["unsubscribe", rabbitmq.url, *arguments]) == 1
    said = capsys.readouterr()
    assert "does not end a durable subscription to /exchange/" in said.err and said.out == ""
    with Run(options) as query:
        assert [row["body"] for row in query.batch()] == [b"one"]
