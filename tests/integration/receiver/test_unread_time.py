"""Deadlines wait while a receiver leaves its socket unread (contract 4 and 5)."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import pytest
from support.receivers import receiving
from support.scripted import message, opened
from support.waiting import pause, wait_until

from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"


def swallow(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(1 << 16):
            pass


def never_confirming(connection: socket.socket) -> None:
    """A broker that reads ACKs and confirms none, and whose messages know no window."""
    opened(connection)
    threading.Thread(target=swallow, args=[connection], daemon=True).start()
    number = 0
    while True:
        number += 1
        connection.sendall(message(number, b"x" * 20_000) + b"\n")


@pytest.mark.rule("4.7", "5.13")
def test_what_is_left_unread_again_and_again_does_not_put_off_a_missing_receipt() -> None:
    """The receiver reads for some milliseconds between two pauses: what it has read counts too."""
    options = {"maxBufferedBytes": "2m", "prefetch": 5, "heartbeat": "0,0", "ackReceiptTimeout": "100ms"}
    with receiving(never_confirming, **options) as receiver:

        def given_up() -> bool:
            return "ackReceiptTimeout" in (receiver.status().connection.last_error or "")

        receiver.wait_received(20)
        receiver.offer(20)
        offered, rests = 20, 0
        while not given_up():
            wait_until(lambda: given_up() or receiver.status().paused_since is not None, what="a pause")
            pause(0.3)
            rests += 1
            assert rests < 40, "the broker is not given up"
            receiver.acknowledge(offered)
            status = receiver.status()
            offered += (status.received - offered) * 2 // 3
            if not given_up():
                receiver.offer(offered)
        assert rests > 2, "this test proves nothing"


@pytest.mark.rule("4.8", "5.13")
def test_the_time_for_which_a_connection_waits_for_room_is_no_time_without_a_connection() -> None:
    """What Spark was told of fills the bound, so that the next connection waits before it is subscribed."""
    with DevBroker(heartbeat=(100, 100)) as broker:
        broker.publish_many(QUEUE, [b"x" * 10_000] * 300)
        options = {"maxBufferedBytes": "256k", "reconnectTimeout": "2s", "heartbeat": "100ms,100ms"}
        with receiving(broker.url, **options) as receiver:
            receiver.wait_paused()
            receiver.offer(receiver.status().received)
            broker.drop_connections()
            wait_until(lambda: broker.connects == 2 and receiver.status().paused_since is not None)
            pause(3.0)
            assert not receiver.status().subscribed
            broker.drop_connections()
            wait_until(lambda: broker.connects == 3 or receiver.status().failure is not None)
            assert receiver.status().failure is None


@pytest.mark.rule("4.8", "5.13")
def test_nor_does_it_count_before_the_first_subscription() -> None:
    """The first connection ends after connectTimeout, most of which it waited for room."""
    connections: list[socket.socket] = []

    def never_subscribed(connection: socket.socket) -> None:
        connections.append(connection)
        connection.recv(4096)
        connection.sendall(b"CONNECTED\nversion:1.2\nheart-beat:100,100\n\n\0")
        connection.recv(4096)
        with suppress(OSError):
            connection.sendall(b"".join(message(number, b"x" * 10_000) for number in range(300)))
            swallow(connection)

    options = {"maxBufferedBytes": "256k", "connectTimeout": "2s", "heartbeat": "100ms,100ms"}
    with receiving(never_subscribed, **options) as receiver:
        receiver.wait_paused()
        pause(3.0)
        connections[0].shutdown(socket.SHUT_RDWR)
        wait_until(lambda: len(connections) == 2 or receiver.status().failure is not None)
        assert receiver.status().failure is None
