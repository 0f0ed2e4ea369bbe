"""How a task fetches its frames: over connections that a worker keeps, into memory that is used again."""

from __future__ import annotations

import json
import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from spark_stomp.errors import FrameServerError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver.wire import (
    HEAD_SIZE,
    IDLE,
    NAME,
    REPORT,
    FrameServerAddress,
    Head,
    RangeTicket,
    from_wire,
    prepare,
    tls_context,
)
from spark_stomp.logs import get_log

log = get_log(__name__)

# Seconds for which a task waits for a connection.
_CONNECT_TIMEOUT = 20.0
# Seconds for which a task waits until its report has been taken.
_REPORT_TIMEOUT = 5.0
# Seconds of silence after which a task asks whether the frame server still answers. A store may be slow.
_SILENCE = 30.0
# --- memory that is used again

_LEAST = 1 << 20
"""Bytes of the smallest piece of memory, which most frame batches fit into."""
_KEPT = 8 << 20
"""Bytes of the largest piece that is kept."""
_BELIEVED = 32 << 20
"""Bytes for which memory is taken before they come. What is larger costs twice the time."""
_free: deque[npt.NDArray[np.uint8]] = deque(maxlen=4)
"""Pieces that nothing refers to."""


def _memory(size: int) -> memoryview:
    """Memory for ``size`` bytes, which is used again when nothing refers to it any more.

    With bodies of 10 KB, new pages for each batch were a third of a worker's processor time (November 2026).
    """
    try:
        while len(piece := _free.pop()) < size:
            pass
    except IndexError:
        piece = np.empty(max(size, _LEAST), np.uint8)
    used = piece[:size]
    if len(piece) <= _KEPT:
        weakref.finalize(used, _free.append, piece).atexit = False
    return used.data


def _unused(size: int) -> memoryview:
    """Memory for what is short, and may be held for longer than the frames."""
    return memoryview(bytearray(size))


# --- how a task fetches its frames

MOST_CONNECTIONS = 4
"""How many unused connections a worker keeps, over all queries."""


def fetch(address: FrameServerAddress, ticket: RangeTicket) -> Iterator[FrameBatch]:
    """Yield the frames of ``ticket``, batch by batch, in order.

    Raises FrameServerError if the frame server cannot be reached, refuses, breaks off, or delivers anything
    but the whole range. A task that got less must fail, or messages without a row would be ACKed.
    """
    expected = ticket.low
    try:
        for batch in _answer(address, ticket.to_bytes()):
            if batch.first_number != expected or batch.end > ticket.high:
                break
            expected += len(batch.ends)
            yield batch
    except OSError as error:
        raise FrameServerError(
            f"frames [{ticket.low}, {ticket.high}) of log {ticket.log} could not be fetched from "
            f"{address.host_port}: {error}"
        ) from error
    if expected != ticket.high:
        raise FrameServerError(
            f"the frame server at {address.host_port} delivered frames up to {expected} of "
            f"[{ticket.low}, {ticket.high}), log {ticket.log}"
        )


def report(address: FrameServerAddress, counts: Sequence[tuple[str, str, str, str, int]]) -> None:
    """Tell the reader process what a task has noticed: kind, destination, dialect, a reason and how many.

    Nothing depends on it, so it may fail, and does if no answer comes for five seconds.
    """
    try:
        list(_answer(address, b"%b %b" % (REPORT, json.dumps(counts).encode()), _REPORT_TIMEOUT))
    except OSError as error:
        log.debug("what a task noticed could not be reported: %s", error)


def _answer(
    address: FrameServerAddress, request: bytes, timeout: float | None = None
) -> Iterator[FrameBatch]:
    """Make a request, and yield the frame batches of the answer.

    A connection is kept only after a whole answer. Raises OSError, also if the frame server refuses.
    """
    connection = _connections.take(address)
    try:
        connection.ask(request, timeout)
        while (batch := connection.next_batch()) is not None:
            yield batch
    except BaseException:
        connection.close()
        raise
    _connections.keep(connection)


def _prove_alive(address: FrameServerAddress) -> None:
    """Make a report of nothing. Raises TimeoutError if the frame server does not answer it."""
    try:
        list(_answer(address, b"%b []" % REPORT, _REPORT_TIMEOUT))
    except OSError as error:
        raise TimeoutError(f"it said nothing for {_SILENCE:g} s, nor to another request: {error}") from None


class _Connection:
    """A connection to a frame server, for one request at a time. Its methods raise OSError."""

    def __init__(self, address: FrameServerAddress) -> None:
        self.address = address
        made = socket.create_connection((address.host, address.port), _CONNECT_TIMEOUT)
        try:
            prepare(made)
            if address.key_pair is not None:
                context = tls_context(address.key_pair, ssl.PROTOCOL_TLS_CLIENT)
                made = context.wrap_socket(made, server_hostname=NAME)
        except BaseException:
            made.close()
            raise
        self._socket = made
        self._used = time.monotonic()

    @property
    def is_usable(self) -> bool:
        """Whether a new request may use it: it has not ended, and will not for a while."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return time.monotonic() - self._used < IDLE / 2 and not poll.poll(0)

    def ask(self, request: bytes, timeout: float | None) -> None:
        """Send ``request``. Without a ``timeout`` the answer may take as long as the frame server lives."""
        self._patient = timeout is None
        self._socket.settimeout(_SILENCE if timeout is None else timeout)
        self._socket.sendall(b"%b %b\n" % (self.address.token.encode(), request))

    def next_batch(self) -> FrameBatch | None:
        """The next batch; None at the end of the answer."""
        head = Head.from_bytes(self._read(HEAD_SIZE, _unused))
        said = self._read(head.times + head.ends + head.text, _unused)
        if head.ends:
            return from_wire(head, said, lambda: self._read(head.frames, _memory))
        if head.text:
            raise ConnectionRefusedError(bytes(said).decode(errors="replace"))
        self._used = time.monotonic()
        return None

    def _read(self, size: int, memory: Callable[[int], memoryview]) -> memoryview:
        """The next ``size`` octets."""
        if size <= _BELIEVED:
            return self._fill(memory(size))
        # What else listens there may say any size, so memory is taken as the octets come.
        piece, came = np.empty(_BELIEVED, np.uint8), 0
        while came < size:
            if came:
                piece.resize(min(size, 2 * came), refcheck=False)
            self._fill(piece[came:].data)
            came = len(piece)
        return piece.data

    def _fill(self, into: memoryview) -> memoryview:
        """Fill ``into``, and return it."""
        rest = into
        while rest:
            try:
                count = self._socket.recv_into(rest)
            except TimeoutError:
                if not self._patient:
                    raise
                _prove_alive(self.address)
                continue
            if not count:
                raise ConnectionResetError("the frame server closed the connection")
            rest = rest[count:]
        return into

    def close(self) -> None:
        self._socket.close()


class _Connections:
    """The connections that this process keeps from task to task, those used last at the end. Thread-safe."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a forked process: the connections are the parent's."""
        self._lock = threading.Lock()
        self._kept: list[_Connection] = []

    def take(self, address: FrameServerAddress) -> _Connection:
        """A connection for a request: one that was kept, or a new one. Raises OSError."""
        while (kept := self._next(address)) is not None:
            if kept.is_usable:
                return kept
            kept.close()
        return _Connection(address)

    def _next(self, address: FrameServerAddress) -> _Connection | None:
        with self._lock:
            found = next((one for one in self._kept if one.address == address), None)
            if found is not None:
                self._kept.remove(found)
            return found

    def keep(self, connection: _Connection) -> None:
        """Keep a connection that waits for a request; the one that was kept longest may end for it."""
        with self._lock:
            self._kept.append(connection)
            if len(self._kept) > MOST_CONNECTIONS:
                self._kept.pop(0).close()


_connections = _Connections()
# A user's code in the same worker may fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_connections.forget)
