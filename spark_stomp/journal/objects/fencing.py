"""Fencing: which frames in an object store belong to the journal, even if several writers put some.

An object store has no lock. So each writer that opens the journal puts a marker, and a writer that sees a
newer marker stops. After its marker, a writer puts a manifest, which says what it found in the journal. The
newest manifest decides which objects count. Four invariants, in which *returned* means by ``append``:

- What was returned is accepted by every newer writer that completes the opening.
- No position is returned by two writers.
- A position that was returned always names the same bytes.
- What is deleted as void is never accepted later.

docs/journal.md has the steps of opening, appending and deleting, and the proof.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_stomp.errors import JournalDamaged, JournalError, JournalInUse
from spark_stomp.journal.objects.blobs import Blobs
from spark_stomp.journal.objects.object_names import (
    FRAMES,
    MANIFESTS,
    MARKS,
    WRITERS,
    FramesName,
    ManifestName,
    MarkName,
    Writer,
)

_FORMAT: Final = 1


class Accepted(NamedTuple):
    """The objects of ``writer`` that a manifest accepts: those with positions within [low, high)."""

    writer: Writer
    low: int
    high: int


@dataclass(frozen=True)
class Manifest:
    """What ``writer`` found when it opened the journal.

    Attributes:
        writer: who put the manifest.
        journal: the id of the journal.
        base: the end of all that was valid; the writer's own frames begin here.
        committed: the position up to which Spark had committed.
        accepted: which objects of older writers are valid.
    """

    writer: Writer
    journal: str
    base: int
    committed: int
    accepted: tuple[Accepted, ...] = ()

    def owns(self, frames: FramesName) -> bool:
        """Whether this manifest makes the object ``frames`` valid."""
        if frames.writer == self.writer:
            return frames.first >= self.base
        return any(
            frames.writer == writer and low <= frames.first and frames.end <= high
            for writer, low, high in self.accepted
        )

    def encode(self) -> bytes:
        """The bytes of the manifest: a checksum, a line feed, and JSON."""
        content = json.dumps(
            {
                "format": _FORMAT,
                "journal": self.journal,
                "base": self.base,
                "committed": self.committed,
                "accepted": [[*writer, low, high] for writer, low, high in self.accepted],
            }
        ).encode()
        return b"%08x\n" % zlib.crc32(content) + content

    @classmethod
    def decode(cls, writer: Writer, raw: bytes) -> Manifest:
        """The manifest with these bytes.

        Raises ValueError if they are not as they were written, and JournalError if the format is not known.
        """
        checksum, _, content = raw.partition(b"\n")
        if int(checksum, 16) != zlib.crc32(content):
            raise ValueError("the checksum is wrong")
        fields = json.loads(content)
        if fields["format"] != _FORMAT:
            raise JournalError(
                f"the journal has format {fields['format']}; this release reads {_FORMAT}. Use the release "
                "that wrote it"
            )
        accepted = (Accepted(Writer(*one[:2]), *one[2:]) for one in fields["accepted"])
        return cls(writer, fields["journal"], fields["base"], fields["committed"], tuple(accepted))


def accepted_of(frames: Iterable[FramesName]) -> tuple[Accepted, ...]:
    """For each writer, the positions from its first to its last object among ``frames``."""
    ranges: dict[Writer, tuple[int, int]] = {}
    for one in frames:
        low, high = ranges.get(one.writer, (one.first, one.end))
        ranges[one.writer] = (min(low, one.first), max(high, one.end))
    return tuple(Accepted(writer, low, high) for writer, (low, high) in ranges.items())


@dataclass(frozen=True)
class Listing:
    """The objects of a journal, as they were listed.

    Attributes:
        frames: the objects of frames, with their actual sizes.
        manifest: the newest manifest that can be read; None if there is none.
        marks: the marks of the manifest's writer; all marks if there is no manifest.
        manifests: the names of all manifests.
        broken: a sentence about each newer manifest that cannot be read.
    """

    frames: Mapping[FramesName, int]
    manifest: Manifest | None
    marks: Sequence[MarkName]
    manifests: Sequence[ManifestName]
    broken: Sequence[str] = ()


def list_journal(blobs: Blobs) -> Listing:
    """List frames, then manifests, then marks: the proof in docs/journal.md needs this order.

    Raises FileNotFoundError if a newer writer deletes objects meanwhile. Then check the fence and list again.
    """
    sizes = blobs.names(FRAMES)
    frames = {name: sizes[text] for text in sizes if (name := FramesName.parse(text)) is not None}
    manifests, manifest, broken = _manifests(blobs)
    marks = _marks(blobs)
    if manifest is not None:
        marks = [mark for mark in marks if mark.writer == manifest.writer]
    return Listing(frames, manifest, marks, manifests, broken)


def _manifests(blobs: Blobs) -> tuple[list[ManifestName], Manifest | None, list[str]]:
    """The names of all manifests, the newest one that can be read, and what is wrong with newer ones."""
    sizes = blobs.names(MANIFESTS)
    names = sorted(name for text in sizes if (name := ManifestName.parse(text)) is not None)
    broken: list[str] = []
    for name in reversed(names):
        # An unfinished manifest does not count: its writer has appended nothing.
        if sizes[str(name)] != name.size:
            continue
        raw = blobs.get(f"{MANIFESTS}/{name}")
        try:
            return names, Manifest.decode(name.writer, raw), broken
        except (ValueError, KeyError, TypeError) as error:
            broken.append(f"{MANIFESTS}/{name} is damaged: {error}")
    return names, None, broken


def _marks(blobs: Blobs) -> list[MarkName]:
    return [mark for text in blobs.names(MARKS) if (mark := MarkName.parse(text)) is not None]


class WriterFence:
    """The marker of a writer, which the constructor puts, and the check for newer writers."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        generation = max((writer.generation for writer in self._writers()), default=0) + 1
        self.writer = Writer(generation, secrets.token_hex(8))
        blobs.put(f"{WRITERS}/{self.writer}", b"\n")

    def check(self) -> None:
        """Raise JournalInUse if a newer writer took over, and JournalDamaged if the marker was deleted."""
        writers = self._writers()
        if max(writers, default=self.writer) > self.writer:
            raise JournalInUse(
                f"another query took over the journal at {self._blobs.shown}; each query needs its own. "
                "This query stops: messages that it did not write to the journal stay on the broker"
            )
        if self.writer not in writers:
            raise JournalDamaged(
                f"somebody deleted {WRITERS}/{self.writer} of the journal at {self._blobs.shown}"
            )

    def clear(self, manifests: Sequence[ManifestName]) -> None:
        """Delete what older writers have put: marks, markers, and those of ``manifests`` that are theirs."""
        self._delete_older(MANIFESTS, manifests)
        self._delete_older(MARKS, _marks(self._blobs))
        older = (str(writer) for writer in self._writers() if writer < self.writer)
        self._blobs.delete(WRITERS, older)

    def _delete_older(self, folder: str, names: Iterable[ManifestName | MarkName]) -> None:
        self._blobs.delete(folder, (str(name) for name in names if name.writer < self.writer))

    def _writers(self) -> list[Writer]:
        names = self._blobs.names(WRITERS)
        return [writer for name in names if (writer := Writer.parse(name)) is not None]
