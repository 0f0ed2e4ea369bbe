"""In each of its states a receiver to which nothing happens does next to nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from support.options import source_options
from support.receivers import LoneReceiver, receiving, started
from support.scripted import Stream, message, opened
from support.tcp import stomp_server
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.receiver import FIRST, Receiver, ReceiverSettings, StreamDeliveries, StreamReading
from spark_stomp.receiver.pause import BoundedReader

QUEUE, BAD = "/queue/a", b"bad"
# Two connections end with so many un-acked, so that the next one asks for a hundredth.
COUNT = 400


@contextmanager
def empty(broker: DevBroker) -> Iterator[None]:
    with receiving(broker.url, QUEUE) as receiver:
        receiver.wait_subscribed()
        yield


@contextmanager
def waits_for_a_commit(broker: DevBroker) -> Iterator[None]:
    broker.publish_many(QUEUE, [b"x"] * 10)
    with receiving(broker.url, QUEUE) as receiver:
        receiver.wait_received(10)
        yield


@contextmanager
def waits_for_a_receipt(broker: DevBroker) -> Iterator[None]:
    broker.faults.withhold_receipts = ("ACK",)
    broker.publish_many(QUEUE, [b"x"] * 10)
    with receiving(broker.url, QUEUE) as receiver:
        receiver.wait_received(10)
        receiver.acknowledge(10)
        wait_until(lambda: receiver.deliveries.acks.awaited, what="ACKs that were sent")
        yield


@contextmanager
def has_no_room(broker: DevBroker) -> Iterator[None]:
    broker.publish_many(QUEUE, [b"x" * 10_000] * 3_000)
    with receiving(broker.url, QUEUE, maxBufferedBytes="256k") as receiver:
        receiver.wait_paused()
        yield


@contextmanager
def has_a_malformed_message(_: DevBroker) -> Iterator[None]:
    """Behind one that waits for a commit."""

    def serve(connection: Any) -> None:
        opened(connection, heartbeat=b"0,0")
        connection.sendall(message(1) + message(2, headers=[b"no colon"]))
        while connection.recv(1 << 16):
            pass

    with receiving(serve, QUEUE) as receiver:
        wait_until(lambda: receiver.status().refused, what="the refused message")
        yield


@contextmanager
def stream(options: dict[str, str], *offsets: int, window: int) -> Iterator[Receiver]:
    broker = Stream(*offsets, window=window)
    with stomp_server(broker.broker.serve) as url:
        given = {"startingOffsets": "latest", "idleTimeout": "100ms", **options}
        (settings,) = ReceiverSettings.of(source_options(url, "/amq/queue/a", **given))
        held = StreamDeliveries(settings.max_buffered_bytes, settings.name)
        held.begin_at(FIRST, "e", 0)
        with started(Receiver(settings, held, reading_class=StreamReading)) as receiver:
            yield receiver


@contextmanager
def has_read_a_stream(_: DevBroker) -> Iterator[None]:
    with stream({}, *range(7), window=100) as receiver:
        wait_until(lambda: receiver.status().received == 7, what="all messages")
        yield


@contextmanager
def has_half_of_a_stream(_: DevBroker) -> Iterator[None]:
    """The rest waits for a commit."""
    with stream({"maxBufferedBytes": "840"}, *range(12), window=3) as receiver:
        wait_until(lambda: receiver.status().window_full, what="a full window")
        yield


STATES: list[Callable[[DevBroker], AbstractContextManager[None]]] = [
    empty,
    waits_for_a_commit,
    waits_for_a_receipt,
    has_no_room,
    has_a_malformed_message,
    has_read_a_stream,
    has_half_of_a_stream,
]


@pytest.mark.parametrize("state", STATES)
def test_a_receiver_that(
    state: Callable[[DevBroker], AbstractContextManager[None]],
    devbroker: DevBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with state(devbroker):
        assert polls(monkeypatch) < 5


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
            acks = receiver.deliveries.acks
            return acks.receipted == COUNT and acks.unacked == 3

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


@pytest.mark.rule("4.12")
def test_a_careful_turn_that_waits_for_a_commit(
    careful: LoneReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert polls(monkeypatch) < 5
    assert not careful.reading.turn_state.is_over


@pytest.mark.rule("4.12")
def test_a_careful_turn_that_is_over_and_waits_for_a_commit(
    careful: LoneReceiver, devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, received = careful.reading, careful.frames.received
    careful.acknowledge(received - 2)
    wait_until(lambda: first.turn_state.is_over, what="the end of the turn")
    devbroker.publish_many(QUEUE, [b"late", b"later"])
    wait_until(lambda: first.turn_state.count == 2, what="what is not taken any more")
    assert polls(monkeypatch) < 5
    assert (careful.reading, careful.frames.received, first.turn_state.count) == (first, received, 2)
    careful.acknowledge(received)
    wait_until(lambda: careful.frames.received == received + 2, what="the next turn")
