from __future__ import annotations

import selectors
import socket
import struct
from collections.abc import Iterator

import pytest
from support.waiting import PATIENCE

from spark_stomp.devbroker.core import Broker
from spark_stomp.devbroker.link import Link
from spark_stomp.devbroker.peer import HIGH_WATER, Counters, Faults, Peer
from spark_stomp.protocol import ServerConfig

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"


class Ends:
    """Both ends of a link, and the broker behind it."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.client = socket.create_connection(listener.getsockname(), timeout=PATIENCE)
            ours, _ = listener.accept()
        for end, buffer in ((ours, socket.SO_SNDBUF), (self.client, socket.SO_RCVBUF)):
            end.setsockopt(socket.SOL_SOCKET, buffer, 1 << 15)
        self.selector = selectors.DefaultSelector()
        self.broker = Broker()
        self.peer = Peer(self.broker, ServerConfig(), None, Faults(), Counters(), "s")
        self.link = Link(ours, self.peer, self.selector)

    def connect(self) -> None:
        self.client.sendall(CONNECT)
        self.link.read(0.0)
        self.link.write(0.0)
        assert self.client.recv(4096).startswith(b"CONNECTED\n")

    def interest(self) -> int:
        return self.selector.get_key(self.link.socket).events

    def close(self) -> None:
        self.link.close()
        self.client.close()
        self.selector.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.close()


def reset(client: socket.socket) -> None:
    """Close in a way that the other end sees as an error."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def test_a_reset_is_the_end(ends: Ends) -> None:
    ends.connect()
    reset(ends.client)
    ends.link.read(1.0)
    assert ends.link.closed
    assert not ends.peer.connected


def test_a_client_that_is_gone_when_written_to(ends: Ends) -> None:
    ends.connect()
    reset(ends.client)
    ends.peer.connection.receipt("r")
    ends.link.write(1.0)
    assert ends.link.closed
    assert ends.peer.dropped


def test_a_full_socket_is_waited_for(ends: Ends) -> None:
    ends.connect()
    body = b"x" * 100_000
    for _ in range(50):
        ends.broker.publish("/queue/a", body)
    ends.client.sendall(b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0")
    ends.link.read(1.0)
    received, rounds = 0, 0
    while received < 50 * len(body):
        ends.broker.dispatch()
        ends.link.write(1.0)
        if rounds == 0:
            assert ends.interest() == selectors.EVENT_READ | selectors.EVENT_WRITE
            assert ends.peer.room <= 0
            assert not ends.broker.pending
        received += len(ends.client.recv(1 << 20))
        rounds += 1
        assert rounds < 1000
    ends.link.write(1.0)
    assert ends.interest() == selectors.EVENT_READ
    assert ends.peer.room > 0


def test_a_socket_that_stays_full_is_not_queued_for_without_end(ends: Ends) -> None:
    ends.connect()
    body = b"x" * 10_000
    for _ in range(1000):
        ends.broker.publish("/queue/a", body)
    ends.client.sendall(b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0")
    ends.link.read(1.0)
    for _ in range(5):
        ends.broker.dispatch()
        ends.link.write(1.0)
        # The client takes a little, so that what is left waiting lies under the low-water mark.
        while ends.link.waiting > HIGH_WATER // 2:
            ends.client.recv(1 << 14)
            ends.link.write(1.0)
        for _ in range(20):
            ends.broker.dispatch()
            ends.link.write(1.0)
            assert ends.link.waiting <= HIGH_WATER + 2 * len(body)
    assert ends.broker.view("/queue/a").unacked < 1000


def test_a_dropped_client_gets_nothing_more(ends: Ends) -> None:
    ends.connect()
    ends.peer.connection.receipt("r")
    ends.peer.dropped = True
    ends.link.write(1.0)
    assert ends.link.closed
    assert ends.client.recv(10) == b""
