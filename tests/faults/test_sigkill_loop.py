"""A driver that is killed again and again at random moments, on one checkpoint, into Spark's file sink."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from faults.load import Load
from support.brokers.fixtures import BrokerPool
from support.driven import MODES
from support.drivers import START, SparkDriver
from support.soak import ROUNDS, SEED, USUAL, put
from support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(3600)]

BATCH = 500


def batches(driver: SparkDriver) -> int:
    """How many the commit log has had."""
    commits = (driver.folder / "checkpoint" / "commits").glob("[0-9]*")
    return max((int(path.name) + 1 for path in commits), default=0)


def kill_at_a_random_moment(driver: SparkDriver, chance: random.Random) -> str:
    """Some batches after its start, and some fraction of a second later; says when."""
    wanted, later = chance.randrange(3), chance.uniform(0.0, 0.5)
    begun = batches(driver)
    everything = chance.random() < 0.5

    def reached() -> bool:
        driver.supervise()
        return batches(driver) >= begun + wanted

    # Without any batch it dies while it starts, or replays.
    if wanted:
        wait_until(reached, START, f"{wanted} batches")
    moment = time.monotonic() + (later if wanted else 20 * later)
    wait_until(lambda: time.monotonic() >= moment, what="the moment")
    if everything:
        driver.kill_everything()
    else:
        driver.kill_driver()
    return f"{'everything' if everything else 'driver'} after {wanted} batches and {later:.2f}s"


@pytest.mark.parametrize(
    ("name", "mode"), [("activemq", "journal"), ("artemis", "ackAfter=journal"), ("rabbitmq", "plain")]
)
def test_no_id_is_missing_and_with_the_journal_none_comes_twice(
    broker_pool: BrokerPool, name: str, mode: str, tmp_path: Path
) -> None:
    broker = broker_pool.get(name)
    queue = broker.new_queue()
    chance = random.Random(f"{SEED} {name}")
    schedule: list[str] = []
    options = broker.options(
        maxMessagesPerTrigger=BATCH, subscribeHeaders=json.dumps(broker.crash_safe), **MODES[mode](tmp_path)
    )
    with Load(broker, queue) as load, SparkDriver(tmp_path, "files", queue, options) as driver:
        for _ in range(ROUNDS):
            schedule.append(kill_at_a_random_moment(driver, chance))
            driver.start()
        load.stop()

        def done() -> bool:
            driver.supervise()
            return load.confirmed <= set(driver.rows()) and broker.depth(queue) == 0

        try:
            wait_until(done, 2 * START, "the end of the queue", every=1.0)
        except AssertionError as error:
            raise AssertionError(f"{error}: {load.audit(driver.rows())}; seed {SEED}: {schedule}") from None
        driver.stop()
        audit = load.audit(driver.rows())
    assert not audit.missing and not audit.unknown, f"{audit}; seed {SEED}: {schedule}"
    if mode != "plain":
        assert not audit.duplicates, f"{audit}; seed {SEED}: {schedule}"
    if USUAL["ROUNDS"] <= ROUNDS:
        put(f"SIGKILL loop, {name}", f"- {name}, {mode}: {ROUNDS} rounds, {audit}.\n")
