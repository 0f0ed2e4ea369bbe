"""Bytes to frames, and RECEIPT frames with numbered ids to their numbers.

:class:`FrameDecoder` returns each frame that :class:`~spark_stomp.protocol.reader.FrameReader` reads. A
sender that asks for a receipt with each message gets mostly RECEIPT frames, which differ only in a number.
:class:`ReceiptScanner` reads many of these at once, and leaves all other frames to the decoder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol.frames import NEED_DATA, Frame, Limits, Signal
from spark_stomp.protocol.reader import FrameReader, Head


class FrameDecoder(FrameReader):
    """Decodes one direction of a STOMP connection. Returns each event without waiting for the bytes after it.

    Args:
        version: one of ``VERSIONS``.
        limits: the largest frame to accept; ``Limits()`` by default.
    """

    def next_event(self) -> Frame | Literal[Signal.HEARTBEAT, Signal.NEED_DATA]:
        """The next frame; HEARTBEAT for EOLs between frames; NEED_DATA if nothing is complete.

        A run of EOLs is one HEARTBEAT, or a few if it arrived in pieces.

        Raises:
            RemoteProtocolError: the bytes are not a frame, or exceed a limit. Raised after all frames before
                them were returned, and again on every later call.
        """
        if self._stalled and self._still_stalled():
            return NEED_DATA
        self._raise_error()
        try:
            event = self._read()
            while event is None:
                if not self._pull():
                    self._stalled = True
                    return NEED_DATA
                event = self._read()
        except RemoteProtocolError as error:
            self._fail(error)
            raise
        return self._take_frame(event) if isinstance(event, Head) else event


def frames_in(data: bytes, version: str, limits: Limits | None = None) -> Iterator[Frame]:
    """The complete frames in ``data``. Raises RemoteProtocolError at the first one that is not valid."""
    decoder = FrameDecoder(version, limits)
    decoder.receive_data(data)
    while (event := decoder.next_event()) is not NEED_DATA:
        if isinstance(event, Frame):
            yield event


class ReceiptScanner(FrameDecoder):
    """A FrameDecoder that returns consecutive plain RECEIPT frames as the list of their numbers.

    Args:
        version: one of ``VERSIONS``.
        limits: the largest frame to accept. A plain RECEIPT is not checked: it
            has one header and less than 256 bytes.
        prefix: the beginning of the ids of numbered receipts; a decimal number follows it.
    """

    def __init__(self, version: str, limits: Limits, prefix: str) -> None:
        head = rb"RECEIPT\nreceipt-id:" + re.escape(prefix.encode())
        self._match_run = re.compile(rb"(?:%b[0-9]{1,18}\n\n\0\n*)+" % head).match
        self._find_numbers = re.compile(rb"%b([0-9]+)\n" % head).findall
        super().__init__(version, limits)

    # A ReceiptScanner cannot replace a FrameDecoder, because it also returns lists.
    def next_event(  # type: ignore[override]
        self,
    ) -> list[int] | Frame | Literal[Signal.HEARTBEAT, Signal.NEED_DATA]:
        """The numbers of the next receipts, any other frame, or a signal.

        HEARTBEAT is a run of EOLs between frames. NEED_DATA means that nothing is complete.

        Raises:
            RemoteProtocolError: the bytes are not a frame, or exceed a limit. Raised after all frames before
                them were returned, and again on every later call.
        """
        if self._stalled and self._still_stalled():
            return NEED_DATA
        return self._scan() or super().next_event()

    def _scan(self) -> list[int] | None:
        """The numbers of the next receipts, if these are complete and plain."""
        buffer = self._buffer
        if self.begun:
            return None
        if buffer.start == len(buffer.data):
            self._pull()
        run = self._match_run(buffer.data, buffer.start)
        if run is None:
            return None
        numbers = self._find_numbers(run[0])
        self._consume(len(run[0]))
        return list(map(int, numbers))
