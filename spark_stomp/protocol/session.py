"""What the client and the server half share: queued bytes, heart-beats, failure."""

from __future__ import annotations

import enum
from abc import abstractmethod
from typing import Generic, Literal, TypeAlias, TypeVar

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.frames import Signal
from spark_stomp.protocol.handshake import HandshakeDecoder
from spark_stomp.protocol.heartbeat import NO_HEARTBEAT, HeartbeatTimer
from spark_stomp.protocol.scanner import FrameScanner
from spark_stomp.protocol.states import Machine

_Source: TypeAlias = HandshakeDecoder | FrameDecoder | FrameScanner

StateT = TypeVar("StateT", bound=enum.Enum)
LocalT = TypeVar("LocalT", bound=enum.Enum)
RemoteT = TypeVar("RemoteT", bound=enum.Enum)
EventT = TypeVar("EventT")

_BEAT = b"\n"


class Session(Generic[StateT, LocalT, RemoteT, EventT]):
    """One half of a session: bytes in, bytes out, time passed in (seconds of one monotonic clock).

    Args:
        machine: the state, by the half's table.
        handshake: decodes the first frame.
        beating: the states in which heart-beats are sent.
        listening: the states in which the peer's heart-beats are expected.
    """

    def __init__(
        self,
        machine: Machine[StateT, LocalT, RemoteT],
        handshake: HandshakeDecoder,
        *,
        beating: frozenset[StateT],
        listening: frozenset[StateT],
    ) -> None:
        self._machine = machine
        self._handshake = handshake
        self._source: _Source = handshake
        self._beating = beating
        self._listening = listening
        self._out: list[bytes | memoryview] = []
        self._now = 0.0
        self._eof = False
        self._timer: HeartbeatTimer | None = None
        self._failure: RemoteProtocolError | None = None
        self.version: str | None = None

    @property
    def state(self) -> StateT:
        """One of ``states``."""
        return self._machine.state

    @property
    def heartbeat(self) -> tuple[int, int]:
        """Negotiated (send, receive) intervals in ms; (0, 0) before that."""
        return self._timer.intervals if self._timer else NO_HEARTBEAT

    @property
    def frame_begun(self) -> bool:
        """Whether a part of a frame has come, and not yet the rest; ask once ``next_event`` has no more."""
        return not isinstance(self._source, HandshakeDecoder) and self._source.begun

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes that the peer sent, read at ``now``; never raises because of their content."""
        self._now = now
        if data and self._timer is not None:
            self._timer.received(now)
        self._source.receive_data(data)

    def receive_eof(self, now: float) -> None:
        """The peer sends nothing more. ``next_event`` reports it after everything before it."""
        self._now = now
        self._eof = True

    def next_event(self) -> EventT | Literal[Signal.NEED_DATA]:
        """The next event, or NEED_DATA.

        Raises:
            RemoteProtocolError: the peer broke the protocol; raised again by every later call. The server
                half has queued an ERROR.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return self._read_event()
        except RemoteProtocolError as error:
            self._fail(error)
            raise

    @abstractmethod
    def _read_event(self) -> EventT | Literal[Signal.NEED_DATA]:
        """The next event; raises RemoteProtocolError."""

    def data_to_send(self, now: float | None = None) -> bytes | memoryview:
        """Take what is queued, or its beginning; ``b""`` if nothing is. Large pieces are not copied.

        ``now``: when it goes out; by default the last time passed in.
        """
        queued = self._out
        if not queued:
            return b""
        data: bytes | memoryview
        if isinstance(queued[0], memoryview):
            data = queued.pop(0)
        else:
            views = (place for place, piece in enumerate(queued) if isinstance(piece, memoryview))
            count = next(views, len(queued))
            data = b"".join(queued[:count])
            del queued[:count]
        if self._timer is not None:
            self._timer.sent(self._now if now is None else now)
        return data

    def deadline(self, now: float) -> float | None:
        """The time by which :meth:`tick` must be called; not before ``now``; None = no heart-beats."""
        if self._timer is None or self.state not in self._listening:
            return None
        deadline = self._timer.deadline(sending=self.state in self._beating)
        return None if deadline is None else max(deadline, now)

    def tick(self, now: float) -> None:
        """Queue a heart-beat if one is due.

        Raises:
            HeartbeatLost: nothing was received for longer than the peer's interval and the margin.
        """
        self._now = now
        if self._timer is None or self.state not in self._listening:
            return
        try:
            self._timer.check(now)
        except RemoteProtocolError as error:
            self._fail(error)
            raise
        self.beat(now)

    def beat(self, now: float) -> None:
        """Queue a heart-beat if one is due, without regard to the peer's."""
        self._now = now
        if self._timer is not None and self.state in self._beating and self._timer.beat_due(now):
            if not self._out:
                self._out.append(_BEAT)
            # Counted from now, not from when it is taken: else a full socket would keep the deadline in the
            # past, and the caller would spin.
            self._timer.sent(now)

    def leave_unread(self, now: float) -> None:
        """What the peer sends is left unread until ``now``, so that its silence until then proves nothing."""
        if self._timer is not None:
            self._timer.received(now)

    def _fail(self, error: RemoteProtocolError) -> None:
        self._machine.fail()
        self._failure = error

    def _switch_source(self, source: FrameDecoder | FrameScanner) -> None:
        """Decode what follows the first frame, even in the same read, in the negotiated version."""
        source.receive_data(self._handshake.take_buffer())
        self._source = source
