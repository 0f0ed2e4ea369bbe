"""Decodes the first frame of a session, before the version is agreed on.

CONNECT and CONNECTED look the same in 1.0 to 1.2, so they are decoded in one of these. Two sorts of peer
need more: lenient ones, whose first frame may fit no strict grammar, and brokers that answer a client they
cannot serve with an ERROR in a version of their own choice. For both, what the strict grammar refuses is
decoded once more, leniently.
"""

from __future__ import annotations

from typing import NoReturn

from spark_stomp.errors import FrameSyntaxError
from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.frames import Frame, Limits, Signal
from spark_stomp.protocol.versions import LENIENT

__all__ = ["HandshakeDecoder"]


class HandshakeDecoder:
    """Strict first, lenient if that fails.

    Args:
        version: the grammar to try first.
        limits: for the first frame; also bounds what is kept for the second try.
        lenient: accept any frame on the second try. Otherwise only an ERROR, for the sake of its text.
    """

    def __init__(self, version: str, limits: Limits, *, lenient: bool) -> None:
        self._limits = limits
        self._any_frame = lenient
        self._decoder = FrameDecoder(version, limits)
        self._seen: list[bytes] | None = None if version == LENIENT else []
        self._strict_error: FrameSyntaxError | None = None
        self._refusal: FrameSyntaxError | None = None

    @property
    def was_lenient(self) -> bool:
        """Whether the strict grammar refused what came."""
        return self._strict_error is not None

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer; never raises."""
        if self._seen is not None:
            self._seen.append(data)
        self._decoder.receive_data(data)

    def next_event(self) -> Frame | Signal:
        """The next frame, HEARTBEAT or NEED_DATA.

        Raises:
            ProtocolError: what the strict grammar found, when both refuse; again on every later call.
        """
        if self._refusal is not None:
            raise self._refusal
        try:
            event = self._decoder.next_event()
        except FrameSyntaxError as error:
            return self._again(error)
        if self._strict_error is not None and isinstance(event, Frame) and not self._acceptable(event):
            self._refuse(self._strict_error)
        return event

    def take_buffer(self) -> bytes:
        """What was not decoded yet; the decoder is empty afterwards."""
        self._seen = None
        return self._decoder.take_buffer()

    def _again(self, error: FrameSyntaxError) -> Frame | Signal:
        """The second try with everything seen so far; a lenient decoder that fails has had it."""
        self._strict_error = self._strict_error or error
        if self._seen is None:
            self._refuse(self._strict_error)
        # EOLs before the frame were reported the first time.
        data = b"".join(self._seen).lstrip(b"\r\n")
        self._seen = None
        self._decoder = FrameDecoder(LENIENT, self._limits)
        self._decoder.receive_data(data)
        return self.next_event()

    def _acceptable(self, frame: Frame) -> bool:
        return self._any_frame or frame.command == "ERROR"

    def _refuse(self, error: FrameSyntaxError) -> NoReturn:
        self._refusal = error
        raise error from None
