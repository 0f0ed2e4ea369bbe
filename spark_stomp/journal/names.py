"""The names of a journal's objects, or files on a disk. With a state, they say which frames the journal has.

::

    writers/G-W           the marker of a writer; G is its generation, W its random id
    states/G-W-K-S        a state: what the writer found, and how far it is (see state.py); S: size in bytes
    frames/P-N-C-G-W-S    N frames from position P on; C was the committed position when they were written
    keys/K-N-G-W-S        the dedup log: N message keys; K is a serial number
    lock                  on a disk: held by the process that writes
    reserve               on a disk or mount: it only takes up room, and is given up if there is none

An object whose name has another form does not belong to the journal. It is neither read nor deleted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, TypeVar

N = TypeVar("N", bound="_Name")

WRITERS: Final = "writers"
STATES: Final = "states"
FRAMES: Final = "frames"
KEYS: Final = "keys"
FOLDERS: Final = (WRITERS, STATES, FRAMES, KEYS)
LOCK: Final = "lock"
RESERVE: Final = "reserve"

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

    @classmethod
    def sizes(cls: type[N], listed: Mapping[str, int]) -> dict[N, int]:
        """The names of this form among ``listed``, in order, with their actual sizes."""
        found = ((cls.parse(text), size) for text, size in listed.items())
        return dict(sorted((name, size) for name, size in found if name is not None))


@dataclass(frozen=True, order=True, slots=True)
class StateName(_Name):
    """The name of a state. The greatest name is that of the newest state."""

    _FORM = re.compile(_BY + r"-(\d{10})-(\d+)")
    writer: Writer
    number: int
    size: int

    def __str__(self) -> str:
        return f"{self.writer}-{self.number:010d}-{self.size}"


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
class KeysName(_Name):
    """The name of an object that holds remembered keys. Names sort from the oldest to the newest."""

    _FORM = re.compile(r"(\d{20})-(\d+)-" + _BY + r"-(\d+)")
    number: int
    count: int
    writer: Writer
    size: int

    def __str__(self) -> str:
        return f"{self.number:020d}-{self.count}-{self.writer}-{self.size}"
