"""RECEIPT frames with numbered ids, many at once.

For a sender that asks for one receipt per message: most of what its broker sends are RECEIPT frames that
differ in a number only.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from spark_stomp.protocol.decoder import FrameDecoder
from spark_stomp.protocol.frames import Frame, Limits, Signal

_PLAIN_LIMITS: Final = Limits(max_header_line=128, max_headers=1, max_frame=256)
"""No plain RECEIPT reaches these, so that nothing has to be counted if the limits in force are not lower."""


class ReceiptRun(NamedTuple):
    """Consecutive RECEIPT frames: the numbers in their ids, in order."""

    numbers: list[int]


class ReceiptScanner(FrameDecoder):
    """A FrameDecoder that returns plain RECEIPT frames as runs.

    Args:
        version: one of ``VERSIONS``.
        limits: what to refuse.
        prefix: what the ids of numbered receipts begin with; the rest of them is a decimal number.
    """

    def __init__(self, version: str, limits: Limits, prefix: str) -> None:
        head = rb"RECEIPT\nreceipt-id:" + re.escape(prefix.encode())
        self._match_run = re.compile(rb"(?:%b[0-9]{1,18}\n\n\0\n*)+" % head).match
        self._find_numbers = re.compile(rb"%b([0-9]+)\n" % head).findall
        super().__init__(version, limits)

    def _settings_changed(self) -> None:
        super()._settings_changed()
        limits, plain = self._limits, _PLAIN_LIMITS
        self._scans = (
            limits.max_header_line >= plain.max_header_line
            and limits.max_headers >= plain.max_headers
            and limits.max_frame >= plain.max_frame
        )

    # Not to be used where a FrameDecoder is asked for.
    def next_event(  # type: ignore[override]
        self,
    ) -> ReceiptRun | Frame | Literal[Signal.HEARTBEAT, Signal.NEED_DATA]:
        """As :meth:`FrameDecoder.next_event`, and numbered receipts as runs."""
        if not self._ready:
            if self._stalled and self._still_stalled():
                return Signal.NEED_DATA
            run = self._scan()
            if run is not None:
                return run
        return super().next_event()

    def _scan(self) -> ReceiptRun | None:
        """The receipts that come next, if they are complete and plain."""
        buffer = self._buffer
        if not self._scans or self.begun:
            return None
        if buffer.start == len(buffer.data):
            self._pull()
        run = self._match_run(buffer.data, buffer.start)
        if run is None:
            return None
        numbers = self._find_numbers(run[0])
        self._consume(len(run[0]))
        return ReceiptRun(list(map(int, numbers)))
