"""Which dialect a broker gets, and what it asks of SUBSCRIBE."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from support.columns import projection_of
from support.options import sink_options

from spark_stomp.arrow import decode_frames
from spark_stomp.brokers import DIALECTS, Dialect, dialect_for, dialect_named
from spark_stomp.errors import UnsupportedError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.source.journal_log import stable_ids
from spark_stomp.source.reads import RowSettings


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("RabbitMQ/3.10.8", "rabbitmq"),
        ("ActiveMQ/5.18.6", "activemq"),
        ("ActiveMQ-Artemis/2.40.0 ActiveMQ Artemis Messaging Engine", "artemis"),
        ("spark-stomp-devbroker/0.1.0", "devbroker"),
        ("CoilMQ/1.0", "generic"),
        ("", "generic"),
        (None, "generic"),
    ],
)
def test_chosen_by_the_server_header(server: str | None, name: str) -> None:
    assert dialect_for(server).name == name


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
def test_what_names_a_delivery_is_not_sent_on(dialect: Dialect) -> None:
    """A message that is read and sent again would have the id of the first one, or look like a browse."""
    names = {dialect.id_header, dialect.id_time_header, *dict(dialect.browse_headers or ())} - {None}
    assert {name for name in names if name not in dialect.outgoing.left_out} == set()


def test_the_option_wins_over_what_the_server_says() -> None:
    assert dialect_for("RabbitMQ/4.0", "activemq").name == "activemq"


@pytest.mark.parametrize(
    ("name", "headers"),
    [
        ("rabbitmq", (("prefetch-count", "50"),)),
        ("activemq", (("activemq.prefetchSize", "50"),)),
        ("generic", ()),
    ],
)
def test_prefetch_in_each_brokers_words(name: str, headers: tuple[tuple[str, str], ...]) -> None:
    assert dialect_named(name).subscribe_headers("/queue/a", 50) == headers


@pytest.mark.parametrize(
    ("broker", "messages", "bounds", "size"),
    [
        ("artemis", 1_000, {"frame_bytes": 235.4}, 235_400),
        # Before the first message a generous size is assumed.
        ("artemis", 1_000, {}, 8_192_000),
        # Memory is a bound, and what the broker reads.
        ("artemis", 1_000, {"max_bytes": 500_000}, 500_000),
        ("artemis", 10**9, {"max_bytes": 10**12}, 2**31 - 1),
        # Room for one, however small it is.
        ("artemis", 1, {"frame_bytes": 235.4}, 1),
        ("activemq", 1_000, {"frame_bytes": 100}, None),
    ],
)
def test_a_window_in_bytes(broker: str, messages: int, bounds: dict[str, int], size: int | None) -> None:
    assert dialect_named(broker).window_bytes(messages, **bounds) == size


@pytest.mark.parametrize(
    ("broker", "limits"),
    [("rabbitmq", True), ("activemq", True), ("artemis", True), ("generic", False), ("devbroker", True)],
)
def test_whether_un_acked_messages_can_be_limited(broker: str, limits: bool) -> None:
    assert dialect_named(broker).limits_unacked is limits


def test_artemis_is_told_what_is_a_queue() -> None:
    artemis = dialect_named("artemis")
    assert ("consumer-window-size", "235400") in artemis.subscribe_headers("a", 1_000, frame_bytes=235.4)
    assert ("subscription-type", "ANYCAST") in artemis.subscribe_headers("/queue/a", 50)
    assert ("subscription-type", "MULTICAST") in artemis.subscribe_headers("/topic/a", 50)
    assert "subscription-type" not in dict(artemis.subscribe_headers("a", 50))
    assert artemis.queue_headers == (("destination-type", "ANYCAST"),)
    assert artemis.naming.is_short_queue_name("/queue/a")
    assert not artemis.naming.is_short_queue_name("/topic/a")
    assert dialect_named("activemq").queue_headers == ()


def test_the_stable_part_of_an_id() -> None:
    assert dialect_named("rabbitmq").stable_ids([None, b"a"], []) == [None, b"a"]
    assert dialect_named("activemq").stable_ids([b"ID:a,b", b""], []) == [b"ID:a,b", None]


@pytest.mark.rule("4.2")
@pytest.mark.parametrize(
    ("frame", "raw", "stable"),
    [
        (b"MESSAGE\ntimestamp:7\n\n\0", b"2147483675,11", b"11@7"),
        (b"\n\nMESSAGE\na:b\ntimestamp:7\ntimestamp:8\n\n\ntimestamp:9\n\0", b"5,11", b"11@7"),
        # AMQP producers need not say a time, and a body is not the head.
        (b"MESSAGE\ntimestamp:0\n\n\0", b"5,11", None),
        (b"MESSAGE\ntimestamp:\n\n\0", b"5,11", None),
        (b"MESSAGE\n\n\ntimestamp:9\n\0", b"5,11", None),
        (b"MESSAGE\nx-timestamp:9\n\n\0", b"5,11", None),
        (b"MESSAGE\ntimestamp:7\n\n\0", None, None),
        (b"MESSAGE\ntimestamp:7\n\n\0", b"5,", None),
    ],
)
def test_an_id_of_artemis_has_the_time_of_its_own_frame(
    frame: bytes, raw: bytes | None, stable: bytes | None
) -> None:
    """Among others; the column of the same name agrees."""
    other = b"MESSAGE\nmessage-id:1,11\ntimestamp:1\n\n\0"
    if raw is not None:
        frame = frame.replace(b"MESSAGE\n", b"MESSAGE\nmessage-id:%b\n" % raw)
    ends = [len(other), len(other + frame), len(other + frame + other)]
    batch = FrameBatch(other + frame + other, ends, 0, 0, "1.2", "artemis")
    assert stable_ids(batch, None) == [b"11@1", stable, b"11@1"]
    settings = RowSettings(projection_of("stable_id"), None, "error")
    rows = decode_frames(batch, settings.projection, settings.rules(dialect_named("artemis")))
    assert rows.column("stable_id")[1].as_py() == (None if stable is None else stable.decode())


@pytest.mark.rule("4.10")
def test_under_stomp_10_artemis_says_nothing_that_can_be_trusted() -> None:
    artemis = dialect_named("artemis")
    artemis.check_version("1.1")
    # It then does not give its name either.
    for dialect in (artemis, dialect_for(None)):
        with pytest.raises(UnsupportedError, match=r"STOMP 1\.0.*acceptVersions"):
            dialect.check_version("1.0")
        with pytest.raises(UnsupportedError, match=r"STOMP lenient.*acceptVersions"):
            dialect.check_version("lenient")
    for dialect in (dialect_named("rabbitmq"), dialect_for("another"), dialect_for(None, "generic")):
        dialect.check_version("1.0")


def test_only_a_broker_without_a_name_may_be_artemis() -> None:
    """One that has a dialect is called by its name, even if its treatment of messages is not proved yet."""
    unproved = replace(dialect_for(None), name="mine")
    assert unproved.unknown_warning is not None
    for dialect, called in ((unproved, "this broker (mine)"), (dialect_for(None), "Artemis (which this may")):
        with pytest.raises(UnsupportedError, match=re.escape(f"in which {called}")):
            dialect.check_version("1.0")


@pytest.mark.rule("4.10")
def test_nor_does_activemq_before_stomp_12() -> None:
    activemq = dialect_named("activemq")
    activemq.check_version("1.2")
    for version in ("1.0", "1.1"):
        with pytest.raises(UnsupportedError, match=f"STOMP {version}.*this broker .activemq.*acceptVersions"):
            activemq.check_version(version)


def typed(broker: str, destination_type: str) -> Dialect:
    """The dialect with the option ``destinationType``."""
    options = sink_options("stomp://a:1", broker=broker, destinationType=destination_type)
    return options.connection.dialect(None)


def checks(dialect: Dialect, name: str, *headers: tuple[str, str]) -> tuple[Callable[..., None], ...]:
    """Those of a batch read and of a stream read with one connection and without ``durableName``."""
    return (
        partial(dialect.check_batch_read, name, headers),
        partial(dialect.check_subscription, name, headers, connections=1, durable=False),
    )


class TestQueuesThatLose:
    @pytest.mark.rule("7.5")
    @pytest.mark.parametrize("broker", ["rabbitmq", "generic"])
    @pytest.mark.parametrize(
        "header",
        [
            *(("auto-delete", "true"), ("exclusive", " True"), ("durable", "false"), ("durable", "no")),
            *(("persistent", "false"), ("persistent", "False"), ("x-expires", "60000")),
        ],
    )
    def test_a_queue_that_goes_with_its_connection_needs_consent(
        self, broker: str, header: tuple[str, str]
    ) -> None:
        for check in checks(dialect_named(broker), "/queue/a", header):
            with pytest.raises(UnsupportedError, match=f"subscribeHeaders has {header[0]}.*allowLoss = true"):
                check(allow_loss=False)
            check(allow_loss=True)
        for check in checks(dialect_named("activemq"), "/queue/a", header):
            check(allow_loss=False)

    @pytest.mark.rule("7.5")
    def test_one_that_stays_does_not(self) -> None:
        stays = {"auto-delete": "false", "exclusive": "false", "durable": "True", "persistent": "true"}
        stays |= {"x-queue-type": "quorum", "x-max-length": ""}
        for check in checks(dialect_named("rabbitmq"), "/queue/a", *stays.items()):
            check(allow_loss=False)


class TestKinds:
    @pytest.mark.parametrize(
        ("broker", "destination", "kind"),
        [
            ("artemis", "/queue/prices", "queue"),
            ("artemis", "/topic/prices", "topic"),
            ("artemis", "prices", "unknown"),
            ("artemis", "prices::mine", "queue"),
            ("rabbitmq", "/exchange/a/b", "topic"),
            ("rabbitmq", "prices::mine", "unknown"),
            ("generic", "/queue/a", "queue"),
            ("generic", "/exchange/a/b", "unknown"),
            ("activemq", "prices", "unknown"),
        ],
    )
    def test_follow_from_the_name(self, broker: str, destination: str, kind: str) -> None:
        dialect = dialect_named(broker)
        assert dialect.kind(destination) == kind
        assert dialect.is_queue(destination) == (kind == "queue")
        assert (dialect.unknown_kind(destination) is None) == (kind != "unknown")

    @pytest.mark.parametrize("said", ["queue", "topic"])
    @pytest.mark.parametrize("broker", ["artemis", "rabbitmq", "activemq", "generic"])
    def test_are_as_the_option_says_if_no_name_does(self, broker: str, said: str) -> None:
        dialect = typed(broker, said)
        assert dialect.kind("prices") == said
        assert (dialect.kind("/queue/a"), dialect.kind("/topic/a")) == ("queue", "topic")
        assert dialect.unknown_kind("prices") is None

    def test_are_known_of_all_that_the_dev_broker_has(self) -> None:
        assert typed("devbroker", "topic").kind("prices") == "queue"

    @pytest.mark.rule("2.4")
    def test_only_what_is_known_to_come_again_is_counted_on(self) -> None:
        artemis = dialect_named("artemis")
        assert artemis.redelivers("/queue/prices", durable=False)
        assert typed("artemis", "queue").redelivers("prices", durable=False)
        assert artemis.redelivers("/topic/prices", durable=True)
        for uncertain in ("prices", "/topic/prices"):
            assert not artemis.redelivers(uncertain, durable=False)
        assert not typed("activemq", "queue").redelivers("/temp-queue/prices", durable=False)
        assert not typed("generic", "queue").redelivers("/queue/prices", durable=False)
        assert not typed("artemis", "topic").redelivers("prices", durable=False)

    def test_what_could_be_lost_is_said_in_one_line_with_the_way_out(self) -> None:
        for broker in ("artemis", "generic", "activemq"):
            said = dialect_named(broker).unknown_kind("prices")
            assert said is not None and "\n" not in said
            assert "prices" in said and "lost" in said and "destinationType = queue or topic" in said

    @pytest.mark.rule("7.5")
    @pytest.mark.parametrize("broker", ["artemis", "generic"])
    def test_what_is_said_to_be_a_topic_is_one(self, broker: str) -> None:
        for check in checks(typed(broker, "topic"), "prices"):
            with pytest.raises(UnsupportedError, match=r"prices is a topic.*allowLoss"):
                check(allow_loss=False)

    @pytest.mark.rule("7.5")
    @pytest.mark.parametrize("broker", ["rabbitmq", "activemq", "artemis", "generic"])
    @pytest.mark.parametrize("name", ["/temp-queue/a", "/remote-temp-queue/a"])
    def test_a_temporary_queue_is_refused_unless_loss_is_accepted(self, broker: str, name: str) -> None:
        for check in checks(typed(broker, "queue"), name):
            check(allow_loss=True)
            with pytest.raises(UnsupportedError, match=r"temporary queue.*allowLoss"):
                check(allow_loss=False)

    def test_what_is_said_to_be_a_queue_may_have_several_connections(self) -> None:
        queue = typed("generic", "queue")
        queue.check_subscription("prices", (), connections=3, durable=False, allow_loss=False)
        assert typed("activemq", "queue").browses("prices")

    def test_a_durable_subscription_may_be_to_what_is_said_to_be_a_topic(self) -> None:
        assert typed("artemis", "topic").subscription("prices", durable_name="d", client_id="c").headers
        with pytest.raises(UnsupportedError, match="destinationType = topic"):
            dialect_named("artemis").subscription("prices", durable_name="d", client_id="c")

    def test_artemis_is_told_what_is_said(self) -> None:
        for said, routing in (("queue", "ANYCAST"), ("topic", "MULTICAST")):
            dialect = typed("artemis", said)
            assert ("subscription-type", routing) in dialect.subscribe_headers("prices", 1)
            assert dialect.subscribe_headers("prices::mine", 2) == (("consumer-window-size", "16384"),)
        for said, destination, needs in (
            ("queue", "prices", True),
            ("queue", "prices::mine", False),
            ("queue", "/topic/prices", False),
            ("topic", "prices", False),
        ):
            assert typed("artemis", said).naming.is_short_queue_name(destination) is needs

    def test_the_sink_warns_of_what_is_said_to_be_a_topic(self) -> None:
        assert typed("artemis", "topic").unrouted("prices") is not None
        assert dialect_named("artemis").unrouted("prices") is None


def test_the_end_of_a_browse_is_known_only_where_one_can_browse() -> None:
    assert dialect_named("activemq").end_of_browse("end", "0")
    assert not dialect_named("activemq").end_of_browse(None, "0")
    assert not dialect_named("activemq").end_of_browse("end", "ID:a-1"), "a producer's"
    assert not dialect_named("rabbitmq").end_of_browse("end", "0")


class TestSubscriptions:
    def check(self, broker: str, destination: str, *headers: str, **given: Any) -> None:
        said = {"connections": 1, "durable": False, "allow_loss": False} | given
        dialect_named(broker).check_subscription(
            destination, tuple((name, "true") for name in headers), **said
        )

    def test_several_connections_to_what_is_not_a_queue_would_double_every_message(self) -> None:
        self.check("rabbitmq", "/queue/a", connections=3)
        with pytest.raises(
            UnsupportedError,
            match=r"3 connections would subscribe to /topic/a, .*each would get every message",
        ):
            self.check("rabbitmq", "/topic/a", connections=3, allow_loss=True)

    def test_several_connections_share_a_durable_subscription_where_the_broker_lets_them(self) -> None:
        for broker in ("rabbitmq", "artemis", "devbroker"):
            self.check(broker, "/topic/a", connections=3, durable=True)
        with pytest.raises(UnsupportedError, match=r"3 connections .*/topic/a, .*activemq.*/queue/Consumer"):
            self.check("activemq", "/topic/a", connections=3, durable=True)

    @pytest.mark.rule("7.5")
    def test_a_plain_topic_needs_consent_to_loss(self) -> None:
        self.check("activemq", "/topic/a", allow_loss=True)
        for broker in ("activemq", "generic", "rabbitmq"):
            with pytest.raises(UnsupportedError, match=r"/topic/a.*durableName.*allowLoss = true"):
                self.check(broker, "/topic/a")

    def test_a_selection_that_the_broker_would_not_make(self) -> None:
        self.check("activemq", "/queue/a", "selector")
        with pytest.raises(UnsupportedError, match=r"selector.*rabbitmq"):
            self.check("rabbitmq", "/queue/a", "selector")

    def test_a_name_that_no_message_has(self) -> None:
        artemis = dialect_named("artemis")
        for selector in ("AMQPriority > 4", "kind = 'JMSPriority'", "myJMSPriority = 'x'"):
            artemis.check_selector([("selector", selector)])
        with pytest.raises(UnsupportedError, match=r"has JMSPriority, .*\(artemis\).* Write AMQPriority$"):
            artemis.check_selector([("selector", "kind = 'a' AND JMSPriority>4")])

    @pytest.mark.parametrize(
        ("broker", "header"),
        [
            ("rabbitmq", "durable"),
            ("activemq", "activemq.subscriptionName"),
            ("artemis", "durable-subscription-name"),
        ],
    )
    def test_what_durable_name_sets_is_not_set_by_hand(self, broker: str, header: str) -> None:
        with pytest.raises(UnsupportedError, match=rf"subscribeHeaders has {header}.*durableName"):
            self.check(broker, "/topic/a", header, allow_loss=True)
        _, check = checks(dialect_named(broker), "/topic/a", (header, "false"))
        check(allow_loss=True)
        self.check(broker, "/queue/a", header)
        self.check("generic", "/topic/a", header, allow_loss=True)

    def test_one_client_id_for_several_connections(self) -> None:
        for broker in ("rabbitmq", "artemis", "devbroker", "generic"):
            dialect_named(broker).check_client_id("me", 2)
        activemq = dialect_named("activemq")
        activemq.check_client_id("me", 1)
        activemq.check_client_id(None, 2)
        with pytest.raises(
            UnsupportedError, match=r"clientId = me.*connections = 2.*activemq.*Leave connectio"
        ):
            activemq.check_client_id("me", 2)
