"""What consumers of other protocols get from the sink, and of rows that came from their own producers."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import MQTTProtocolVersion
from support.brokers import Broker
from support.brokers.fixtures import on_rabbitmq_and_others_in_soak
from support.driven import Run, bodies, write_columns
from support.frames import Recorded
from support.pages import ROOT
from support.producers import PRODUCERS, Target, amqp091, amqp10, jms, mqtt
from support.waiting import wait_until

PAGE = ROOT / "docs" / "sink.md"
COLUMNS = {"rabbitmq": 1, "artemis": 2, "activemq": 3}
# Library, listener and scheme.
JMS = {
    "rabbitmq": ("qpid", "amqp", "amqp"),
    "artemis": ("artemis", "core", "tcp"),
    "activemq": ("activemq", "openwire", "tcp"),
}


def cells(broker: str) -> dict[str, str]:
    """The column of the table in docs/sink.md, by the first cell of each line."""
    text = PAGE.read_text(encoding="utf-8").partition("## What other clients get")[2].partition("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"
    ]
    return {line[0]: line[COLUMNS[broker]] for line in lines[2:]}


def sent(broker: Broker, *rows: dict[str, Any], queue: str | None = None) -> str:
    """The name of a queue with a message of the sink for each of these rows."""
    queue = queue or broker.new_queue()
    options = broker.options(destination=queue, headerColumns='["order-id", "size"]')
    for row in rows:
        columns = {name: pa.array([value]) for name, value in {**row, "order-id": "7", "size": 7}.items()}
        assert write_columns(options, columns).refused is None
    broker.wait_for(queue, ready=len(rows))
    return queue.removeprefix("/queue/")


def by_mqtt(broker: Broker, topic: str, row: dict[str, Any]) -> MQTTMessage:
    """What a client of MQTT 5, or 3.1.1 where there is no other, gets of a row of the sink."""
    broker.listen("mqtt")
    is_new = "MQTT 5" in PRODUCERS[broker.name]
    version = MQTTProtocolVersion.MQTTv5 if is_new else MQTTProtocolVersion.MQTTv311
    target = Target(broker, broker.listeners["mqtt"], topic.removeprefix("/topic/"))
    with mqtt.subscribed(target, version) as messages:
        columns = {name: [value] for name, value in row.items()}
        assert write_columns(broker.options(destination=topic), columns).refused is None
        wait_until(lambda: messages)
    (message,) = messages
    return message


def shown_properties(message: MQTTMessage) -> dict[str, Any]:
    """The properties of MQTT 5, but those that the broker adds."""
    found: dict[str, Any] = message.properties.json() if message.properties is not None else {}
    own = [pair for pair in found.pop("UserProperty", []) if pair[0] not in ("receipt", "content-length")]
    return found | ({"UserProperty": sorted(own)} if own else {})


def section(message: Any) -> str:
    return "data section" if message.inferred else f"value of type {type(message.body).__name__}"


def place_of_content_type(message: Any) -> str:
    if str(message.content_type) == "a/b":
        return "content type"
    (name,) = (name for name, value in message.properties.items() if value == "a/b")
    return f"property `{name}`"


@on_rabbitmq_and_others_in_soak
def test_the_table_says_what_they_get(broker: Broker) -> None:
    rows: list[dict[str, Any]] = [{"body": "ü 1"}, {"body": b"\0\xff", "content_type": "a/b"}]
    target = Target(broker, broker.listeners["amqp"], sent(broker, *rows))
    text, octets = amqp10.received(target, 2)
    library, listener, scheme = JMS[broker.dialect]
    rows.insert(1, {"body": "ü 1", "content_type": "text/plain"})
    target = Target(broker, broker.listeners[listener], sent(broker, *rows))
    plain, typed, binary = jms.received(library, scheme, target, 3)
    assert (plain.kind == "Text", typed.fields["body"]) == (plain.fields["body"] == "ü 1", "ü 1")
    assert plain.properties["size"] == ("String", "7")
    # Qpid shows only names that are identifiers of Java.
    assert ("order-id" in plain.properties) == (broker.dialect != "rabbitmq")
    assert text.properties["order-id"] == "7"
    row = {"body": b"a", "headers": [("own", "1"), ("correlation-id", "c-1"), ("content-type", "a/b")]}
    by_mqtt_5 = shown_properties(by_mqtt(broker, broker.new_topic(), row))
    further = sorted({*octets.properties} - {"order-id", "size", "content-type", "_AMQ_CONTENT_TYPE"})
    assert cells(broker.dialect) == {
        "`body string`, AMQP 1.0": section(text),
        "`body string`, JMS": f"{plain.kind}Message",
        "... with `content_type` `text/plain`": f"{typed.kind}Message",
        "`body binary`, AMQP 1.0": section(octets),
        "`body binary`, JMS": f"{binary.kind}Message",
        "`content_type`, AMQP 1.0": place_of_content_type(octets),
        "properties of MQTT 5": ", ".join(sorted(by_mqtt_5)) or "none",
        "further properties": ", ".join(f"`{name}`" for name in further) or "none",
    }


# --- requests, and rows of their own producers


REPLY = re.compile(r"regexp_replace\(headers\['reply-to'\], '(.*)', '(.*)'\)")


@pytest.mark.broker
@pytest.mark.parametrize(
    ("broker", "protocol"),
    [("rabbitmq", "AMQP 0.9.1"), ("artemis", "AMQP 1.0"), ("activemq", "AMQP 1.0 with transformer=jms")],
    indirect=["broker"],
)
def test_an_answer_comes_to_the_queue_that_the_request_names(broker: Broker, protocol: str) -> None:
    answers = Recorded(broker.name).row(f"{protocol}, all but the body")["headers"]["reply-to"]
    found = REPLY.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    destination = re.sub(found[1], found[2].replace("$", "\\"), answers)
    sent(broker, {"body": b"declares it"}, queue="/queue/replies")
    assert (
        write_columns(broker.options(), {"body": [b"answer"], "destination": [destination]}).refused is None
    )
    with Run(broker.options(destination="/queue/replies")) as query:
        assert bodies(query.take(2)) == [b"declares it", b"answer"]
        query.commit()
        broker.wait_for("/queue/replies", ready=0, unacked=0)


def forwarded(broker: Broker, protocol: str, name: str, **options: str) -> Target:
    """A queue with a message of this producer that the source has read and the sink has written."""
    producer, source, sink = PRODUCERS[broker.name][protocol], broker.new_queue(), broker.new_queue()
    broker.listen(producer.listener)
    target = Target(broker, broker.listeners[producer.listener], source.removeprefix("/queue/"))
    with Run(broker.options(destination=source), ("body", "headers"), **options) as query:
        query.idle()
        producer.send(target, [producer.messages[name]])
        (row,) = query.batch()
        query.commit()
        broker.wait_for(source, ready=0, unacked=0)
    written = write_columns(
        broker.options(destination=sink), {"body": [row["body"]], "headers": [row["headers"]]}
    )
    assert written.refused is None
    broker.wait_for(sink, ready=1)
    return target._replace(name=sink.removeprefix("/queue/"))


AMQP = [
    (
        "rabbitmq",
        "all but the body",
        {"reply_to": "/queues/replies", "correlation_id": "c-1", "group_id": "group"},
    ),
    ("rabbitmq", "id: UUID", {"id": amqp10.ID, "correlation_id": amqp10.ID}),
    ("rabbitmq", "value: string", {"body": "ü 1"}),
    ("rabbitmq", "value: double", {"body": 12.5}),
    ("artemis", "all but the body", {"reply_to": "replies", "subject": "subject", "group_id": "group"}),
    ("artemis", "id: ulong", {"id": 77, "correlation_id": 77}),
    ("activemq", "all but the body", {"reply_to": "queue://replies", "subject": "subject"}),
]


@pytest.mark.broker
@pytest.mark.parametrize(("broker", "name", "expected"), AMQP, indirect=["broker"])
def test_a_message_of_amqp_goes_on(broker: Broker, name: str, expected: dict[str, Any]) -> None:
    """A body keeps its type if it is not decoded."""
    (message,) = amqp10.received(forwarded(broker, "AMQP 1.0", name, amqpBodies="raw"), 1)
    assert {field: getattr(message, field) for field in expected} == expected
    if name == "all but the body":
        assert (message.priority, message.durable) == (7, True)
        assert 0 < message.ttl <= 86_400


@pytest.mark.broker
@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
def test_a_decoded_body_goes_on_as_octets(broker: Broker) -> None:
    (message,) = amqp10.received(forwarded(broker, "AMQP 1.0", "value: string"), 1)
    assert bytes(message.body) == "ü 1".encode()


@pytest.mark.broker
@pytest.mark.parametrize("broker", ["rabbitmq", "rabbitmq-3.10"], indirect=True)
def test_a_message_of_amqp_091_goes_on(broker: Broker) -> None:
    (message,) = amqp091.received(forwarded(broker, "AMQP 0.9.1", "all but the body"), 1)
    original = amqp091.MESSAGES["all but the body"]
    # They say who sent it, and when.
    own = {"headers", "timestamp", "user_id"}
    names = set(vars(original.properties)) - own
    assert {name: getattr(message.properties, name) for name in names} == {
        name: getattr(original.properties, name) for name in names
    }


@pytest.mark.broker
@pytest.mark.parametrize(
    ("broker", "protocol", "reply_to"),
    [
        pytest.param("rabbitmq", "JMS over AMQP", "/queues/replies", marks=pytest.mark.soak),
        pytest.param("artemis", "JMS over Core", "ActiveMQQueue[replies]", marks=pytest.mark.soak),
        ("activemq", "JMS over OpenWire", "queue://replies"),
    ],
    indirect=["broker"],
)
def test_a_message_of_jms_goes_on(broker: Broker, protocol: str, reply_to: str) -> None:
    library, _, scheme = JMS[broker.dialect]
    (message,) = jms.received(library, scheme, forwarded(broker, protocol, "all but the body"), 1)
    fields = {name: message.fields[name] for name in ("reply-to", "correlation", "priority", "persistent")}
    assert fields == {"reply-to": reply_to, "correlation": "c-1", "priority": "7", "persistent": "true"}
    assert int(message.fields["expires"]) > 0


@pytest.mark.broker
@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
def test_a_changed_body_is_no_longer_of_the_type_of_amqp(broker: Broker) -> None:
    """Consumers of AMQP 1.0 get the body as it is."""
    queue = broker.new_queue()
    rows = {"body": [b"{}"], "headers": [[("type", "amqp-1.0")]]}
    assert write_columns(broker.options(destination=queue), rows).refused is None
    target = Target(broker, broker.listeners["amqp"], queue.removeprefix("/queue/"))
    (message,) = amqp10.received(target, 1)
    assert bytes(message.body) == b"{}"


@pytest.mark.broker
@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        (
            "rabbitmq",
            {
                "ContentType": "application/json",
                "CorrelationData": b"c-1".hex(),
                "ResponseTopic": "replies/level",
                "UserProperty": [("own", "1"), ("with-dash", "ü")],
            },
        ),
        ("artemis", {"MessageExpiryInterval": 86_400}),
    ],
    indirect=["broker"],
)
def test_a_message_of_mqtt_goes_on(broker: Broker, expected: dict[str, Any]) -> None:
    producer, source = PRODUCERS[broker.name]["MQTT 5"], broker.new_topic()
    broker.listen("mqtt")
    target = Target(broker, broker.listeners["mqtt"], source.removeprefix("/topic/"))
    with Run(broker.options(destination=source, allowLoss=True), ("body", "headers")) as query:
        query.idle()
        producer.send(target, [producer.messages["all properties"]])
        (row,) = query.batch()
        query.commit()
    message = by_mqtt(broker, broker.new_topic(), row)
    assert message.payload == b"{}"
    seen = shown_properties(message)
    if "MessageExpiryInterval" in seen:
        assert expected["MessageExpiryInterval"] - 60 < seen["MessageExpiryInterval"] <= 86_400
        expected = expected | {"MessageExpiryInterval": seen["MessageExpiryInterval"]}
    assert seen == expected
