"""How each broker is told of a durable topic subscription."""

from __future__ import annotations

import pytest

from spark_stomp.brokers import PLAIN, Subscription, dialect_named
from spark_stomp.errors import UnsupportedError


def named(
    broker: str, name: str = "sub", client: str | None = "me", destination: str = "/topic/a", **rest: str
) -> Subscription:
    return dialect_named(broker).subscription(destination, durable_name=name, client_id=client, **rest)


def test_without_a_name_it_is_plain_whatever_the_client_is_called() -> None:
    for broker in ("rabbitmq", "activemq", "artemis", "devbroker", "generic"):
        assert dialect_named(broker).subscription("/topic/a", client_id="me") == PLAIN


def test_the_id_names_it_on_rabbitmq_since_that_names_the_queue() -> None:
    durable = (("durable", "true"), ("auto-delete", "false"))
    assert named("rabbitmq", client=None) == Subscription("sub", durable)
    assert named("rabbitmq") == Subscription("me.sub", durable)


def test_a_name_that_rabbitmq_would_misread() -> None:
    for name, client in (("a@@b", None), ("b", "a@@")):
        with pytest.raises(UnsupportedError, match="@@"):
            named("rabbitmq", name, client)


def test_activemq_takes_the_name_and_the_client() -> None:
    assert named("activemq") == Subscription("0", (("activemq.subscriptionName", "sub"),))


def test_artemis_goes_by_names_alone_so_topic_and_selector_are_in_it() -> None:
    (header,) = named("artemis").headers
    assert header == ("durable-subscription-name", "sub@/topic/a")
    red, blue = (
        named("artemis", selector=f"colour = '{colour}'").headers[0][1] for colour in ("red", "blue")
    )
    assert len({"sub@/topic/a", red, blue}) == 3
    assert red.startswith("sub@/topic/a?")
    assert red == named("artemis", selector="colour = 'red'").headers[0][1]


def test_without_a_client_id_these_would_keep_nothing_for_us() -> None:
    for broker in ("activemq", "artemis"):
        with pytest.raises(UnsupportedError, match="durableName = sub needs clientId"):
            named(broker, client=None)
    assert named("devbroker", client=None).headers == (("durable-subscription-name", "sub"),)


def test_a_queue_needs_none() -> None:
    with pytest.raises(UnsupportedError, match=r"/queue/a is not known to be a topic.*Leave durableName out"):
        named("activemq", destination="/queue/a")


def test_a_broker_of_which_it_is_not_known() -> None:
    with pytest.raises(UnsupportedError, match=r"generic.*subscribeHeaders, with allowLoss"):
        named("generic")
