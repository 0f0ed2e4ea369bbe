"""Moves bytes between one stream and one client session, and returns the session's events.

One thread at a time drives a connection, and only that thread calls its session. ``wake`` is the only method
that another thread may call meanwhile. A :class:`Pump` keeps a connection alive while its owner is busy.
"""

from __future__ import annotations

import re
import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType

from spark_stomp.errors import (
    BrokerError,
    ConnectionLost,
    DeliveryError,
    HeartbeatLost,
    ReceiptTimeout,
    RemoteProtocolError,
    StompError,
    TransportError,
)
from spark_stomp.logs import get_log, in_context
from spark_stomp.protocol import (
    NEED_DATA,
    ClientConnection,
    Disconnected,
    ErrorReceived,
    Event,
    HeartbeatReceived,
    ReceiptReceived,
)
from spark_stomp.transport.broker_errors import broker_error, without_secrets
from spark_stomp.transport.stream import READ_SIZE, Stream
from spark_stomp.transport.tls import TlsSession

log = get_log(__name__)

_IDLE_POLL = 60.0
# The most bytes read from the socket before their events are handled, so that neither memory nor the time
# between two heart-beats depends on how fast the broker sends.
_ROUND_BYTES = 4 << 20
# The most that is read of a broken connection if there is no room for more.
_LAST_WORDS = 64 << 10
# How often a pump works, in seconds: the longest that a message waits to be sent if no other follows, and the
# most that a heart-beat is late.
_TICK = 0.05
# What a frame begins with: an EOL or, from some peers, a NUL stands between frames.
_PART_OF_FRAME = re.compile(rb"[^\r\n\0]")


class Connection:
    """A STOMP session over a byte stream.

    Call the methods of ``session`` and then :meth:`poll` to move bytes. ``written`` is how
    many bytes the stream has taken so far, ``last_frame_byte`` the time at which a part of a frame came last
    (an EOL between frames is none), ``rested`` for how many seconds :meth:`rest` has left the stream unread.
    ``secrets`` are kept out of errors: a broker may quote them.
    """

    def __init__(
        self,
        stream: Stream,
        session: ClientConnection,
        clock: Callable[[], float] = time.monotonic,
        secrets: Collection[str] = (),
    ) -> None:
        self.session = session
        self.written = 0
        self.rested = 0.0
        self._received = 0
        self.last_frame_byte = clock()
        self._stream = stream
        self._clock = clock
        self._secrets = secrets
        self._outgoing = memoryview(b"")
        self._failure: StompError | None = None
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_receiver, selectors.EVENT_READ)
        self._watched = 0
        self._most = _ROUND_BYTES

    @property
    def peer(self) -> str:
        """``host:port`` of the broker."""
        return self._stream.peer

    @property
    def tls(self) -> TlsSession | None:
        """What TLS was agreed on; None if the stream is not encrypted."""
        return self._stream.tls

    @property
    def ended(self) -> bool:
        """Whether nothing can be sent any more; :meth:`poll` raises the reason after the last events."""
        return self._failure is not None

    def require_open(self) -> None:
        """Raise the error that ended the connection, if it has ended; the session does not know of it."""
        if self._failure is not None:
            raise self._failure

    @property
    def has_unsent(self) -> bool:
        """Whether the latest :meth:`poll` left bytes that the stream did not take."""
        return bool(self._outgoing)

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wake(self) -> None:
        """Make a running :meth:`poll` return; from any thread, also after :meth:`close`."""
        try:
            self._wake_sender.send(b"\0")
        except OSError:
            # Full: a wake-up is waiting already. Closed: no thread polls any more.
            return

    def poll(self, timeout: float, most: int = _ROUND_BYTES) -> list[Event]:
        """One round: send what is queued, wait up to ``timeout`` seconds for bytes, return their events.

        Reads about ``most`` bytes. Returns early on :meth:`wake`. Heart-beats are sent and checked; those
        that come are no events, since they bring nobody forward. Raises RemoteProtocolError or ConnectionLost
        after the events before it were returned.
        """
        self.require_open()
        self._most = most
        self._write()
        events = self._events()
        if events:
            return events
        self._wait(timeout)
        self._read()
        self._tick()
        self._write()
        return self._events()

    def rest(self, timeout: float) -> list[Event]:
        """One round without reading: send what is queued, and wait up to ``timeout`` seconds for a wake-up.

        For a caller that has no room for more messages: see :meth:`beat`. If the connection cannot be written
        to any more, returns some of what came before its end; the next call raises the reason.
        """
        self.require_open()
        self._most = _LAST_WORDS
        begun = self._clock()
        self.beat()
        if self._failure is None:
            self._wait(timeout, reading=False)
            self.beat()
        self.rested += self._clock() - begun
        return self._events()

    def beat(self) -> None:
        """Send what is queued, and a heart-beat if one is due, and read nothing; :meth:`poll` tells errors.

        For a caller that has no room for more messages: the broker's bytes wait in the socket meanwhile. So
        its silence proves nothing, and the time within which it must send something begins anew.
        """
        if self._failure is None:
            now = self._clock()
            self.session.leave_unread(now)
            self.session.beat(now)
            self._write()

    def error_of(self, event: ErrorReceived, what: str = "") -> BrokerError:
        """The exception for an ERROR frame; ``what`` names the request that it answers, if that is known."""
        return broker_error(event, self.peer, what, self._secrets)

    def disconnect(self, timeout: float, most: int | None = None) -> None:
        """Send DISCONNECT and wait for its receipt: ``timeout`` seconds, and for about ``most`` bytes.

        Raises ReceiptTimeout, BrokerError on an ERROR frame, or what :meth:`poll` raises.
        """
        self.require_open()
        deadline, before = self._clock() + timeout, self._received
        self.session.disconnect(self.session.new_receipt())
        while True:
            for event in self.poll(max(0.0, deadline - self._clock())):
                if isinstance(event, Disconnected) and event.confirmed:
                    return
                if isinstance(event, ErrorReceived):
                    raise self.error_of(event)
            if self._clock() >= deadline:
                raise ReceiptTimeout(f"{self.peer} did not confirm DISCONNECT within {timeout:g}s")
            if most is not None and self._received - before >= most:
                raise ReceiptTimeout(f"{self.peer} sent {most} bytes and did not confirm DISCONNECT")

    def await_receipt(
        self,
        receipt: str,
        timeout: float,
        what: str,
        take: Callable[[Sequence[Event]], None] = lambda events: None,
        poll: Callable[[float], list[Event]] | None = None,
    ) -> None:
        """Poll until ``receipt`` came, by ``poll`` if it is given; ``take`` is given the other events.

        They are not kept here: a broker may send messages without end and no receipt. No other request may
        wait for an answer. Time in which nothing is read does not count: the receipt may have come. Raises
        ReceiptTimeout or DestinationRefused (on an ERROR frame), which name ``what``, or BrokerError if the
        ERROR has other reasons.
        """
        begun = self._clock() - self.rested
        while True:
            events = (poll or self.poll)(max(0.0, self._left(begun, timeout)))
            # Nothing follows an ERROR: a receipt in the same read came before it.
            answered = ReceiptReceived(receipt) in events
            for event in events:
                if isinstance(event, ErrorReceived):
                    # RabbitMQ and Artemis name no request, and this is the only one without an answer.
                    refused = not answered and event.receipt_id in (None, receipt)
                    raise self.error_of(event, what if refused else "")
            take([event for event in events if event != ReceiptReceived(receipt)])
            if answered:
                return
            if self._left(begun, timeout) <= 0:
                raise ReceiptTimeout(f"{self.peer} did not confirm {what} within {timeout:g}s")

    def _left(self, begun: float, timeout: float) -> float:
        """What is left of ``timeout`` seconds of reading; ``begun`` is when they began, less ``rested``."""
        return begun + timeout - (self._clock() - self.rested)

    def close(self) -> None:
        """Close the stream without telling the broker; closing twice is fine."""
        self._selector.close()
        self._stream.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    def _wait(self, timeout: float, *, reading: bool = True) -> None:
        if reading and self._stream.buffered():
            return
        now = self._clock()
        deadline = self.session.deadline(now)
        if deadline is not None:
            timeout = min(timeout, max(0.0, deadline - now))
        self._watch(reading * selectors.EVENT_READ | bool(self._outgoing) * selectors.EVENT_WRITE)
        for key, _ in self._selector.select(min(timeout, _IDLE_POLL)):
            if key.fileobj is self._wake_receiver:
                self._clear_wakes()

    def _watch(self, events: int) -> None:
        """Wait for these events of the stream from now on; 0: for none."""
        if not self._watched:
            if events:
                self._selector.register(self._stream, events)
        elif not events:
            self._selector.unregister(self._stream)
        elif events != self._watched:
            self._selector.modify(self._stream, events)
        self._watched = events

    def _clear_wakes(self) -> None:
        try:
            while self._wake_receiver.recv(4096):
                pass
        except BlockingIOError:
            return

    def _tick(self) -> None:
        # Always after reading: bytes that waited in the socket while this thread could not run are signs of
        # life and must not count as silence.
        try:
            self.session.tick(self._clock())
        except HeartbeatLost as error:
            self._failure = self._failure or error

    def _read(self) -> None:
        """Move what has arrived into the session; the end of the stream becomes a failure."""
        count, begun = 0, self.session.frame_begun
        while count < self._most:
            try:
                data = self._stream.read(min(self._most - count, READ_SIZE))
            except TransportError as error:
                self._failure = error
                return
            if data is None:
                return
            if not data:
                self.session.receive_eof(self._clock())
                self._failure = ConnectionLost(f"{self.peer} closed the connection")
                return
            now = self._clock()
            self.session.receive_data(data, now)
            if begun or _PART_OF_FRAME.search(data):
                self.last_frame_byte, begun = now, True
            count += len(data)
            self._received += len(data)

    def _events(self) -> list[Event]:
        """All events that the session has; an error after some of them is kept for the next poll."""
        events: list[Event] = []
        try:
            while (event := self.session.next_event()) is not NEED_DATA:
                if not isinstance(event, HeartbeatReceived):
                    events.append(event)
        except RemoteProtocolError as error:
            # The error quotes bytes that the broker sent.
            self._failure = type(error)(without_secrets(error.message, self._secrets))
        if self._failure is not None and not events:
            raise self._failure
        return events

    def _write(self) -> None:
        """Send as much as the stream takes without waiting."""
        while True:
            if not self._outgoing:
                self._outgoing = memoryview(self.session.data_to_send())
                if not self._outgoing:
                    return
            try:
                sent = self._stream.write(self._outgoing)
            except TransportError as error:
                # Read what the broker sent before it closed: often an ERROR frame.
                self._outgoing = memoryview(b"")
                self._read()
                self._failure = self._failure or error
                return
            self.written += sent
            self._outgoing = self._outgoing[sent:]
            if self._outgoing:
                return


class Pump:
    """Does ``work`` on a connection again and again in a thread of its own.

    Spark may compute for a long time between two messages that it sends, or take long for a batch of rows.
    Without heart-beats in that time the broker would give the connection up.

    The owner uses the connection only with ``lock`` held, as the pump does. It does the same work then and
    does not notify the pump, so it causes no wake-ups. The pump ends if ``work`` fails; ``failure`` is why.
    It is raised at the end of a ``with`` block that has no error of its own.
    """

    def __init__(
        self, connection: Connection, work: Callable[[], object], lock: threading.Lock, name: str
    ) -> None:
        self.failure: StompError | None = None
        self._work = work
        self._lock = lock
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=in_context(self._run), name=f"{name}-{connection.peer}", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Pump:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None and self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Return when the pump works no more; the caller must not hold the lock. Stopping twice is fine."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(_TICK):
            with self._lock:
                try:
                    self._work()
                except StompError as error:
                    self.failure = error
                    return
                except Exception as error:
                    # A thread that dies in silence would leave the connection to itself.
                    self.failure = DeliveryError(f"{self._thread.name} failed unexpectedly: {error!r}")
                    log.exception("failed unexpectedly")
                    return
