"""A query that starts again under other circumstances: served, or refused by name; never silently empty."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.engine import Engine, Query, Sink
from support.brokers import Broker
from support.brokers.fixtures import BrokerPool
from support.driven import MODES, publish
from support.points import Point, Points
from support.waiting import wait_until

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.spark.readers import StompStreamReader

# The two modes with a journal differ little here: the quick tests take one of them.
_MODES = [pytest.param(mode, marks=[pytest.mark.soak] * (mode == "journal")) for mode in MODES]
in_every_mode = pytest.mark.parametrize("mode", _MODES)
with_a_journal = pytest.mark.parametrize("mode", _MODES[1:])

KILLED = Point.after(Sink.write, 2, "kill-session")
HELD = Point.after(Sink.write, 2, "hold")
COUNT = 60


@pytest.fixture
def broker(broker_pool: BrokerPool) -> Broker:
    return broker_pool.get("devbroker")


@pytest.fixture
def queue(broker: Broker) -> str:
    return broker.new_queue()


def bodies(first: int = 0, count: int = COUNT) -> list[str]:
    return [f"message {number}" for number in range(first, first + count)]


def send(broker: Broker, queue: str, texts: list[str]) -> None:
    publish(broker.options(), queue, [text.encode() for text in texts])


@pytest.fixture
def query_of(engine: Engine, broker: Broker, tmp_path: Path) -> Iterator[Any]:
    """Makes queries, in a folder each, and ends them with the test."""
    made: list[Query] = []

    def make(mode: str, queue: str, *points: Point, folder: str = "query", **options: Any) -> Query:
        place = tmp_path / folder
        given = {**MODES[mode](place), "frameServerHost": "127.0.0.1", "destination": queue, **options}
        given = broker.options(maxMessagesPerTrigger=20, **given)
        made.append(Query(engine, place, given, Points(place / "points", *points)))
        return made[-1]

    yield make
    for query in made:
        if query.running:
            query.kill("everything")


def killed(query: Query) -> Query:
    """Started, and killed at its own point."""
    query.start()
    wait_until(lambda: not query.running, what="the kill")
    return query


def finish(query: Query, broker: Broker, queue: str, expected: list[str]) -> None:
    """Until the query has all these and the queue is empty; then its orderly end."""

    def done() -> bool:
        assert query.running, f"{query.failure}\n{query.log}"
        return set(expected) <= set(query.rows()) and broker.depth(queue) == 0

    wait_until(done, what="all rows and all ACKs")
    query.stop()
    assert sorted(set(query.rows())) == sorted(expected)


@pytest.mark.rule("3.1", "J.2")
@pytest.mark.parametrize("mode", MODES)
def test_the_replay_trap(mode: str, query_of: Any, broker: Broker, queue: str) -> None:
    """The sink has the batch, the commit log lacks it: whatever the replay gives is skipped."""
    send(broker, queue, bodies())
    query = killed(query_of(mode, queue, KILLED))
    send(broker, queue, bodies(COUNT, 20))
    query.start()
    finish(query, broker, queue, bodies(0, COUNT + 20))
    first, replay = query.attempts(1)
    assert len(first) == 20
    assert replay == ([] if mode == "plain" else first)
    # Without a journal the batch is redelivered, and the one before if its ACKs were not sent yet.
    assert len(query.rows()) - len(set(query.rows())) in ([20, 40] if mode == "plain" else [0])


@in_every_mode
def test_a_reader_that_dies_between_two_halves_of_a_batch(
    mode: str, query_of: Any, broker: Broker, queue: str
) -> None:
    """The batch commits after the restart, without the frames; their messages are new then."""
    halves = [queue, broker.new_queue()]
    for number, half in enumerate(halves):
        send(broker, half, bodies(number * COUNT))
    # Without a journal each half is a task; with one the batch is one, and dies in the middle of it.
    in_a_task = Point.after(FrameBatch.join, 2, "hold")
    point = Point.before(StompStreamReader.read, 4, "hold") if mode == "plain" else in_a_task
    query = query_of(mode, f'["{halves[0]}", "{halves[1]}"]', point)
    query.start()
    query.points.wait_reached()
    query.kill("reader")
    query.points.release()
    assert query.wait_failed()
    before = query.rows()
    query.start()
    wait_until(lambda: broker.depth(halves[1]) == 0, what="all ACKs of the second half")
    finish(query, broker, halves[0], bodies(0, 2 * COUNT))
    # What was committed comes again if its ACKs were still on their way, but once.
    since = query.rows()[len(before) :]
    assert len(since) == len(set(since))
    assert mode == "plain" or not set(since) & set(before)


def copied(query: Query, copy: Query) -> None:
    """Give ``copy`` the checkpoint that ``query`` has now."""
    shutil.copytree(query.folder / "checkpoint", copy.folder / "checkpoint", dirs_exist_ok=True)


# The lock is waited for until a killed driver's reader would have released it.
@pytest.mark.soak
@with_a_journal
def test_a_copied_checkpoint_with_a_journal_that_is_in_use(
    mode: str, query_of: Any, broker: Broker, queue: str
) -> None:
    send(broker, queue, bodies())
    query = query_of(mode, queue, HELD)
    query.start()
    query.points.wait_reached()
    copy = query_of(mode, queue, folder="copy", journal=query.options["journal"])
    copied(query, copy)
    copy.start()
    assert "[STOMP_JOURNAL_IN_USE]" in copy.wait_failed()
    query.points.release()
    finish(query, broker, queue, bodies())
    assert len(query.rows()) == COUNT


@in_every_mode
def test_a_copied_checkpoint_loses_nothing_that_is_not_in_its_sink(
    mode: str, query_of: Any, broker: Broker, queue: str
) -> None:
    """The original ends in the middle of a batch; its copy goes on, with the sink as it was copied."""
    send(broker, queue, bodies())
    query = killed(query_of(mode, queue, KILLED))
    further = {} if mode == "plain" else {"journal": query.options["journal"]}
    copy = query_of(mode, queue, folder="copy", **further)
    copied(query, copy)
    shutil.copytree(query.folder / "output", copy.folder / "output", dirs_exist_ok=True)
    copy.start()
    finish(copy, broker, queue, bodies())
