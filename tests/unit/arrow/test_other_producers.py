"""Rows of messages of other protocols, from the frames that real brokers made of them (tests/data/frames).

``SPARK_STOMP_WRITE_ROWS=1 make unit ARGS="-k other_producers"`` writes the rows again, without a broker.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from support.frames import FOLDER, Recorded
from support.pages import ROOT

# The brokers of the table in docs/other-protocols.md, in its order.
BROKERS = ("rabbitmq", "artemis", "activemq")


@pytest.mark.parametrize("broker", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_the_rows_are_those_of_the_file(broker: str) -> None:
    recorded = Recorded(broker)
    if os.environ.get("SPARK_STOMP_WRITE_ROWS"):
        recorded.write({})
    assert recorded.rows_now() == {name: recorded.row(name) for name in recorded.messages}


def table(text: str) -> list[tuple[str, str, str]]:
    """The cells of the first table: for each the broker, the first cell of its line, and the cell."""
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"
    ]
    return [
        (broker, line[0], cell) for line in lines[2:] for broker, cell in zip(BROKERS, line[1:], strict=True)
    ]


class TestWhereAMessageHasWhat:
    """The section of docs/other-protocols.md."""

    SECTION = (
        (ROOT / "docs/other-protocols.md")
        .read_text(encoding="utf-8")
        .partition("## Where a message has what\n")[2]
        .partition("\n##")[0]
    )
    HEADERS, BODIES = (table(part) for part in SECTION.split("What becomes of the body:"))
    NOT_HEADERS = frozenset({"transport.transformer=jms", "content_type"})

    @pytest.mark.parametrize(("broker", "what", "cell"), HEADERS)
    def test_each_header_of_the_table_comes_so(self, broker: str, what: str, cell: str) -> None:
        headers = [message["row"]["headers"] for message in Recorded(broker).messages.values()]
        for shown in set(re.findall("`([^`]+)`", cell)) - self.NOT_HEADERS:
            name, _, value = shown.partition(":")
            assert any(name in row and row[name] == (value or row[name]) for row in headers), shown

    @pytest.mark.parametrize("broker", BROKERS)
    def test_stable_ids(self, broker: str) -> None:
        rows = [message["row"] for message in Recorded(broker).messages.values()]
        without = {
            "rabbitmq": lambda row: True,
            "artemis": lambda row: row["headers"]["timestamp"] == "0",
            "activemq": lambda row: False,
        }[broker]
        assert [row for row in rows if "stable_id" not in row] == [*filter(without, rows)]

    @pytest.mark.parametrize(("broker", "value"), [*zip(BROKERS, (False, False, None), strict=True)])
    def test_redelivered(self, broker: str, value: bool | None) -> None:
        rows = [message["row"] for message in Recorded(broker).messages.values()]
        assert {row.get("redelivered") for row in rows if "malformed" not in row} == {value}

    @pytest.mark.parametrize(
        ("broker", "message", "value"),
        [
            ("rabbitmq", "AMQP 0.9.1, transient", "1"),
            ("rabbitmq", "AMQP 0.9.1, bytes", None),
            ("rabbitmq", "AMQP 1.0, data", None),
            ("rabbitmq", "AMQP 1.0, durable", "true"),
            ("rabbitmq", "MQTT 5, QoS 0", "1"),
            ("rabbitmq", "MQTT 5, QoS 1", "true"),
            ("artemis", "JMS over Core, non-persistent", "false"),
            ("artemis", "MQTT 5, QoS 0", "false"),
            ("activemq", "JMS over OpenWire, non-persistent", None),
            ("activemq", "MQTT 3.1.1, QoS 1", "true"),
        ],
    )
    def test_persistent(self, broker: str, message: str, value: str | None) -> None:
        assert Recorded(broker).row(message)["headers"].get("persistent") == value

    @pytest.mark.parametrize(
        ("broker", "message", "what"),
        [
            ("rabbitmq", "AMQP 1.0, all but the body", "subject"),
            ("artemis", "MQTT 5, all properties", "c-1"),
            ("activemq", "JMS over OpenWire, all but the body", "group"),
        ],
    )
    def test_what_is_lost(self, broker: str, message: str, what: str) -> None:
        assert what not in Recorded(broker).row(message)["headers"].values()

    def test_content_types(self) -> None:
        recorded = Recorded("rabbitmq")
        for message in ("AMQP 0.9.1, all but the body", "MQTT 5, all properties"):
            assert recorded.row(message)["content_type"] == "application/json"

    def test_headers_that_rabbitmq_drops(self) -> None:
        found: dict[str, Any] = {
            name: message["row"]["headers"].get(name.partition(": ")[2])
            for name, message in Recorded("rabbitmq").messages.items()
            if ", header: " in name or ", property: " in name
        }
        dropped = {name.partition(": ")[2] for name, value in found.items() if value is None}
        of_0_9_1 = {"bool", "decimal", "timestamp", "void", "bytes", "table", "array"}
        of_1_0 = {"true", "null", "float", "double", "byte", "ubyte", "short", "uint"}
        assert dropped == of_0_9_1 | of_1_0

    # What a line of the table of bodies is about: the names of messages, and their bodies.
    SENT = (
        ("bytes", r".*, (data|bytes|QoS 1)", b"\0\xff"),
        ("text by AMQP 1.0", r"AMQP 1.0.*, value: string|JMS over AMQP.*, text", "ü 1".encode()),
        ("a binary value", r"AMQP 1.0.*, value: binary", b"\0\xff"),
        ("text by another", r"JMS over (Core|OpenWire), text", "ü 1".encode()),
        ("a map, list", r"AMQP 1.0.*, (value: (map|list)|sequence)", None),
        ("MapMessage", r"JMS.*, (map|stream)", None),
        ("ObjectMessage", r"JMS.*, object", b"\xac\xed\0\5t\0\4ACME"),
    )

    @pytest.mark.parametrize(("broker", "what", "cell"), BODIES)
    def test_bodies(self, broker: str, what: str, cell: str) -> None:
        ((pattern, body),) = (sent[1:] for sent in self.SENT if what.startswith(sent[0]))
        recorded = Recorded(broker)
        names = [name for name in recorded.messages if re.fullmatch(pattern, name)]
        fates = set()
        for name in names:
            head, _, came = recorded.frame(name).removesuffix(b"\0").partition(b"\n\n")
            if b"JMS_AMQP_NATIVE" not in head:
                is_encoded = came[:2] == b"\0S" and recorded.row(name)["body"].encode("latin-1") != came
                fates.add("as it is" if came == body else "decoded" if is_encoded else "lost")
        assert fates == ({cell.partition(",")[0]} if names else set())
        assert names or cell == "-"

    def test_several_data_sections(self) -> None:
        came = {
            broker: Recorded(broker).row(f"AMQP 1.0{how}, two data")["body"]
            for broker, how in (("rabbitmq", ""), ("artemis", ""), ("activemq", " with transformer=jms"))
        }
        assert came == {"rabbitmq": "abcd", "artemis": "ab", "activemq": "ab"}

    def test_rabbitmq_3_10(self) -> None:
        recorded = Recorded("rabbitmq-3.10")
        assert all(
            "malformed" in recorded.row(name) for name in recorded.messages if name.startswith("AMQP 1.0")
        )
