"""spark-stomp probe --scratch on every broker: docs/broker-requirements.md has these results."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_every_broker

from spark_stomp.commands.main import main

PAGE = Path(__file__).parents[2] / "docs" / "broker-requirements.md"
COLUMNS = ("rabbitmq", "activemq", "artemis", "devbroker")


def rows(text: str) -> dict[str, list[str]]:
    """The other cells of each row of all tables in ``text``, by its first cell."""
    lines = [line.strip("| \n").split("|") for line in text.splitlines() if line.startswith("|")]
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines}


@on_every_broker
@pytest.mark.usefixtures("credentials")
def test_the_page_has_what_each_broker_does(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    queue = broker.new_queue()
    assert main(["probe", broker.url, "--scratch", queue]) == 0
    # Nothing is left.
    broker.wait_for(queue, ready=0)
    out = capsys.readouterr().out
    seen = {check: cells[0] for check, cells in rows(out).items()}
    assert seen.pop("server").endswith(f", dialect {broker.dialect}")
    written = PAGE.read_text(encoding="utf-8").partition("## What was seen")[2]
    page = {check: cells[COLUMNS.index(broker.name)] for check, cells in rows(written).items()}
    assert {check: result for check, result in seen.items() if not set(check) <= {"-"}} == (
        {check: result for check, result in page.items() if not set(check) <= {"-"}} | {"check": "result"}
    )
    assert broker.password is None or broker.password not in out.replace(str(broker.login), "")
