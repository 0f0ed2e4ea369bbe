"""Queues with messages that their broker cannot deliver, and a receiver whose rows are counted (4.12)."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.receiver.turns import Ended, Turn, Turns

PREFETCH = 40_000
MOST_ROWS = 5
BAD = -1


class Died(Exception):
    """The broker cannot deliver a message, and ends the connection."""


@dataclass
class Connection:
    """What one connection has un-acked, by destination, in the order of delivery. ``waiting``: not given."""

    queues: dict[str, deque[int]]
    turn: Turn
    unacked: dict[str, deque[int]] = field(default_factory=dict)
    waiting: list[tuple[str, int]] = field(default_factory=list)
    confirmed: int = 0
    acks_sent: bool = False

    def deliver(self) -> None:
        """The broker fills the windows. It takes no message from behind one that it cannot deliver."""
        for name in self.turn.destinations:
            held, queue = self.unacked.setdefault(name, deque()), self.queues[name]
            while queue and len(held) < (self.turn.prefetch or PREFETCH):
                if queue[0] == BAD:
                    raise Died
                held.append(queue.popleft())
                self.waiting.append((name, held[-1]))

    def give(self) -> list[int]:
        """Spark is told of what waits."""
        given = [number for _, number in self.waiting]
        self.waiting.clear()
        return given

    @property
    def given(self) -> dict[str, int]:
        """How many messages of each destination Spark knows that are un-acked."""
        waiting = Counter(name for name, _ in self.waiting)
        counts = {name: len(held) - waiting[name] for name, held in self.unacked.items()}
        return {name: count for name, count in counts.items() if count}

    def acknowledge(self, name: str, count: int) -> None:
        """ACKs of the oldest messages; the last asks for the receipt. The broker obeys each at once."""
        self.acks_sent = True
        for _ in range(count):
            self.unacked[name].popleft()
            self.deliver()
        self.acks_sent = False
        self.confirmed += count

    def requeue(self) -> None:
        for name, held in self.unacked.items():
            self.queues[name].extendleft(reversed(held))


def run(
    queues: dict[str, deque[int]], random: Random, *, late: bool
) -> tuple[Turn | None, Counter[int], int]:
    """Read until all is ACKed, or a turn has failed; returns that turn, rows by message, and connections.

    No message has a stable id, and no ACK of a connection that dies is known to be confirmed. ``late``: the
    first ERROR comes long after messages were asked for, because what cannot be delivered was not there yet.
    """
    rows: Counter[int] = Counter()
    turns = Turns(tuple(queues))
    for connections in range(1, 400):
        turn, careful = turns.current, turns.current.is_careful
        connection = Connection(queues, turn)
        try:
            while True:
                connection.deliver()
                if not careful or connection.confirmed <= turn.suspects:
                    rows.update(connection.give())
                given = connection.given
                if not given:
                    break
                name = random.choice([*given])
                connection.acknowledge(name, random.randint(1, given[name]))
        except Died:
            held = sum(map(len, connection.unacked.values()))
            # Without a turn of its own, what came is told at once.
            aside = len(connection.waiting) if turn.prefetch is not None else 0
            rows.update([] if aside else connection.give())
            connection.requeue()
            end = turns.ended(
                Ended(held, held - aside, connection.confirmed, not late, acks_sent=connection.acks_sent)
            )
            late = False
            if end.has_failed:
                return end, rows, connections
        else:
            connection.requeue()
            if not careful:
                return None, rows, connections
            turns.next()
    raise AssertionError("it goes on for ever")


@pytest.mark.rule("4.12")
@given(
    shape=st.lists(
        st.tuples(st.integers(0, 3_000), st.booleans(), st.integers(0, 50)), min_size=1, max_size=7
    ),
    seed=st.integers(0, 2**32),
    late=st.booleans(),
)
def test_all_before_a_bad_message_is_acked_and_no_message_gives_many_rows(
    shape: list[tuple[int, bool, int]], seed: int, late: bool
) -> None:
    numbers = iter(range(10**6))
    queues: dict[str, deque[int]] = {}
    before: set[int] = set()
    for at, (count, is_bad, behind) in enumerate(shape):
        good = [next(numbers) for _ in range(count)]
        queues[f"q{at}"] = deque([*good, *([BAD] if is_bad else []), *(next(numbers) for _ in range(behind))])
        before.update(good)
    failed, rows, connections = run(queues, Random(seed), late=late)
    assert max(rows.values(), default=0) <= MOST_ROWS
    assert connections < 60
    if not any(is_bad for _, is_bad, _ in shape):
        assert failed is None and not any(queues.values())
        return
    assert failed is not None
    (name,) = failed.destinations
    assert queues[name][0] == BAD
    assert before & set(queues[name]) == set()
