"""A TCP proxy between the connector and any broker that fails on command.

It moves bytes and knows nothing of STOMP, except that a test may name bytes whose passing is a moment of its
own: the beginning of an ACK frame, say. Faults hold for all connections, those of the future included, until
:meth:`FaultProxy.heal`; cuts happen once.
"""

from __future__ import annotations

import contextlib
import enum
import socket
import threading
import time
from dataclasses import dataclass

from support.waiting import PATIENCE, wait_until

_HOST = "127.0.0.1"
_CHUNK = 1 << 16
# A throttled way passes this many pieces a second.
_PIECES = 20
# To let a held or throttled way look for its end.
_LOOK = 0.05


class Way(enum.Enum):
    """A direction."""

    TO_BROKER = "to the broker"
    TO_CLIENT = "to the client"


@dataclass
class _Rules:
    """What one way suffers. ``cut_in`` counts bytes; ``watched`` is looked for in what passes."""

    rate: float | None = None
    held: bool = False
    cut_in: int | None = None
    watched: bytes = b""
    cut_before: bool = False


class FaultProxy:
    """Takes connections on ``port`` and makes one to ``target`` for each; a context manager.

    Thread-safe. ``target`` may be set to another port of loopback for the connections to come. With
    ``record`` it keeps what passes.
    """

    def __init__(self, target: int, *, record: bool = False) -> None:
        self.target = target
        self.accepted = 0
        self.tripped = False
        """Whether what the latest :meth:`cut_after`, :meth:`cut_before` or :meth:`hold_answers_to` waits for
        has happened."""
        self._record = bytearray() if record else None
        self._changed = threading.Condition()
        self._rules = {way: _Rules() for way in Way}
        self._passed = dict.fromkeys(Way, 0)
        self._lines: set[_Line] = set()
        self._refusing = False
        self._listener = socket.create_server((_HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def url(self) -> str:
        """The value of the ``url`` option."""
        return f"stomp://{_HOST}:{self.port}"

    def __enter__(self) -> FaultProxy:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(PATIENCE)
        self._listener.close()
        self.cut()
        for thread in self._threads[1:]:
            thread.join(PATIENCE)

    # --- looking

    @property
    def connections(self) -> int:
        """How many there are now."""
        with self._changed:
            return len(self._lines)

    def passed(self, way: Way) -> int:
        """How many bytes went that way in all."""
        with self._changed:
            return self._passed[way]

    @property
    def recorded(self) -> bytes:
        """All bytes that passed either way, in pieces as they came."""
        assert self._record is not None, "nothing is recorded"
        with self._changed:
            return bytes(self._record)

    def wait_tripped(self, timeout: float = PATIENCE) -> None:
        """Wait for :attr:`tripped`."""
        wait_until(lambda: self.tripped, timeout, "the fault")

    # --- faults

    def cut(self) -> None:
        """End every connection now, without a word to either side."""
        with self._changed:
            lines = list(self._lines)
        for line in lines:
            line.close()
        self._set()

    def refuse(self) -> None:
        """End every connection now, and those to come at once."""
        self._refusing = True
        self.cut()

    def throttle(self, bytes_per_second: float) -> None:
        """Pass this much from now on, on each way of each connection."""
        self._set(*Way, rate=bytes_per_second)

    def hold(self, *ways: Way) -> None:
        """Pass nothing on these ways until :meth:`release`, :meth:`heal` or a cut."""
        self._set(*ways, held=True)

    def release(self) -> None:
        """What was held passes; other faults stay."""
        self._set(*Way, held=False)

    def cut_after(self, count: int, *ways: Way) -> None:
        """End the first connection that has brought ``count`` more bytes on one of these ways, amid a frame
        or not."""
        self.tripped = False
        self._set(*ways, cut_in=count)

    def cut_before(self, watched: bytes) -> None:
        """End the connection on which a client sends ``watched``; the broker gets what came before only."""
        self.tripped = False
        self._set(Way.TO_BROKER, watched=watched, cut_before=True)

    def hold_answers_to(self, watched: bytes) -> None:
        """Once a client sent ``watched``, pass on what clients send and nothing that the broker answers."""
        self.tripped = False
        self._set(Way.TO_BROKER, watched=watched, cut_before=False)

    def heal(self) -> None:
        """No more faults; what was held passes, if its connection is still there."""
        with self._changed:
            self._refusing = False
            self._rules = {way: _Rules() for way in Way}
            self._changed.notify_all()

    def _set(self, *ways: Way, **rules: object) -> None:
        with self._changed:
            for way in ways:
                for name, value in rules.items():
                    setattr(self._rules[way], name, value)
            self._changed.notify_all()

    # --- the threads: one that accepts, two for each connection

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                if self._refusing:
                    raise ConnectionRefusedError
                broker = socket.create_connection((_HOST, self.target), timeout=PATIENCE)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            line = _Line(client, broker)
            with self._changed:
                self._lines.add(line)
            for way in Way:
                thread = threading.Thread(target=self._pump, args=(line, way), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, line: _Line, way: Way) -> None:
        source, sink = line.ends(way)
        tail = b""
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                tail = self._pass(line, way, sink, data, tail)
        line.close()
        with self._changed:
            self._lines.discard(line)

    def _pass(self, line: _Line, way: Way, sink: socket.socket, data: bytes, tail: bytes) -> bytes:
        """Move ``data`` as the rules have it; returns what of it may begin something that is watched for."""
        rest, watched = data, b""
        while rest:
            self._await_release(line, way)
            with self._changed:
                rules, watched = self._rules[way], self._rules[way].watched
                size = len(rest) if rules.rate is None else max(1, int(rules.rate / _PIECES))
                piece = rest[:size]
                admitted = self._admitted(rules, tail, piece)
                self._passed[way] += admitted
                if self._record is not None:
                    self._record += piece[:admitted]
            sink.sendall(piece[:admitted])
            if admitted < len(piece) or rules.cut_in == 0:
                # It happens once, whichever way got there first.
                self._set(*Way, cut_in=None)
                self.tripped = True
                raise ConnectionAbortedError
            if rules.rate is not None:
                self._pause(line, len(piece) / rules.rate)
            tail, rest = (tail + piece)[-len(watched) + 1 :] if len(watched) > 1 else b"", rest[size:]
        return tail

    def _admitted(self, rules: _Rules, tail: bytes, piece: bytes) -> int:
        """How many bytes of ``piece`` pass; fewer than all where the connection is to be cut after them."""
        admitted = len(piece)
        place = (tail + piece).find(rules.watched) - len(tail) if rules.watched else -len(tail) - 1
        if place >= -len(tail):
            rules.watched = b""
            if rules.cut_before:
                admitted = max(0, place)
            else:
                # Before the watched bytes reach the broker, so that no answer slips through.
                self._rules[Way.TO_CLIENT].held = True
                self.tripped = True
        if rules.cut_in is not None:
            admitted = min(admitted, rules.cut_in)
            rules.cut_in -= admitted
        return admitted

    def _await_release(self, line: _Line, way: Way) -> None:
        with self._changed:
            while self._rules[way].held:
                self._look(line, _LOOK)

    def _pause(self, line: _Line, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._changed:
            while (remaining := deadline - time.monotonic()) > 0:
                self._look(line, min(remaining, _LOOK))

    def _look(self, line: _Line, seconds: float) -> None:
        """Wait for a change, unless the connection was closed."""
        if line.closed:
            raise ConnectionAbortedError
        self._changed.wait(seconds)


class _Line:
    """One connection through the proxy."""

    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        self._client, self._broker = client, broker
        self.closed = False

    def ends(self, way: Way) -> tuple[socket.socket, socket.socket]:
        """Where bytes of that way come from, and where they go."""
        return (self._client, self._broker) if way is Way.TO_BROKER else (self._broker, self._client)

    def close(self) -> None:
        """End both halves; closing twice is fine."""
        self.closed = True
        for end in (self._client, self._broker):
            # Wakes the thread that reads it, which a mere close does not.
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
