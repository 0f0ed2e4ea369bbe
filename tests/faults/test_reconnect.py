"""Receivers of one query against the dev broker, with connections that break at random moments.

No Spark: this thread offers, reads and commits as Spark would, in no particular rhythm.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.certificates import Authority
from support.fronts import tls_front, websocket_front
from support.options import source_options
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.frameserver import RangeTicket
from spark_stomp.source.offsets import INITIAL, Offset, plan
from spark_stomp.source.planning import BatchLimits, choose_end
from spark_stomp.source.receivers import ReceiverGroup

QUEUE = "/queue/a"


class Driver:
    """Cuts, reads and commits batches of one query."""

    def __init__(self, group: ReceiverGroup) -> None:
        self.group = group
        self.end = INITIAL
        self.rows: list[bytes] = []
        self.uncommitted: list[Offset] = []

    def batch(self, most: int) -> None:
        """One batch of at most ``most`` messages, read to its end."""
        end = self._choose(most)
        for part in plan(self.end, end):
            for batch in self.group.backlog.read(RangeTicket(part.epoch, part.low, part.high)):
                begin = 0
                for stop in batch.ends:
                    frame = bytes(batch.data[begin:stop])
                    self.rows.append(frame.split(b"\n\n", 1)[1][:-1])
                    begin = stop
        if end != self.end:
            self.end = end
            self.uncommitted.append(end)

    def commit(self) -> None:
        """The oldest batch is committed."""
        if self.uncommitted:
            self.group.commit(self.uncommitted.pop(0))

    def _choose(self, most: int) -> Offset:
        while True:
            seen = self.group.backlog.available(self.end, self.group.statuses())
            end = choose_end(
                self.end,
                seen,
                BatchLimits(max_messages=most),
                self.group.backlog,
            )
            if self.group.backlog.offer(end, seen):
                return end


@contextmanager
def driver(url: str, **options: object) -> Iterator[Driver]:
    group = ReceiverGroup(source_options(url, QUEUE, **options))
    group.start()
    try:
        wait_until(lambda: all(status.subscribed for status in group.statuses()), what="the subscriptions")
        yield Driver(group)
    finally:
        group.stop(4)


def drain(running: Driver, broker: DevBroker, count: int) -> None:
    """Until every message is ACKed."""

    def done() -> bool:
        assert running.group.failure is None
        running.batch(1_000)
        running.commit()
        return broker.queue(QUEUE).acked == count

    wait_until(done, what="the ACKs of everything")


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_and_nothing_comes_twice(devbroker: DevBroker, seed: int) -> None:
    chance = random.Random(seed)
    bodies = [b"m%d" % number for number in range(2_000)]
    with driver(devbroker.url, receivers=2, prefetch=200) as running:
        for begin in range(0, len(bodies), 100):
            devbroker.publish_many(QUEUE, bodies[begin : begin + 100])
            for _ in range(chance.randrange(4)):
                running.batch(chance.randrange(1, 80))
                if chance.random() < 0.5:
                    running.commit()
            if chance.random() < 0.5:
                devbroker.drop_connections()
        drain(running, devbroker, len(bodies))
        counts = [status.counts for status in running.group.statuses()]
    assert sorted(running.rows) == sorted(bodies)
    assert devbroker.queue(QUEUE).depth == 0
    assert sum(count.redelivered for count in counts) >= sum(count.reattached for count in counts)


def test_without_stable_ids_nothing_is_lost(devbroker: DevBroker) -> None:
    chance = random.Random(0)
    bodies = [b"m%d" % number for number in range(500)]
    with driver(devbroker.url, broker="generic") as running:
        for begin in range(0, len(bodies), 100):
            devbroker.publish_many(QUEUE, bodies[begin : begin + 100])
            running.batch(chance.randrange(1, 80))
            if chance.random() < 0.5:
                devbroker.drop_connections()
        drain(running, devbroker, len(bodies))
    assert set(running.rows) == set(bodies)
    assert devbroker.queue(QUEUE).depth == 0


@pytest.mark.parametrize("scheme", ["stomp+ssl", "ws", "wss"])
def test_over_every_transport(
    devbroker: DevBroker, scheme: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    authority = Authority(tmp_path_factory.mktemp("tls"), "good")
    context = authority.issue().server_context()
    fronts = {
        "stomp+ssl": lambda: tls_front(devbroker.port, context),
        "ws": lambda: websocket_front(devbroker.port),
        "wss": lambda: websocket_front(devbroker.port, context),
    }
    secret = {} if scheme == "ws" else {"tlsCaFile": authority.ca_file}
    bodies = [b"m%d" % number for number in range(1_000)]
    with fronts[scheme]() as port, driver(f"{scheme}://127.0.0.1:{port}", **secret) as running:
        devbroker.publish_many(QUEUE, bodies)
        wait_until(lambda: running.group.statuses()[0].received == len(bodies), what="the messages")
        running.batch(700)
        devbroker.drop_connections()
        wait_until(lambda: running.group.statuses()[0].counts.reattached == 700, what="the redelivery")
        drain(running, devbroker, len(bodies))
    assert running.rows == bodies
