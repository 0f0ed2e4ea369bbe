"""spark-stomp probe --scratch on every broker: tests/data/probe_scratch.md has these results."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_every_broker

from spark_stomp.commands.main import main

PAGE = Path(__file__).parents[1] / "data" / "probe_scratch.md"
COLUMNS = ("rabbitmq", "activemq", "artemis", "devbroker")


def rows(text: str) -> dict[str, list[str]]:
    """The other cells of each row of all tables in ``text``, by its first cell."""
    lines = [line.strip("| \n").split("|") for line in text.splitlines() if line.startswith("|")]
    found = {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines}
    return {first: rest for first, rest in found.items() if first != "check" and not set(first) <= {"-"}}


def results(out: str) -> dict[str, str]:
    """What the table of the command says of each check: whether it holds, and what was seen."""
    return {check: ", ".join(filter(None, cells)) for check, cells in rows(out).items()}


def on_the_page(column: int) -> dict[str, str]:
    written = PAGE.read_text(encoding="utf-8")
    return {check: cells[column] for check, cells in rows(written).items()}


@on_every_broker
@pytest.mark.usefixtures("credentials")
def test_the_page_has_what_each_broker_does(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    queue = broker.new_queue()
    assert main(["probe", broker.url, "--scratch", queue]) == 0
    # Nothing is left.
    broker.wait_for(queue, ready=0)
    out = capsys.readouterr().out
    assert results(out) == on_the_page(COLUMNS.index(broker.dialect))
    assert broker.password is None or broker.password not in out.replace(str(broker.login), "")
