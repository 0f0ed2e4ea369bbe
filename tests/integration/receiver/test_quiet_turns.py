"""In each state of its turn a receiver to which nothing happens does next to nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support.receivers import LoneReceiver, receiving
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.receiver.pause import BoundedReader

QUEUE, BAD = "/queue/a", b"bad"
# Two connections end with so many un-acked, so that the next one asks for a hundredth.
COUNT = 400

pytestmark = pytest.mark.rule("4.12")


@pytest.fixture
def careful(devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoneReceiver]:
    """It has ACKed 400, three more are there, and the message that could not be delivered is gone."""
    monkeypatch.setattr("spark_stomp.receiver.turns._AT_ONCE", PATIENCE)
    devbroker.faults.undeliverable = (BAD,)
    devbroker.publish_many(QUEUE, [b"%d" % number for number in range(COUNT)] + [BAD, b"x", b"y"])
    with receiving(devbroker.url, QUEUE, idHeader="nothing") as receiver:
        wait_until(lambda: receiver.status().window == 4, what="a careful turn")
        devbroker.faults.undeliverable = ()

        def acked() -> bool:
            receiver.acknowledge(min(receiver.frames.received, COUNT))
            return receiver.deliveries.confirmed == COUNT and receiver.deliveries.unacked == 3

        wait_until(acked, what="the last three")
        yield receiver


def polls(monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the receiver looks in a second."""
    count, poll = 0, BoundedReader.poll

    def counted(*given: object) -> object:
        nonlocal count
        count += 1
        return poll(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(BoundedReader, "poll", counted)
        time.sleep(1.0)
    return count


def test_that_waits_for_a_commit(careful: LoneReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert polls(monkeypatch) < 5
    assert not careful.reading.state.is_over


def test_that_is_over_and_waits_for_a_commit(
    careful: LoneReceiver, devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, received = careful.reading, careful.frames.received
    careful.acknowledge(received - 2)
    wait_until(lambda: first.state.is_over, what="the end of the turn")
    devbroker.publish_many(QUEUE, [b"late", b"later"])
    wait_until(lambda: first.state.count == 2, what="what is not taken any more")
    assert polls(monkeypatch) < 5
    assert (careful.reading, careful.frames.received, first.state.count) == (first, received, 2)
    careful.acknowledge(received)
    wait_until(lambda: careful.frames.received == received + 2, what="the next turn")
