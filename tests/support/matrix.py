"""The fault matrix: which fault strikes at which moment in which mode, and what it comes to.

A cell publishes numbered messages through the fault proxy's broker, starts a query on the small engine, waits
for the moment in the query's second batch, strikes, publishes more, starts the query again as often as the
fault ended it, and goes on until everything is in the sink and the queue is empty. Then it counts.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.journal.local.journal import LocalJournal
from spark_stomp.journal.local.segment import Segment
from spark_stomp.spark.stream_reader import StompStreamReader
from support.brokers import Broker, DevelopmentBroker
from support.driven import send_rows
from support.engine import CommitLog, Engine, Query, Sink
from support.points import Point, Points
from support.proxy import FaultProxy, Way
from support.waiting import wait_until

BATCH = 20
# The un-acked window of the cells: the batch that is processed, and the one that arrives.
WINDOW = 2 * BATCH
_BEFORE, _AFTER = 3 * BATCH, BATCH + 10
ACKED = _BEFORE
"""What a broker can deliver again that forgets ACKs when it is killed: all that was published until then."""
_STARTS_AT_MOST = 5

MODES: dict[str, Callable[[Path], dict[str, str]]] = {
    "plain": lambda folder: {},
    "journal": lambda folder: {"journal": str(folder / "journal")},
    "ackAfter=journal": lambda folder: {"journal": str(folder / "journal"), "ackAfter": "journal"},
}
"""Mode -> its options, given the query's own folder."""

POISON = {"onMalformed": "column", "maxHeaderLineBytes": "1k"}
"""Options by which messages with :data:`_LONG_HEADER` are malformed, and rows."""
_LONG_HEADER = ("x-long", "y" * 2_000)
# One in every batch.
_POISONED = BATCH // 3

_JOURNAL_MOMENTS = {
    "during the journal write": Point.after(Segment.append, 2, "hold"),
    "after the journal write, before the offer": Point.after(LocalJournal.append, 2, "hold"),
}
MOMENTS: dict[str, Point | None] = {
    "before the fetch": Point.before(StompStreamReader.read, 2, "hold"),
    "in the task": Point.after(FrameBatch.join, 2, "hold"),
    "after the sink wrote, before the commit log": Point.after(Sink.write, 2, "hold"),
    "after the commit log, before the ACK": Point.after(CommitLog.append, 2, "hold"),
    "between ACK and receipt": None,
    **_JOURNAL_MOMENTS,
}
"""Moment -> the point where the query is held then; without one the proxy holds the broker's answers."""


@dataclass(frozen=True)
class Cell:
    """One fault at one moment in one mode."""

    fault: str
    moment: str
    mode: str

    def __str__(self) -> str:
        return f"{self.fault}, {self.moment}, {self.mode}"


@dataclass(frozen=True)
class Outcome:
    """What a cell came to: messages that the sink lacks, rows beyond each one's first, and starts."""

    lost: int
    duplicates: int
    starts: int

    def __str__(self) -> str:
        return f"{self.lost} / {self.duplicates}"


class Scene:
    """What a fault can reach: the broker, the proxy before it, and the query."""

    def __init__(self, broker: Broker, proxy: FaultProxy, query: Query) -> None:
        self.broker, self.proxy, self.query = broker, proxy, query

    def lose_broker(self) -> None:
        """The broker dies and comes back. One that keeps nothing drops its connections and stays away."""
        if isinstance(self.broker, DevelopmentBroker):
            self.proxy.refuse()
            self.broker.drop_connections()
        else:
            self.broker.crash()


@dataclass(frozen=True)
class Fault:
    """``strike`` happens while the moment lasts, ``after`` once the query goes on and more was published."""

    strike: Callable[[Scene], None]
    after: Callable[[Scene], None] = lambda scene: None


def _killed(role: str) -> Fault:
    return Fault(lambda scene: scene.query.kill(role))


FAULTS = {
    "task worker killed": _killed("worker"),
    "reader killed": _killed("reader"),
    "driver killed": _killed("driver"),
    "everything killed": _killed("everything"),
    "connection cut": Fault(lambda scene: scene.proxy.cut()),
    # Ten bytes into whatever passes next: an ACK, a receipt, a message.
    "cut inside a frame": Fault(
        lambda scene: scene.proxy.cut_after(10, *Way), lambda scene: scene.proxy.wait_tripped()
    ),
    "broker lost": Fault(Scene.lose_broker, lambda scene: scene.proxy.heal()),
}


def cells() -> list[Cell]:
    """The whole matrix."""
    return [Cell(*names) for names in itertools.product(FAULTS, MOMENTS, MODES) if _applies(*names[1:])]


def sample() -> list[Cell]:
    """A part in which every two of fault, moment and mode meet at least once."""
    chosen: list[Cell] = []
    open_pairs = {pair for cell in cells() for pair in _pairs(cell)}
    while open_pairs:
        best = max(cells(), key=lambda cell: len(_pairs(cell) & open_pairs))
        open_pairs -= _pairs(best)
        chosen.append(best)
    return chosen


def run_cell(
    cell: Cell, broker: Broker, engine: Engine, folder: Path, *, poison: bool = False, **further: str
) -> Outcome:
    """Run one cell, with these ``further`` options; AssertionError where it does not come to its end.

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
        with _running(query):
            _await_moment(points, proxy, broker, queue)
            FAULTS[cell.fault].strike(scene)
            proxy.release()
            if point:
                points.release()
            _publish(broker, queue, _BEFORE, _AFTER, poison)
            FAULTS[cell.fault].after(scene)
            _finish(query, broker, queue)
        assert broker.depth(queue) == 0
    return _audit(query)


def _await_moment(points: Points, proxy: FaultProxy, broker: Broker, queue: str) -> None:
    """Wait for the moment at which the fault strikes."""
    if points.points:
        points.wait_reached()
    else:
        proxy.wait_tripped()
        wait_until(lambda: broker.depth(queue) < _BEFORE, what="the ACKs at the broker")


@contextmanager
def _running(query: Query) -> Iterator[None]:
    query.start()
    try:
        yield
    finally:
        if query.running:
            query.kill("everything")


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


def _audit(query: Query) -> Outcome:
    counts = Counter(query.rows())
    expected = set(_bodies(0, _BEFORE + _AFTER))
    lost = len(expected - counts.keys())
    return Outcome(lost, counts.total() - len(counts), query.starts)


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


def _applies(moment: str, mode: str) -> bool:
    return mode != "plain" or moment not in _JOURNAL_MOMENTS


def _pairs(cell: Cell) -> set[tuple[str, str]]:
    return set(itertools.combinations((cell.fault, cell.moment, cell.mode), 2))


# --- the table


def table(outcomes: Mapping[Cell, Outcome]) -> str:
    """The matrix as a Markdown table: lost / duplicates; a dash where a moment does not exist in a mode."""
    head = ["fault", "moment", *MODES]
    lines = [_line(head), _line(["---"] * len(head))]
    for fault, moment in itertools.product(FAULTS, MOMENTS):
        results = [outcomes.get(Cell(fault, moment, mode)) for mode in MODES]
        lines.append(_line([fault, moment, *(str(result or "-") for result in results)]))
    return "\n".join(lines) + "\n"


def _line(entries: Sequence[str]) -> str:
    return "| " + " | ".join(entries) + " |"
