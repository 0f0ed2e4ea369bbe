"""How the receivers of a query share its destinations, and what each asks the broker for."""

from __future__ import annotations

import json

import pytest
from support.options import source_options

from spark_stomp.brokers import Subscription, dialect_named, subscription_id
from spark_stomp.errors import UnsupportedError
from spark_stomp.receiver import ReceiverSettings
from spark_stomp.receiver.subscription import choose_subscription, risks


def settings(*destinations: str, **options: object) -> list[ReceiverSettings]:
    return ReceiverSettings.of(source_options("stomp://b", json.dumps(destinations), **options))


def test_each_stream_has_a_receiver_of_its_own_and_no_option_of_queues() -> None:
    options = {"journal": "/j", "ackAfter": "journal", "idHeader": "id", "maxBufferedBytes": "400"}
    both = settings(
        "/queue/a", "/amq/queue/b", "/queue/c", **options, startingOffsets='{"b": 1}', connections=3
    )
    assert [(one.name, one.of_stream) for one in both] == [
        ("/queue/a#0", False),
        ("/queue/c#1", False),
        ("/queue/a#2", False),
        ("/amq/queue/b#3", True),
    ]
    assert {one.max_buffered_bytes for one in both} == {100}
    of_queue, of_stream = both[0].options, both[3].options
    assert (of_queue.journal, of_queue.id_header, of_queue.destinations) == (
        "/j",
        "id",
        ("/queue/a", "/queue/c"),
    )
    assert (of_stream.journal, of_stream.destinations) == (None, ("/amq/queue/b",))
    assert both[0].receivers_of("/queue/a") == 2


def test_a_filter_of_a_stream_is_not_asked_of_a_queue_beside_it() -> None:
    """But if no stream is read, the broker says what is wrong."""
    headers = [("x-stream-filter", "red"), ("x-priority", "1")]
    given = {"subscribeHeaders": json.dumps(dict(headers))}
    queue, stream = settings("/queue/a", "/amq/queue/b", **given, startingOffsets='{"b": 1}')
    (alone,) = settings("/queue/a", **given)
    found = [sorted(one.options.subscribe_headers) for one in (queue, stream, alone)]
    assert found == [headers[1:], sorted(headers), sorted(headers)]


@pytest.mark.parametrize(
    ("connections", "destinations", "shares"),
    [
        (1, "a", {"a#0": "a"}),
        (1, "abc", {"a and 2 more#0": "abc"}),
        (2, "abc", {"a and 1 more#0": "ac", "b#1": "b"}),
        (3, "abc", {"a#0": "a", "b#1": "b", "c#2": "c"}),
        (5, "abc", {"a#0": "a", "b#1": "b", "c#2": "c", "a#3": "a", "b#4": "b"}),
        (3, "a", {"a#0": "a", "a#1": "a", "a#2": "a"}),
    ],
)
def test_shares(connections: int, destinations: str, shares: dict[str, str]) -> None:
    made = settings(*destinations, connections=connections, maxBufferedBytes="30m")
    assert {one.name: "".join(one.destinations) for one in made} == shares
    for destination in destinations:
        readers = [one for one in made if destination in one.destinations]
        assert {one.receivers_of(destination) for one in made} == {len(readers)}
    assert sum(one.max_buffered_bytes for one in made) == 30 << 20


@pytest.mark.parametrize(
    ("mean", "busy", "prefetch"),
    [(None, 500, 1_000), (100, 1, 1_000), (1 << 20, 1, 5), (1 << 20, 2, 2), (1 << 20, 500, 1)],
)
def test_the_prefetch_is_what_a_connections_share_of_memory_has_room_for(
    mean: float | None, busy: int, prefetch: int
) -> None:
    """Once as many destinations as are busy use all of it."""
    given = {"connections": 2, "maxBufferedBytes": "10m", "prefetch": 1_000}
    assert settings("a", "b", **given)[1].prefetch_for(mean, busy=busy) == prefetch
    assert settings("a", "b", journal="/j", **given)[1].prefetch_for(mean, busy=busy) == 1_000


@pytest.mark.parametrize("broker", ["rabbitmq", "activemq", "artemis", "devbroker"])
def test_a_topic_keeps_its_subscription_if_others_are_added(broker: str) -> None:
    dialect, topics = dialect_named(broker), ["/topic/a", "/topic/b", "/topic/c"]
    given = {"durableName": "etl", "clientId": "me"}
    (alone,), (among, *_) = settings(topics[1], **given), settings(*topics, connections=1, **given)
    assert choose_subscription(dialect, alone, topics[1]) == choose_subscription(dialect, among, topics[1])


def test_a_durable_name_is_that_of_the_topics_beside_queues() -> None:
    (one,) = settings("/queue/a", "/topic/b", durableName="etl", connections=1)
    queue, topic = (choose_subscription(dialect_named("rabbitmq"), one, each) for each in one.destinations)
    assert queue == Subscription(subscription_id("/queue/a"))
    assert topic.id == "etl@/topic/b"
    (alone,) = settings("/queue/a", durableName="etl")
    with pytest.raises(UnsupportedError, match="durableName"):
        choose_subscription(dialect_named("rabbitmq"), alone, "/queue/a")


@pytest.mark.parametrize(
    ("broker", "destinations", "options", "words"),
    [
        ("rabbitmq", ["/topic/a"], {"connections": 2}, "2 connections would subscribe to /topic/a"),
        (
            "rabbitmq",
            ["/topic/a", "/topic/b"],
            {"connections": 3},
            "2 connections would subscribe to /topic/a",
        ),
        ("activemq", ["/queue/a"], {"connections": 2, "clientId": "me"}, "clientId = me.* connections = 2"),
    ],
)
def test_more_connections_than_the_broker_can_share(
    broker: str, destinations: list[str], options: dict[str, object], words: str
) -> None:
    (first, *_) = settings(*destinations, allowLoss="true", **options)
    with pytest.raises(UnsupportedError, match=words):
        choose_subscription(dialect_named(broker), first, destinations[0])
    options = {**options, "connections": len(destinations)}
    if "clientId" in options:
        del options["connections"]
    (first, *_) = settings(*destinations, allowLoss="true", **options)
    choose_subscription(dialect_named(broker), first, destinations[0])


@pytest.mark.parametrize(
    ("broker", "options", "said"),
    [
        ("rabbitmq", {}, True),
        ("rabbitmq", {"journal": "/j"}, True),
        ("generic", {}, True),
        ("rabbitmq", {"idHeader": "id"}, False),
        ("activemq", {}, False),
        ("artemis", {}, False),
    ],
)
def test_rows_without_an_id_are_told_of_once(broker: str, options: dict[str, object], said: bool) -> None:
    both = settings("/queue/a", "/queue/b", **options)
    warned = [any("stable_id is null" in risk for risk in risks(dialect_named(broker), one)) for one in both]
    assert warned == [said, False]


@pytest.mark.parametrize(
    ("broker", "options", "said"),
    [
        ("generic", {"idHeader": "message-id", "journal": "/j"}, True),
        ("generic", {"idHeader": "message-id"}, False),
        ("generic", {"idHeader": "id", "journal": "/j"}, False),
        ("activemq", {"journal": "/j"}, False),
        ("activemq", {"idHeader": "message-id", "journal": "/j"}, False),
    ],
)
def test_ids_that_an_unknown_broker_gives_are_warned_of_once_with_a_journal(
    broker: str, options: dict[str, object], said: bool
) -> None:
    """Apollo without a store counts from 1 again when it is restarted."""
    both = settings("/queue/a", "/queue/b", **options)
    warned = [any("the broker's own" in risk for risk in risks(dialect_named(broker), one)) for one in both]
    assert warned == [said, False]
