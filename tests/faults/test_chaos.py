"""Faults of every kind at random moments, under steady load, on real brokers and real Spark."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.brokers import Broker
from support.brokers.fixtures import BrokerPool
from support.drivers import START, SparkDriver
from support.findings import put
from support.load import Load
from support.matrix import MODES
from support.proxy import FaultProxy, Way
from support.soak import SECONDS, SEED, USUAL
from support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(7200)]

BATCH = 500
PAUSE = 12.0
SETUPS = [("rabbitmq", "plain"), ("activemq", "journal")]


class Chaos:
    """What can happen, each by its name; ``pending`` ends by itself some time later."""

    def __init__(self, broker: Broker, proxy: FaultProxy, driver: SparkDriver, chance: random.Random) -> None:
        self.broker, self.proxy, self.driver, self.chance = broker, proxy, driver, chance
        self.deeds: dict[str, Callable[[], object]] = {
            "everything dies": driver.kill_everything,
            "the driver dies": driver.kill_driver,
            "the reader dies": driver.kill_reader,
            "a task's worker dies": driver.kill_worker,
            "the broker dies": broker.crash,
            "the connection is cut": proxy.cut,
            "a frame is cut": lambda: proxy.cut_after(chance.randrange(2_000), *Way),
            "the connection is deaf": proxy.deafen,
            "the connection is slow": lambda: proxy.throttle(50_000),
            "nobody is let in": proxy.refuse,
        }

    def schedule(self, seconds: float) -> Iterator[tuple[float, str]]:
        """Seconds after the start, and what happens then."""
        at = self.chance.expovariate(1 / PAUSE)
        while at < seconds:
            yield at, self.chance.choice(sorted(self.deeds))
            at += self.chance.expovariate(1 / PAUSE)


@pytest.mark.parametrize(("name", "mode"), SETUPS)
def test_every_message_arrives(
    broker_pool: BrokerPool, name: str, mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = broker_pool.get(name)
    queue = broker.new_queue()
    with FaultProxy(broker.port) as proxy:
        options = broker.options(
            url=proxy.url,
            maxMessagesPerTrigger=BATCH,
            subscribeHeaders=json.dumps(broker.crash_safe),
            **MODES[mode](tmp_path),
        )
        driver = SparkDriver(tmp_path, "files", queue, options)
        chaos = Chaos(broker, proxy, driver, random.Random(f"{SEED} {name}"))
        schedule = list(chaos.schedule(SECONDS / len(SETUPS)))
        told = f"seed {SEED}, {name}, {mode}: " + ", ".join(f"{at:.1f}s {deed}" for at, deed in schedule)
        with capsys.disabled():
            # So that a run that hangs can be repeated, too. pytest-xdist passes on nothing else of a process.
            print(f"\n{told}", file=sys.stderr)  # noqa: T201
        with Load(broker, queue) as load, driver:
            run(chaos, schedule)
            load.stop()
            finish(chaos, load, queue, told)
            audit = load.audit(driver.rows())
    assert not audit.missing and not audit.unknown, f"{audit}; {told}"
    if mode != "plain":
        assert not audit.duplicates, f"{audit}; {told}"
    if USUAL["SECONDS"] <= SECONDS:
        put(
            f"chaos, {name}",
            f"- {name}, {mode}: {SECONDS / len(SETUPS):g} s, {len(schedule)} faults, {audit}.\n",
        )


def run(chaos: Chaos, schedule: list[tuple[float, str]]) -> None:
    """Do it all, each at its time or as soon as what came before allows."""
    wait_until(lambda: any(chaos.driver.output.glob("_spark_metadata/*")), START, "the first batch")
    begun = time.monotonic()
    for at, deed in schedule:

        def due(moment: float = begun + at) -> bool:
            chaos.driver.supervise()
            return time.monotonic() >= moment

        wait_until(due, at + START, "the next fault", every=0.1)
        # What the last one left: deafness, slowness, a closed door.
        chaos.proxy.heal()
        chaos.deeds[deed]()


def finish(chaos: Chaos, load: Load, queue: str, told: str) -> None:
    """Without further faults, until all is read and ACKed; then the orderly end."""
    chaos.proxy.heal()

    def done() -> bool:
        chaos.driver.supervise()
        return load.confirmed <= set(chaos.driver.rows()) and chaos.broker.depth(queue) == 0

    try:
        wait_until(done, 2 * START, "the end of the queue", every=1.0)
    except AssertionError as error:
        standing = chaos.broker.standing(queue)
        audit = load.audit(chaos.driver.rows())
        raise AssertionError(f"{error}: {audit}; {standing}; {told}\n{chaos.driver.log}") from None
    chaos.driver.stop()
