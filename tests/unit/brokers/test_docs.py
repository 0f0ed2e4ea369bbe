"""docs/brokers.md says what the dialects say."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
from support.pages import READING

from spark_stomp.brokers import DIALECTS, Dialect, dialect_named
from spark_stomp.options import OPTIONS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "brokers.md"
TEXT = PAGE.read_text(encoding="utf-8")
# The rows of the first table, by their first cell: one cell per broker.
ROWS = {
    cells[0].strip(): [cell.strip() for cell in cells[1:]]
    for line in TEXT.partition("## What they do")[2].partition("\n\n`timestamp`")[0].splitlines()
    if (cells := line.strip("|").split("|"))[1:]
}
COLUMNS = [cell.strip("`") for cell in ROWS["option `broker`"]]


@pytest.fixture(params=COLUMNS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return dialect_named(request.param)


def cell(dialect: Dialect, row: str) -> str:
    return ROWS[row][COLUMNS.index(dialect.name)]


def test_every_dialect_is_there() -> None:
    (option,) = (option for option in OPTIONS if option.key == "broker")
    assert {dialect.name for dialect in DIALECTS} == {*COLUMNS, "devbroker", "generic"}
    for dialect in DIALECTS:
        assert f"`{dialect.name}`" in TEXT
        assert dialect.name in option.kind.allowed


class TestTheTable:
    def test_limit_of_unacked_messages(self, dialect: Dialect) -> None:
        limit = cell(dialect, "limit of un-acked messages")
        assert ("bytes" in limit) == (dialect.window_header is not None)
        assert ("page" in limit) == (dialect.page_size is not None)

    def test_id(self, dialect: Dialect) -> None:
        text = cell(dialect, "id that survives redelivery")
        assert text.startswith("none") == (dialect.id_header is None)
        assert f"`{dialect.id_header}`" in text or dialect.id_header is None
        assert ("part" in text) == (dialect.id_separator is not None)

    def test_durable_subscriptions(self, dialect: Dialect) -> None:
        durable = dialect.durable_topics
        if durable is None:
            assert cell(dialect, "durable subscription") == "not known"
            return
        assert ("clientId" in cell(dialect, "durable subscription")) == durable.needs_client_id
        assert ("durable subscriptions" in cell(dialect, "what connections can share")) == durable.shared

    def test_selector_and_browsing(self, dialect: Dialect) -> None:
        assert cell(dialect, "`selector`").startswith("yes") == dialect.selectors
        browsing = cell(dialect, "`spark.read`")
        assert (browsing == "browses") == (dialect.browse_headers is not None)
        if dialect.browse_headers is None:
            assert ("counts as a delivery" in browsing) != dialect.unsubscribe_returns

    def test_redelivery_limit(self, dialect: Dialect) -> None:
        limit = cell(dialect, "redelivery limit")
        assert ("none" in limit) == (dialect.most_deliveries is None)
        assert dialect.most_deliveries is None or f"({dialect.most_deliveries})" in limit

    def test_timestamp(self, dialect: Dialect) -> None:
        unit = {"s": "seconds", "ms": "milliseconds"}[dialect.timestamp_unit]
        assert cell(dialect, "unit of `timestamp`") == unit


def test_the_numbers_in_the_advice() -> None:
    activemq, artemis, rabbitmq = map(dialect_named, ("activemq", "artemis", "rabbitmq"))
    assert f"| `maxPageSize` ({activemq.page_size}) |" in TEXT
    assert f"| `maxBrowsePageSize` ({activemq.browse_limit}) |" in TEXT
    assert f"| `max-delivery-attempts` ({artemis.most_deliveries}) |" in TEXT
    assert f"| `delivery-limit` ({rabbitmq.quorum_delivery_limit} from 4.0 on)" in TEXT


def test_the_name_of_a_durable_subscription() -> None:
    given = {"durable_name": "orders", "client_id": "warehouse"}
    asked = dialect_named("artemis").subscription("/topic/orders", **given)
    ((_, name),) = asked.headers
    assert f"`durableName`, `@` and the topic: `{name}`" in READING.read_text(encoding="utf-8")


def test_the_docstring_of_a_dialect_has_every_fact() -> None:
    # The page sends those who add a broker there.
    attributes = inspect.cleandoc(Dialect.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    ((?:\w+, )*\w+): ", attributes, re.MULTILINE)
    named = [name for entry in entries for name in entry.split(", ")]
    assert sorted(named) == sorted(field.name for field in fields(Dialect))
