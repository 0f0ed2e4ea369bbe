"""A broker at wire speed: frames rendered with numpy, ACKs only counted, receipts answered.

Each connection gets all its messages anew, numbered from 0, never more than ``window`` of them un-acked. It
reads ACKs while it sends, as brokers do. With the default settings a frame has ten headers.

:func:`wire_broker` runs it in a process of its own, which ends with the one that started it.
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.programs import end_with_parent, program

_PIECE = 1 << 20
_DIGITS = 10
_MARK = b"#" * _DIGITS
_HEADERS = (
    b"destination:/queue/a",
    b"message-id:ID:bench-1-" + _MARK,
    b"ack:" + _MARK,
    b"persistent:true",
    b"priority:4",
    b"expires:0",
    b"timestamp:1700000000000",
    b"redelivered:false",
)
_POWERS = 10 ** np.arange(_DIGITS - 1, -1, -1, dtype=np.int64)


@dataclass(frozen=True)
class Frames:
    """What the frames are like: ``body`` octets, and so many ``headers``, 10 at least."""

    body: int = 235
    headers: int = 10

    def template(self, subscription: bytes = b"0") -> bytes:
        """A frame of this subscription, with marks in the places of its number."""
        more = [b"header-%d:value of header %d" % (n, n) for n in range(self.headers - 2 - len(_HEADERS))]
        lines = (b"MESSAGE", b"subscription:" + subscription, *_HEADERS, *more)
        lines += (b"content-length:%d" % self.body,)
        return b"\n".join(lines) + b"\n\n" + b"x" * self.body + b"\0"


@dataclass(frozen=True)
class WireBroker:
    """``messages`` for each connection, of them at most ``window`` un-acked at a time."""

    messages: int
    window: int
    frames: Frames = Frames()


class Renderer:
    """Makes many frames at once, by writing numbers into copies of one."""

    def __init__(self, frames: Frames, subscription: bytes = b"0") -> None:
        template = frames.template(subscription)
        self.most = max(1, _PIECE // len(template))
        """How many frames are made at once, about a MiB of them."""
        self._rows = np.tile(np.frombuffer(template, np.uint8), (self.most, 1))
        self._places = [mark.start() for mark in re.finditer(re.escape(_MARK), template)]

    def render(self, first: int, count: int) -> bytes:
        """The frames [first, first + count), ``most`` at most."""
        digits = np.arange(first, first + count)[:, np.newaxis] // _POWERS % 10 + ord("0")
        for place in self._places:
            self._rows[:count, place : place + _DIGITS] = digits
        return self._rows[:count].tobytes()


class Session:
    """What is to be sent on one connection, by what came on it."""

    def __init__(self, settings: WireBroker) -> None:
        self._settings = settings
        self._renderer = Renderer(settings.frames)
        self._sent = self._allowed = 0
        self._received = b""
        self._answers: list[bytes] = []

    def receive(self, data: bytes) -> None:
        """Frames of the client, in pieces as they come."""
        complete, _, self._received = (self._received + data).rpartition(b"\0")
        complete = b"\0" + complete  # so that every command is behind a NUL
        if b"\0CONNECT\n" in complete or b"\0STOMP\n" in complete:
            self._answers.append(b"CONNECTED\nversion:1.2\nserver:bench/1\nheart-beat:0,0\n\n\0")
        subscribed = re.search(rb"\0SUBSCRIBE\nid:(.*)\n", complete)
        if subscribed is not None:
            self._renderer = Renderer(self._settings.frames, subscribed[1])
            self._allowed = self._settings.window
        self._allowed += complete.count(b"\0ACK\n")
        for name in re.findall(rb"\nreceipt:(.*)\n", complete):
            self._answers.append(b"RECEIPT\nreceipt-id:%b\n\n\0" % name)

    def next_data(self) -> bytes:
        """Bytes to send now; none if it is the client's turn."""
        if self._answers:
            data = b"".join(self._answers)
            self._answers.clear()
            return data
        due = min(self._allowed, self._settings.messages) - self._sent
        count = min(due, self._renderer.most)
        self._sent += count
        return self._renderer.render(self._sent - count, count) if count else b""


def serve(listener: socket.socket, settings: WireBroker) -> None:
    """Serve connections for ever, each in a thread of its own."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve_one, args=(connection, Session(settings)), daemon=True).start()


def _serve_one(connection: socket.socket, session: Session) -> None:
    out = memoryview(b"")
    with connection, suppress(ConnectionError):
        connection.setblocking(False)
        while True:
            out = out or memoryview(session.next_data())
            readable, writable, _ = select.select([connection], [connection] if out else [], [])
            if readable:
                data = connection.recv(1 << 20)
                if not data:
                    return
                session.receive(data)
            if writable:
                out = out[connection.send(out) :]


@contextmanager
def wire_broker(messages: int, window: int, frames: Frames | None = None) -> Iterator[int]:
    """A :class:`WireBroker` in a process of its own; yields its port."""
    with program("wire_broker", asdict(WireBroker(messages, window, frames or Frames()))) as running:
        yield running.line()["port"]


def main() -> None:
    settings = json.loads(sys.argv[1])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = WireBroker(**{**settings, "frames": Frames(**settings["frames"])})
        threading.Thread(target=serve, args=(listener, broker), daemon=True).start()
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
        end_with_parent()


if __name__ == "__main__":
    main()
