"""One query reads queues and streams of RabbitMQ together."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import pytest
from support.brokers import RabbitMQ
from support.driven import MODES, Row, Run, publish
from support.streams import new_stream
from support.waiting import wait_until

from spark_stomp.errors import UnsupportedError
from spark_stomp.source.planning import Mode

pytestmark = pytest.mark.broker

COLUMNS = ("body", "stream_offset", "stable_id")
in_every_mode = pytest.mark.parametrize("mode", MODES)


class Both:
    """A queue and a stream, and runs of a query that reads both."""

    def __init__(self, broker: RabbitMQ, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self.queue, self.stream = broker.new_queue(), new_stream(broker)

    def fill(self, destination: str, first: int, end: int) -> None:
        """Publish the messages ``first`` to ``end - 1``."""
        for number in range(first, end):
            sent = publish(self._broker.options(), destination, [b"%d" % number], ("own-id", f"{number}"))
            assert sent == 1

    def run(self, mode: str = "plain", **options: Any) -> Run:
        given = {
            "destination": json.dumps([self.queue, self.stream]),
            "startingOffsets": json.dumps({self.stream: -2}),
            "idHeader": "own-id",
            "idleTimeout": "500ms",
            **MODES[mode](self._folder),
            **options,
        }
        given = {key: value for key, value in given.items() if value is not None}
        return Run(self._broker.options(**given), COLUMNS)

    def of(self, destination: str, rows: list[Row]) -> list[int]:
        is_stream = destination == self.stream
        return [int(row["body"]) for row in rows if is_stream == (row["stream_offset"] is not None)]


@pytest.fixture
def both(rabbitmq: RabbitMQ, tmp_path: Path) -> Both:
    return Both(rabbitmq, tmp_path)


@pytest.mark.rule("1.1", "R.1")
@in_every_mode
def test_both_are_read_and_only_the_queue_is_emptied(rabbitmq: RabbitMQ, both: Both, mode: str) -> None:
    both.fill(both.queue, 0, 5)
    both.fill(both.stream, 100, 105)
    with both.run(mode) as query:
        rows = query.gather(10)
        if mode != "ackAfter=journal":
            assert rabbitmq.standing(both.queue).unacked == 5
        query.commit()
        rabbitmq.wait_for(both.queue, ready=0, unacked=0)
        log = "memory" if mode == "plain" else "journal"
        name = f"stream:{both.stream.removeprefix('/amq/queue/')}"
        assert {one: end["next"] for one, end in query.start["logs"].items()} == {log: 5, name: 5}
    assert both.of(both.queue, rows) == [*range(5)]
    assert both.of(both.stream, rows) == [*range(100, 105)]
    ids = {row["body"]: (row["stream_offset"], row["stable_id"]) for row in rows}
    assert ids[b"3"] == (None, "3")
    assert ids[b"103"] == (3, f"{name.removeprefix('stream:')}@3")


@pytest.mark.rule("3.1", "J.2", "R.2")
@in_every_mode
def test_a_planned_batch_after_a_restart(both: Both, mode: str) -> None:
    """What is in a journal or a stream comes again; of a queue in memory it comes in the next batch."""
    both.fill(both.queue, 0, 4)
    both.fill(both.stream, 100, 104)
    with both.run(mode, maxMessagesPerTrigger=8) as query:
        before = query.gather(8)
        start, end = query.start, query.end
    with both.run(mode) as query:
        query.start, query.end = start, end
        again = query.read()
        assert both.of(both.stream, again) == both.of(both.stream, before)
        assert both.of(both.queue, again) == ([] if mode == "plain" else [*range(4)])
        query.commit()
        both.fill(both.stream, 104, 105)
        both.fill(both.queue, 4, 5)
        rows = query.take(6 if mode == "plain" else 2)
        query.commit()
    assert both.of(both.stream, rows) == [104]
    assert sorted(both.of(both.queue, rows)) == ([*range(5)] if mode == "plain" else [4])


@contextmanager
def going_on(fill: Callable[[int], None], first: int) -> Iterator[None]:
    """Call ``fill`` with one number after the other, from ``first`` on, while the block runs."""
    over = threading.Event()

    def go_on() -> None:
        for number in takewhile(lambda _: not over.is_set(), count(first)):
            fill(number)

    producer = threading.Thread(target=go_on)
    producer.start()
    try:
        yield
    finally:
        over.set()
        producer.join()


@pytest.mark.rule("5.5", "R.5")
@in_every_mode
def test_available_now_ends_although_the_stream_goes_on(both: Both, mode: str) -> None:
    """Silence ends what it reads of queues, and no message of the stream breaks it."""
    both.fill(both.queue, 0, 20)
    both.fill(both.stream, 100, 120)
    rows: list[Row] = []
    producer = going_on(lambda number: both.fill(both.stream, number, number + 1), 120)
    with producer, both.run(mode, maxMessagesPerTrigger=15, maxDrainTime="60s") as query:
        query.reader._mode = Mode.DRAIN
        while (end := query.reader.latestOffset(query.start, None)) != query.start:
            query.end = end
            rows += query.read()
            query.commit()
    assert sorted(both.of(both.queue, rows)) == [*range(20)]
    found = both.of(both.stream, rows)
    assert found == [*range(100, 100 + len(found))] and len(found) >= 20


@pytest.mark.rule("7.9")
def test_a_stream_without_a_position_is_no_queue(rabbitmq: RabbitMQ, both: Both) -> None:
    other = new_stream(rabbitmq)
    error = pytest.raises(UnsupportedError, match=f"{other} is a stream")
    with both.run(destination=json.dumps([both.queue, both.stream, other])) as query, error:
        wait_until(lambda: query.reader.latestOffset(query.start, None) is None, what="the error")


@pytest.mark.rule("R.4")
def test_a_queue_beside_a_stream_that_a_query_has_read_before(both: Both) -> None:
    both.fill(both.stream, 0, 3)
    both.fill(both.queue, 10, 12)
    with both.run(destination=both.stream, idHeader=None) as query:
        query.take(3)
        query.commit()
        known = query.start
    both.fill(both.stream, 3, 5)
    with both.run() as query:
        query.start = query.end = known
        rows = query.take(4)
        query.commit()
    assert (both.of(both.stream, rows), both.of(both.queue, rows)) == ([3, 4], [10, 11])
