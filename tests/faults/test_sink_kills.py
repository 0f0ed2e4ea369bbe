"""Queue -> Spark -> queue: tasks are tried again and drivers die before the commit log has the batch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from faults.load import Audit, Load
from support.brokers import Broker
from support.brokers.fixtures import BrokerPool
from support.drivers import START, SparkDriver
from support.points import Point, Points
from support.relay import drained_once, relay_options
from support.soak import ROUNDS, SEED, USUAL, put
from support.waiting import wait_until

from spark_stomp.sink.sender import Sender
from spark_stomp.spark.writers import StompStreamWriter

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(3600)]

BATCH = 500
BROKERS = ["artemis", "rabbitmq", "activemq"]


def relay(broker: Broker, folder: Path, points: Points, deaths: int) -> tuple[Audit, int]:
    """The rows of our source of the second queue, and how many messages the broker counted there before."""
    first, second = broker.new_queue(), broker.new_queue()
    options = relay_options(broker, second, folder, broker.url, broker.url, maxMessagesPerTrigger=BATCH)
    with Load(broker, first) as load, SparkDriver(folder, "stomp", first, options, points) as driver:
        for index in range(deaths):
            wait_until(lambda: not driver.running, START, f"the end of driver {index + 1}")
            assert points.reached(index), driver.log
            driver.start()
        last = len(points.points) - 1
        wait_until(lambda: points.reached(last), START, "the last fault")
        load.stop()

        def done() -> bool:
            assert driver.running, driver.log
            return broker.depth(first) == 0

        wait_until(done, 2 * START, "the end of the first queue", every=1.0)
        driver.stop()
    arrived = broker.depth(second)
    return load.audit(drained_once(broker, second, folder)), arrived


def check(broker: Broker, audit: Audit, arrived: int, circumstances: str) -> None:
    said = f"{audit}, {arrived} in the second queue; {circumstances}"
    assert not audit.missing and not audit.unknown and not audit.duplicates, said
    if broker.dialect == "artemis":
        # It dropped what was sent again. What was never confirmed to the load may be there all the same.
        assert arrived == audit.rows, said
    else:
        assert arrived > audit.rows, f"nothing was sent again: this proves nothing; {said}"


@pytest.mark.parametrize("name", BROKERS)
def test_a_driver_that_dies_between_the_sinks_success_and_the_commit_log(
    broker_pool: BrokerPool, name: str, tmp_path: Path
) -> None:
    broker = broker_pool.get(name)
    chance = random.Random(f"{SEED} {name}")
    commits, points = 0, []
    for _ in range(ROUNDS):
        # With 1 it dies in the batch that is replayed.
        commits += chance.randint(1, 4)
        points.append(
            Point.after(StompStreamWriter.commit, commits, chance.choice(["kill-driver", "kill-session"]))
        )
    audit, arrived = relay(broker, tmp_path, Points(tmp_path / "points", *points), ROUNDS)
    check(broker, audit, arrived, f"seed {SEED}: {', '.join(map(str, points))}")
    if USUAL["ROUNDS"] <= ROUNDS:
        put(
            f"driver killed before the commit log, {name}",
            f"- {name}: {ROUNDS} rounds, {arrived} in the second queue; behind it {audit}.\n",
        )


@pytest.mark.parametrize("name", BROKERS)
def test_a_task_that_is_tried_again(broker_pool: BrokerPool, name: str, tmp_path: Path) -> None:
    """Its worker dies when all its rows are sent."""
    broker = broker_pool.get(name)
    points = Points(tmp_path / "points", *(Point.before(Sender.finish, nth, "kill") for nth in (2, 5, 9)))
    audit, arrived = relay(broker, tmp_path, points, deaths=0)
    check(broker, audit, arrived, "a task's worker killed three times")
