"""Scripted servers below STOMP."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from support.waiting import PATIENCE


def has_ipv6() -> bool:
    """Whether this machine has the loopback address of IPv6."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no address ::1")


# Bound, and never listening: so no other process gets the port meanwhile.
_UNUSED: list[socket.socket] = []


def unused_port() -> int:
    """A port on loopback at which nobody listens while this process lives.

    A test that wants to listen there later takes ``free_ports`` of ``support.brokers.base``.
    """
    held = socket.socket()
    _UNUSED.append(held)
    held.bind(("127.0.0.1", 0))
    port: int = held.getsockname()[1]
    return port


def says(*answers: bytes) -> Callable[[socket.socket], None]:
    """Answers each read with the next of these, and then nothing, until the client leaves."""

    def serve(connection: socket.socket) -> None:
        for answer in answers:
            connection.recv(1 << 16)
            connection.sendall(answer)
        while connection.recv(1 << 16):
            pass

    return serve


@contextmanager
def tcp_server(serve: Callable[[socket.socket], None], *, together: bool = False) -> Iterator[int]:
    """A server on loopback that treats each connection with ``serve``; yields its port.

    ``together``: at the same time, else one after the other.
    """

    def serve_one(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(PATIENCE)
            serve(connection)

    def serve_all() -> None:
        # It ends with the listener.
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                if together:
                    threading.Thread(target=serve_one, args=(connection,), daemon=True).start()
                else:
                    serve_one(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_all, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE)


@contextmanager
def stomp_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server on loopback that treats all connections at the same time with ``serve``; yields its URL."""
    with tcp_server(serve, together=True) as port:
        yield f"stomp://127.0.0.1:{port}"
