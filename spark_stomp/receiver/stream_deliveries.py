"""What a receiver holds of one stream of RabbitMQ, and which offsets of the stream its frames have.

Unlike those of a queue, messages of a stream stay on the broker, and a subscription begins where it is told
to. So there are no duplicates to recognise, nothing is discarded when a connection breaks, and ACKs do not
wait for commits. Frames have sequence numbers, as those of a queue have. Their offsets are known by *runs*:
in a run, each frame has the offset after that of the frame before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from operator import itemgetter
from typing import Final

from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.deliveries import Deliveries, new_epoch

_BY_SEQUENCE, _BY_OFFSET = itemgetter(0), itemgetter(1)
_ENDLESS: Final = 1 << 62


class StreamDeliveries(Deliveries):
    """All that the receiver of one stream holds. Thread-safe.

    Attributes:
        stream_epoch: the epoch of the offsets. It changes only if the stream was declared anew.
        begin: where the run begins: an offset, or a value of the header ``x-stream-offset``.
        base: the offset where the run begins; None before it is known.
        wanted: the end of the batch that is planned already; 0 if none is.
        end_is_known: whether the stream is known not to end before the offset that comes next.
    """

    def __init__(self, max_bytes: int, name: str) -> None:
        super().__init__(max_bytes, name=name)
        self._runs: list[tuple[int, int]] = []  # sequence number and offset of each first frame
        self.wanted = 0
        self.end_is_known = False
        self.begin_at(new_epoch(), 0)

    def begin_at(self, epoch: str, begin: int | str, wanted: int = 0) -> None:
        """The run begins at ``begin``. A batch up to the offset ``wanted`` is planned already.

        Call this before anything is received.
        """
        with self.lock:
            self.stream_epoch, self.begin, self.wanted = epoch, begin, wanted
            self.base = begin if isinstance(begin, int) else None

    @property
    def next(self) -> int | None:
        """The offset after the last frame; None before it is known."""
        return self.offset_after(self.frames.received)

    def offset_after(self, sequence: int) -> int | None:
        """The offset after that of the frame ``sequence - 1``; None before it is known."""
        before = self.offset_of(sequence - 1) if sequence else None
        return self.base if before is None else before + 1

    def offset_of(self, sequence: int) -> int | None:
        """The offset of the frame ``sequence``, and for the next frame the offset that it may have."""
        run = bisect_right(self._runs, sequence, key=_BY_SEQUENCE) - 1
        if run < 0:
            return self.base
        first, offset = self._runs[run]
        return offset + sequence - first

    def sequence_of(self, offset: int) -> int:
        """The number of the first frame with this offset or a higher one; if there is none, of the next."""
        # Read first: the receiver's thread adds a run before the frames of that run.
        received = self.frames.received
        run = bisect_right(self._runs, offset, key=_BY_OFFSET) - 1
        if run < 0:
            return 0
        first, begin = self._runs[run]
        end = self._runs[run + 1][0] if run + 1 < len(self._runs) else received
        return min(first + offset - begin, end, received)

    def receive_from(
        self, offset: int, block: MessageBlock, *, received_at: int, version: str, dialect: str
    ) -> None:
        """Take frames with consecutive offsets, the first of which is ``offset``."""
        with self.lock:
            if self.base is None:
                self.base = offset
            if self.next != offset or not self._runs:
                self._runs.append((self.frames.received, offset))
            self.receive(block, received_at=received_at, version=version, dialect=dialect)
            # ACKs of a stream delete nothing, so no frame waits for its ACK.
            self._marks.advance(kept=self._marks.received)

    def disconnected(self, *, redelivers: bool, but: Collection[str] = ()) -> None:
        """The connection ended. Nothing is discarded: the next one begins behind the last frame."""
        super().disconnected(redelivers=False)

    def begin_anew(self) -> None:
        """The stream was declared anew: its offsets begin again, and the planned batch is lost."""
        self.begin_at(new_epoch(), "first")

    @property
    def awaits_planned(self) -> bool:
        """Whether some of the planned batch has not come yet."""
        return (self.next or 0) < self.wanted

    def room(self) -> int:
        """How many more bytes may be held. A planned batch is always received whole, to be readable."""
        return _ENDLESS if self.awaits_planned else super().room()
