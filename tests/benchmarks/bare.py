"""STOMP over a bare socket, with nothing but the standard library: the reference for what a broker can do.

``receive`` subscribes with client-individual, finds the ends of frames by content-length or NUL, and ACKs
each message with a frame of its own, in groups with a receipt: ActiveMQ was seen to stand still for good
if it had 100 KB of ACKs to read and as much to send. ``publish`` sends, and asks for one receipt at the
end; with a rate, bodies begin with the time at which they were sent.

Run as a program with one of them as ``action``, it prints what they return, and the processor time it took.
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

_READ = 1 << 20
_LENGTH = re.compile(rb"\ncontent-length:(\d+)")
_ACK = re.compile(rb"\nack:([^\n]*)")
_RECEIPT = re.compile(rb"\nreceipt-id:([^\n]*)")
_CLOSED = b"closed\n\n\0"
_PATIENCE = 60.0
_ACKS = 1_000
_GROUPS = 4
"""How many ACKs go out with one receipt at most, and how many such groups may wait for theirs."""
_STAMP = 20
_TICK = 0.001
NOW = "{now}"
"""What a text has where the time is to be."""


@dataclass(frozen=True)
class Peer:
    """Where the broker is, and who asks."""

    host: str
    port: int
    login: str | None = None
    password: str | None = None

    def connect(self) -> socket.socket:
        """A connection that is CONNECTED; ConnectionError if the broker says anything else."""
        connection = socket.create_connection((self.host, self.port), timeout=_PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        login = f"login:{self.login}\npasscode:{self.password}\n" if self.login else ""
        connection.sendall(f"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:0,0\n{login}\n\0".encode())
        answer = b""
        while b"\0" not in answer:
            answer += connection.recv(_READ) or b"closed\0"
        if not answer.startswith(b"CONNECTED"):
            raise ConnectionError(answer.decode(errors="replace"))
        return connection


class FrameCounter:
    """Finds frames in what was read: the ack handles of messages, and the ids of receipts."""

    def __init__(self) -> None:
        self.receipts: list[bytes] = []
        self._pieces: list[bytes] = []
        self._have = self._need = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The handles of the messages that ``data`` completes; ConnectionError for any ERROR."""
        self._pieces.append(data)
        self._have += len(data)
        if self._have < self._need:
            return []
        buffer, handles = b"".join(self._pieces), []
        place = stop = 0
        while (frame := _frame(buffer, place)) is not None:
            head, stop = frame
            if head.startswith(b"MESSAGE"):
                found = _ACK.search(head)
                handles.append(found[1] if found else b"")
            elif head.startswith(b"RECEIPT"):
                self.receipts += _RECEIPT.findall(head)
            else:
                raise ConnectionError(buffer[place:stop].decode(errors="replace"))
            place = stop
        self._pieces = [buffer[place:]]
        self._have = len(buffer) - place
        self._need = _size(self._pieces[0])
        return handles


def _frame(buffer: bytes, place: int) -> tuple[bytes, int] | None:
    """The head of the frame at ``place`` and where the next one begins; None if it is not complete."""
    while buffer.startswith(b"\n", place):
        place += 1
    end = buffer.find(b"\n\n", place)
    if end < 0:
        return None
    head = buffer[place:end]
    length = _LENGTH.search(head)
    stop = end + 2 + int(length[1]) if length else buffer.find(b"\0", end + 2)
    return (head, stop + 1) if 0 <= stop < len(buffer) else None


def _size(begun: bytes) -> int:
    """How many bytes a begun frame has at least, so that a large one is not looked through at each read."""
    head, found, _ = begun.partition(b"\n\n")
    length = _LENGTH.search(head) if found else None
    return len(head) + len(b"\n\n\0") + int(length[1]) if length else 0


@dataclass(frozen=True)
class Receiving:
    """``messages`` of a queue. ``headers`` are those of SUBSCRIBE that set the prefetch."""

    peer: Peer
    destination: str
    messages: int
    headers: dict[str, str] = field(default_factory=dict)


def receive(settings: Receiving) -> dict[str, float]:
    """Seconds from SUBSCRIBE to the receipt of the last ACKs."""
    headers = "".join(f"{name}:{value}\n" for name, value in settings.headers.items())
    subscribe = f"SUBSCRIBE\nid:0\ndestination:{settings.destination}\nack:client-individual\n{headers}\n\0"
    subscription = Subscription(settings.peer.connect())
    began, count = time.monotonic(), 0
    subscription.send(subscribe.encode())
    while count < settings.messages or not subscription.done:
        count += subscription.step()
    subscription.send(b"UNSUBSCRIBE\nid:0\nreceipt:last\n\n\0")
    while b"last" not in subscription.counter.receipts:
        count += subscription.step()
    seconds = time.monotonic() - began
    subscription.connection.close()
    return {"seconds": seconds, "messages": count}


class Subscription:
    """A connection that is read while it sends: a broker may not read ACKs before its messages were read."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.counter = FrameCounter()
        self.out = b""
        self._handles: list[bytes] = []
        self._groups = 0

    def fileno(self) -> int:
        """For select."""
        return self.connection.fileno()

    def send(self, data: bytes) -> None:
        """Send as much as goes, and the rest with the next steps."""
        self.out += data
        with suppress(BlockingIOError):
            self.out = self.out[self.connection.send(self.out) :]

    def step(self) -> int:
        """Read once and ACK what came, as far as receipts let through; how many messages came.

        TimeoutError if nothing can be read or written for a minute.
        """
        readable, writable, _ = select.select([self], [self] if self.out else [], [], _PATIENCE)
        if not readable and not writable:
            raise TimeoutError(f"the broker said nothing for {_PATIENCE:g}s")
        if writable:
            self.send(b"")
        handles: list[bytes] = []
        with suppress(BlockingIOError):
            handles = self.counter.feed(self.connection.recv(_READ) or _CLOSED)
        self._handles += handles
        while self._handles and self._groups - self.counter.receipts.count(b"acks") < _GROUPS:
            *some, last = self._handles[:_ACKS]
            del self._handles[:_ACKS]
            acks = b"".join(b"ACK\nid:%b\n\n\0" % handle for handle in some)
            self.send(acks + b"ACK\nid:%b\nreceipt:acks\n\n\0" % last)
            self._groups += 1
        return len(handles)

    @property
    def done(self) -> bool:
        """Whether all ACKs are confirmed."""
        return not self._handles and self.counter.receipts.count(b"acks") == self._groups


@dataclass(frozen=True)
class Publishing:
    """``messages`` with bodies of ``body`` octets; ``rate`` is how many a second, None as fast as it goes.

    At a rate, messages go to ``destination`` and the ``others`` in turn. ``texts`` are bodies to send in turn
    in place of those; NOW in them is the time of sending, in microseconds since 1970.
    """

    peer: Peer
    destination: str
    messages: int
    body: int
    persistent: bool = False
    rate: float | None = None
    others: Sequence[str] = ()
    texts: Sequence[str] = ()

    def frame(self, stamp: bytes = b"", number: int = 0) -> bytes:
        """One SEND; its body begins with ``stamp``. ``number`` says whose turn it is."""
        destination = (self.destination, *self.others)[number % (1 + len(self.others))]
        persistent = b"persistent:true\n" if self.persistent else b""
        head = b"SEND\ndestination:%b\ncontent-type:application/json\n%bcontent-length:%d\n\n"
        filled = self._text(stamp, number) if self.texts else stamp.ljust(self.body, b"x")
        return head % (destination.encode(), persistent, len(filled)) + filled + b"\0"

    def _text(self, stamp: bytes, number: int) -> bytes:
        text = self.texts[number % len(self.texts)]
        return text.replace(NOW, str(int(stamp or _stamp()) // 1_000)).encode()


def publish(settings: Publishing) -> dict[str, float]:
    """Seconds until the receipt: from then on all messages are in the queue."""
    with settings.peer.connect() as connection:
        began = time.monotonic()
        for data in _at_rate(settings) if settings.rate else _at_once(settings):
            connection.sendall(data)
        _finish_sending(connection)
        return {"seconds": time.monotonic() - began, "messages": settings.messages}


def _at_once(settings: Publishing) -> Iterator[bytes]:
    turn = [settings.frame(number=number) for number in range(max(1, len(settings.texts)))]
    frames, most = cycle(turn), max(1, _READ // len(turn[0]))
    for sent in range(0, settings.messages, most):
        yield b"".join(islice(frames, min(most, settings.messages - sent)))


def _at_rate(settings: Publishing) -> Iterator[bytes]:
    """Messages as they fall due, those of one tick of the clock together."""
    assert settings.rate
    began, sent = time.monotonic(), 0
    while sent < settings.messages:
        due = min(settings.messages, int((time.monotonic() - began) * settings.rate) + 1)
        stamp = _stamp()
        yield b"".join(settings.frame(stamp, number) for number in range(sent, due))
        sent = due
        time.sleep(max(_TICK, began + sent / settings.rate - time.monotonic()))


def _stamp() -> bytes:
    return b"%*d" % (_STAMP, time.time_ns())


def sent_at(body: bytes) -> float:
    """When a message that was published at a rate was sent, seconds since 1970."""
    return int(body[:_STAMP]) / 1e9


def _finish_sending(connection: socket.socket) -> None:
    connection.settimeout(10 * _PATIENCE)
    connection.sendall(b"DISCONNECT\nreceipt:last\n\n\0")
    counter = FrameCounter()
    while b"last" not in counter.receipts:
        counter.feed(connection.recv(_READ) or _CLOSED)


def main() -> None:
    settings: dict[str, Any] = json.loads(sys.argv[1])
    action = settings.pop("action")
    settings["peer"] = Peer(**settings["peer"])
    found = receive(Receiving(**settings)) if action == "receive" else publish(Publishing(**settings))
    print(json.dumps({**found, "processor": time.process_time()}), flush=True)


if __name__ == "__main__":
    main()
