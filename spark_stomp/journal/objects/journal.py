"""A journal of immutable objects: for object stores, and for mounts that cannot append to a file.

Each object holds the records of one append, or a part of them, and is complete before anything in it has a
position. ``object_names`` says what there is, ``fencing`` why two
writers never give the same position away, though nothing can be locked.
"""

from __future__ import annotations

import logging
import secrets
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

from spark_stomp.errors import JournalDamaged, JournalError, JournalTrimmed
from spark_stomp.framebatch import FrameBatch, MessageKey
from spark_stomp.journal.api import JournalSettings
from spark_stomp.journal.objects.blobs import Blobs
from spark_stomp.journal.objects.cache import ObjectCache
from spark_stomp.journal.objects.dedup_log import ObjectDedupLog
from spark_stomp.journal.objects.fencing import Listing, Manifest, WriterFence, accepted_of, look
from spark_stomp.journal.objects.listing_state import ListingState, judge
from spark_stomp.journal.objects.object_names import (
    FOLDERS,
    FRAMES,
    MANIFESTS,
    MARKS,
    FramesName,
    ManifestName,
    MarkName,
)
from spark_stomp.journal.records import Parts, encode_run

__all__ = ["ObjectJournal"]

log = logging.getLogger(__name__)

_LARGEST_OBJECT: Final = 8 << 20
_SMALLEST_OBJECT: Final = 64 << 10
# So many objects fit into journalMaxBytes: space comes back an object at a time.
_OBJECTS: Final = 8
_LOOKS: Final = 5


class ObjectJournal:
    """See :class:`~spark_stomp.journal.api.Journal`.

    Making one takes the journal over: an older writer stops with JournalInUse. Raises JournalInUse where an
    even newer one does the same, JournalDamaged where something is missing, JournalUnwritable where the store
    does not take what opening needs: a marker and a record of what was found.
    """

    patience: Final = 0.2

    def __init__(self, settings: JournalSettings, blobs: Blobs) -> None:
        self._settings = settings
        self._blobs = blobs
        self._lock = threading.Lock()
        self._contents = ObjectCache(blobs)
        self._object_bytes = min(max(settings.max_bytes // _OBJECTS, _SMALLEST_OBJECT), _LARGEST_OBJECT)
        self._failure: JournalError | None = None
        blobs.prepare(FOLDERS)
        self._claim = WriterFence(blobs)
        listing = self._looked()
        found = judge(listing)
        self._report(found.damage)
        self.id = secrets.token_hex(8) if listing.opening is None else listing.opening.journal
        opened = self._open(found)
        self._objects = self._intact(found.frames)
        self._end = found.end
        self._committed = max(found.committed, self.first)
        # What is durable of the committed position, and the end and the committed position of the last mark.
        self._noted = found.committed
        self._marked = (opened.base, opened.committed)
        self._mark_name: MarkName | None = None
        self._settled = ObjectDedupLog(
            blobs, self._claim.writer, settings.max_remembered, tolerant=settings.tolerant
        )
        self._claim.check()
        self._clear(listing, found)

    @property
    def first(self) -> int:
        objects = self._objects
        return objects[0].first if objects else self._end

    @property
    def end(self) -> int:
        return self._end

    @property
    def committed(self) -> int:
        return self._committed

    @property
    def size(self) -> int:
        return sum(name.size for name in self._objects)

    @property
    def settled(self) -> Sequence[MessageKey]:
        return self._settled.keys

    # --- writing

    def append(self, runs: Sequence[FrameBatch]) -> list[int]:
        positions, put, end = [], [], self._end
        with self._writing():
            for group in self._cut(runs):
                first, parts = end, Parts()
                for run in group:
                    positions.append(end)
                    parts += encode_run(run, end, committed=self._committed, durable=0)
                    end += len(run.ends)
                put.append(self._put(first, end, b"".join(parts)))
            if put:
                self._claim.check()
        self._noted = self._committed if put else self._noted
        self._durable([*self._objects, *put], end)
        return positions

    def commit(self, position: int) -> None:
        self._committed = max(self._committed, position)

    def rest(self) -> None:
        if self._marked != (self._end, self._committed):
            with self._writing():
                self._mark()

    def settle(self, keys: Sequence[MessageKey]) -> None:
        if keys:
            with self._writing():
                self._settled.append(keys)

    def trim(self, upto: int) -> None:
        upto = min(upto, self._committed)
        old = [name for name in self._objects if name.end <= upto]
        if not old:
            return
        with self._writing():
            # Before the first goes, what remains says that they all were committed.
            if self._noted < old[-1].end:
                self._mark()
            self._claim.check()
            self._durable([name for name in self._objects if name.end > upto], self._end)
            for name in old:
                self._blobs.delete(FRAMES, [str(name)])
                self._contents.forget(name)

    def skip(self, position: int) -> None:
        if position <= self._end:
            return
        if not self._objects:
            self._committed = max(self._committed, position)
        self._durable(self._objects, position)
        with self._writing():
            self._mark()

    def close(self) -> None:
        """Nothing is held: the next writer takes over whenever it comes."""

    def _cut(self, runs: Sequence[FrameBatch]) -> Iterator[list[FrameBatch]]:
        """Groups of runs, each for one object."""
        group: list[FrameBatch] = []
        size = 0
        for run in runs:
            if group and size + len(run.data) > self._object_bytes:
                yield group
                group, size = [], 0
            group.append(run)
            size += len(run.data)
        if group:
            yield group

    def _put(self, first: int, end: int, raw: bytes) -> FramesName:
        name = FramesName(first, end - first, self._committed, self._claim.writer, len(raw))
        self._blobs.put(f"{FRAMES}/{name}", raw)
        self._contents.keep(name, raw)
        return name

    def _mark(self) -> None:
        """Put down where the journal ends and what is committed."""
        old, new = self._mark_name, MarkName(self._claim.writer, self._end, self._committed)
        self._blobs.put(f"{MARKS}/{new}", b"\n")
        self._mark_name, self._marked, self._noted = new, (new.end, new.committed), new.committed
        if old is not None:
            self._blobs.delete(MARKS, [str(old)])

    def _durable(self, objects: Sequence[FramesName], end: int) -> None:
        with self._lock:
            self._objects = list(objects)
            self._end = end

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """What failed once has failed for good: a position must not be put with other bytes."""
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except JournalError as error:
            self._failure = error
            raise

    # --- reading

    def runs(self, low: int, high: int) -> Iterator[FrameBatch]:
        if low >= high:
            return iter(())
        names = self._overlapping(low, high)
        if not names or names[0].first > low or high > self.end:
            raise self._trimmed(low, high)
        for one, other in pairwise(names):
            if one.end < other.first:
                raise JournalDamaged(f"messages [{one.end}, {other.first}) of the journal are lost")
        return (run for name in names for run in self._runs(name, low, high))

    def _runs(self, name: FramesName, low: int, high: int) -> Iterator[FrameBatch]:
        try:
            yield from self._contents.runs(name, low, high)
        except JournalDamaged:
            if name.first < self.first:
                raise self._trimmed(max(low, name.first), min(high, name.end)) from None
            raise

    def _trimmed(self, low: int, high: int) -> JournalTrimmed:
        return JournalTrimmed(
            f"messages [{low}, {high}) of the journal were asked for, but it holds [{self.first}, {self.end})"
        )

    def held(self, low: int, high: int) -> list[tuple[int, int]]:
        parts: list[tuple[int, int]] = []
        for name in self._overlapping(low, high):
            begin, end = max(name.first, low), min(name.end, high)
            if parts and parts[-1][1] == begin:
                parts[-1] = (parts[-1][0], end)
            else:
                parts.append((begin, end))
        return parts

    def bytes_between(self, low: int, high: int) -> int:
        before = self._contents.bytes_before
        return sum(before(name, high) - before(name, low) for name in self._overlapping(low, high))

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        best = low
        for name in self._overlapping(low, high):
            before = self._contents.bytes_before(name, low)
            best = max(best, min(self._contents.end_within(name, before + max_bytes), high))
            max_bytes -= self._contents.bytes_before(name, high) - before
            if max_bytes < 0:
                break
        return best

    def _overlapping(self, low: int, high: int) -> list[FramesName]:
        with self._lock:
            objects = self._objects
        begin = max(0, bisect_right(objects, low, key=lambda name: name.first) - 1)
        return [name for name in objects[begin:] if name.first < high and name.end > low]

    # --- opening

    def _looked(self) -> Listing:
        for _ in range(_LOOKS):
            try:
                listing = look(self._blobs)
            except FileNotFoundError:
                # Deleted since it was listed, which only a newer writer does.
                self._claim.check()
                continue
            self._claim.check()
            return listing
        raise JournalDamaged(f"{MANIFESTS} of the journal at {self._blobs.shown} keep vanishing")

    def _open(self, found: ListingState) -> Manifest:
        """Put down what was found: that is what the journal is, unless a newer writer is there already."""
        writer = self._claim.writer
        opening = Manifest(writer, self.id, found.end, found.committed, accepted_of(found.frames))
        raw = opening.encode()
        self._blobs.put(f"{MANIFESTS}/{ManifestName(writer, len(raw))}", raw)
        return opening

    def _clear(self, listing: Listing, found: ListingState) -> None:
        self._blobs.delete(FRAMES, map(str, found.void))
        self._claim.clear(listing.openings)
        self._settled.compact()

    def _intact(self, names: Sequence[FramesName]) -> list[FramesName]:
        """Those of ``names`` that can be read; without ``tolerant`` whoever reads the others is told."""
        if not self._settings.tolerant:
            return list(names)
        intact = []
        for name in names:
            try:
                self._contents.bytes_before(name, name.end)
                intact.append(name)
            except JournalDamaged as error:
                self._report([error.message])
        return intact

    def _report(self, damage: Sequence[str]) -> None:
        if damage and not self._settings.tolerant:
            raise JournalDamaged(
                f"the journal at {self._blobs.shown} is damaged: {'; '.join(damage)}. With "
                "failOnDataLoss=false the query goes on without what is lost"
            )
        for text in damage:
            log.error("the journal at %s: %s", self._blobs.shown, text)
