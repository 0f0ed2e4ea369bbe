"""How far one stream of RabbitMQ was read: where reading begins, what came, and what that says. No I/O."""

from __future__ import annotations

from typing import Final, NamedTuple

from spark_stomp.brokers.rabbitmq import OFFSET
from spark_stomp.options import SourceOptions
from spark_stomp.options.kinds import Moment
from spark_stomp.protocol.frames import HeaderPairs


class StreamStart(NamedTuple):
    """Where reading begins.

    Attributes:
        header: the value of the header ``x-stream-offset``.
        offset: the first offset that is wanted; None if that is the one of the first message that comes.
    """

    header: str
    offset: int | None = None


FIRST: Final = StreamStart("first")
LATEST: Final = StreamStart("latest")
"""The end of the stream. RabbitMQ does not know this value: it is asked first which offset that is."""


def start_at(offset: int) -> StreamStart:
    """Reading begins at ``offset``, or at the first message after it that is still there."""
    return StreamStart(f"offset={offset}", offset)


def stream_start(options: SourceOptions, destination: str) -> StreamStart:
    """Where reading begins if the checkpoint has nothing."""
    assert options.starting_offsets is not None
    begin = options.starting_offsets.of(destination)
    if isinstance(begin, Moment):
        return StreamStart(f"timestamp={begin.seconds}")
    if isinstance(begin, int):
        return start_at(begin)
    return LATEST if begin == "latest" else FIRST


class StreamProgress:
    """How far a stream was read by a run that begins at ``place``. One thread changes it, any may look.

    Its methods are told what came and what the broker says, and conclude what that means.

    Attributes:
        wanted: up to where the checkpoint knows the stream, planned or committed; 0 if it does not name it.
        base: the offset where the run begins; None before it is known.
        next: the offset after the last message; None before it is known.
        came: whether the present subscription has brought a message.
        end_is_known: whether the stream is known not to end before ``next``.
        was_empty: whether it was without messages when it was last looked at, and none has come since.
    """

    def __init__(self, place: StreamStart, wanted: int = 0) -> None:
        self.place, self.wanted = place, wanted
        self.base = self.next = place.offset
        self.came = self.end_is_known = self.was_empty = False

    def locate(self, offset: int) -> None:
        """The first message will have ``offset``, or a higher one."""
        self.base = self.next = offset

    def subscribe(self) -> HeaderPairs:
        """The header that says where a new subscription begins."""
        self.came = self.end_is_known = False
        return ((OFFSET, (self.place if self.next is None else start_at(self.next)).header),)

    def lacks(self, first: int) -> bool:
        """Whether messages may be missing before the offset ``first``, which has just come.

        One offset that is missing after the first message is a record of RabbitMQ, with which the next
        segment begins: a subscription reads a segment to its end, even if that is deleted meanwhile.
        """
        return self.next is not None and first > self.next + self.came

    def brought(self, first: int, count: int) -> int:
        """``count`` messages from the offset ``first`` on came. Returns how many of them are not new."""
        self.came = True
        return 0 if self.next is None else min(max(0, self.next - first), count)

    def read_up_to(self, end: int) -> None:
        """The messages below the offset ``end`` are taken."""
        self.next = end

    def note_end_known(self) -> None:
        """Messages of it came, or the broker was asked where it ends, and that is not too early."""
        self.end_is_known = True

    def note_end(self, end: int | None) -> bool:
        """The broker says that it ends at ``end``; None if it is empty. Returns whether that is too early."""
        self.was_empty = end is None
        return end is not None and self.why_too_early(end) is not None

    def why_too_early(self, end: int) -> str | None:
        """Why the stream cannot be the one that was read if it ends at ``end``; None if it can."""
        if self.next is not None and end < self.next:
            return f"the next one to be read is {self.next}"
        if self.next is not None and end < self.wanted:
            return f"an earlier run planned a batch up to {self.wanted}"
        return None

    @property
    def awaits_planned(self) -> bool:
        """Whether some of the planned batch has not come yet."""
        return (self.next or 0) < self.wanted

    def has_all_below(self, end: int) -> bool:
        """Whether all has come that a run takes which ends at the offset ``end``."""
        if self.next is None:
            # Nothing came from a time on, or the stream has no messages.
            return not end or (self.end_is_known and self.place != FIRST)
        return self.next == end or (self.next > end and (self.end_is_known or self.place == LATEST))
