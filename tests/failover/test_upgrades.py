"""A broker is upgraded under a running query: another release comes up on the data of the old one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from failover.flow import ID_HEADER, Flows, check
from support.brokers import ActiveMQ, Artemis, Broker, RabbitMQ, Unavailable
from support.brokers.activemq import OldActiveMQ
from support.brokers.artemis import OldArtemis
from support.brokers.fixtures import missing
from support.brokers.rabbitmq import RabbitMQ40
from support.driven import MODES, Run, publish
from support.streams import new_stream

pytestmark = [pytest.mark.broker, pytest.mark.soak, pytest.mark.timeout(900)]

# RabbitMQ goes from 3.10 to 3.13 first, which no suite of Debian has, and from there to 4.
NEW: dict[type[Broker], type[Broker]] = {RabbitMQ40: RabbitMQ, OldActiveMQ: ActiveMQ, OldArtemis: Artemis}
BODIES = [b"%d" % number for number in range(40)]


@pytest.fixture(params=NEW, ids=lambda old: old.name)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the old release; the test ends it, or what became of it."""
    (tmp_path / "broker").mkdir()
    broker: Broker = request.param(tmp_path / "broker")
    try:
        broker.start()
    except Unavailable as error:
        missing(broker.name, error)
    if isinstance(broker, RabbitMQ):
        # As its guide says before an upgrade; without that the new release refuses the data.
        broker.evaluate("rabbit_feature_flags:enable(khepri_db), rabbit_feature_flags:enable_all().")
    yield broker
    broker.stop()


def upgraded(old: Broker) -> Broker:
    return old.become(NEW[type(old)])


def test_queries_and_sinks_go_on(old: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    title = f"an upgrade from {old.name}"
    flows = Flows(old)
    own = {"idHeader": ID_HEADER} if isinstance(old, RabbitMQ) else {}
    for mode, options in MODES.items():
        (folder := tmp_path / mode).mkdir()
        flows.source(f"source, queue, {mode}", old.new_queue(), **options(folder), **own)
    topic = old.new_topic()
    durable: dict[str, Any] = {"clientId": topic.rpartition("/")[2], "durableName": "upgrade", **own}
    flows.source("source, topic", topic, **durable)
    flows.sink("sink, queue", old.new_queue())
    flows.sink("sink, queue, onError=drop", old.new_queue(), onError="drop")
    if isinstance(old, RabbitMQ):
        quorum = old.new_queue()
        old.declare(quorum, {"x-queue-type": "quorum"})
        flows.source("source, quorum", quorum.replace("/queue/", "/amq/queue/"), **own)
        flows.source("source, stream", new_stream(old), startingOffsets="earliest")
        flows.sink("sink, stream", new_stream(old))
    with flows:
        new = upgraded(old)
        try:
            new.start()
            flows.go_on()
            check(flows, title, capsys)
        finally:
            new.stop()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_what_was_not_acked_comes_again_with_its_id(
    old: Broker, kind: str, mode: str, tmp_path: Path
) -> None:
    """Of 40 messages 20 are committed; the others stay the same messages, whose rows stay theirs."""
    (folder := tmp_path / "query").mkdir()
    destination = old.new_queue() if kind == "queue" else old.new_topic()
    options = old.options(destination=destination, maxMessagesPerTrigger=20, **MODES[mode](folder))
    if kind == "topic":
        options |= {"clientId": "upgrade", "durableName": "upgrade"}
    if isinstance(old, RabbitMQ):
        options |= {"idHeader": "amqp-message-id"}
    with Run(options, ("body", "stable_id", "message_id")) as run:
        run.begin()
        run.idle()
        for body in BODIES:
            publish(old.options(), destination, [body], ("amqp-message-id", body.decode()))
        first = run.gather(20)
        run.commit()
        before = run.gather(20)
        new = upgraded(old)
        try:
            new.start()
            assert run.read() == before
            run.commit()
            new.wait_for(destination, ready=0, unacked=0)
            publish(new.options(), destination, [b"new"], ("amqp-message-id", "new"))
            assert [row["body"] for row in run.batch()] == [b"new"]
            run.commit()
            new.wait_for(destination, ready=0, unacked=0)
        finally:
            new.stop()
    assert [row["body"] for row in first + before] == BODIES


def test_the_ids_of_messages_stay(old: Broker, tmp_path: Path) -> None:
    """By them a journal recognises what comes again."""
    queue = old.new_queue()
    publish(
        old.options(), queue, BODIES, *([("amqp-message-id", "one")] if isinstance(old, RabbitMQ) else [])
    )
    ids: list[dict[bytes, str]] = []
    named = {"idHeader": "amqp-message-id"} if isinstance(old, RabbitMQ) else {}
    for broker in (old, None):
        here = broker or upgraded(old)
        try:
            here.start() if broker is None else None
            with Run(here.options(destination=queue, **named), ("body", "stable_id")) as run:
                ids.append({row["body"]: row["stable_id"] for row in run.gather(len(BODIES))})
        finally:
            if broker is None:
                here.stop()
    assert ids[0] == ids[1] and None not in ids[0].values()


def test_a_stream_goes_on_where_the_query_was(old: Broker, tmp_path: Path) -> None:
    """The offset in the checkpoint is the broker's number of a message."""
    if not isinstance(old, RabbitMQ):
        pytest.skip("streams are RabbitMQ's")
    stream = new_stream(old)
    publish(old.options(), stream, BODIES[:20])
    with Run(old.options(destination=stream), startingOffsets="earliest") as run:
        rows = run.gather(20)
        run.commit()
        offset = json.dumps(run.start)
    new = upgraded(old)
    try:
        new.start()
        publish(new.options(), stream, BODIES[20:])
        with Run(new.options(destination=stream), startingOffsets="earliest") as run:
            run.start = run.end = json.loads(offset)
            rows += run.gather(20)
    finally:
        new.stop()
    assert [row["body"] for row in rows] == BODIES
