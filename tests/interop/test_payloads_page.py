"""docs/payloads.md and docs/other-protocols.md: each program, on the brokers that its section names."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.brokers import Broker
from support.driven import Run, publish
from support.pages import ROOT
from support.producers import PRODUCERS, Target

from spark_stomp import rescue_json
from spark_stomp.errors import DestinationRefused

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PAGES = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("payloads.md", "other-protocols.md")]
SECTIONS = {part.partition("\n")[0]: part for page in PAGES for part in page.split("\n## ")[1:]}
NAMES = {"RabbitMQ": "rabbitmq", "ActiveMQ": "activemq", "Artemis": "artemis"}


def named_in(sentence: str) -> list[str]:
    """The brokers that it names."""
    return [name for shown, name in NAMES.items() if shown in sentence]


def blocks(heading: str, language: str, broker: str = "") -> list[str]:
    """The section's blocks of code; of its parts ``### On ...`` those that are for this broker."""
    first, *parts = SECTIONS[heading].split("\n### On ")
    text = "".join([first, *(part for part in parts if broker in named_in(part.partition("\n")[0]))])
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def seen_on(heading: str) -> list[str]:
    """The brokers on which the section says that it was seen."""
    return [
        name
        for sentence in re.findall(r"^Seen on .*?\.$", SECTIONS[heading], re.MULTILINE)
        for name in named_in(sentence)
    ]


# Each broker and section that shows what it prints.
CASES = [
    (broker, heading)
    for heading in SECTIONS
    for broker in seen_on(heading)
    if blocks(heading, "text", broker)
]


# Of the others, what is below their programs has tests of its own.
WITHOUT_SOAK = [("rabbitmq", "JSON, and what fails"), ("activemq", "JMS maps"), ("rabbitmq", "A JMS feed")]


class Recipe:
    """The programs of a section, on one broker."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder

    def run(self, heading: str) -> None:
        names = {"__name__": "__main__"}
        for program in blocks("Before each recipe", "python"):
            exec(program, names)
        names["broker"] = {"url": self.broker.url, **self.broker.credentials}
        for program in blocks(heading, "python", self.broker.dialect):
            exec(program.replace('"/data/', f'"{self.folder}/'), names)


@pytest.fixture
def recipe(spark: SparkSession, broker: Broker, tmp_path: Path) -> Recipe:
    return Recipe(spark, broker, tmp_path)


@pytest.mark.parametrize(
    ("broker", "heading"),
    [pytest.param(*case, marks=[pytest.mark.soak] * (case not in WITHOUT_SOAK)) for case in CASES],
    indirect=["broker"],
)
def test_what_it_prints(recipe: Recipe, heading: str, capsys: pytest.CaptureFixture[str]) -> None:
    BEFORE.get(heading, lambda recipe: None)(recipe)
    capsys.readouterr()
    recipe.run(heading)
    # But for the empty lines.
    printed = [line for line in capsys.readouterr().out.splitlines() if line]
    assert printed == "".join(blocks(heading, "text", recipe.broker.dialect)).splitlines()
    AFTER.get(heading, lambda recipe: None)(recipe)


def send_maps(recipe: Recipe) -> None:
    """What a JMS client has sent to the section's queue."""
    maps = [
        [
            ("message", "Map"),
            ("entry", "symbol", "String", symbol),
            ("entry", "price", "Double", price),
            ("entry", "volume", "Long", volume),
        ]
        for symbol, price, volume in (("ACME", "12.5", "3000000000"), ("EMCA", "0.1", "7"))
    ]
    producer = PRODUCERS["activemq"]["JMS over OpenWire"]
    target = Target(recipe.broker, recipe.broker.listeners["openwire"], "maps")
    producer.send(target, [*maps, [("message", "Text"), ("body", "String", "a text")]])


def send_trades(recipe: Recipe) -> None:
    """What a JMS client has sent to the section's queue, which a first consumer has declared."""
    with Run(recipe.broker.options(destination="/queue/trades")) as query:
        query.idle()
    protocol, listener = {"rabbitmq": ("JMS over AMQP", "amqp")}.get(
        recipe.broker.dialect, ("JMS over Core", "core")
    )
    trade = [("symbol", "String", "ACME"), ("price", "Double", "12.5"), ("volume", "Long", "3000000000")]
    messages: list[list[tuple[str, ...]]] = [
        [("message", "Map"), *(("entry", *entry) for entry in trade)],
        [("message", "Text"), ("body", "String", '{"symbol": "EMCA", "price": 0.1}')],
        [("message", "Bytes"), ("body", "byte[]", "00ff")],
    ]
    named = [
        [*message, ("correlation", f"c-{number}"), ("property", "desk", "String", "north")]
        for number, message in enumerate(messages)
    ]
    recipe.broker.listen(listener)
    target = Target(recipe.broker, recipe.broker.listeners[listener], "trades")
    PRODUCERS[recipe.broker.dialect][protocol].send(target, named)


def check_dead_letters(recipe: Recipe) -> None:
    """They have the stable ids of their messages, if the broker gives any."""
    options = recipe.broker.options(destination="/queue/jsondead")
    with Run(options, ("headers",)) as query:
        ids = {dict(row["headers"]).get("dead-letter-id") for row in query.take(3)}
        query.commit()
    assert len(ids - {None}) == (0 if recipe.broker.dialect == "rabbitmq" else 3)


BEFORE: dict[str, Callable[[Recipe], None]] = {"JMS maps": send_maps, "A JMS feed": send_trades}
AFTER: dict[str, Callable[[Recipe], None]] = {"JSON, and what fails": check_dead_letters}


@pytest.mark.parametrize(
    "broker",
    # There is one program for the last two.
    ["rabbitmq", "activemq", pytest.param("artemis", marks=pytest.mark.soak)],
    indirect=True,
)
def test_delayed_messages(recipe: Recipe) -> None:
    heading = "Delayed messages"
    assert recipe.broker.dialect in seen_on(heading)
    with Run(recipe.broker.options(destination="/queue/delayed"), ("body", "received_at")) as query:
        query.idle()  # and on RabbitMQ the queue is there
        recipe.run(heading)
        received = {row["body"]: row["received_at"] for row in query.take(2)}
        query.commit()
    assert received[b"later"] - received[b"now"] > timedelta(seconds=2)


@pytest.mark.parametrize("broker", seen_on("Message groups"), indirect=True)
def test_a_group_comes_by_one_connection(broker: Broker) -> None:
    # Not an even number: without groups, two connections take turns, and each would have all of some.
    queue, groups = broker.new_queue(), (b"a", b"b", b"c")
    options = broker.options(destination=queue, connections=2)
    with Run(options, ("body", "receiver")) as query:
        query.idle()
        for group in groups * 5:
            publish(broker.options(), queue, [group], ("JMSXGroupID", group.decode()))
        rows = query.take(5 * len(groups))
        query.commit()
    places = {(row["body"], row["receiver"]) for row in rows}
    assert len(places) == len(groups)
    assert len({receiver for _, receiver in places}) == 2


@pytest.mark.parametrize("broker", seen_on("Selectors on numbers"), indirect=True)
def test_the_prefix_of_a_selector(broker: Broker) -> None:
    """Artemis needs it to compare with a number, and ActiveMQ refuses it."""
    queue, selector = broker.new_queue(), "size > 10 OR kind = 'last'"
    with Run(broker.options(destination=queue, selector=selector)) as query:
        publish(broker.options(), queue, [b"11"], ("size", "11"))
        publish(broker.options(), queue, [b"last"], ("kind", "last"))
        wanted = [b"last"] if broker.dialect == "artemis" else [b"11", b"last"]
        assert [row["body"] for row in query.take(len(wanted))] == wanted
        query.commit()
    if broker.dialect == "activemq":
        prefixed = f"convert_string_expressions:{selector}"
        with (
            Run(broker.options(destination=queue, selector=prefixed)) as query,
            pytest.raises(DestinationRefused, match="InvalidSelectorException"),
        ):
            query.idle()


def test_a_schema_of_ones_own(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the bodies that the section has above it."""
    heading = "Try a schema before you read"
    (bodies,) = re.findall(r"<<'END'\n(.*?)END\n", SECTIONS[heading], re.DOTALL)
    (tmp_path / "bodies.jsonl").write_text(bodies, encoding="utf-8")
    (program,), (printed,) = blocks(heading, "python"), blocks(heading, "text")
    exec(program.replace('"bodies.jsonl"', repr(str(tmp_path / "bodies.jsonl"))), {"spark": spark})
    assert capsys.readouterr().out.strip() == printed.strip()


def test_json_lines(spark: SparkSession) -> None:
    (program,) = (block for block in blocks("JSON, and what fails", "python") if "/queue/lines" in block)
    bodies = [
        b'{"order": 1}\n{"order": 2, "region": "EU"}\n',
        b'{"order": 3}\r\n\n{"order": 4',
        b'{"order": 5}\n{"region": "\xff"}\n',
        b"",
        None,
    ]
    frame = spark.createDataFrame(list(enumerate(bodies)), "message_id int, body binary")
    names: dict[str, Any] = {"messages": lambda _: frame, "rescue_json": rescue_json}
    exec(program, names)
    rows = names["orders"].selectExpr("message_id", "order", "region", "CAST(_rescued AS BINARY)").collect()
    assert [tuple(row) for row in rows] == [
        (0, 1, None, None),
        (0, 2, "EU", None),
        (1, 3, None, None),
        (1, None, None, b""),
        (1, None, None, b'{"order": 4'),
        (2, None, None, bodies[2]),
        (3, None, None, b""),
        (4, None, None, None),
    ]


def test_a_section_with_a_program_says_where_it_was_seen() -> None:
    programs = {heading for heading in SECTIONS if "```python" in SECTIONS[heading]}
    assert programs - {heading for _, heading in CASES} == {
        "Try a schema before you read",
        "Before each recipe",
        "Delayed messages",
    }
