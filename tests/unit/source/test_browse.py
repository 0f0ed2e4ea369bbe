"""A batch read takes nothing away: it browses if the broker can, and else gives everything back."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest
from support.waiting import wait_until

from spark_stomp.arrow import decode_frames
from spark_stomp.devbroker import DevBroker
from spark_stomp.devbroker.core import Broker
from spark_stomp.errors import DestinationRefused
from spark_stomp.options import parse_batch_options
from spark_stomp.schema import Projection
from spark_stomp.source.batch_reader import browse
from spark_stomp.source.tasks import RowSettings

QUEUE = "/queue/a"
BODIES = [b"m%d" % number for number in range(25)]


def seen(devbroker: DevBroker, destination: str = QUEUE, **options: Any) -> list[bytes]:
    given = {"url": devbroker.url, "destination": destination, "idleTimeout": "300ms"}
    parsed = parse_batch_options({**given, **{key: str(value) for key, value in options.items()}})
    rows = RowSettings(Projection.of("body"), None, "error")
    bodies: list[bytes] = []
    for block, dialect in browse(parsed, destination):
        bodies += decode_frames(block, rows.projection, rows.rules(dialect)).column("body").to_pylist()
    return bodies


@pytest.mark.parametrize("broker", ["auto", "generic"])
@pytest.mark.parametrize("most", [1, 24, 25, 26])
def test_up_to_max_messages_and_nothing_consumed(devbroker: DevBroker, broker: str, most: int) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    assert seen(devbroker, broker=broker, maxMessages=most) == BODIES[:most]
    wait_until(lambda: devbroker.queue(QUEUE).unacked == 0, what="the messages given back")
    assert devbroker.bodies(QUEUE) == BODIES
    assert devbroker.queue(QUEUE).acked == 0


@pytest.mark.parametrize("versions", ["1.0", "1.1", "1.2"])
def test_nothing_is_consumed_where_the_broker_passes_over_what_asks_to_browse(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, versions: str
) -> None:
    subscribe = Broker.subscribe

    def consuming(broker: Broker, *given: Any, browse: bool, **named: Any) -> None:
        subscribe(broker, *given, **named)

    monkeypatch.setattr(Broker, "subscribe", consuming)
    devbroker.publish_many(QUEUE, BODIES)
    assert seen(devbroker, acceptVersions=versions, maxMessages=24) == BODIES[:24]
    wait_until(lambda: devbroker.queue(QUEUE).unacked == 0, what="the messages given back")
    view = devbroker.queue(QUEUE)
    assert (view.acked, view.delivered) == (0, 25)
    assert devbroker.bodies(QUEUE) == BODIES


def test_a_message_that_only_looks_like_the_end_of_a_browse(devbroker: DevBroker) -> None:
    devbroker.publish(QUEUE, b"browser:end")
    devbroker.publish(QUEUE, b"after")
    assert seen(devbroker) == [b"browser:end", b"after"]


def test_a_batch_read_that_costs_a_delivery_says_so(
    devbroker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    with caplog.at_level(logging.WARNING, "spark_stomp"):
        seen(devbroker, broker="generic")
        assert "cost each of them one delivery" in caplog.text
        caplog.clear()
        seen(devbroker)
        assert not caplog.records


def test_a_batch_read_that_was_cut_off_says_so(
    devbroker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    devbroker.publish_many(QUEUE, BODIES)
    with caplog.at_level(logging.WARNING, "spark_stomp"):
        seen(devbroker, maxMessages=10)
    assert "cut off after maxMessages (10)" in caplog.text


def test_producers_that_never_pause_do_not_keep_a_batch_read_open(
    devbroker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    over = threading.Event()

    def produce() -> None:
        while not over.wait(0.05):
            devbroker.publish(QUEUE, b"more")

    producer = threading.Thread(target=produce)
    producer.start()
    begun = time.monotonic()
    try:
        seen(devbroker, broker="generic", maxDrainTime="3s", maxMessages=1_000_000, idleTimeout="3s")
    finally:
        over.set()
        producer.join()
    assert time.monotonic() - begun < 10
    assert "cut off after maxDrainTime (3s): there may be more" in caplog.text


def test_a_refused_destination() -> None:
    with DevBroker(refuse=(QUEUE,)) as broker, pytest.raises(DestinationRefused, match=QUEUE):
        seen(broker)
