"""docs/exactly-once.md: its programs as they stand there, while their drivers are killed."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.table import TableMerger
from support.drivers import START, SparkDriver
from support.points import Point, Points
from support.soak import ROUNDS, SEED
from support.waiting import pause, wait_until

from spark_stomp.devbroker import DevBroker

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.timeout(600)]

QUEUE = "/queue/orders"
FILES, DELTA, MERGE = "recipe toTable", "recipe Delta with deltalake", "recipe MERGE by stable_id"
# The second commit of the table, so that a batch with messages is in it.
KILLS = {
    DELTA: Point.after(write_deltalake, 2, "kill-session"),
    MERGE: Point.after(TableMerger.execute, 1, "kill-session"),
}
KILLS_AT_RANDOM = max(1, ROUNDS // 2)
# What is written for longer than it takes to see the file and to kill: 20 MB.
LARGE, LETTERS = 20_000, 1_000
ATTEMPTS = 5


class Trial:
    """A recipe's query and its queue."""

    def __init__(self, broker: DevBroker, folder: Path, mode: str, at_most: int, *points: Point) -> None:
        self._broker = broker
        self._sent: list[str] = []
        options = {"url": broker.url, "maxMessagesPerTrigger": str(at_most)}
        armed = Points(folder / "points", *points) if points else None
        self.driver = SparkDriver(folder, mode, QUEUE, options, armed)

    def send(self, count: int, letters: int = 0) -> None:
        """Publish orders that nothing can compress."""
        first = len(self._sent)
        new = [f"{number} {os.urandom(letters // 2).hex()}" for number in range(first, first + count)]
        self._broker.publish_many(QUEUE, [body.encode() for body in new])
        self._sent += new

    def finish(self) -> None:
        """Wait until every message is acknowledged; then each is in the table once."""

        def acked() -> bool:
            assert self.driver.running, self.driver.log
            return self._broker.queue(QUEUE).depth == 0

        wait_until(acked, START, "the ACK of every message")
        assert Counter(self.driver.rows()) == Counter(self._sent)

    def kill_in(self, moment: Callable[[], Callable[[], object]], struck: Callable[[], object]) -> None:
        """SIGKILL at a moment that may be missed, until ``struck``: then it was not.

        ``moment`` is called before the messages are sent, and gives what is true once the moment is there.
        """
        for _ in range(ATTEMPTS):
            is_there = moment()
            self.send(LARGE, LETTERS)
            wait_until(is_there, START, "the moment", every=0.0005)
            os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.kill_everything()
            found = struck()
            self.driver.start()
            if found:
                return
            self.finish()
        pytest.fail(f"missed the moment {ATTEMPTS} times")


def names(folder: Path, pattern: str) -> set[str]:
    return {path.name for path in folder.glob(pattern)}


def of_the_table(output: Path) -> set[str]:
    """The files that the table has."""
    if (output / "_delta_log").exists():
        return {Path(uri).name for uri in DeltaTable(output).file_uris()}
    logs = "".join(log.read_text() for log in (output / "_spark_metadata").glob("[0-9]*"))
    return {name for name in names(output, "part-*") if name in logs}


@pytest.mark.parametrize("mode", KILLS)
def test_killed_when_delta_has_the_batch_and_spark_does_not_know_it(
    devbroker: DevBroker, tmp_path: Path, mode: str
) -> None:
    trial = Trial(devbroker, tmp_path, mode, 100, KILLS[mode])
    trial.send(300)
    with trial.driver as driver:
        wait_until(lambda: not driver.running, START, "the kill")
        assert driver.uncommitted
        in_delta = len(driver.rows())
        assert in_delta > devbroker.queue(QUEUE).acked
        driver.start()
        trial.finish()
    assert in_delta < 300
    assert devbroker.queue(QUEUE).redelivered


@pytest.mark.parametrize("mode", [FILES, DELTA, MERGE])
def test_killed_while_a_batch_is_written(devbroker: DevBroker, tmp_path: Path, mode: str) -> None:
    trial = Trial(devbroker, tmp_path, mode, LARGE)
    trial.send(10)
    with trial.driver as driver:
        wait_until(lambda: driver.rows(), START, "the first rows")

        def a_file_appears() -> Callable[[], object]:
            before = names(driver.output, "part-*")
            return lambda: names(driver.output, "part-*") - before

        trial.kill_in(a_file_appears, lambda: names(driver.output, "part-*") - of_the_table(driver.output))
        trial.finish()


def test_killed_when_the_file_sink_has_the_batch_and_spark_does_not_know_it(
    devbroker: DevBroker, tmp_path: Path
) -> None:
    trial = Trial(devbroker, tmp_path, FILES, LARGE)
    trial.send(10)
    with trial.driver as driver:
        wait_until(lambda: driver.rows(), START, "the first rows")
        log = driver.output / "_spark_metadata"

        def the_log_grows() -> Callable[[], object]:
            before = names(log, "[0-9]*")
            return lambda: names(log, "[0-9]*") - before

        trial.kill_in(
            the_log_grows, lambda: names(log, "[0-9]*") - names(driver.folder / "checkpoint" / "commits", "*")
        )
        trial.finish()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", [FILES, DELTA, MERGE])
def test_killed_at_random_moments(devbroker: DevBroker, tmp_path: Path, mode: str) -> None:
    chance = random.Random(f"{SEED} {mode}")
    trial = Trial(devbroker, tmp_path, mode, 500)
    with trial.driver as driver:
        for _ in range(KILLS_AT_RANDOM):
            trial.send(2_000)
            rows = len(driver.rows())
            # Some kills are in the middle of a start.
            if chance.random() < 0.8:
                wait_until(lambda rows=rows: len(driver.rows()) > rows, START, "new rows", every=0.1)
            pause(chance.uniform(0.0, 1.0))
            driver.kill_everything()
            driver.start()
        trial.finish()
