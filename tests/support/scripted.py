"""What a broker says that a test scripts itself, frame by frame."""

from __future__ import annotations

import socket

__all__ = ["answer", "message", "opened"]


def opened(connection: socket.socket) -> None:
    """Answer CONNECT and SUBSCRIBE."""
    connection.recv(4096)
    connection.sendall(b"CONNECTED\nversion:1.2\nheart-beat:100,100\n\n\0")
    answer(connection)


def answer(connection: socket.socket, before: bytes = b"") -> None:
    """Send ``before`` and the receipt that the next frames ask for."""
    asked = b""
    while b"receipt:" not in asked:
        asked += connection.recv(4096)
    receipt = asked.rpartition(b"receipt:")[2].partition(b"\n")[0]
    connection.sendall(b"%bRECEIPT\nreceipt-id:%b\n\n\0" % (before, receipt))


def message(number: int, body: bytes) -> bytes:
    head = b"subscription:0\nmessage-id:%d\nack:%d\ndestination:/queue/a" % (number, number)
    return b"MESSAGE\n%b\ncontent-length:%d\n\n%b\0" % (head, len(body), body)
