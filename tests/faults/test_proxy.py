"""The fault proxy: what each of its faults does to the bytes that pass it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from support.proxy import FaultProxy, Way
from support.waiting import PATIENCE, wait_until


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
