"""Pairs of ActiveMQ and of Artemis, whose active one is killed, stopped in order, and hangs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from failover.flow import Flows, check
from support.brokers import ActiveMQPair, ArtemisPair, Broker, Cluster
from support.brokers.cluster import Pair
from support.driven import MODES
from support.waiting import pause

pytestmark = [pytest.mark.broker, pytest.mark.soak, pytest.mark.timeout(900)]

# Seconds: longer than heart-beats and connectTimeout together.
HANGS = 45.0
Deed = Callable[[Pair, Broker, Broker, Flows], None]


def killed(pair: Pair, active: Broker, other: Broker, flows: Flows) -> None:
    active.kill()
    pair.await_takeover(other)


def stopped(pair: Pair, active: Broker, other: Broker, flows: Flows) -> None:
    active.stop()
    pair.await_takeover(other)


def hangs(pair: Pair, active: Broker, other: Broker, flows: Flows) -> None:
    active.suspend()
    pause(HANGS)
    active.resume()


def comes_back(pair: Pair, active: Broker, other: Broker, flows: Flows) -> None:
    """The other one was killed before. On Artemis it takes its place again, which is called failback."""
    other.start()
    if isinstance(pair, ArtemisPair):
        pair.await_takeover(other)


@pytest.fixture(params=[ActiveMQPair.name, ArtemisPair.name])
def pair(request: pytest.FixtureRequest, whole: Callable[[str], Cluster]) -> Pair:
    found = whole(request.param)
    assert isinstance(found, Pair)
    return found


@pytest.mark.parametrize("deed", [killed, stopped, hangs, comes_back], ids=lambda deed: deed.__name__)
def test_a_fault_costs_no_message_and_no_query(
    pair: Pair, deed: Deed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    active, other = sorted(pair.nodes, key=lambda node: node is not pair.active)
    if deed is comes_back:
        active.kill()
        pair.await_takeover(other)
        active, other = other, active
    with everything(pair, tmp_path) as flows:
        deed(pair, active, other, flows)
        flows.go_on()
        check(flows, f"{pair.name}, {deed.__name__}", capsys)


def everything(pair: Pair, folder: Path) -> Flows:
    """All kinds of sources and sinks."""
    flows = Flows(pair)
    for mode, options in MODES.items():
        (own := folder / mode).mkdir()
        flows.source(f"source, queue, {mode}", pair.new_queue(), **options(own))
    topic = pair.new_topic()
    durable: dict[str, Any] = {"clientId": topic.rpartition("/")[2], "durableName": "failover"}
    flows.source("source, topic", topic, **durable)
    flows.sink("sink, queue", pair.new_queue())
    flows.sink("sink, queue, onError=drop", pair.new_queue(), onError="drop")
    return flows
