"""Batches larger than the un-acked window, where the journal is enough for an ACK."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.driven import Run

from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"
BODIES = [b"%d" % number for number in range(600)]


@pytest.fixture
def options(devbroker: DevBroker, tmp_path: Path) -> dict[str, str]:
    """A backlog of 60 windows; the journal is enough for an ACK."""
    devbroker.publish_many(QUEUE, BODIES)
    return {
        "url": devbroker.url,
        "destination": QUEUE,
        "prefetch": "10",
        "journal": str(tmp_path / "journal"),
        "ackAfter": "journal",
    }


@pytest.mark.rule("5.2")
def test_a_minimum_above_the_prefetch_is_met_where_the_journal_is_enough_for_an_ack(
    options: dict[str, str],
) -> None:
    with Run(options, minMessagesPerTrigger=500, maxTriggerDelay="10m") as run:
        assert len(run.batch()) >= 500
