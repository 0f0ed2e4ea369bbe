"""One checkpoint under several releases of Spark or of this package, killed within a batch under each.

`make matrix` and `make release` name them, in ``SPARK_STOMP_RELEASES``: Python interpreters, in order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.brokers.fixtures import BrokerPool
from support.brokers.rabbitmq import RabbitMQ
from support.driven import publish
from support.drivers import START, SparkDriver
from support.streams import new_stream
from support.waiting import wait_until
from support.wheel import run

from spark_stomp.devbroker import DevBroker
from spark_stomp.status import read_status

RELEASES = [*filter(None, os.environ.get("SPARK_STOMP_RELEASES", "").split(os.pathsep))]
pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not RELEASES, reason="only `make matrix` and `make release` have several releases"),
]

QUEUE = "/queue/orders"
MESSAGES = 50


def through_all(
    driver: SparkDriver, send: Callable[[list[bytes]], object], all_acked: Callable[[], bool]
) -> None:
    """Run ``driver`` under each release: it finishes what was planned and all else, and dies in a batch.

    Each reads the status that the one before has left.

    ``all_acked``: the broker has all ACKs.
    """
    sent: list[str] = []

    def more() -> None:
        bodies = [f"{len(sent) + number}" for number in range(MESSAGES)]
        send([body.encode() for body in bodies])
        sent.extend(bodies)

    def has_all() -> bool:
        assert driver.running, f"{driver.python}: {driver.log}"
        there = set(driver.rows()) >= set(sent) and all_acked()
        return there and read_status(checkpoint)["totals"]["rows"] >= MESSAGES

    checkpoint = driver.options["checkpointLocation"]
    stall, stalled = driver.output / "stall", driver.output / "partial"
    for release in RELEASES:
        if driver.starts:
            (status,) = run(release, "-m", "spark_stomp", "status", "--json", checkpoint).splitlines()
            assert json.loads(status)["totals"]["rows"] >= MESSAGES
        driver.python = release
        more()
        driver.start()
        wait_until(has_all, START, f"all rows under {release}")
        stall.touch()
        more()
        wait_until(stalled.exists, START, f"a batch under {release}")
        driver.kill_everything()
        assert driver.uncommitted
        stall.unlink()
        stalled.unlink()
    assert sorted(driver.rows()) == sorted(sent[:-MESSAGES]), "each once, but for the batch that nobody ended"


@pytest.mark.rule("3.1")
@pytest.mark.parametrize(
    "options",
    [{}, {"journal": "journal"}, {"journal": "journal", "ackAfter": "journal"}],
    ids=["no journal", "journal", "ackAfter=journal"],
)
def test_a_queue(devbroker: DevBroker, options: dict[str, str], tmp_path: Path) -> None:
    given = options | ({"journal": str(tmp_path / "journal")} if "journal" in options else {})
    given |= {"url": devbroker.url, "checkpointLocation": str(tmp_path / "checkpoint")}
    queue = devbroker.queue

    def all_acked() -> bool:
        return not queue(QUEUE).depth and not queue(QUEUE).unacked

    driver = SparkDriver(tmp_path, "batches", QUEUE, given)
    through_all(driver, lambda bodies: devbroker.publish_many(QUEUE, bodies), all_acked)


@pytest.mark.rule("R.1")
@pytest.mark.broker
def test_a_stream(broker_pool: BrokerPool, tmp_path: Path) -> None:
    broker = broker_pool.get("rabbitmq")
    assert isinstance(broker, RabbitMQ)
    stream = new_stream(broker)
    options = broker.options(startingOffsets="earliest", checkpointLocation=str(tmp_path / "checkpoint"))
    driver = SparkDriver(tmp_path, "batches", stream, options)
    through_all(driver, lambda bodies: publish(broker.options(), stream, bodies), lambda: True)
