"""A cell of the fault matrix: a fault strikes at a moment in a mode.

A cell publishes numbered messages through the fault proxy's broker, starts a query on the small engine, waits
for the moment in the query's second batch, strikes, publishes more, starts the query again as often as the
fault ended it, and goes on until everything is in the sink and the queue is empty. Then it counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from faults.engine import CommitLog, Engine, Query, Sink
from support.brokers import Broker, DevelopmentBroker
from support.driven import MODES, send_rows
from support.points import Point, Points
from support.proxy import FaultProxy, Way
from support.waiting import wait_until

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.journal.journal import Journal
from spark_stomp.journal.objects import FrameObjects
from spark_stomp.spark.readers import StompStreamReader

BATCH = 20
# The un-acked window of the cells: the batch that is processed, and the one that arrives.
WINDOW = 2 * BATCH
_BEFORE, _AFTER = 3 * BATCH, BATCH + 10
ACKED = _BEFORE
"""What a broker can deliver again that forgets ACKs when it is killed: all that was published until then."""
_STARTS_AT_MOST = 5

POISON = {"onMalformed": "column", "maxHeaderLineBytes": "1k"}
"""Options by which messages with :data:`_LONG_HEADER` are malformed, and rows."""
_LONG_HEADER = ("x-long", "y" * 2_000)
# One in every batch.
_POISONED = BATCH // 3

JOURNAL_MOMENTS = {
    "during the journal write": Point.after(FrameObjects.put, 2, "hold"),
    "after the journal write, before the offer": Point.after(Journal.append, 2, "hold"),
}
MOMENTS: dict[str, Point | None] = {
    "before the fetch": Point.before(StompStreamReader.read, 2, "hold"),
    "in the task": Point.after(FrameBatch.join, 2, "hold"),
    "after the sink wrote, before the commit log": Point.after(Sink.write, 2, "hold"),
    "after the commit log, before the ACK": Point.after(CommitLog.append, 2, "hold"),
    "between ACK and receipt": None,
    **JOURNAL_MOMENTS,
}
"""Moment -> the point where the query is held then; without one the proxy holds the broker's answers."""


class Cell(NamedTuple):
    """One fault at one moment in one mode."""

    fault: str
    moment: str
    mode: str

    def __str__(self) -> str:
        return ", ".join(self)


class Outcome(NamedTuple):
    """What a cell came to: messages that the sink lacks, rows beyond each one's first, and starts."""

    lost: int
    duplicates: int
    starts: int


@dataclass(frozen=True)
class Scene:
    """What a fault can reach: the broker, the proxy before it, and the query."""

    broker: Broker
    proxy: FaultProxy
    query: Query

    def lose_broker(self) -> None:
        """The broker dies and comes back. One that keeps nothing drops its connections and stays away."""
        if isinstance(self.broker, DevelopmentBroker):
            self.proxy.refuse()
            self.broker.drop_connections()
        else:
            self.broker.crash()

    def cut_inside_a_frame(self) -> None:
        """Ten bytes into whatever passes next: an ACK, a receipt, a message."""
        self.proxy.cut_after(10, *Way)


FAULTS: dict[str, Callable[[Scene], None]] = {
    "task worker killed": lambda scene: scene.query.kill("worker"),
    "reader killed": lambda scene: scene.query.kill("reader"),
    "driver killed": lambda scene: scene.query.kill("driver"),
    "everything killed": lambda scene: scene.query.kill("everything"),
    "connection cut": lambda scene: scene.proxy.cut(),
    "cut inside a frame": Scene.cut_inside_a_frame,
    "broker lost": Scene.lose_broker,
}
"""Fault -> what strikes while the moment lasts."""
AFTERWARDS: dict[str, Callable[[Scene], None]] = {
    "cut inside a frame": lambda scene: scene.proxy.wait_tripped(),
    "broker lost": lambda scene: scene.proxy.heal(),
}
"""What is done once the query goes on and more was published."""


def run_cell(
    cell: Cell, broker: Broker, engine: Engine, folder: Path, *, poison: bool = False, **further: str
) -> Outcome:
    """Run one cell, with these ``further`` options; AssertionError if it does not come to its end.

    Every message has an id of its producer's in the header ``x-id``. ``poison``: one message in each batch is
    malformed, and has to be a row like any other.
    """
    further |= POISON if poison else {}
    queue = broker.new_queue()
    point = MOMENTS[cell.moment]
    points = Points(folder / "points", *([point] if point else []))
    with FaultProxy(broker.port) as proxy:
        options = broker.options(
            destination=queue,
            url=proxy.url,
            frameServerHost="127.0.0.1",
            maxMessagesPerTrigger=BATCH,
            subscribeHeaders=json.dumps(broker.crash_safe),
            **{**MODES[cell.mode](folder), **further},
        )
        query = Query(engine, folder, options, points)
        scene = Scene(broker, proxy, query)
        _publish(broker, queue, 0, _BEFORE, poison)
        if not point:
            proxy.hold_answers_to(b"ACK\n")
        query.start()
        try:
            if point:
                points.wait_reached()
            else:
                proxy.wait_tripped()
                wait_until(lambda: broker.depth(queue) < _BEFORE, what="the ACKs at the broker")
            FAULTS[cell.fault](scene)
            proxy.release()
            if point:
                points.release()
            _publish(broker, queue, _BEFORE, _AFTER, poison)
            if cell.fault in AFTERWARDS:
                AFTERWARDS[cell.fault](scene)
            _finish(query, broker, queue)
        finally:
            if query.running:
                query.kill("everything")
        assert broker.depth(queue) == 0
    counts = Counter(query.rows())
    lost = len(set(_bodies(0, _BEFORE + _AFTER)) - counts.keys())
    return Outcome(lost, counts.total() - len(counts), query.starts)


def _finish(query: Query, broker: Broker, queue: str) -> None:
    """Go on, with as many starts as it takes, until all is read and ACKed."""
    expected = set(_bodies(0, _BEFORE + _AFTER))

    def done() -> bool:
        if not query.running:
            assert query.starts < _STARTS_AT_MOST, f"it fails again and again: {query.failure}\n{query.log}"
            query.start()
        return expected <= set(query.rows()) and broker.depth(queue) == 0

    try:
        wait_until(done, what="the end of the cell")
    except AssertionError as error:
        missing = sorted(expected - set(query.rows()))
        said = f"missing: {missing}; in the queue: {broker.standing(queue)}; {query.failure}\n{query.log}"
        raise AssertionError(f"{error}; {said}") from None
    query.stop()


def _publish(broker: Broker, queue: str, first: int, count: int, poison: bool) -> None:
    rows = []
    for number, body in enumerate(_bodies(first, count), start=first):
        headers = [("x-id", body)]
        if poison and number % BATCH == _POISONED:
            headers.append(_LONG_HEADER)
        rows.append((body.encode(), headers))
    send_rows(broker.options(sendHeaders=json.dumps(broker.crash_safe)), queue, rows)


def _bodies(first: int, count: int) -> list[str]:
    return [f"message {number}" for number in range(first, first + count)]
