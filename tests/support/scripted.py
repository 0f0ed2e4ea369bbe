"""What a broker says that a test scripts itself, frame by frame; and what RabbitMQ says of a queue."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from spark_stomp.brokers import subscription_id
from spark_stomp.transport import Connection
from support.waiting import pause

OURS = subscription_id("/queue/a").encode()
"""The subscription of a receiver, or of a batch read, to /queue/a."""


def opened(connection: socket.socket, heartbeat: bytes = b"100,100") -> None:
    """Answer CONNECT and SUBSCRIBE."""
    connection.recv(4096)
    connection.sendall(b"CONNECTED\nversion:1.2\nheart-beat:%b\n\n\0" % heartbeat)
    answer(connection)


def answer(connection: socket.socket, before: bytes = b"") -> bytes:
    """Send ``before`` and the receipt that the next frames ask for; returns these frames."""
    asked = b""
    while b"receipt:" not in asked or not asked.rstrip(b"\n").endswith(b"\0"):
        piece = connection.recv(4096)
        if not piece:
            return asked
        asked += piece
    receipt = asked.rpartition(b"receipt:")[2].partition(b"\n")[0]
    connection.sendall(b"%bRECEIPT\nreceipt-id:%b\n\n\0" % (before, receipt))
    return asked


def message(
    number: int, body: bytes = b"x", subscription: bytes = OURS, headers: Sequence[bytes] = ()
) -> bytes:
    head = b"subscription:%b\nmessage-id:%d\nack:a%d\ndestination:/queue/a" % (subscription, number, number)
    length = b"content-length:%d" % len(body)
    return b"MESSAGE\n%b\n\n%b\0" % (b"\n".join([head, length, *headers]), body)


CLOSE = b"(and it closes the connection)"


@contextmanager
def read_late() -> Iterator[None]:
    """Connections read so late that the end of the stream comes with what was sent before it."""
    original = Connection._wait

    def wait(self: Connection, timeout: float, *, reading: bool = True) -> None:
        original(self, timeout, reading=reading)
        pause(0.05)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "_wait", wait)
        yield


def receipt_for(frame: bytes) -> bytes:
    """The RECEIPT that ``frame`` asks for."""
    return b"RECEIPT\nreceipt-id:%b\n\n\0" % header_of(frame, b"receipt")


class ScriptedBroker:
    """Answers each connection with CONNECTED, and each receipt; ``asked`` answers other frames.

    What belongs together comes in one piece, or, if ``apart``, frame by frame with some time in between.
    """

    apart = False

    def __init__(self, server: bytes, asked: Callable[[int, bytes], bytes], version: bytes = b"1.2") -> None:
        self.connections = 0
        self.sockets: list[socket.socket] = []
        self._connected = b"CONNECTED\nversion:%b\nserver:%b\n\n\0" % (version, server)
        self._asked = asked

    def serve(self, connection: socket.socket) -> None:
        self.connections += 1
        self.sockets.append(connection)
        number, data = self.connections, b""
        while True:
            piece = connection.recv(1 << 16)
            if not piece:
                return
            data += piece
            *frames, data = data.split(b"\0")
            for frame in frames:
                answer = self._answer(number, frame.lstrip(b"\n"))
                bare = answer.removesuffix(CLOSE)
                for part in re.findall(rb"[^\0]*\0", bare) if self.apart else [bare]:
                    connection.sendall(part)
                    pause(0.05 if self.apart else 0.0)
                if answer.endswith(CLOSE):
                    return

    def _answer(self, number: int, frame: bytes) -> bytes:
        if frame.startswith(b"CONNECT"):
            return self._connected
        answer = self._asked(number, frame)
        receipt = re.search(rb"\nreceipt:(.+)\n", frame)
        if receipt is None or answer.startswith(b"ERROR") or answer.endswith(CLOSE):
            return answer
        return b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt[1] + answer


RIGHTS_AWAY = (
    "ACCESS_REFUSED - read access to queue 'a' in vhost '/' refused for user 'u', backend "
    "rabbit_auth_backend_http returned an error: timeout"
)
DIFFERS = (
    "PRECONDITION_FAILED - inequivalent arg '{}' for queue 'a current is 'b' in vhost '/': "
    "received {} but current is {}"
)
NO_STREAM = "PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue 'a' in vhost '/' of queue type {}"


def header_of(frame: bytes, name: bytes) -> bytes:
    """The value of the first header of this name."""
    return frame.partition(b"\n%b:" % name)[2].partition(b"\n")[0]


class RabbitMQ:
    """Has queues, and the ``streams`` of these names. A subscription brings three messages.

    Each has the ``header``; if there are streams, only theirs. Those who ask whether a queue is a stream get
    the error ``silent``, if there is one. ``questions`` are the names of the queues that were asked for. If
    ``relayed``, the RECEIPT comes before the ERROR.
    """

    def __init__(
        self,
        *streams: str,
        header: bytes = b"x-stream-offset:7",
        silent: str = "",
        kind: str = "classic",
        relayed: bool = False,
    ) -> None:
        self.questions: list[str] = []
        self.broker = ScriptedBroker(b"RabbitMQ/3.10.8", self._asked)
        self.streams = {*streams}
        self._header = header
        self._refusal = silent or NO_STREAM.format(f"rabbit_{kind}_queue")
        self._silent = silent
        self._relayed = relayed

    def _asked(self, number: int, frame: bytes) -> bytes:
        if not frame.startswith(b"SUBSCRIBE"):
            return b""
        destination = header_of(frame, b"destination").decode()
        name = destination.rpartition("/")[2]
        if not header_of(frame, b"x-stream-offset"):
            headers = [self._header] if name in self.streams or not self.streams else []
            return b"".join(message(one, b"x", header_of(frame, b"id"), headers) for one in range(3))
        # A question declares nothing.
        assert destination == f"/amq/queue/{name}"
        self.questions.append(name)
        if name in self.streams and not self._silent:
            return b""
        error = b"ERROR\nmessage:precondition_failed\n\n%b\0" % self._refusal.encode()
        return receipt_for(frame) + error + CLOSE if self._relayed else error


class Stream:
    """RabbitMQ with a stream that has messages at ``offsets``, and sends ``window`` of them before each ACK.

    It closes the connections ``closing`` (1 is the first) at their first ACK. If ``late``, it first sends
    what it does not have to: the message before the one that is asked for.

    Attributes:
        published: offsets of messages that a SUBSCRIBE from ``next`` gets at once.
        times: the offsets of the messages since a time, by the header ``x-stream-offset``.
        begins: the header ``x-stream-offset`` of each SUBSCRIBE.
        acks: the handle in each ACK: ``a`` and the offset.
    """

    def __init__(
        self, *offsets: int, window: int = 1_000, closing: Sequence[int] = (), late: bool = False
    ) -> None:
        self.offsets = [*offsets]
        self.published: list[int] = []
        self.times: dict[str, list[int]] = {}
        self.begins: list[str] = []
        self.acks: list[str] = []
        self.broker = ScriptedBroker(b"RabbitMQ/3.10.8", self._asked)
        self._window = window
        self._closing = closing
        self._late = late
        self._pending: dict[tuple[int, bytes], list[int]] = {}

    def _asked(self, number: int, frame: bytes) -> bytes:
        if frame.startswith(b"SUBSCRIBE"):
            where = header_of(frame, b"x-stream-offset").decode()
            self.begins.append(where)
            self._pending[number, header_of(frame, b"id")] = self._from(where)
        elif frame.startswith(b"ACK"):
            self.acks.append(header_of(frame, b"id").decode())
            if number in self._closing:
                return CLOSE
        else:
            return b""
        return b"".join(self._next(*key) for key in list(self._pending) if key[0] == number)

    def publish(self, *offsets: int) -> None:
        """Send these messages to the first subscription."""
        number, subscription = next(iter(self._pending))
        self._pending[number, subscription] += offsets
        self.broker.sockets[number - 1].sendall(self._next(number, subscription))

    def cut(self) -> None:
        """End the connection of the first subscription."""
        number, _ = next(iter(self._pending))
        self.broker.sockets[number - 1].shutdown(socket.SHUT_RDWR)

    def _from(self, where: str) -> list[int]:
        if where == "next":
            return [*self.published]
        if where == "last":
            return self.offsets[-1:]
        if where in self.times:
            return [*self.times[where]]
        begin = int(where.removeprefix("offset=")) if where.startswith("offset=") else 0
        return [offset for offset in self.offsets if offset >= begin - self._late]

    def _next(self, number: int, subscription: bytes) -> bytes:
        pending = self._pending[number, subscription]
        now, pending[:] = pending[: self._window], pending[self._window :]
        headers = [b"x-stream-offset:%d" % offset for offset in now]
        return b"".join(
            message(offset, b"x", subscription, [header]) for offset, header in zip(now, headers, strict=True)
        )
