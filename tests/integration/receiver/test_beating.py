"""A connection beats while something is asked over another one that hangs: it would seem dead meanwhile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.driven import write_columns
from support.options import source_options
from support.receivers import receiving, started
from support.tcp import stomp_server
from support.waiting import wait_until

from spark_stomp.errors import StompError
from spark_stomp.receiver import Receiver, ReceiverSettings, StreamDeliveries, StreamReading
from spark_stomp.receiver.stream import LATEST


class Hanging:
    """RabbitMQ, whose first connection is one like any other, and whose second one is never answered."""

    def __init__(self) -> None:
        self.beats: list[float] = []
        self.hung = threading.Event()
        self._accepted = 0

    def serve(self, connection: socket.socket) -> None:
        self._accepted += 1
        if self._accepted > 1:
            self.hung.set()
            while connection.recv(1 << 16):
                pass
            return
        connection.recv(1 << 16)
        connection.sendall(b"CONNECTED\nversion:1.2\nserver:RabbitMQ/4.3.6\nheart-beat:0,100\n\n\0")
        while data := connection.recv(1 << 16):
            if self.hung.is_set() and not data.strip(b"\n"):
                self.beats.append(time.monotonic())


def read(broker: Hanging, url: str, **options: Any) -> None:
    with receiving(url, "/amq/queue/a", **options):
        wait_until(lambda: len(broker.beats) > 8, what="heart-beats")


def read_stream(broker: Hanging, url: str, **options: Any) -> None:
    settings = ReceiverSettings.of(source_options(url, "/amq/queue/a", startingOffsets="latest", **options))[
        0
    ]
    deliveries = StreamDeliveries(settings.max_buffered_bytes, settings.name)
    deliveries.begin_at(LATEST)
    with started(Receiver(settings, deliveries, reading_class=StreamReading)):
        wait_until(lambda: len(broker.beats) > 8, what="heart-beats")


def write(broker: Hanging, url: str, **options: Any) -> None:
    with pytest.raises(StompError):
        write_columns({"url": url, **options}, {"destination": ["/amq/queue/a"], "body": [b"x"]})


@pytest.mark.parametrize(
    ("use", "options"),
    [
        (read, {}),
        (read, {"failOnMissingQueue": "true"}),
        (read_stream, {}),
        (write, {"reconnectTimeout": "100ms"}),
    ],
    ids=["a queue", "a queue that must be there", "a stream", "the sink"],
)
def test_it_does(use: Callable[..., None], options: dict[str, str]) -> None:
    broker = Hanging()
    with stomp_server(broker.serve) as url:
        use(broker, url, heartbeat="100ms,0", connectTimeout="3s", **options)
    assert len(broker.beats) > 8
