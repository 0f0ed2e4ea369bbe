"""A broker that means harm: a script for each connection, over bare sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from support.tcp import tcp_server
from support.waiting import PATIENCE

from spark_stomp.brokers import subscription_id
from spark_stomp.errors import FrameSyntaxError
from spark_stomp.protocol import NEED_DATA, Frame, FrameDecoder

OURS = subscription_id("/queue/a")
CONNECTED = b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0"
# Enough to fill every buffer on the way, however fast the other side is.
FLOOD_BYTES = 256 << 20
WITHOUT_END = 1 << 50


def message(number: int, body: bytes = b"x", subscription: str = OURS, **headers: object) -> bytes:
    """A MESSAGE as the dev broker sends it."""
    own = {"subscription": subscription, "message-id": f"m{number}", "ack": f"a{number}", **headers}
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in own.items())
    return b"MESSAGE\ndestination:/queue/a\n%b\n%b\0" % (lines.encode(), body)


class Peer:
    """One connection, for its script. Every method that sends ends the script once the client is gone."""

    def __init__(self, sock: socket.socket, number: int, broker: HostileBroker) -> None:
        self.number, self._socket, self._broker = number, sock, broker
        self._frames: list[Frame] = []
        self._news = threading.Condition()
        self._ended = False
        if not broker.deaf:
            threading.Thread(target=self._listen, daemon=True).start()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def drip(self, data: bytes, every: float = 0.05) -> None:
        """One byte at a time."""
        for byte in data:
            self.send(bytes([byte]))
            time.sleep(every)

    def flood(self, piece: bytes, most: int = FLOOD_BYTES) -> None:
        """``piece`` again and again, about ``most`` bytes."""
        block = piece * max(1, (1 << 18) // len(piece))
        for _ in range(max(1, most // len(block))):
            self.send(block)

    def read_some(self) -> bytes:
        """What the client of a deaf broker sends next."""
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the client is gone")
        return data

    def read_until(self, mark: bytes) -> bytes:
        """What the client of a deaf broker sends, up to and with ``mark``."""
        found = b""
        while mark not in found:
            found += self.read_some()
        return found

    def wait_for(self, command: str, count: int = 1) -> Frame:
        """The ``count``-th frame with this command that the client has sent."""
        with self._news:
            self._news.wait_for(lambda: self._ended or len(self._sent(command)) >= count, PATIENCE)
            found = self._sent(command)
        if len(found) < count:
            raise ConnectionError(f"no {command} came")
        return found[count - 1]

    def connect(self, answer: bytes = CONNECTED) -> None:
        self.wait_for("CONNECT")
        self.send(answer)

    def confirm(self, command: str, count: int = 1) -> None:
        """Answer that frame with the receipt that it asks for."""
        self.send(receipt(self.wait_for(command, count).get("receipt") or ""))

    def subscribe(self) -> None:
        self.connect()
        self.confirm("SUBSCRIBE")

    def serve(self) -> None:
        """From now on like a broker: confirm whatever asks for it, until the client is gone."""
        seen = 0
        while True:
            with self._news:
                self._news.wait_for(lambda: self._ended or len(self._frames) > seen)  # noqa: B023
                new, seen = self._frames[seen:], len(self._frames)
            if not new:
                return
            wanted = [frame.get("receipt") for frame in new if frame.command != "SUBSCRIBE"]
            self.send(b"".join(receipt(one) for one in wanted if one))

    def hold(self) -> None:
        """Say nothing more until the client is gone; a deaf broker: until it is stopped."""
        if self._broker.deaf:
            self._broker.stopped.wait(PATIENCE)
            return
        with self._news:
            self._news.wait_for(lambda: self._ended)

    def reset(self) -> None:
        """End the connection."""
        self._socket.close()

    def _sent(self, command: str) -> list[Frame]:
        return [frame for frame in self._frames if frame.command == command]

    def _listen(self) -> None:
        decoder = FrameDecoder("1.2")
        # What is no STOMP (TLS) ends it too.
        with contextlib.suppress(OSError, FrameSyntaxError):
            while data := self._socket.recv(1 << 18):
                decoder.receive_data(data)
                found = []
                while (event := decoder.next_event()) is not NEED_DATA:
                    if isinstance(event, Frame):
                        found.append(event)
                self._broker.acked += [frame.get("id") or "" for frame in found if frame.command == "ACK"]
                with self._news:
                    self._frames += found
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


Script = Callable[[Peer], object]
Step = bytes | Script


def plays(*steps: Step) -> Script:
    """These steps in turn: bytes are sent, the others are scripts."""

    def script(peer: Peer) -> None:
        for step in steps:
            if isinstance(step, bytes):
                peer.send(step)
            else:
                step(peer)

    return script


def waits(command: str) -> Script:
    return lambda peer: peer.wait_for(command)


def floods(piece: bytes, most: int = FLOOD_BYTES) -> Script:
    return lambda peer: peer.flood(piece, most)


def drips(data: bytes, every: float = 0.05) -> Script:
    return lambda peer: peer.drip(data, every)


def pause(peer: Peer) -> None:
    """So long that the client has said what it has to say; a deaf broker cannot see it."""
    time.sleep(0.1)


class HostileBroker:
    """``acked``: the ids of all ACK frames that came, in order. A ``deaf`` one reads nothing at all."""

    def __init__(self, *, deaf: bool) -> None:
        self.port = 0
        self.acked: list[str] = []
        self.deaf = deaf
        self.stopped = threading.Event()


@contextmanager
def hostile_broker(script: Script, *, deaf: bool = False) -> Iterator[HostileBroker]:
    """On loopback. A script that returns ends its connection."""
    broker = HostileBroker(deaf=deaf)
    numbers = count()

    def serve(connection: socket.socket) -> None:
        try:
            script(Peer(connection, next(numbers), broker))
        finally:
            # Wakes the thread that listens to it.
            connection.shutdown(socket.SHUT_RDWR)

    with tcp_server(serve, together=True) as broker.port:
        try:
            yield broker
        finally:
            broker.stopped.set()


def receipt(name: str) -> bytes:
    return b"RECEIPT\nreceipt-id:%b\n\n\0" % name.encode()
