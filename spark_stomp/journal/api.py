"""The interface of all journals, whatever their location, and the errors that they share.

Positions number the frames of one journal, from 0 without a gap, over all its receivers and all runs of the
query. Three rules hold for every journal:

- A position always names the same bytes.
- A frame has a position only once it is durable.
- What is not committed is never deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_stomp.errors import JournalDamaged, JournalTrimmed, JournalUnwritable
from spark_stomp.frame_batch import FrameBatch, MessageKey
from spark_stomp.logs import get_log

log = get_log(__name__)


@dataclass(frozen=True)
class JournalSettings:
    """Where a journal is, and its bounds.

    Attributes:
        location: a path or URI.
        max_bytes: how many bytes the journal may take up.
        max_remembered: how many message keys are remembered after their frames were deleted.
        tolerant: whether to log what is damaged or missing, and go on without it (``failOnDataLoss=false``);
            otherwise it is an error.
    """

    location: str = field(repr=False)
    max_bytes: int
    max_remembered: int
    tolerant: bool = False


class JournalFull(JournalUnwritable):
    """The disk or mount is full. The journal is as it was before the call, and the call may be repeated."""


class Journal(Protocol):
    """Durable frames by position. One thread at a time may write; any thread may read meanwhile.

    Every method that writes raises JournalUnwritable if the location cannot be written to, and JournalInUse
    if another writer took over. Then nothing of that call counts as durable, and no method that writes may be
    called again, except after :class:`JournalFull`.
    """

    @property
    def id(self) -> str:
        """The random id of the journal. It is made once, and every offset of the query names it."""

    @property
    def first(self) -> int:
        """Frames below this position are deleted."""

    @property
    def end(self) -> int:
        """Frames below this position are durable; the next frame gets this position or a later one."""

    @property
    def committed(self) -> int:
        """The position up to which Spark has committed, as far as the journal knows."""

    @property
    def size(self) -> int:
        """How many bytes the journal takes up, without the dedup log."""

    @property
    def remembered_keys(self) -> Sequence[MessageKey]:
        """The message keys in the dedup log, oldest first."""

    @property
    def linger(self) -> float:
        """Seconds for which the writer waits for more frames, to write them together."""

    def append(self, batches: Sequence[FrameBatch]) -> list[int]:
        """Make ``batches`` durable; returns the position of the first frame of each batch."""

    def commit(self, position: int) -> None:
        """Spark has committed the frames below ``position``. Durable with the next append or flush."""

    def flush(self) -> None:
        """Make the committed position durable, if there is room. Call it when no frames come for a moment."""

    def remember(self, keys: Sequence[MessageKey]) -> None:
        """Make these message keys durable, because their frames are about to be deleted."""

    def can_trim(self, upto: int) -> bool:
        """Whether :meth:`trim` would delete any file."""

    def trim(self, upto: int) -> None:
        """Delete files that hold only frames below ``upto``."""

    def skip(self, position: int) -> None:
        """Give the next frame ``position`` or a later one: earlier positions were used before."""

    def batches(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames [low, high), numbered by position.

        Raises JournalTrimmed if some were deleted or are not written yet, and JournalDamaged if some are not
        as they were written.
        """

    def held(self, low: int, high: int) -> list[tuple[int, int]]:
        """The parts of [low, high) that the journal holds, in ascending order."""

    def bytes_between(self, low: int, high: int) -> int:
        """How many bytes the frames [low, high) had on the wire."""

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        """The largest end up to ``high`` for which [low, end) has at most ``max_bytes``; at least ``low``."""

    def close(self) -> None:
        """Release the journal to the next writer."""


def report_damage(where: str, damage: Sequence[str], *, tolerant: bool) -> None:
    """Raise JournalDamaged for ``damage`` of the journal at ``where``, or log it if ``tolerant``.

    Does nothing if the list is empty.
    """
    if damage and not tolerant:
        raise JournalDamaged(
            f"the journal at {where} is damaged: {'; '.join(damage)}. With failOnDataLoss=false the query "
            "goes on without what is lost"
        )
    for text in damage:
        log.error("the journal at %s: %s", where, text)


def unwritable(
    where: str, why: object, kind: type[JournalUnwritable] = JournalUnwritable
) -> JournalUnwritable:
    """The error for a journal at ``where`` that cannot be written."""
    remedy = ". Make room there; if the query has ended, start it again" if kind is JournalFull else ""
    return kind(
        f"the journal at {where} cannot be written: {why}. Messages that are not in the journal were neither "
        f"given to Spark nor ACKed, and stay on the broker{remedy}"
    )


def not_held(journal: Journal, low: int, high: int) -> JournalTrimmed:
    """The error for a range that ``journal`` does not hold."""
    return JournalTrimmed(
        f"messages [{low}, {high}) of the journal were asked for, but it holds "
        f"[{journal.first}, {journal.end})"
    )
