"""Drivers are killed again and again at random moments, each on one checkpoint, into Spark's file sink."""

from __future__ import annotations

import json
import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from faults.load import ID_HEADER, Audit, Load
from support.brokers import Broker, RabbitMQ
from support.brokers.fixtures import BrokerPool
from support.driven import MODES, Run
from support.drivers import START, SparkDriver
from support.proxy import FaultProxy
from support.soak import ROUNDS, SEED, USUAL, put, show
from support.streams import new_stream
from support.waiting import pause, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(3600)]

BATCH = 500
# Destinations of the queries that read many over one connection.
QUEUES, TOPICS = 50, 20
# Half of the rounds of one query on one queue: with more queries each takes longer.
FEWER = max(1, ROUNDS // 2)
SOURCES, QUERIES = 2, 3


def batches(driver: SparkDriver) -> int:
    """How many the commit log has had."""
    commits = (driver.folder / "checkpoint" / "commits").glob("[0-9]*")
    return max((int(path.name) + 1 for path in commits), default=0)


@dataclass
class Loop:
    """A steady load, drivers that read it, and faults at random moments. ``streams`` keep what they have.

    ``doubles`` counts, after each fault and before the next one, the rows beyond the first of each message.
    ``stuck`` counts messages that the broker delivered only after it was restarted at the end.
    """

    broker: Broker
    destinations: Sequence[str]
    drivers: Sequence[SparkDriver]
    chance: random.Random
    streams: Sequence[str] = ()
    schedule: list[str] = field(default_factory=list)
    doubles: Counter[str] = field(default_factory=Counter)
    stuck: int = 0

    def run(self, strikes: Iterable[tuple[str, Callable[[], object]]]) -> Audit:
        """One fault after the other; then wait until everything is read and ACKed. Returns the audit.

        Each fault has a name and what does it.
        """
        with ExitStack() as stack:
            for driver in self.drivers:
                stack.enter_context(driver)
            load = stack.enter_context(Load(self.broker, *self.destinations, *self.streams))
            last = "nothing"
            for name, strike in strikes:
                moment = self._at_a_random_moment()
                self._count(last)
                self.schedule.append(f"{name} {moment}: {strike()}")
                last = name
            load.stop()
            try:
                self._finish(load)
            except AssertionError as error:
                said = f"{load.audit(self.rows())}; {self._held()} at the broker; {self}"
                raise AssertionError(f"{error}: {said}\n{self.drivers[0].log}") from None
            for driver in self.drivers:
                driver.stop()
            self._count(last)
            return load.audit(self.rows())

    def _finish(self, load: Load) -> None:
        """Wait until everything is read and ACKed."""

        def done() -> bool:
            return load.confirmed <= set(self.rows()) and not self._held()

        try:
            self._wait(done, "the end of the queues", every=1.0)
        except AssertionError:
            self.stuck = self.broker.stuck(self.destinations)
            if self.stuck:
                self.broker.crash()
            self._wait(done, "the end of the queues", every=1.0)

    def rows(self) -> list[str]:
        """The bodies that all sinks have."""
        return [row for driver in self.drivers for row in driver.rows()]

    def second_rows_by_id(self) -> int:
        """The rows beyond the first of each message, after a sink that keeps one row of each stable id."""
        records = [record for driver in self.drivers for record in driver.records()]
        assert all(stable for _, stable in records), "a row without a stable id"
        return len({stable for _, stable in records}) - len({body for body, _ in records})

    def kill(self) -> str:
        """Kill one driver, or with equal chance all of them, and start again what was killed; says which."""
        chance = self.chance
        victims = self.drivers if chance.random() < 0.5 else [chance.choice(self.drivers)]
        everything = chance.random() < 0.5
        for driver in victims:
            if everything:
                driver.kill_everything()
            else:
                driver.kill_driver()
        for driver in victims:
            driver.start()
        which = "" if len(self.drivers) == 1 else f" of {'all' if victims is self.drivers else 'one'}"
        return f"{'everything' if everything else 'driver'}{which}"

    def __str__(self) -> str:
        """What repeats the run."""
        return f"seed {SEED}: {self.schedule}"

    def _at_a_random_moment(self) -> str:
        """Return some batches later, and some fraction of a second; says when."""
        wanted, later = self.chance.randrange(3), self.chance.uniform(0.0, 0.5)
        begun = [batches(driver) for driver in self.drivers]

        def reached() -> bool:
            now = map(batches, self.drivers)
            return any(new >= old + wanted for old, new in zip(begun, now, strict=True))

        # Without any batch a driver dies while it starts, or replays.
        if wanted:
            self._wait(reached, f"{wanted} batches")
        pause(later if wanted else 20 * later)
        return f"after {wanted} batches and {later:.2f}s"

    def _wait(
        self, condition: Callable[[], bool], what: str, timeout: float = START, every: float = 0.01
    ) -> None:
        def holds() -> bool:
            for driver in self.drivers:
                driver.supervise()
            return condition()

        wait_until(holds, timeout, what, every)

    def _count(self, last: str) -> None:
        rows = self.rows()
        self.doubles[last] += len(rows) - len(set(rows)) - self.doubles.total()

    def _held(self) -> int:
        return sum(self.broker.standing_of_all(self.destinations))


class Case(NamedTuple):
    """Broker, mode, and whether an id survives redelivery. On RabbitMQ that takes idHeader."""

    name: str
    mode: str
    ids: bool

    def __str__(self) -> str:
        return f"{self.name}, {self.mode}" + (", idHeader" if self.name == "rabbitmq" and self.ids else "")

    @property
    def seed(self) -> str:
        return " ".join(map(str, self))

    def read(self, broker: Broker, folder: Path, **options: Any) -> dict[str, str]:
        """Options of a source."""
        header = {"idHeader": ID_HEADER} if self.name == "rabbitmq" and self.ids else {}
        return broker.options(
            maxMessagesPerTrigger=BATCH,
            subscribeHeaders=json.dumps(broker.crash_safe),
            **MODES[self.mode](folder),
            **header,
            **options,
        )


in_every_case = pytest.mark.parametrize(
    "case",
    [Case("rabbitmq", "plain", False)]
    + [
        Case(name, mode, True)
        for name in ("rabbitmq", "activemq", "artemis")
        for mode in ("plain", "journal")
    ],
    ids=str,
)
Tell = Callable[..., None]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Fails if anything was lost; shows the result. A run of the usual length puts it into the page too."""

    def judge(loop: Loop, audit: Audit, place: str, case: str, ids: bool = False) -> None:
        assert not audit.missing and not audit.unknown, f"{audit}; {loop}"
        by = ", ".join(f"{count} after {name}" for name, count in loop.doubles.items() if count)
        stuck = f", {loop.stuck} stuck until the broker was restarted" if loop.stuck else ""
        line = f"- {case}: {len(loop.schedule)} rounds, {audit}{f' ({by})' if by else ''}{stuck}."
        if ids:
            # What a sink that knows the ids would make of it.
            second_rows = loop.second_rows_by_id()
            line = f"{line[:-1]}, {second_rows} by `stable_id`."
            assert not second_rows, f"{line}; {loop}"
        show(f"{place}\n{line}", capsys)
        if USUAL["ROUNDS"] <= ROUNDS:
            put(place, f"{line}\n")

    return judge


@pytest.mark.parametrize(
    ("name", "mode"), [("activemq", "journal"), ("artemis", "ackAfter=journal"), ("rabbitmq", "plain")]
)
def test_no_id_is_missing_and_with_the_journal_none_comes_twice(
    broker_pool: BrokerPool, name: str, mode: str, tmp_path: Path, tell: Tell
) -> None:
    broker = broker_pool.get(name)
    queue = broker.new_queue()
    driver = SparkDriver(tmp_path, "files", queue, Case(name, mode, False).read(broker, tmp_path))
    loop = Loop(broker, [queue], [driver], random.Random(f"{SEED} {name}"))
    audit = loop.run(ROUNDS * [("SIGKILL", loop.kill)])
    if mode != "plain":
        assert not audit.duplicates, f"{audit}; {loop}"
    tell(loop, audit, f"SIGKILL loop, {name}", f"{name}, {mode}")


@in_every_case
def test_many_destinations_on_one_connection(
    case: Case, broker_pool: BrokerPool, tmp_path: Path, tell: Tell
) -> None:
    """The connection is cut, the broker dies, and the driver is killed."""
    broker = broker_pool.get(case.name)
    destinations = [broker.new_queue() for _ in range(QUEUES)] + [broker.new_topic() for _ in range(TOPICS)]
    many = {"connections": 1, "durableName": "loop", "clientId": f"loop-{secrets.token_hex(4)}"}
    # What is published to a topic before its first subscription is dropped.
    plain = case._replace(mode="plain")
    with Run(plain.read(broker, tmp_path, destination=json.dumps(destinations), **many)) as query:
        query.idle()
    with FaultProxy(broker.port) as proxy:
        options = case.read(broker, tmp_path, url=proxy.url, **many)
        driver = SparkDriver(tmp_path, "files", json.dumps(destinations), options)
        loop = Loop(broker, destinations, [driver], random.Random(f"{SEED} {case.seed}"))
        # Kills at last: without a journal they alone may give second rows.
        kinds = [("cut", proxy.cut), ("broker killed", broker.crash), ("SIGKILL", loop.kill)]
        audit = loop.run([kinds[3 * number // FEWER] for number in range(FEWER)])
    if case.mode != "plain" and case.ids:
        assert not audit.duplicates, f"{audit}; {loop}"
    tell(loop, audit, f"{QUEUES} queues and {TOPICS} topics, {case}", str(case), case.ids)


@pytest.mark.rule("J.2", "R.1", "R.2")
@pytest.mark.parametrize("mode", MODES)
def test_a_queue_and_a_stream_in_one_query(
    broker_pool: BrokerPool, mode: str, tmp_path: Path, tell: Tell
) -> None:
    """The connections are cut, the broker dies, and the driver is killed."""
    broker, case = broker_pool.get("rabbitmq"), Case("rabbitmq", mode, True)
    assert isinstance(broker, RabbitMQ)
    queue, stream = broker.new_queue(), new_stream(broker)
    with FaultProxy(broker.port) as proxy:
        starting = json.dumps({stream: -2})
        options = case.read(broker, tmp_path, url=proxy.url, startingOffsets=starting)
        driver = SparkDriver(tmp_path, "files", json.dumps([queue, stream]), options)
        loop = Loop(broker, [queue], [driver], random.Random(f"{SEED} mix {mode}"), streams=[stream])
        kinds = [("cut", proxy.cut), ("broker killed", broker.crash), ("SIGKILL", loop.kill)]
        audit = loop.run([kinds[3 * number // FEWER] for number in range(FEWER)])
    of_stream = [stable for _, stable in driver.records() if "@" in (stable or "")]
    assert len(of_stream) == len(set(of_stream)) > 0
    if mode != "plain":
        assert not audit.duplicates, f"{audit}; {loop}"
    tell(loop, audit, f"a queue and a stream, {mode}", str(case), True)


@in_every_case
@pytest.mark.parametrize("kind", ["union", "queries"])
def test_several_that_read_one_queue(
    kind: str, case: Case, broker_pool: BrokerPool, tmp_path: Path, tell: Tell
) -> None:
    """The sources of one query, or queries: one of them is killed, or all at once."""
    broker = broker_pool.get(case.name)
    queue = broker.new_queue()
    if kind == "union":
        options = case.read(broker, tmp_path / "{source}") | {"sources": str(SOURCES)}
        drivers, who = [SparkDriver(tmp_path, "files", queue, options)], f"{SOURCES} sources of one query"
    else:
        folders = [tmp_path / str(number) for number in range(QUERIES)]
        drivers = [SparkDriver(one, "files", queue, case.read(broker, one)) for one in folders]
        who = f"{QUERIES} queries"
    loop = Loop(broker, [queue], drivers, random.Random(f"{SEED} {case.seed} {kind}"))
    audit = loop.run(FEWER * [("SIGKILL", loop.kill)])
    tell(loop, audit, f"{who}, {case}", str(case), case.ids)
