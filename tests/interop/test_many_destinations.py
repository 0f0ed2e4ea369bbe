"""Many destinations on one connection, wildcards, and a SUBSCRIBE that is refused, on the real brokers."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.brokers import ActiveMQ, Broker
from support.brokers.fixtures import BrokerPool, on_rabbitmq_and_others_in_soak, on_real_brokers
from support.driven import MODES, Run, send_messages
from support.proxy import FaultProxy, Way
from support.waiting import wait_until

from spark_stomp.errors import DestinationRefused

QUEUES, TOPICS = 50, 20
# Of each destination.
MESSAGES = 3
COPY = ("body", "stable_id", "destination")


class Client:
    """Queries with one ``clientId`` and one ``durableName``, each with one connection."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._client = f"client-{secrets.token_hex(4)}"

    def reads(self, destinations: Sequence[str], **options: Any) -> Run:
        """A query that reads all of them; without a topic among them there is nothing to name."""
        named = {"durableName": "sub"} if any(one.startswith("/topic/") for one in destinations) else {}
        return Run(
            self.broker.options(
                destination=json.dumps(destinations),
                connections=1,
                clientId=self._client,
                **named,
                **options,
            )
        )


@pytest.fixture
def client(broker: Broker) -> Client:
    return Client(broker)


def send(broker: Broker, destinations: Iterable[str], text: str) -> list[bytes]:
    """Send messages to each destination; returns their bodies, each another one, sorted."""
    messages = [
        (destination, f"{text} {number} to {destination}".encode(), ())
        for number, destination in product(range(MESSAGES), destinations)
    ]
    assert send_messages(broker.options(), messages) == len(messages)
    return sorted(body for _, body, _ in messages)


def gather(query: Run, bodies: Sequence[bytes]) -> None:
    """Wait for a batch with exactly these messages."""
    assert sorted(row["body"] for row in query.gather(len(bodies))) == bodies


@on_real_brokers
def test_fifty_queues_and_twenty_durable_topics(broker: Broker, client: Client) -> None:
    queues, topics = named(broker.new_queue, QUEUES), named(broker.new_topic, TOPICS)
    everything = [*queues, *topics]
    with client.reads(everything) as query:
        query.idle()
        wait_until(lambda: broker.connections == 1, what="one connection")
        gather(query, send(broker, everything, "first"))
        query.commit()
        broker.wait_for_all(everything, ready=0, unacked=0)
        assert len(query.counters()) == 1
        # These are not committed, so they are redelivered, among others.
        uncommitted = send(broker, everything, "second")
        gather(query, uncommitted)
        broker.wait_for_all(everything, ready=0, unacked=len(uncommitted))
    broker.wait_for_all(everything, ready=len(uncommitted), unacked=0)
    stopped = send(broker, everything, "third")
    # With another topic, and in another order, the subscriptions still have their names. If one had another,
    # its old one would keep messages, which the broker's management would count at the end.
    more = [broker.new_topic(), *reversed(topics), *queues]
    with client.reads(more) as query:
        gather(query, sorted(uncommitted + stopped))
        query.commit()
        gather(query, send(broker, more, "fourth"))
        query.commit()
        broker.wait_for_all(more, ready=0, unacked=0)
        assert query.counters()[0]["reconnects"] == 0


@on_rabbitmq_and_others_in_soak
def test_the_connection_breaks(broker: Broker, client: Client) -> None:
    """Each subscription redelivers what the query holds. Without a stable id that gives second rows."""
    everything = named(broker.new_queue, 5) + named(broker.new_topic, 5)
    with client.reads(everything) as query:
        query.idle()
        held = send(broker, everything, "held")
        gather(query, held)
        broker.restart()
        broker.wait_for_all(everything, ready=0, unacked=len(held))
        query.commit()
        new = send(broker, everything, "new")
        again = held if broker.dialect == "rabbitmq" else []
        gather(query, sorted(new + again))
        query.commit()
        broker.wait_for_all(everything, ready=0, unacked=0)


PLACES = ["one", "two", "two.three"]
# Broker, entry of the option, and what it matches below a name that nobody used before.
TOPIC_WILDCARDS = [
    (name, sign, PLACES[:2] if sign == "*" else PLACES)
    for name, signs in {"rabbitmq": "#*", "activemq": ">*", "artemis": "#*"}.items()
    for sign in signs
]


@pytest.mark.parametrize(
    ("broker", "wildcard", "matched"),
    [pytest.param(*one, marks=pytest.mark.broker, id="-".join(one[:2])) for one in TOPIC_WILDCARDS],
    indirect=["broker"],
)
def test_a_durable_subscription_with_a_wildcard(
    broker: Broker, client: Client, wildcard: str, matched: list[str]
) -> None:
    topic = broker.new_topic()
    entry = f"{topic}.{wildcard}"
    with client.reads([entry, broker.new_queue()]) as query:
        query.idle()
        gather(query, matching(send(broker, below(topic, PLACES), "first"), topic, matched))
        query.commit()
        broker.wait_for(entry, ready=0, unacked=0)
    # Also to a topic that did not exist then.
    stopped = send(broker, below(topic, [*PLACES, "late"]), "second")
    with client.reads([entry]) as query:
        gather(query, matching(stopped, topic, [*matched, "late"]))
        query.commit()
        broker.wait_for(entry, ready=0, unacked=0)


@pytest.mark.parametrize("broker", [pytest.param("activemq", marks=pytest.mark.broker)], indirect=True)
@pytest.mark.parametrize(("wildcard", "matched"), [(">", PLACES), ("*", ["one", "two"])])
def test_queues_by_a_wildcard(broker: ActiveMQ, client: Client, wildcard: str, matched: list[str]) -> None:
    queue = broker.new_wild_queue()
    places = below(queue, PLACES)
    # One of them matches both entries. It is two consumers then, which share its messages.
    entries = [f"{queue}.{wildcard}", f"{queue}.one"]
    first = send(broker, places, "first")
    with client.reads(entries) as query:
        gather(query, matching(first, queue, matched))
        late = send(broker, below(queue, ["late"]), "first")
        query.commit()
        gather(query, late)
        broker.wait_for_all(below(queue, matched), ready=0, unacked=0)
    # Each message of the last batch is redelivered: it was not committed.
    with client.reads(entries) as query:
        gather(query, late)
        query.commit()
        broker.wait_for_all(below(queue, [*matched, "late"]), ready=0, unacked=0)
    remaining = [place for place in PLACES if place not in matched]
    broker.wait_for_all(below(queue, remaining), ready=MESSAGES * len(remaining))


@pytest.mark.broker
@pytest.mark.rule("5.5")
@pytest.mark.parametrize("form", [">", "*", "one,two"])
def test_silence_of_several_queues_of_one_name_means_that_all_was_read(
    broker_pool: BrokerPool, tmp_path: Path, form: str
) -> None:
    """After a SUBSCRIBE with a receipt, ActiveMQ would wait there for another consumer."""
    broker = broker_pool.get("activemq")
    assert isinstance(broker, ActiveMQ)
    queue = broker.new_wild_queue()
    entry = ",".join(below(queue, form.split(",")))
    sent = send(broker, below(queue, ["one", "two"]), "waiting")
    options = {**MODES["ackAfter=journal"](tmp_path), "drain": "true", "idleTimeout": "2s"}
    with Run(broker.options(destination=entry, **options)) as query:
        query.end = query.reader.latestOffset(query.start, None)
        assert sorted(row["body"] for row in query.read()) == sent


@pytest.mark.parametrize("broker", [pytest.param("artemis", marks=pytest.mark.broker)], indirect=True)
def test_a_wildcard_of_artemis_is_a_queue_of_its_own(broker: Broker, client: Client) -> None:
    """It gets a copy of each message, from its first subscription on; the queues that match keep theirs."""
    queue = broker.new_queue()
    places, entry = below(queue, ["one", "two.three"]), f"{queue}.#"
    before = send(broker, places, "before")
    with client.reads([entry]) as query:
        query.idle()
        gather(query, send(broker, places, "during"))
        query.commit()
        broker.wait_for(entry, ready=0, unacked=0)
    after = send(broker, places, "after")
    with client.reads([entry]) as query:
        gather(query, after)
        query.commit()
        broker.wait_for(entry, ready=0, unacked=0)
    broker.wait_for_all(places, ready=3 * len(before))


@pytest.mark.rule("4.8")
@on_real_brokers
@pytest.mark.parametrize("place", [0, 5, 10])
def test_a_refused_subscribe_costs_the_others_nothing(broker: Broker, client: Client, place: int) -> None:
    others = named(broker.new_queue, 6) + named(broker.new_topic, 4)
    with client.reads(others) as query:
        query.idle()
    bodies = send(broker, others, "waiting")
    refused = broker.new_refused()
    with (
        client.reads([*others[:place], refused, *others[place:]]) as query,
        pytest.raises(DestinationRefused) as error,
    ):
        query.batch()
    assert f"refused SUBSCRIBE to {refused}: " in str(error.value)
    assert not [one for one in others if one in str(error.value)]
    broker.wait_for_all(others, ready=len(bodies), unacked=0)
    with client.reads(others) as query:
        gather(query, bodies)
        query.commit()
        broker.wait_for_all(others, ready=0, unacked=0)


def named(new: Any, count: int) -> list[str]:
    return [new() for _ in range(count)]


def below(destination: str, places: Iterable[str]) -> list[str]:
    return [f"{destination}.{place}" for place in places]


def matching(bodies: Iterable[bytes], destination: str, places: Iterable[str]) -> list[bytes]:
    """Those that were sent to these places."""
    ends = "|".join(map(re.escape, below(destination, places)))
    return [body for body in bodies if re.search(rf" to ({ends})$", body.decode())]


@pytest.mark.broker
@pytest.mark.rule("4.2", "J.8")
def test_what_another_entry_brings_again_gives_no_second_row(broker_pool: BrokerPool, tmp_path: Path) -> None:
    """Two entries match one queue. ActiveMQ shares its messages out anew on each connection."""
    broker = broker_pool.get("activemq")
    assert isinstance(broker, ActiveMQ)
    wild = broker.new_wild_queue()
    sent = send(broker, [f"{wild}.a"] * 20, "one")
    with FaultProxy(broker.port) as proxy:
        options = broker.options(destination=json.dumps([f"{wild}.>", f"{wild}.a"]), connections=1)
        with Run({**options, "url": proxy.url, "journal": str(tmp_path)}) as query:
            rows = query.gather(len(sent))
            for cut in range(1, 4):
                proxy.hold(Way.TO_BROKER)
                query.commit()
                proxy.cut()
                proxy.heal()
                wait_until(lambda cut=cut: query.counters()[0]["reconnects"] == cut, what="the connection")
                sent += send(broker, [f"{wild}.a"], f"after cut {cut}")
                rows += query.take(MESSAGES)
            query.commit()
            broker.wait_for(f"{wild}.a", 0)
    assert sorted(row["body"] for row in rows) == sorted(sent)


@pytest.mark.parametrize("cause", ["topic", "virtual topic"])
@pytest.mark.broker
@pytest.mark.rule("4.2")
def test_copies_in_two_places_are_two_rows(broker_pool: BrokerPool, cause: str) -> None:
    """ActiveMQ gives them one message-id, and names each queue in the header ``destination``."""
    broker = broker_pool.get("activemq")
    name = broker.new_topic().removeprefix("/topic/")
    topic = f"/topic/{name}" if cause == "topic" else f"/topic/VirtualTopic.{name}"
    entries = [topic, f"/topic/{name}.>"]
    if cause == "virtual topic":
        entries = [f"/queue/Consumer.{one}.VirtualTopic.{name}" for one in "AB"]
    with Run(broker.options(destination=json.dumps(entries), connections=1, allowLoss="true"), COPY) as query:
        query.idle()
        sent = send(broker, [topic], "copied")
        rows = query.gather(2 * len(sent))
    assert sorted(row["body"] for row in rows) == sorted(sent * 2)
    assert len({row["stable_id"] for row in rows}) == len(sent)
    assert len({row["destination"] for row in rows}) == (1 if cause == "topic" else 2)


@pytest.mark.broker
def test_copies_with_one_id_in_one_subscription(
    broker_pool: BrokerPool, caplog: pytest.LogCaptureFixture
) -> None:
    """ActiveMQ cannot tell their ACKs apart, and ends it. The query says what to do, and goes on."""
    broker = broker_pool.get("activemq")
    assert isinstance(broker, ActiveMQ)
    wild = broker.new_wild_queue()
    one, other = f"{wild}.one", f"{wild}.other"
    send_messages(broker.options(), [(f"{one},{other}", b"%d" % number, ()) for number in range(20)])
    with Run(broker.options(destination=f"{wild}.>", reconnectDelay="100ms")) as query:
        query.gather(40)
        query.commit()
        wait_until(lambda: broker.depth(one) + broker.depth(other) == 0, what="all ACKs")
        (figures,) = query.counters()
        assert figures["reconnects"] and "name each queue by itself" in figures["last_error"]
    assert "at a time" not in caplog.text
    send_messages(broker.options(), [(f"{one},{other}", b"%d" % number, ()) for number in range(20)])
    with Run(broker.options(destination=json.dumps([one, other]))) as query:
        query.gather(40)
        query.commit()
        wait_until(lambda: broker.depth(one) + broker.depth(other) == 0, what="all ACKs")
        assert query.counters()[0]["reconnects"] == 0
