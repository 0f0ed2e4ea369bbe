"""What a journal can do, wherever it lies.

Positions number the frames of one journal, of all its receivers together, densely from 0 over all runs of the
query. Invariants: a position names the same bytes for ever; a frame has a position only once it is durable;
what is not committed is never deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_stomp.framebatch import FrameBatch, MessageKey
from spark_stomp.receiver.dedup import MAX_REMEMBERED

__all__ = ["Journal", "JournalSettings"]


@dataclass(frozen=True)
class JournalSettings:
    """``location`` is a path or URI; ``max_bytes`` bounds what the journal takes up; with ``tolerant`` what
    is damaged or gone is logged and left out (``failOnDataLoss=false``), otherwise it is an error.

    ``max_remembered`` bounds how many keys are remembered of messages whose frames are gone.
    """

    location: str = field(repr=False)
    max_bytes: int
    tolerant: bool = False
    max_remembered: int = MAX_REMEMBERED


class Journal(Protocol):
    """One writer thread appends, commits and trims; reading may happen in any thread meanwhile.

    Whatever writes raises JournalUnwritable where the place takes no more, and JournalInUse where another
    writer took over. After either nothing was made durable by that call, and nothing more can be.
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
    def settled(self) -> Sequence[MessageKey]:
        """Keys that earlier runs left (see :meth:`settle`)."""

    @property
    def patience(self) -> float:
        """Seconds for which frames are worth gathering before they are written together."""

    def append(self, runs: Sequence[FrameBatch]) -> list[int]:
        """Make ``runs`` durable; returns the position of each one's first frame."""

    def commit(self, position: int) -> None:
        """Spark has committed everything below ``position``. Becomes durable some time later."""

    def rest(self) -> None:
        """Nothing more comes for the moment: what was only to become durable some time becomes so now."""

    def settle(self, keys: Sequence[MessageKey]) -> None:
        """Remember these keys durably: their frames are about to be trimmed."""

    def trim(self, upto: int) -> None:
        """Delete what lies below ``upto``, as far as whole files do."""

    def skip(self, position: int) -> None:
        """The next frame gets ``position`` or a later one: those before were given away."""

    def runs(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames [low, high), numbered by position; JournalDamaged, JournalTrimmed where some are not
        there."""

    def held(self, low: int, high: int) -> list[tuple[int, int]]:
        """The parts of [low, high) that are there."""

    def bytes_between(self, low: int, high: int) -> int:
        """The size of the frames [low, high) on the wire."""

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        """The largest position up to ``high`` so that [low, it) has at most ``max_bytes``."""

    def close(self) -> None:
        """Give the journal to the next writer."""
