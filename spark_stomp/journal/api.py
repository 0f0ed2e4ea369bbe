"""What every journal can do, whatever its location, and the errors that all of them share.

Positions number the frames of one journal, from 0 without a gap, over all its receivers and all runs of the
query. Invariants:

- A position names the same bytes for ever.
- A frame has a position only once it is durable.
- What is not committed is never deleted.

docs/journal.md says how the journals keep them.
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
        max_bytes: how much the journal may take up.
        max_remembered: how many keys of messages are remembered after their frames are gone.
        tolerant: log what is damaged or gone, and go on without it (``failOnDataLoss=false``); otherwise it
            is an error.
    """

    location: str = field(repr=False)
    max_bytes: int
    max_remembered: int
    tolerant: bool = False


class JournalFull(JournalUnwritable):
    """The disk has no room. The journal is as it was before that call, which may be made again."""


class Journal(Protocol):
    """One thread at a time appends, commits, skips and trims; any thread may read meanwhile.

    Every method that writes raises JournalUnwritable if the location takes no more, and JournalInUse if
    another writer took over. After either, count nothing of that call as durable, and write no more, unless
    it is :class:`JournalFull`.
    """

    @property
    def id(self) -> str:
        """Random, made once, named in every offset."""

    @property
    def first(self) -> int:
        """Positions below are deleted."""

    @property
    def end(self) -> int:
        """Positions below are durable."""

    @property
    def committed(self) -> int:
        """The position up to which Spark had committed, as far as the journal was told."""

    @property
    def size(self) -> int:
        """Bytes that the journal takes up."""

    @property
    def remembered_keys(self) -> Sequence[MessageKey]:
        """Keys that earlier runs left (see :meth:`remember`), oldest first."""

    @property
    def linger(self) -> float:
        """Seconds to wait for more frames, to write them together."""

    def append(self, batches: Sequence[FrameBatch]) -> list[int]:
        """Make ``batches`` durable; returns the position of each one's first frame."""

    def commit(self, position: int) -> None:
        """Spark has committed everything below ``position``; durable with the next append or flush."""

    def flush(self) -> None:
        """Make durable what is not durable yet, if there is room. Call it when nothing more comes for the
        moment."""

    def remember(self, keys: Sequence[MessageKey]) -> None:
        """Make these keys durable: their frames are about to be trimmed."""

    def can_trim(self, upto: int) -> bool:
        """Whether there is a file to delete that lies whole below ``upto``."""

    def trim(self, upto: int) -> None:
        """Delete the files that lie whole below ``upto``."""

    def skip(self, position: int) -> None:
        """Give the next frame ``position`` or a later one: those before were given away."""

    def batches(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames [low, high), numbered by position.

        Raises JournalTrimmed if some are no longer or not yet there, JournalDamaged if some are not as they
        were written.
        """

    def held(self, low: int, high: int) -> list[tuple[int, int]]:
        """The parts of [low, high) that are there."""

    def bytes_between(self, low: int, high: int) -> int:
        """The size of the frames [low, high) on the wire."""

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        """The largest end up to ``high`` for which [low, end) has at most ``max_bytes``."""

    def close(self) -> None:
        """Release the journal to the next writer."""


def report_damage(where: str, damage: Sequence[str], *, tolerant: bool) -> None:
    """Raise JournalDamaged if there is any ``damage`` of the journal at ``where``; log it if tolerated."""
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
    return kind(
        f"the journal at {where} cannot be written: {why}. What it does not hold was neither ACKed on its "
        "account nor given to Spark, and stays on the broker"
    )


def not_held(journal: Journal, low: int, high: int) -> JournalTrimmed:
    """The error for a range that ``journal`` does not hold."""
    return JournalTrimmed(
        f"messages [{low}, {high}) of the journal were asked for, but it holds "
        f"[{journal.first}, {journal.end})"
    )
