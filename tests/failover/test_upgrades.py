"""A broker is upgraded under a running query: another release comes up on the data of the old one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from failover.flow import ID_HEADER, Flows, check
from support.brokers import ActiveMQ, Artemis, Broker, RabbitMQ, Unavailable
from support.brokers.activemq import OldActiveMQ
from support.brokers.artemis import OldArtemis
from support.brokers.fixtures import missing
from support.brokers.rabbitmq import RabbitMQ40
from support.driven import MODES, Row, Run, send_rows
from support.streams import new_stream

pytestmark = [pytest.mark.broker, pytest.mark.soak, pytest.mark.timeout(900)]

# RabbitMQ's way from 3.10 leads over 3.13, which Debian has in no suite.
NEW: dict[type[Broker], type[Broker]] = {RabbitMQ40: RabbitMQ, OldActiveMQ: ActiveMQ, OldArtemis: Artemis}


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
    """The new release on its data; it is not started."""
    return old.become(NEW[type(old)])


@contextmanager
def started(broker: Broker) -> Iterator[Broker]:
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def test_queries_and_sinks_go_on(old: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    title = f"an upgrade from {old.name}"
    flows = Flows(old)
    own = named(old)
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
    with flows, started(upgraded(old)):
        flows.go_on()
        check(flows, title, capsys)


def test_what_was_not_acked_is_the_same_message(old: Broker, tmp_path: Path) -> None:
    """Of 40 messages 20 are committed. What comes of the others again has no second row, and can be ACKed."""
    runs: dict[str, Run] = {}
    rows: dict[str, list[Row]] = {}
    with ExitStack() as stack:
        for kind, mode in product(("queue", "topic"), MODES):
            destination = old.new_queue() if kind == "queue" else old.new_topic()
            name = destination.rpartition("/")[2]
            (folder := tmp_path / name).mkdir()
            own = {"clientId": name, "durableName": "upgrade"} if kind == "topic" else {}
            options = old.options(destination=destination, **own, **named(old), **MODES[mode](folder))
            run = runs[destination] = stack.enter_context(Run(options, maxMessagesPerTrigger=20))
            run.idle()
            send_rows(old.options(), destination, numbered(range(40)))
            rows[destination] = run.gather(20)
            run.commit()
            rows[destination] += run.gather(20)
        new = stack.enter_context(started(upgraded(old)))
        for destination, run in runs.items():
            assert run.read() == rows[destination][20:]
            run.commit()
            new.wait_for(destination, ready=0, unacked=0)
            send_rows(new.options(), destination, numbered([40]))
            rows[destination] += run.batch()
            run.commit()
            new.wait_for(destination, ready=0, unacked=0)
    for destination, found in rows.items():
        assert [int(row["body"]) for row in found] == [*range(41)], destination


def test_the_ids_of_messages_stay(old: Broker) -> None:
    """By them a journal recognises what comes again."""
    queue = old.new_queue()
    send_rows(old.options(), queue, numbered(range(40)))
    before = ids_in(old, queue)
    with started(upgraded(old)) as new:
        after = ids_in(new, queue)
    assert before == after and None not in before.values()


def ids_in(broker: Broker, queue: str) -> dict[bytes, str]:
    """The body and the ``stable_id`` of each message, of which nothing is ACKed."""
    with Run(broker.options(destination=queue, **named(broker)), ("body", "stable_id")) as run:
        return {row["body"]: row["stable_id"] for row in run.gather(40)}


@pytest.mark.parametrize("old", [RabbitMQ40], indirect=True, ids=lambda old: old.name)
def test_a_stream_goes_on_where_the_query_was(old: RabbitMQ) -> None:
    """The offset in the checkpoint is the broker's number of a message."""
    stream = new_stream(old)
    options = old.options(destination=stream, startingOffsets="earliest")
    send_rows(old.options(), stream, numbered(range(20)))
    with Run(options) as run:
        rows = run.gather(20)
        run.commit()
        offset = json.dumps(run.start)
    with started(upgraded(old)) as new:
        send_rows(new.options(), stream, numbered(range(20, 40)))
        with Run(options) as run:
            run.start = run.end = json.loads(offset)
            rows += run.gather(20)
    assert [int(row["body"]) for row in rows] == [*range(40)]


def named(broker: Broker) -> dict[str, str]:
    """What gives messages an id that survives redelivery; RabbitMQ has none of its own."""
    return {"idHeader": ID_HEADER} if isinstance(broker, RabbitMQ) else {}


def numbered(numbers: Iterable[int]) -> Iterator[tuple[bytes, list[tuple[str, str]]]]:
    """Messages, each its number, which is in a header too."""
    for number in numbers:
        yield b"%d" % number, [(ID_HEADER, str(number))]
