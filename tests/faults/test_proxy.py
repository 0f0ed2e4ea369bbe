"""The fault proxy: what each of its faults does to bytes, and to a query."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from support.driven import Run
from support.proxy import FaultProxy, Way
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker


class Echo:
    """A server that keeps what it got and answers every read with ``answer``."""

    def __init__(self, answer: bytes = b"") -> None:
        self.answer = answer
        self.got = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                self.got += data
                connection.sendall(self.answer)
        connection.close()

    def close(self) -> None:
        for connection in (*self._open, self._listener):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


@pytest.fixture
def server() -> Iterator[Echo]:
    echo = Echo(b"pong")
    yield echo
    echo.close()


@pytest.fixture
def proxy(server: Echo) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE) as client:
        wait_until(lambda: proxy.connections == 1, what="the connection")
        yield client


def ended(client: socket.socket) -> bool:
    """Whether the other side ended the connection; reads what is left."""
    with contextlib.suppress(ConnectionError):
        while client.recv(1 << 16):
            pass
    return True


def test_without_a_fault_bytes_pass_both_ways(client: socket.socket, server: Echo, proxy: FaultProxy) -> None:
    client.sendall(b"ping")
    assert client.recv(10) == b"pong"
    assert server.got == b"ping"
    assert (proxy.passed(Way.TO_BROKER), proxy.passed(Way.TO_CLIENT)) == (4, 4)


def test_refuse_lets_nobody_in_until_it_is_healed(client: socket.socket, proxy: FaultProxy) -> None:
    proxy.refuse()
    assert ended(client)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE) as refused:
        assert ended(refused)
    proxy.heal()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE) as again:
        again.sendall(b"ping")
        assert again.recv(10) == b"pong"


@pytest.mark.parametrize("count", [0, 1, 7, 10])
def test_cut_after_passes_exactly_so_many_bytes(
    client: socket.socket, server: Echo, proxy: FaultProxy, count: int
) -> None:
    proxy.cut_after(count, Way.TO_BROKER)
    client.sendall(b"0123456789abc")
    assert ended(client)
    proxy.wait_tripped()
    wait_until(lambda: server.got == b"0123456789"[:count], what="the bytes before the cut")


class TestBeforeTheConnector:
    """What a query sees of each fault; it goes on in the end, and nothing is lost or doubled."""

    QUEUE = "/queue/a"

    @pytest.fixture
    def query(self, proxied: FaultProxy) -> Iterator[Run]:
        options = {"url": proxied.url, "destination": self.QUEUE, "heartbeat": "200ms,200ms"}
        with Run(options, connectTimeout="500ms", ackReceiptTimeout="500ms") as query:
            yield query

    def everything(self, query: Run, broker: DevBroker, count: int) -> None:
        """Read and commit until so many messages are ACKed."""

        def done() -> bool:
            query.commit()
            return broker.queue(self.QUEUE).acked == count

        wait_until(done, what="the ACKs of everything")
        assert broker.queue(self.QUEUE).depth == 0

    def test_a_cut_inside_a_message(self, devbroker: DevBroker, proxied: FaultProxy, query: Run) -> None:
        bodies = [b"m%d" % number for number in range(100)]
        query.reader.latestOffset(query.reader.initialOffset(), None)
        proxied.cut_after(3_001, Way.TO_CLIENT)
        devbroker.publish_many(self.QUEUE, bodies)
        proxied.wait_tripped()
        assert [row["body"] for row in query.take(100)] == bodies
        self.everything(query, devbroker, 100)
        assert devbroker.connects == 2

    def test_an_ack_that_does_not_get_through(
        self, devbroker: DevBroker, proxied: FaultProxy, query: Run
    ) -> None:
        devbroker.publish_many(self.QUEUE, [b"m"] * 10)
        assert len(query.gather(10)) == 10
        proxied.cut_before(b"ACK\n")
        query.commit()
        proxied.wait_tripped()
        self.everything(query, devbroker, 10)
        assert devbroker.queue(self.QUEUE).redelivered == 10

    def test_a_slow_line_only_takes_longer(self, devbroker: DevBroker, proxied: FaultProxy) -> None:
        proxied.throttle(100_000)
        bodies = [b"m%d" % number for number in range(100)]
        devbroker.publish_many(self.QUEUE, bodies)
        with Run({"url": proxied.url, "destination": self.QUEUE}) as query:
            assert [row["body"] for row in query.take(100)] == bodies
            self.everything(query, devbroker, 100)
        assert proxied.accepted == 1
