"""Which frames of an object store are the journal's, though several writers may have put some.

An object store has no lock. It lists, puts and deletes, and ``blobs`` says what that
guarantees. So a writer that opens the journal announces itself, and whoever sees a newer one stops:

1. It picks ``(generation, random id)``, the generation one above all markers that it sees, and puts its
   marker. By this pair writers are ordered; the greater one is the *newer* one.
2. It lists frames, then openings, then marks, and judges: the newest opening decides. An object of frames is
   *valid* where its writer and positions lie within what that opening accepted, or where it is of that
   opening's own writer and not below its base. Whatever else is there is void.
3. It checks: lists the markers, and gives up where there is a newer one.
4. It puts an opening of its own: its base, which is the end of all that is valid, and what it accepted.
5. It checks again. Only then does it append, and delete what is void or older than its opening.

To append, it puts the frames from the journal's end on, one object after the other, and checks; only after
that does the append return. Where a put failed for good, or a newer writer was seen, nothing was appended,
and this writer appends no more: a position is never put twice with other bytes by one writer. To trim, it
puts a mark or an object that tells how far was committed, checks, and then deletes from the oldest on.

Invariants, with "returned" for what ``append`` returned to its caller, so that it was offered or ACKed:

- **What was returned is accepted by every newer writer that completes step 3.** The check of the older one
  saw no newer marker after its object was put. So every newer marker was put completely after that check
  began, and every newer listing (step 2) began after the object was there. It is valid there: let the newest
  opening seen be that of p. It is not older than that of the object's writer w, since w put its own before it
  appended. If p is w, the object is one of p's own. If p is newer than w, p accepted it (by induction),
  unless p is newer than the one that looks, which then fails step 3.
- **No position is returned by two writers.** A newer one begins at its base, which is not below what was
  returned before, by the above; the older one returns nothing after the newer marker is there.
- **A position that was returned names the same bytes for ever.** An object of an older writer that appears
  late (it was on its way when the newer one listed) was not accepted: it lies behind what was accepted of its
  writer, since that one put its objects one after the other. It is void at every later opening, too: these
  see the newer opening or one that follows from it. A put that is tried again, or appears after it was
  deleted, has the name and the bytes of the first.
- **What is deleted as void is void for ever.** It is deleted after step 5. Whoever opens later sees this
  opening: had it listed before this opening was there, its marker would have been seen in step 5.

A crash after step 1 leaves a marker, after step 4 an opening without frames: either only stops older writers.
Two openers with the same generation are ordered by their ids, and the lesser one fails step 3 or 5, or is
told by its next append. Which journal this is, its id, is part of every opening and handed on: of two that
open an empty place at once, one completes step 5 without the other's opening, and the other then fails its
own check or sees it.

What no order can exclude: a writer that was stopped between its check and its deletions deletes what was
committed after a newer one listed it. That one then says so when it is asked for it.
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

__all__ = ["Accepted", "Listing", "Manifest", "WriterFence", "accepted_of", "look"]

_FORMAT: Final = 1


class Accepted(NamedTuple):
    """What an opening accepted of ``writer``: objects within [low, high)."""

    writer: Writer
    low: int
    high: int


@dataclass(frozen=True)
class Manifest:
    """What ``writer`` found when it opened the journal whose id is ``journal``."""

    writer: Writer
    journal: str
    base: int
    committed: int
    accepted: tuple[Accepted, ...] = ()

    def owns(self, frames: FramesName) -> bool:
        """Whether an object of frames is valid by this opening."""
        if frames.writer == self.writer:
            return frames.first >= self.base
        return any(
            frames.writer == writer and low <= frames.first and frames.end <= high
            for writer, low, high in self.accepted
        )

    def encode(self) -> bytes:
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
        """ValueError where ``raw`` is not as it was written, JournalError where its format is not known."""
        checksum, _, content = raw.partition(b"\n")
        if int(checksum, 16) != zlib.crc32(content):
            raise ValueError("the checksum does not fit")
        fields = json.loads(content)
        if fields["format"] != _FORMAT:
            raise JournalError(
                f"the journal has format {fields['format']}; this release reads {_FORMAT}. Use the release "
                "that wrote it"
            )
        accepted = (Accepted(Writer(*one[:2]), *one[2:]) for one in fields["accepted"])
        return cls(writer, fields["journal"], fields["base"], fields["committed"], tuple(accepted))


def accepted_of(frames: Iterable[FramesName]) -> tuple[Accepted, ...]:
    """Of each writer the positions from its first object of ``frames`` to its last."""
    ranges: dict[Writer, tuple[int, int]] = {}
    for one in frames:
        low, high = ranges.get(one.writer, (one.first, one.end))
        ranges[one.writer] = (min(low, one.first), max(high, one.end))
    return tuple(Accepted(writer, low, high) for writer, (low, high) in ranges.items())


@dataclass(frozen=True)
class Listing:
    """Step 2: the objects of frames with their real sizes, the newest opening, and the marks of its writer,
    or all marks where there is no opening.

    ``openings`` are the names of all openings, ``broken`` says which newer ones cannot be read.
    """

    frames: Mapping[FramesName, int]
    opening: Manifest | None
    marks: Sequence[MarkName]
    openings: Sequence[ManifestName]
    broken: Sequence[str] = ()


def look(blobs: Blobs) -> Listing:
    """List what is there, in the order that the argument above needs. FileNotFoundError where a newer writer
    cleans up meanwhile: check, and look again."""
    sizes = blobs.names(FRAMES)
    frames = {name: sizes[text] for text in sizes if (name := FramesName.parse(text)) is not None}
    openings, opening, broken = _openings(blobs)
    marks = [mark for text in blobs.names(MARKS) if (mark := MarkName.parse(text)) is not None]
    if opening is not None:
        marks = [mark for mark in marks if mark.writer == opening.writer]
    return Listing(frames, opening, marks, openings, broken)


def _openings(blobs: Blobs) -> tuple[list[ManifestName], Manifest | None, list[str]]:
    """The names of all, the newest, and what is wrong with newer ones."""
    sizes = blobs.names(MANIFESTS)
    names = sorted(name for text in sizes if (name := ManifestName.parse(text)) is not None)
    broken: list[str] = []
    for name in reversed(names):
        # One that was never finished decides nothing: its writer appended nothing.
        if sizes[str(name)] != name.size:
            continue
        raw = blobs.get(f"{MANIFESTS}/{name}")
        try:
            return names, Manifest.decode(name.writer, raw), broken
        except (ValueError, KeyError, TypeError) as error:
            broken.append(f"{MANIFESTS}/{name} is damaged: {error}")
    return names, None, broken


class WriterFence:
    """A writer's marker, put when this is made."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        generation = max((writer.generation for writer in self._writers()), default=0) + 1
        self.writer = Writer(generation, secrets.token_hex(8))
        blobs.put(f"{WRITERS}/{self.writer}", b"\n")

    def check(self) -> None:
        """JournalInUse where a newer writer took over; JournalDamaged where the marker was deleted."""
        writers = self._writers()
        if max(writers, default=self.writer) > self.writer:
            raise JournalInUse(
                f"another query took over the journal at {self._blobs.shown}; each needs one of its own. "
                "This one stops: what it received and did not give to Spark stays on the broker"
            )
        if self.writer not in writers:
            raise JournalDamaged(
                f"somebody deleted {WRITERS}/{self.writer} of the journal at {self._blobs.shown}"
            )

    def clear(self, openings: Sequence[ManifestName]) -> None:
        """Delete the markers and marks of older writers, and their ``openings``; this one's own is put."""
        older = [name for name in openings if name.writer < self.writer]
        self._blobs.delete(MANIFESTS, map(str, older))
        marks = [name for text in self._blobs.names(MARKS) if (name := MarkName.parse(text)) is not None]
        self._blobs.delete(MARKS, (str(mark) for mark in marks if mark.writer < self.writer))
        self._blobs.delete(WRITERS, (str(writer) for writer in self._writers() if writer < self.writer))

    def _writers(self) -> list[Writer]:
        names = self._blobs.names(WRITERS)
        return [writer for name in names if (writer := Writer.parse(name)) is not None]
