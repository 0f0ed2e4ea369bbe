"""The names of a journal's objects. With a manifest, they say which frames the journal has.

::

    writers/G-W           the marker of a writer; G is its generation, W its random id
    openings/G-W-S        its manifest: what it found (see fencing.py); S is the size in bytes
    frames/P-N-C-G-W-S    N frames from position P on; C was the committed position when they were written
    marks/G-W-E-C         a mark, one byte: the journal ended at E, and C was the committed position
    settled/K-N-G-W-S     the dedup log: N keys; K is a serial number
    reserve               on a mount: it only takes up room, and is given up when the mount is full

An object whose name has another form does not belong to the journal. It is neither read nor deleted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, TypeVar

N = TypeVar("N", bound="_Name")

WRITERS: Final = "writers"
MANIFESTS: Final = "openings"
FRAMES: Final = "frames"
MARKS: Final = "marks"
DEDUP_LOG: Final = "settled"
RESERVE: Final = "reserve"
FOLDERS: Final = (WRITERS, MANIFESTS, FRAMES, MARKS, DEDUP_LOG)

_WRITER: Final = re.compile(r"(\d{10})-([0-9a-f]{16})")
# A writer as one group of another name.
_BY: Final = r"(\d{10}-[0-9a-f]{16})"


class Writer(NamedTuple):
    """One opening of a journal for writing. Of two writers, the greater one is newer."""

    generation: int
    id: str

    def __str__(self) -> str:
        return f"{self.generation:010d}-{self.id}"

    @classmethod
    def parse(cls, name: str) -> Writer | None:
        found = _WRITER.fullmatch(name)
        return None if found is None else cls(int(found[1]), found[2])


class _Name:
    """The groups of ``_FORM`` are the fields, in their order: each a writer or a number."""

    __slots__ = ()
    _FORM: ClassVar[re.Pattern[str]]

    @classmethod
    def parse(cls: type[N], name: str) -> N | None:
        found = cls._FORM.fullmatch(name)
        if found is None:
            return None
        return cls(*(Writer.parse(part) or int(part) for part in found.groups()))


@dataclass(frozen=True, order=True, slots=True)
class ManifestName(_Name):
    """The name of a manifest. The greatest name is that of the newest manifest."""

    _FORM = re.compile(_BY + r"-(\d+)")
    writer: Writer
    size: int

    def __str__(self) -> str:
        return f"{self.writer}-{self.size}"


@dataclass(frozen=True, order=True, slots=True)
class FramesName(_Name):
    """The name of an object that holds frames. Names sort by position.

    Attributes:
        first: the position of its first frame.
        count: how many frames it has.
        committed: the committed position when it was written.
        writer: who put it.
        size: its size in bytes.
    """

    _FORM = re.compile(r"(\d{20})-(\d+)-(\d+)-" + _BY + r"-(\d+)")
    first: int
    count: int
    committed: int
    writer: Writer
    size: int

    @property
    def end(self) -> int:
        """The position after that of the last frame."""
        return self.first + self.count

    def __str__(self) -> str:
        return f"{self.first:020d}-{self.count}-{self.committed}-{self.writer}-{self.size}"


@dataclass(frozen=True, order=True, slots=True)
class MarkName(_Name):
    """The name of a mark: where the journal ended, and the committed position. The object has one byte."""

    _FORM = re.compile(_BY + r"-(\d{20})-(\d{20})")
    writer: Writer
    end: int
    committed: int

    def __str__(self) -> str:
        return f"{self.writer}-{self.end:020d}-{self.committed:020d}"


@dataclass(frozen=True, order=True, slots=True)
class DedupLogName(_Name):
    """The name of an object that holds remembered keys. Names sort from the oldest to the newest."""

    _FORM = re.compile(r"(\d{20})-(\d+)-" + _BY + r"-(\d+)")
    number: int
    count: int
    writer: Writer
    size: int

    def __str__(self) -> str:
        return f"{self.number:020d}-{self.count}-{self.writer}-{self.size}"
