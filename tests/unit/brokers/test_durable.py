"""What names a subscription: a plain one its destination, a durable one its name and its topic."""

from __future__ import annotations

import re

import pytest

from spark_stomp.brokers import Subscription, dialect_named, subscription_id
from spark_stomp.errors import UnsupportedError

DURABLE = ("rabbitmq", "activemq", "artemis", "devbroker")


def named(
    broker: str, name: str = "sub", client: str | None = "me", destination: str = "/topic/a", **rest: str
) -> Subscription:
    return dialect_named(broker).subscription(destination, durable_name=name, client_id=client, **rest)


def test_without_a_name_it_is_plain_whatever_the_client_is_called() -> None:
    for broker in (*DURABLE, "generic"):
        subscription = dialect_named(broker).subscription("/topic/a", client_id="me")
        assert subscription == Subscription(subscription_id("/topic/a"))


@pytest.mark.rule("4.2")
def test_the_id_of_a_plain_one_never_changes_and_is_its_own() -> None:
    """It is a part of message keys, in journals too. No version of STOMP escapes a character of it."""
    assert subscription_id("/queue/a") == "O3jUwc"
    assert subscription_id("/queue/ä") == "9zTjR5"
    ids = {subscription_id(f"/queue/{number}") for number in range(1_000)}
    assert len(ids) == 1_000
    assert all(re.fullmatch(r"[\w-]{6}", name, re.ASCII) for name in ids)


@pytest.mark.parametrize("broker", DURABLE)
def test_several_topics_under_one_name_have_their_own(broker: str) -> None:
    """What the broker compares, and the id that tells subscriptions of one connection apart."""
    chosen = [named(broker, destination=f"/topic/{number}") for number in range(100)]
    assert len({one.id for one in chosen}) == 100
    known = [one.headers[0][1] if one.headers[0][0] != "durable" else one.id for one in chosen]
    assert len(set(known)) == 100
    assert known[7].endswith("sub@/topic/7")


def test_the_id_names_it_on_rabbitmq_since_that_names_the_queue() -> None:
    durable = (("durable", "true"), ("auto-delete", "false"), ("exclusive", "false"))
    assert named("rabbitmq", client=None) == Subscription("sub@/topic/a", durable)
    assert named("rabbitmq") == Subscription("me.sub@/topic/a", durable)


def test_a_name_that_rabbitmq_would_misread() -> None:
    for name, client in (("a@@b", None), ("b", "a@@"), ("a@", None)):
        with pytest.raises(UnsupportedError, match="@@"):
            named("rabbitmq", name, client)


def test_activemq_takes_the_name_and_the_client() -> None:
    name = ("activemq.subscriptionName", "sub@/topic/a")
    assert named("activemq") == Subscription(subscription_id("/topic/a"), (name,))


def test_artemis_goes_by_names_alone_so_the_selector_is_in_it() -> None:
    (header,) = named("artemis").headers
    assert header == ("durable-subscription-name", "sub@/topic/a")
    red, blue = (named("artemis", selector=f"hue = '{hue}'").headers[0][1] for hue in ("red", "blue"))
    assert len({"sub@/topic/a", red, blue}) == 3
    assert red.startswith("sub@/topic/a?")
    assert red == named("artemis", selector="hue = 'red'").headers[0][1]


def test_without_a_client_id_these_would_keep_nothing_for_us() -> None:
    for broker in ("activemq", "artemis"):
        with pytest.raises(UnsupportedError, match="durableName = sub needs clientId"):
            named(broker, client=None)
    assert named("devbroker", client=None).headers == (("durable-subscription-name", "sub@/topic/a"),)


def test_a_queue_needs_none() -> None:
    with pytest.raises(UnsupportedError, match=r"/queue/a is not known to be a topic.*Leave durableName out"):
        named("activemq", destination="/queue/a")


def test_a_broker_of_which_it_is_not_known() -> None:
    with pytest.raises(UnsupportedError, match=r"generic.*subscribeHeaders, with allowLoss"):
        named("generic")
