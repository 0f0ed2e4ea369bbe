"""The receiver against the dev broker: the window, ACKs with receipts, the orderly end, failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.options import source_options
from support.waiting import wait_until

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectionLost, DestinationRefused, RangeUnavailable, ReceiptTimeout
from spark_stomp.receiver import Receiver
from spark_stomp.source.fleet import receiver_settings

QUEUE = "/queue/a"


@contextmanager
def receiving(url: str, destination: str = QUEUE, **options: object) -> Iterator[Receiver]:
    receiver = Receiver(receiver_settings(source_options(url, destination, **options))[0])
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop(4)


def received(receiver: Receiver, count: int) -> None:
    wait_until(lambda: receiver.status().received >= count, what=f"{count} frames")


def test_frames_arrive_in_order_and_stay_readable(devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [b"m%d" % number for number in range(100)])
    with receiving(devbroker.url) as receiver:
        received(receiver, 100)
        data = b"".join(bytes(run.data) for run in receiver.runs(0, 100))
        assert [data.index(b"\n\nm%d\0" % number) for number in range(100)] == sorted(
            data.index(b"\n\nm%d\0" % number) for number in range(100)
        )
        assert data == b"".join(bytes(run.data) for run in receiver.runs(0, 100))
    assert devbroker.queue(QUEUE).acked == 0


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_exactly_what_is_committed_is_acked(devbroker: DevBroker, version: str) -> None:
    devbroker.publish_many(QUEUE, [b"m%d" % number for number in range(100)])
    with receiving(devbroker.url, acceptVersions=version) as receiver:
        received(receiver, 100)
        receiver.acknowledge(37)
        wait_until(lambda: receiver.status().acked == 37, what="the receipts")
        assert devbroker.queue(QUEUE).acked == 37
        with pytest.raises(RangeUnavailable):
            receiver.runs(36, 40)
        receiver.acknowledge(20)
        assert receiver.status().committed == 37
    assert devbroker.bodies(QUEUE) == [b"m%d" % number for number in range(37, 100)]


def test_a_full_window_opens_with_the_acks(devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [b"m"] * 100)
    with receiving(devbroker.url, prefetch=30) as receiver:
        received(receiver, 30)
        assert receiver.status().window_full
        receiver.acknowledge(30)
        received(receiver, 60)


def test_the_end_acks_what_is_committed_and_says_goodbye(devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [b"m"] * 50)
    with receiving(devbroker.url) as receiver:
        received(receiver, 50)
        receiver.acknowledge(25)
    assert devbroker.queue(QUEUE).acked == 25
    assert (devbroker.disconnects, devbroker.connections) == (1, 0)


def test_every_life_has_an_epoch_of_its_own(devbroker: DevBroker) -> None:
    settings = receiver_settings(source_options(devbroker.url))[0]
    assert len({Receiver(settings).epoch for _ in range(100)}) == 100


def test_beyond_the_memory_bound_frames_are_spilled_and_the_socket_is_read(devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [b"x" * 1_000] * 2_000)
    with receiving(devbroker.url, maxBufferedBytes="100k") as receiver:
        received(receiver, 2_000)
        assert receiver.window.memory_bytes <= 2 << 20
        assert sum(len(run.ends) for run in receiver.runs(0, 2_000)) == 2_000


def test_missing_receipts_of_acks_mean_a_dead_connection(devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [b"m"] * 5)
    devbroker.faults.withhold_receipts = ("ACK",)
    with receiving(devbroker.url, ackReceiptTimeout="500ms") as receiver:
        received(receiver, 5)
        receiver.acknowledge(5)
        wait_until(lambda: receiver.status().failure is not None, what="the failure")
        assert isinstance(receiver.status().failure, ReceiptTimeout)
        assert receiver.status().acked == 0


def test_a_refused_destination_is_the_receivers_failure() -> None:
    with (
        DevBroker(refuse=("/queue/forbidden",)) as broker,
        receiving(broker.url, "/queue/forbidden") as receiver,
    ):
        wait_until(lambda: receiver.status().failure is not None, what="the failure")
        assert isinstance(receiver.status().failure, DestinationRefused)
        assert not receiver.status().subscribed


def test_after_the_connection_broke_offered_frames_stay_readable(devbroker: DevBroker) -> None:
    devbroker.publish_many(QUEUE, [b"m"] * 5)
    with receiving(devbroker.url) as receiver:
        received(receiver, 5)
        devbroker.drop_connections()
        wait_until(lambda: receiver.status().failure is not None, what="the failure")
        assert isinstance(receiver.status().failure, ConnectionLost)
        assert sum(len(run.ends) for run in receiver.runs(0, 5)) == 5
    devbroker.wait_until(lambda: devbroker.queue(QUEUE).unacked == 0, what="the messages given back")
    assert devbroker.queue(QUEUE).depth == 5
