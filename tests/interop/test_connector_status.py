"""The status file and the broker's own management say the same, after a reconnect and in an outage too."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from support.brokers import Broker
from support.brokers.fixtures import on_real_brokers
from support.driven import Run, publish
from support.proxy import FaultProxy
from support.waiting import PATIENCE, wait_until

from spark_stomp.brokers import dialect_named
from spark_stomp.status import read_status
from spark_stomp.status.files import StatusFile

pytestmark = on_real_brokers

BODIES = [b"message %d" % number for number in range(100)]

Figures = dict[str, Any]


class Watched:
    """A status file of one receiver, beside the broker's management."""

    def __init__(self, path: Path, broker: Broker, queue: str) -> None:
        self.path, self.queue, self._broker = path, queue, broker

    @property
    def figures(self) -> Figures:
        (figures,) = read_status(self.path)["receivers"].values()
        return dict(figures)

    def wait(self, **wanted: object) -> Figures:
        """The figures, once they are these."""
        figures: Figures = {}

        def shows() -> bool:
            figures.update(self.figures if self.path.exists() else {})
            return wanted.items() <= figures.items()

        wait_until(shows, what=str(wanted))
        return figures

    def wait_agreed(self, depth: int, **wanted: object) -> Figures:
        """The figures, once they are these and the broker says the same.

        ``depth`` messages are in the queue, the un-acked ones among them.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            figures, standing = self.wait(**wanted), self._broker.standing(self.queue)
            if sum(standing) == depth and standing.unacked == figures["unacked"] == self.figures["unacked"]:
                return figures
            assert time.monotonic() < deadline, (
                f"{depth} wanted; the broker says {standing}, the file {figures}"
            )


@pytest.fixture
def queue(broker: Broker) -> str:
    name = broker.new_queue()
    publish(broker.options(), name, BODIES)
    return name


def came_again(figures: Figures) -> int:
    return int(figures["reattached"] + figures["dropped"] + figures["doubled"])


@pytest.fixture
def watched(broker: Broker, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(StatusFile, "look_every", 0.1)
    return Watched(tmp_path / "status.json", broker, queue)


def test_the_status_agrees_with_the_broker(broker: Broker, queue: str, watched: Watched) -> None:
    doubles = dialect_named(broker.dialect).id_header is None
    with FaultProxy(broker.port) as proxy:
        options = broker.options(
            url=proxy.url, destination=queue, prefetch=40, maxMessagesPerTrigger=30, statusFile=watched.path
        )
        with Run(options, reconnectTimeout="2m") as query:
            # A full window.
            rows = len(query.batch())
            full = watched.wait_agreed(depth=100, connected=True)
            assert full["unacked"] == full["delivered"] == full["received"]
            # Of messages that came this moment it is 0, as time is counted in milliseconds.
            assert 0.0 <= full["oldest_unacked_seconds"] < PATIENCE
            # What is committed, the broker has forgotten, and sends as many others.
            query.commit()
            after = watched.wait_agreed(depth=100 - rows, acked=rows, committed=rows)
            assert after["delivered"] - after["unacked"] == rows
            batch = len(query.batch())
            another_connection(watched, proxy, broker, depth=100 - rows, batch=batch)
            an_outage(watched, proxy, broker, depth=100 - rows)
            # And all is well again.
            proxy.heal()
            watched.wait(connected=True, reconnects=2, attempts=0)
            query.commit()
            depth = 100 - rows - (0 if doubles else batch)
            while depth:
                taken = len(query.batch())
                query.commit()
                depth -= taken
            # All of it: an older file, of the moment before they came again, shows none un-acked as well.
            end = watched.wait_agreed(depth=0, acked=100 + (batch if doubles else 0))
            assert end["unacked"] == end["oldest_unacked_seconds"] == 0
            assert end["received"] == end["committed"] == end["acked"]
            assert read_status(watched.path)["totals"]["rows"] == 100 + end["doubled"]


def another_connection(
    watched: Watched, proxy: FaultProxy, broker: Broker, *, depth: int, batch: int
) -> None:
    """``batch`` of the messages are rows already: they are attached, or without an id rows again."""
    before = watched.wait_agreed(depth)
    proxy.cut()
    watched.wait(reconnects=1, connected=True)
    wait_until(lambda: came_again(watched.figures) == batch, what=f"{batch} messages again")
    again = watched.wait_agreed(depth)
    # Artemis marks only some of what it delivers again.
    marked = again["redelivered"]
    assert 0 < marked <= before["unacked"]
    assert marked == before["unacked"] or broker.dialect == "artemis"
    assert again["delivered"] == before["delivered"] + again["unacked"]
    doubles = dialect_named(broker.dialect).id_header is None
    assert (again["doubled"], again["reattached"]) == ((batch, 0) if doubles else (0, batch))


def an_outage(watched: Watched, proxy: FaultProxy, broker: Broker, *, depth: int) -> None:
    """The file goes on, and the broker has everything again."""
    proxy.refuse()
    proxy.cut()
    down = watched.wait(connected=False, unacked=0, connected_since=None)
    broker.wait_for(watched.queue, ready=depth, unacked=0)
    wait_until(lambda: watched.figures["attempts"] > down["attempts"] + 1, what="attempts")
    assert watched.figures["last_error"].startswith("[STOMP_CONNECT")
    assert watched.figures["disconnected_since"] == down["disconnected_since"]
