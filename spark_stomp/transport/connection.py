"""Moves bytes between one stream and one client session, and returns the events of the session.

One thread at a time drives a connection, and only that thread calls its session. Meanwhile other threads may
call only ``wake``.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import wait
from types import TracebackType

from spark_stomp.brokers import dialect_for
from spark_stomp.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    HeartbeatLost,
    LoginRefused,
    ReceiptTimeout,
    RemoteProtocolError,
    StompError,
    TransportError,
)
from spark_stomp.protocol import (
    NEED_DATA,
    ClientConnection,
    Disconnected,
    ErrorReceived,
    Event,
    HeartbeatReceived,
    ReceiptReceived,
    SessionState,
)
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.threads import T, aside
from spark_stomp.transport.addresses import ADDRESSES, may_be_the_node
from spark_stomp.transport.broker_errors import broker_error, connect_refused
from spark_stomp.transport.hiding import without_secrets
from spark_stomp.transport.stream import READ_SIZE, ByteStream, TlsSession

# Seconds of the longest wait for a socket. Events and wake-ups end it earlier.
_IDLE_POLL = 60.0
# The most bytes that are read from the socket before their events are handled, so that neither memory nor the
# time between two heart-beats depends on how fast the broker sends.
_ROUND_BYTES = 4 << 20
# The most bytes that a receiver without room reads from a broken connection: enough for an ERROR frame.
_LAST_WORDS = 64 << 10
# Seconds between two looks whether a heart-beat is due, while something else is awaited.
_BEAT = 0.1
# Seconds to wait for the receipt of DISCONNECT, unless the caller says how long.
_DISCONNECT_TIMEOUT = 5.0
# Any byte of a frame. Between two frames there are only EOLs and, from some peers, NULs.
_PART_OF_FRAME = re.compile(rb"[^\r\n\0]")


class Connection:
    """A STOMP session over a byte stream.

    Call the methods of ``session``, and then :meth:`poll` to move bytes.

    Args:
        stream: the connected byte stream. The connection closes it.
        session: the session that reads and writes its frames.
        clock: returns seconds of a monotonic clock.
        secrets: texts that no error shows, although a broker may quote them.
        names: what the broker may quote of CONNECT, which says nothing about what an ERROR means.

    Attributes:
        received: bytes that were read so far.
        written: bytes that the stream has taken so far.
        last_frame_byte: the time at which the last byte of a frame was read. EOLs between frames do not
            count.
        rested: seconds for which :meth:`rest` has left the stream unread.
        connected_at: the ``last_frame_byte`` of CONNECTED.
        dialect: that of the broker; before CONNECTED that of an unknown one.
    """

    def __init__(
        self,
        stream: ByteStream,
        session: ClientConnection,
        clock: Callable[[], float] = time.monotonic,
        secrets: Collection[str] = (),
        names: Collection[str] = (),
    ) -> None:
        self.session = session
        self.received = 0
        self.written = 0
        self.rested = 0.0
        self.dialect = dialect_for(None)
        self.last_frame_byte = self.connected_at = clock()
        self._stream = stream
        self._clock = clock
        self._secrets = secrets
        self._names = names
        self._outgoing = memoryview(b"")
        self._failure: StompError | None = None
        self._error: ErrorReceived | None = None  # which ended the session
        self._kept: list[Event] = []  # for the next poll
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
        """The TLS session; None if the stream is not encrypted."""
        return self._stream.tls

    @property
    def ended(self) -> bool:
        """Whether the connection has ended. :meth:`poll` raises the reason after the last events."""
        return self._failure is not None or self.session.state is SessionState.FAILED

    def require_open(self) -> None:
        """Raise the error that ended the connection, if it has ended."""
        if self._error is not None:
            raise self.error_of(self._error)
        if self._failure is not None:
            raise self._failure

    def request(
        self, command: str, headers: HeaderPairs = (), body: bytes = b"", *, receipt: str | None = None
    ) -> None:
        """Queue a frame, as the session does, or raise the error that ended the connection.

        The session may not know of that, and would still queue it.
        """
        self.require_open()
        self.session.request(command, headers, body, receipt=receipt)

    def keep(self, error: ErrorReceived) -> None:
        """``error`` came together with what was awaited: the next :meth:`poll` returns it."""
        self._kept = [error]

    def add_quotable(self, names: Collection[str]) -> None:
        """The broker may quote ``names``, such as destinations: they do not say what an ERROR means."""
        self._names = (*self._names, *names)

    @property
    def has_unsent(self) -> bool:
        """Whether the last :meth:`poll` left bytes that the stream did not take."""
        return bool(self._outgoing)

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, StompError):
            self.failed(error)
        self.close()

    def failed(self, error: StompError) -> None:
        """Its use ends with ``error``. If that may be the node's fault, others are tried before it."""
        silent = isinstance(error, ConnectionLost) and self.last_frame_byte == self.connected_at
        if silent or may_be_the_node(error):
            ADDRESSES.failed(self.peer, self._stream.remote)

    def wake(self) -> None:
        """Make a running :meth:`poll` return. Any thread may call it, also after :meth:`close`."""
        try:
            self._wake_sender.send(b"\0")
        except OSError:
            # If the pipe is full, a wake-up is already waiting. If it is closed, no thread polls any more.
            return

    def poll(self, timeout: float, most: int = _ROUND_BYTES) -> list[Event]:
        """One round: send what is queued, wait up to ``timeout`` seconds for bytes, return their events.

        Reads about ``most`` bytes at most, and returns early on :meth:`wake`. Sends and checks heart-beats;
        those that are received are not among the events. Raises RemoteProtocolError, ConnectionLost, or the
        BrokerError of an ERROR, but only after all earlier events were returned.
        """
        if self._kept:
            events, self._kept = self._kept, []
            return events
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
        """One round without reading: send what is queued, wait up to ``timeout`` seconds for :meth:`wake`.

        For a caller that has no room for more messages, see :meth:`beat`. If writing fails, this returns some
        of the last events, and the next call raises the reason.
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
        """Send what is queued, and a heart-beat if one is due. Read nothing; :meth:`poll` raises errors.

        For a caller that has no room for more messages. The broker's bytes wait in the socket, so its silence
        proves nothing, and the time after which it counts as lost begins again.
        """
        if self._failure is None:
            now = self._clock()
            self.session.leave_unread(now)
            self.session.beat(now)
            self._write()

    def beat_while(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises, which asks over other connections. This one sends heart-beats."""
        future = aside(work)
        while not wait([future], _BEAT).done:
            self.beat()
        return future.result()

    def refusal_of(
        self, event: ErrorReceived, client_id: str | None, host: str
    ) -> LoginRefused | ConnectFailed:
        """The exception for an ERROR frame in answer to a CONNECT with ``client_id`` and ``host``."""
        return connect_refused(event, self.peer, client_id, host, self._secrets, self._names)

    def error_of(self, event: ErrorReceived, what: str = "", names: Collection[str] = ()) -> BrokerError:
        """The exception for an ERROR frame.

        ``what`` names the request that it answers, if that is known; ``names`` are the destinations that it
        may quote.
        """
        return broker_error(event, self.peer, what, self._secrets, (*self._names, *names), self.dialect)

    def disconnect(self, timeout: float | None = None, most: int | None = None) -> None:
        """Send DISCONNECT and wait for its receipt.

        Raises ReceiptTimeout if it has not arrived after ``timeout`` seconds (5 by default), or about
        ``most`` bytes; BrokerError on an ERROR frame; or an error of :meth:`poll`.
        """
        timeout = _DISCONNECT_TIMEOUT if timeout is None else timeout
        deadline, before = self._clock() + timeout, self.received
        self.request("DISCONNECT", receipt=self.session.new_receipt())
        while True:
            for event in self.poll(max(0.0, deadline - self._clock())):
                if isinstance(event, Disconnected) and event.confirmed:
                    return
                if isinstance(event, ErrorReceived):
                    raise self.error_of(event)
            if self._clock() >= deadline:
                raise ReceiptTimeout(f"{self.peer} did not confirm DISCONNECT within {timeout:g}s")
            if most is not None and self.received - before >= most:
                raise ReceiptTimeout(f"{self.peer} sent {most} bytes and did not confirm DISCONNECT")

    def await_receipts(
        self,
        requests: Mapping[str, str],
        timeout: float,
        take: Callable[[Sequence[Event]], None] = lambda events: None,
        poll: Callable[[float], list[Event]] | None = None,
        others_wait: Callable[[], bool] = lambda: False,
    ) -> None:
        """Poll until these receipts are received.

        An ERROR that came with the last one, and answers none of them, is the next poll's.

        Args:
            requests: what to call each request in errors, by the id of its receipt, in the order of sending.
            timeout: seconds to wait for each receipt after the one before. Time in which nothing is read does
                not count, because the receipt may have arrived.
            take: called with the other events of each round. They are not kept here, because a broker may
                send endless messages and no receipt.
            poll: called in place of :meth:`poll`.
            others_wait: called after each round: whether other requests had no answer before it. An ERROR
                that names none may then answer any.

        Raises:
            ReceiptTimeout: the receipt was not received in time.
            DestinationRefused: an ERROR frame answers a request.
            BrokerError: an ERROR frame has another reason.
        """
        missing, begun = dict(requests), self._clock() - self.rested
        while missing:
            events = (poll or self.poll)(max(0.0, self._seconds_left(begun, timeout)))
            ambiguous, others = others_wait(), list[Event]()
            for event in events:
                if isinstance(event, ReceiptReceived) and missing.pop(event.receipt_id, None) is not None:
                    begun = self._clock() - self.rested
                elif isinstance(event, ErrorReceived) and not missing:
                    self.keep(event)
                elif isinstance(event, ErrorReceived):
                    take(others)
                    # An ERROR of RabbitMQ or Artemis does not name the request. It must be the first one
                    # without an answer, because they answer in order.
                    first = "" if ambiguous else next(iter(missing))
                    raise self.error_of(event, missing.get(event.receipt_id or first, ""))
                else:
                    others.append(event)
            take(others)
            if missing and self._seconds_left(begun, timeout) <= 0:
                raise self._late(next(iter(missing.values())), timeout)

    def _late(self, what: str, timeout: float) -> ReceiptTimeout:
        late = ReceiptTimeout(f"{self.peer} did not confirm {what} within {timeout:g}s")
        if self.dialect.unknown_warning is None:
            # A known broker confirms everything, but hangs if a node or a majority of them is away.
            late.verdict = "passes"
        return late

    def _seconds_left(self, begun: float, timeout: float) -> float:
        """Seconds left of a ``timeout`` that began at ``begun``. Time that was rested does not count."""
        return begun + timeout - (self._clock() - self.rested)

    def close(self) -> None:
        """Close the stream without DISCONNECT. Closing twice is fine."""
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
        """From now on, wait for these events of the stream; 0 means none."""
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

    def _end(self, error: StompError) -> None:
        """The connection has ended because of ``error``. No other method sets the reason.

        It may quote what the broker sent, a frame or the reason for which it closes a WebSocket, and the
        broker may quote secrets there.
        """
        self._failure = type(error)(without_secrets(error.message, self._secrets))

    def _tick(self) -> None:
        # Always after reading. Bytes that waited in the socket while this thread could not run are signs of
        # life, and must not count as silence.
        try:
            self.session.tick(self._clock())
        except HeartbeatLost as error:
            self._end(self._failure or error)

    def _read(self) -> None:
        """Pass what has arrived to the session. The end of the stream ends the connection."""
        count, begun = 0, self.session.frame_begun
        while count < self._most:
            try:
                data = self._stream.read(min(self._most - count, READ_SIZE))
            except TransportError as error:
                self._end(error)
                return
            if data is None:
                return
            if not data:
                self.session.receive_eof(self._clock())
                self._end(ConnectionLost(f"{self.peer} closed the connection"))
                return
            now = self._clock()
            self.session.receive_data(data, now)
            if begun or _PART_OF_FRAME.search(data):
                self.last_frame_byte, begun = now, True
            count += len(data)
            self.received += len(data)

    def _events(self) -> list[Event]:
        """All events of the session. An error after some of them is kept for the next poll."""
        events: list[Event] = []
        try:
            while (event := self.session.next_event()) is not NEED_DATA:
                if isinstance(event, ErrorReceived):
                    self._error = event
                if not isinstance(event, HeartbeatReceived):
                    events.append(event)
        except RemoteProtocolError as error:
            self._end(error)
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
                # What the broker sent before it closed the connection is often an ERROR frame.
                self._outgoing = memoryview(b"")
                self._read()
                self._end(self._failure or error)
                return
            self.written += sent
            self._outgoing = self._outgoing[sent:]
            if self._outgoing:
                return
