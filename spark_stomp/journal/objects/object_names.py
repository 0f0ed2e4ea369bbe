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
from typing import Final, NamedTuple

WRITERS: Final = "writers"
MANIFESTS: Final = "openings"
FRAMES: Final = "frames"
MARKS: Final = "marks"
DEDUP_LOG: Final = "settled"
RESERVE: Final = "reserve"
FOLDERS: Final = (WRITERS, MANIFESTS, FRAMES, MARKS, DEDUP_LOG)

_WRITER: Final = r"(\d{10})-([0-9a-f]{16})"
_MARKER_NAME: Final = re.compile(_WRITER)
_MANIFEST_NAME: Final = re.compile(_WRITER + r"-(\d+)")
_OBJECT_NAME: Final = re.compile(r"(\d{20})-(\d+)-(\d+)-" + _WRITER + r"-(\d+)")
_DEDUP_LOG_NAME: Final = re.compile(r"(\d{20})-(\d+)-" + _WRITER + r"-(\d+)")
_MARK_NAME: Final = re.compile(_WRITER + r"-(\d{20})-(\d{20})")


class Writer(NamedTuple):
    """One opening of a journal for writing. Of two writers, the greater one is newer."""

    generation: int
    id: str

    def __str__(self) -> str:
        return f"{self.generation:010d}-{self.id}"

    @classmethod
    def parse(cls, name: str) -> Writer | None:
        found = _MARKER_NAME.fullmatch(name)
        return None if found is None else cls(int(found[1]), found[2])


class ManifestName(NamedTuple):
    """The name of a manifest. The greatest name is that of the newest manifest."""

    writer: Writer
    size: int

    def __str__(self) -> str:
        return f"{self.writer}-{self.size}"

    @classmethod
    def parse(cls, name: str) -> ManifestName | None:
        found = _MANIFEST_NAME.fullmatch(name)
        return None if found is None else cls(Writer(int(found[1]), found[2]), int(found[3]))


@dataclass(frozen=True, order=True, slots=True)
class FramesName:
    """The name of an object that holds frames. Names sort by position.

    Attributes:
        first: the position of its first frame.
        count: how many frames it has.
        committed: the committed position when it was written.
        writer: who put it.
        size: its size in bytes.
    """

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

    @classmethod
    def parse(cls, name: str) -> FramesName | None:
        found = _OBJECT_NAME.fullmatch(name)
        if found is None:
            return None
        first, count, committed, generation, writer, size = found.groups()
        return cls(int(first), int(count), int(committed), Writer(int(generation), writer), int(size))


class MarkName(NamedTuple):
    """The name of a mark: where the journal ended, and the committed position. The object has one byte."""

    writer: Writer
    end: int
    committed: int

    def __str__(self) -> str:
        return f"{self.writer}-{self.end:020d}-{self.committed:020d}"

    @classmethod
    def parse(cls, name: str) -> MarkName | None:
        found = _MARK_NAME.fullmatch(name)
        if found is None:
            return None
        return cls(Writer(int(found[1]), found[2]), int(found[3]), int(found[4]))


@dataclass(frozen=True, order=True, slots=True)
class DedupLogName:
    """The name of an object that holds remembered keys. Names sort from the oldest to the newest."""

    number: int
    count: int
    writer: Writer
    size: int

    def __str__(self) -> str:
        return f"{self.number:020d}-{self.count}-{self.writer}-{self.size}"

    @classmethod
    def parse(cls, name: str) -> DedupLogName | None:
        found = _DEDUP_LOG_NAME.fullmatch(name)
        if found is None:
            return None
        number, count, generation, writer, size = found.groups()
        return cls(int(number), int(count), Writer(int(generation), writer), int(size))
