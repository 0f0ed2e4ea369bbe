"""One client's socket: moves bytes between it and its peer, with high and low water marks."""

from __future__ import annotations

import selectors
import socket
from collections import deque

from spark_stomp.devbroker.peer import HIGH_WATER, Peer

# Bytes of one read. A judgement, not measured.
_READ_SIZE = 1 << 18
# Bytes. Deliveries begin again when no more than this waits for the client. A judgement, not measured.
_LOW_WATER = HIGH_WATER // 2
# Seconds for a client to read its ERROR or last RECEIPT, and to close. A judgement, not measured.
_LINGER = 2.0


class Link:
    """Moves bytes between one non-blocking socket and its peer.

    At the end of a session the socket stays open until the client has closed its side, or for 2 seconds. If
    it were closed with unread input, the connection would be reset, and the client would lose its ERROR
    frame.
    """

    def __init__(self, connected: socket.socket, peer: Peer, selector: selectors.BaseSelector) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connected
        self.peer = peer
        self.closed = False
        self._selector = selector
        self.waiting = 0
        self._outgoing: deque[memoryview] = deque()
        self._interest = selectors.EVENT_READ
        self._linger_until: float | None = None
        selector.register(connected, selectors.EVENT_READ, self)

    def read(self, now: float) -> None:
        """Read once, and pass the bytes to the peer; ``now`` is in monotonic seconds."""
        try:
            data = self.socket.recv(_READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.peer.receive(data, now)
            return
        self.peer.receive_eof(now)
        self.close()

    def write(self, now: float) -> None:
        """Send as much of the queued bytes as the socket takes. Close if the session is over."""
        if self.closed:
            return
        if self.peer.dropped:
            self.peer.drop()
            self.close()
            return
        self._send()
        if self.closed:
            return
        if self.peer.finished and not self._outgoing:
            self._finish(now)
        self._set_interest()

    def tick(self, now: float) -> None:
        """Send heart-beats. Close the socket if the client does not close its side in time."""
        if self._linger_until is not None and now >= self._linger_until:
            self.close()
        elif not self.peer.finished:
            self.peer.tick(now)

    def deadline(self, now: float) -> float | None:
        """When :meth:`tick` has something to do, in monotonic seconds; None for never."""
        if self.peer.finished:
            return self._linger_until
        return None if self.peer.faults.answer_nothing else self.peer.connection.deadline(now)

    def close(self) -> None:
        """Close the socket."""
        if not self.closed:
            self.closed = True
            self._selector.unregister(self.socket)
            self.socket.close()

    def _send(self) -> None:
        peer = self.peer
        if peer.faults.answer_nothing:
            return
        # Everything is taken from the session first, so that ``waiting`` counts all of it.
        if data := peer.connection.data_to_send():
            self._outgoing.append(memoryview(data))
            self.waiting += len(data)
        try:
            self._send_outgoing()
        except BlockingIOError:
            pass
        except OSError:
            peer.drop()
            self.close()
            return
        if peer.room > 0:
            peer.room = HIGH_WATER - self.waiting
        elif self.waiting <= _LOW_WATER:
            peer.room = HIGH_WATER - self.waiting
            peer.has_room()

    def _send_outgoing(self) -> None:
        while self._outgoing:
            piece = self._outgoing[0]
            sent = self.socket.send(piece)
            self.waiting -= sent
            if sent == len(piece):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = piece[sent:]

    def _finish(self, now: float) -> None:
        if self._linger_until is None:
            self._linger_until = now + _LINGER
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self.close()

    def _set_interest(self) -> None:
        if self.closed:
            return
        interest = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        if interest != self._interest:
            self._interest = interest
            self._selector.modify(self.socket, interest, self)
