"""How far one stream of RabbitMQ was received: which messages are new, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spark_stomp.errors import StreamTruncated
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.options.stream_positions import Moment
from spark_stomp.protocol import MessageBlock
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.receiver.stream_log import OFFSET, first_offset, offsets_in, part, stream_ends

log = get_log(__name__)

_TIME: Final = "timestamp="


class StreamCursor:
    """How far one stream was received. Used by one thread.

    Attributes:
        next: the offset of the next message; None before it is known.
        came: whether the present subscription has brought a message.
    """

    def __init__(self, options: SourceOptions, destination: str, begin: int | str) -> None:
        self.destination = destination
        self._options = options
        self.came = False
        self.begin_at(begin)

    def begin_at(self, begin: int | str) -> None:
        """Begin at an offset, or at another value of the header ``x-stream-offset``."""
        self._begin = begin
        self.next = begin if isinstance(begin, int) else None

    @property
    def begins_at_time(self) -> bool:
        """Whether reading begins at a time, so that ``next`` is not known before the first message."""
        return isinstance(self._begin, str) and self._begin.startswith(_TIME)

    def header(self) -> HeaderPairs:
        """The header of a new SUBSCRIBE, which says where it begins."""
        self.came = False
        value = self._begin if self.next is None else f"offset={self.next}"
        return ((OFFSET, str(value)),)

    def locate(self, peer: str) -> None:
        """If reading begins at the end of the stream, find out which offset that is."""
        if self._begin == "latest":
            self.begin_at(stream_ends(self._options, [self.destination], peer).get(self.destination, 0))

    def take(self, block: MessageBlock, peer: str) -> Iterator[tuple[int, MessageBlock]]:
        """Yield the new frames of ``block``, in parts with consecutive offsets. Each has its first offset.

        Raises StreamTruncated if offsets are gone that were not received, or logs that. Raises ConnectionLost
        if RabbitMQ cannot be asked whether a gap had messages.
        """
        for begin, end, first in offsets_in(block, peer):
            if self.next is not None and first > self.next:
                self._check_gap(self.next, first, peer)
            self.came = True
            skipped = 0 if self.next is None else min(max(0, self.next - first), end - begin)
            if skipped < end - begin:
                self.next = first + end - begin
                yield first + skipped, part(block, begin + skipped, end)

    def _check_gap(self, expected: int, found: int, peer: str) -> None:
        """The offsets from ``expected`` to ``found - 1`` did not come. Find out whether they were messages.

        They were if the stream begins behind ``expected`` now. If it does not, they are records of RabbitMQ.
        A subscription reads each segment to its end, even if that is deleted meanwhile. So one offset that is
        missing later is the record with which the next segment begins.
        """
        if self.came and found == expected + 1:
            return
        earliest = first_offset(self._options, self.destination, peer)
        if earliest > expected:
            self._lost(
                f"offsets {expected} to {found - 1} of the stream {self.destination} are gone: it begins at "
                f"offset {earliest} now. Its retention (x-max-age, x-max-length-bytes) deleted them before "
                "they were read",
                "go on behind them",
            )

    def check_end(self, end: int, *, started: bool, planned: int = 0) -> bool:
        """The stream ends at ``end``: raise StreamTruncated if that is before the next offset to be read.

        The same if a batch up to ``planned`` was planned, and the stream ends before that.
        With ``failOnDataLoss=false`` this logs it, begins at the first offset, and returns True. If messages
        of this run came already (``started``), their offsets would come twice: then it is an error anyway.
        """
        if self.next is None or end >= max(self.next, planned):
            return False
        behind = f"the next one to be read is {self.next}"
        if end >= self.next:
            behind = f"an earlier run planned a batch up to {planned}"
        text = (
            f"the stream {self.destination} ended at offset {end}, and {behind}: it was deleted and declared "
            "again, or startingOffsets is beyond its end"
        )
        if started:
            raise StreamTruncated(f"{text}. This run has already read messages of it. Start the query again")
        self._lost(text, "read it from its first offset")
        self.begin_at("first")
        return True

    def _lost(self, text: str, otherwise: str) -> None:
        """Raise StreamTruncated; with ``failOnDataLoss=false`` log ``text``, and do ``otherwise``."""
        if self._options.fail_on_data_loss:
            raise StreamTruncated(f"{text}. To {otherwise}, set failOnDataLoss = false")
        log.error("failOnDataLoss=false: %s", text)


def begin_of(options: SourceOptions, destination: str) -> int | str:
    """Where reading begins if the checkpoint has nothing: an offset, ``latest``, or a value of the header."""
    assert options.starting_offsets is not None
    begin = options.starting_offsets.of(destination)
    if isinstance(begin, Moment):
        return f"{_TIME}{begin.seconds}"
    return "first" if begin == "earliest" or begin is None else begin
