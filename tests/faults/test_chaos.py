"""Faults of every kind at random moments, under steady load, on real brokers and real Spark."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults.load import Audit, Load
from support.brokers import Broker
from support.brokers.fixtures import BrokerPool
from support.driven import MODES
from support.drivers import START, SparkDriver
from support.proxy import FaultProxy, Way
from support.relay import relay_options, second_source
from support.soak import SECONDS, SEED, USUAL, put, show
from support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(7200)]

BATCH = 500
PAUSE = 12.0
SETUPS = [("rabbitmq", "plain"), ("activemq", "journal")]
RELAYS = ["rabbitmq", "artemis"]


@dataclass(frozen=True)
class Side:
    """A driver, and the proxies between it and the broker."""

    driver: SparkDriver
    proxies: tuple[FaultProxy, ...]

    def heal(self) -> None:
        for proxy in self.proxies:
            proxy.heal()

    def deeds(self, broker: Broker, chance: random.Random) -> dict[str, Callable[[], object]]:
        """What can happen, each by its name; what happens to the connections happens to one proxy."""
        driver, proxy = self.driver, chance.choice(self.proxies)
        return {
            "everything dies": driver.kill_everything,
            "the driver dies": driver.kill_driver,
            "the reader dies": driver.kill_reader,
            "a task's worker dies": driver.kill_worker,
            "the broker dies": broker.crash,
            "the connection is cut": proxy.cut,
            "a frame is cut": lambda: proxy.cut_after(chance.randrange(2_000), *Way),
            "the connection is deaf": lambda: proxy.hold(*Way),
            "the connection is slow": lambda: proxy.throttle(50_000),
            "nobody is let in": proxy.refuse,
        }


@dataclass(frozen=True)
class Happening:
    """``at`` seconds after the start ``deed``, whose ``name`` this is, happens to one of the sides."""

    at: float
    side: int
    name: str
    deed: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.at:.1f}s {self.name} ({self.side})"


class Chaos:
    """All sides of one broker, and what happens to them in ``seconds``."""

    def __init__(self, broker: Broker, sides: Sequence[Side], chance: random.Random, seconds: float) -> None:
        self.broker, self.sides = broker, sides
        self.schedule = list(self._schedule(chance, seconds))

    @property
    def driver(self) -> SparkDriver:
        """The last one, whose rows count."""
        return self.sides[-1].driver

    def supervise(self) -> None:
        for side in self.sides:
            side.driver.supervise()

    def heal(self) -> None:
        for side in self.sides:
            side.heal()

    def _schedule(self, chance: random.Random, seconds: float) -> Iterator[Happening]:
        at = chance.expovariate(1 / PAUSE)
        while at < seconds:
            side = chance.randrange(len(self.sides))
            deeds = self.sides[side].deeds(self.broker, chance)
            name = chance.choice(sorted(deeds))
            yield Happening(at, side, name, deeds[name])
            at += chance.expovariate(1 / PAUSE)


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
        side = Side(SparkDriver(tmp_path, "files", queue, options), (proxy,))
        chance = random.Random(f"{SEED} {name}")
        chaos = Chaos(broker, [side], chance, SECONDS / len(SETUPS))
        circumstances = tell(chaos, f"{name}, {mode}", capsys)
        with Load(broker, queue) as load, side.driver:
            audit = survive(chaos, load, [queue], circumstances)
    assert not audit.missing and not audit.unknown, f"{audit}; {circumstances}"
    if mode != "plain":
        assert not audit.duplicates, f"{audit}; {circumstances}"
    record(chaos, f"chaos, {name}", f"{name}, {mode}", SECONDS / len(SETUPS), audit)


@pytest.mark.parametrize("name", RELAYS)
def test_from_queue_to_queue_every_id_arrives_once(
    broker_pool: BrokerPool, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Queue -> Spark -> queue -> Spark: the rows of the second source, whatever happens on both sides."""
    broker = broker_pool.get(name)
    queues = [broker.new_queue(), broker.new_queue()]
    first, second = tmp_path / "first", tmp_path / "second"
    with FaultProxy(broker.port) as to, FaultProxy(broker.port) as between, FaultProxy(broker.port) as behind:
        relay = relay_options(broker, queues[1], first, to.url, between.url, maxMessagesPerTrigger=BATCH)
        source = second_source(broker, second, url=behind.url, maxMessagesPerTrigger=BATCH)
        sides = [
            Side(SparkDriver(first, "stomp", queues[0], relay), (to, between)),
            Side(SparkDriver(second, "files", queues[1], source), (behind,)),
        ]
        chance = random.Random(f"{SEED} {name} relay")
        chaos = Chaos(broker, sides, chance, SECONDS / len(RELAYS))
        circumstances = tell(chaos, f"{name}, queue to queue", capsys)
        with Load(broker, queues[0]) as load, sides[0].driver, sides[1].driver:
            audit = survive(chaos, load, queues, circumstances)
    assert not audit.missing and not audit.unknown and not audit.duplicates, f"{audit}; {circumstances}"
    record(chaos, f"chaos from queue to queue, {name}", name, SECONDS / len(RELAYS), audit)


def tell(chaos: Chaos, setup: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What repeats the run, shown before it, so that one that hangs can be repeated, too."""
    circumstances = f"seed {SEED}, {setup}: " + ", ".join(map(str, chaos.schedule))
    show(circumstances, capsys)
    return circumstances


def record(chaos: Chaos, place: str, setup: str, seconds: float, audit: Audit) -> None:
    """Put the result of a run of the usual length where it is shown."""
    if USUAL["SECONDS"] <= SECONDS:
        put(place, f"- {setup}: {seconds:g} s, {len(chaos.schedule)} faults, {audit}.\n")


def survive(chaos: Chaos, load: Load, queues: Sequence[str], circumstances: str) -> Audit:
    """All of the schedule, and after it the end of the queues."""
    run(chaos)
    load.stop()
    finish(chaos, load, queues, circumstances)
    return load.audit(chaos.driver.rows())


def run(chaos: Chaos) -> None:
    """Do it all, each at its time or as soon as what came before allows."""
    wait_until(lambda: any(chaos.driver.output.glob("_spark_metadata/*")), START, "the first batch")
    begun = time.monotonic()
    for happening in chaos.schedule:

        def due(moment: float = begun + happening.at) -> bool:
            chaos.supervise()
            return time.monotonic() >= moment

        wait_until(due, happening.at + START, "the next fault", every=0.1)
        # What the last one left: deafness, slowness, a closed door.
        chaos.heal()
        happening.deed()


def finish(chaos: Chaos, load: Load, queues: Sequence[str], circumstances: str) -> None:
    """Without further faults, until all is read and ACKed; then the orderly end."""
    chaos.heal()

    def done() -> bool:
        chaos.supervise()
        read = load.confirmed <= set(chaos.driver.rows())
        return read and not any(chaos.broker.depth(queue) for queue in queues)

    try:
        wait_until(done, 2 * START, "the end of the queue", every=1.0)
    except AssertionError as error:
        standing = [chaos.broker.standing(queue) for queue in queues]
        audit = load.audit(chaos.driver.rows())
        logs = "\n".join(side.driver.log for side in chaos.sides)
        raise AssertionError(f"{error}: {audit}; {standing}; {circumstances}\n{logs}") from None
    for side in chaos.sides:
        side.driver.stop()
