"""A journal of immutable objects: for object stores, and for mounts whose files cannot be appended to.

An object with frames holds all or some records of one append. It is complete before any of its
frames counts as durable. object_names.py says which objects there are, and fencing.py why two writers never
use the same position, although there is no lock.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Final

from spark_stomp.errors import JournalDamaged, JournalError
from spark_stomp.files.durable import Parts
from spark_stomp.frame_batch import FrameBatch, MessageKey, bytes_between, end_within, merged_ranges
from spark_stomp.journal.api import JournalFull, JournalSettings, not_held, report_damage
from spark_stomp.journal.objects.blobs import Blobs
from spark_stomp.journal.objects.cache import ObjectCache
from spark_stomp.journal.objects.dedup_log import ObjectDedupLog
from spark_stomp.journal.objects.fencing import Listing, Manifest, WriterFence, accepted_of, list_journal
from spark_stomp.journal.objects.listing_state import ListingState, resolve_listing
from spark_stomp.journal.objects.object_names import (
    FOLDERS,
    FRAMES,
    MANIFESTS,
    MARKS,
    FramesName,
    ManifestName,
    MarkName,
    Writer,
)
from spark_stomp.journal.records import encode_batch

# Bytes. Space comes back an object at a time, so an object has at most an eighth of journalMaxBytes, between
# these bounds, unless one record is larger. Judgements, not measured.
_LARGEST_OBJECT: Final = 8 << 20
_SMALLEST_OBJECT: Final = 64 << 10
_OBJECTS: Final = 8


class ObjectJournal:
    """The journal in an object store; :class:`~spark_stomp.journal.api.Journal` describes its methods.

    The constructor takes the journal over: an older writer stops with JournalInUse. It raises JournalInUse if
    a newer writer opens the journal meanwhile, JournalDamaged if something is missing, and JournalUnwritable
    if the store refuses the marker or the manifest that opening needs.
    """

    # Seconds. An append costs a put and a listing, however few frames it has. A judgement, not measured.
    linger: Final = 0.2

    def __init__(self, settings: JournalSettings, blobs: Blobs, cache: ObjectCache | None = None) -> None:
        self._settings = settings
        self._blobs = blobs
        self._cache = ObjectCache(blobs) if cache is None else cache
        self._object_bytes = min(max(settings.max_bytes // _OBJECTS, _SMALLEST_OBJECT), _LARGEST_OBJECT)
        self._failure: JournalError | None = None
        blobs.prepare(FOLDERS)
        self._fence = WriterFence(blobs)
        listing = blobs.steadily(MANIFESTS, self._listed)
        found = resolve_listing(listing)
        self._report(found.damage)
        self.id = secrets.token_hex(8) if listing.manifest is None else listing.manifest.journal
        manifest = self._put_manifest(found)
        self._objects = self._intact(found.frames)
        self._end = found.end
        self._committed = max(found.committed, self.first)
        # The committed position that is durable.
        self._durable_commit = found.committed
        # The end and the committed position of the last mark; before the first mark, of the manifest.
        self._marked = (manifest.base, manifest.committed)
        self._mark_name: MarkName | None = None
        self._dedup_log = ObjectDedupLog(
            blobs, self.writer, settings.max_remembered, tolerant=settings.tolerant
        )
        self._fence.check()
        self._clear(listing, found)

    @property
    def writer(self) -> Writer:
        """The name of this opening of the journal."""
        return self._fence.writer

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
    def remembered_keys(self) -> Sequence[MessageKey]:
        return self._dedup_log.keys

    # --- writing

    def append(self, batches: Sequence[FrameBatch]) -> list[int]:
        positions, put, end = list[int](), list[FramesName](), self._end
        with self._writing():
            for group in self._grouped(batches):
                firsts, to, parts = [], end, Parts()
                for batch in group:
                    firsts.append(to)
                    parts += encode_batch(batch, to, committed=self._committed, durable=0)
                    to += len(batch.ends)
                try:
                    put.append(self._put(end, to, b"".join(parts)))
                except JournalFull:
                    if not put:
                        raise
                    # What is put has its positions: it counts, and only the rest may be appended again.
                    break
                positions, end = [*positions, *firsts], to
            if put:
                self._fence.check()
        self._durable_commit = self._committed if put else self._durable_commit
        self._publish([*self._objects, *put], end)
        return positions

    def commit(self, position: int) -> None:
        self._committed = max(self._committed, position)

    def flush(self) -> None:
        if self._marked != (self._end, self._committed):
            # Without room nothing is lost: the checkpoint has the committed position too.
            with suppress(JournalFull), self._writing():
                self._mark()

    def remember(self, keys: Sequence[MessageKey]) -> None:
        if keys:
            with self._writing():
                self._dedup_log.append(keys)

    def can_trim(self, upto: int) -> bool:
        return bool(self._objects) and self._objects[0].end <= min(upto, self._committed)

    def trim(self, upto: int) -> None:
        old = [name for name in self._objects if name.end <= min(upto, self._committed)]
        if not old:
            return
        with self._writing():
            # Before objects are deleted, one that stays must record that the deleted frames were committed.
            if self._durable_commit < old[-1].end:
                with suppress(JournalFull):
                    self._mark()
                old = [name for name in old if name.end <= self._durable_commit]
            self._fence.check()
            self._publish(self._objects[len(old) :], self._end)
            for name in old:
                self._blobs.delete(FRAMES, [str(name)])
                self._cache.free(name)

    def skip(self, position: int) -> None:
        if position <= self._end:
            return
        if not self._objects:
            self._committed = max(self._committed, position)
        self._publish(self._objects, position)
        with self._writing():
            self._mark()

    def close(self) -> None:
        """Does nothing: there is no lock to release, and the next writer can take over at any time."""

    def _grouped(self, batches: Sequence[FrameBatch]) -> Iterator[list[FrameBatch]]:
        """``batches`` in groups, each for one object."""
        group: list[FrameBatch] = []
        size = 0
        for batch in batches:
            if group and size + len(batch.data) > self._object_bytes:
                yield group
                group, size = [], 0
            group.append(batch)
            size += len(batch.data)
        if group:
            yield group

    def _put(self, first: int, end: int, content: bytes) -> FramesName:
        """Put an object with the frames [first, end), and keep it in the cache."""
        name = FramesName(first, end - first, self._committed, self.writer, len(content))
        self._blobs.put(f"{FRAMES}/{name}", content)
        self._cache.keep(name, content)
        return name

    def _mark(self) -> None:
        """Put a mark, which says where the journal ends and what is committed, and delete the old one."""
        old, new = self._mark_name, MarkName(self.writer, self._end, self._committed)
        self._blobs.put(f"{MARKS}/{new}", b"\n")
        self._mark_name, self._marked, self._durable_commit = new, (new.end, new.committed), new.committed
        if old is not None:
            self._blobs.delete(MARKS, [str(old)])

    def _publish(self, objects: Sequence[FramesName], end: int) -> None:
        """Let readers see these objects, and positions up to ``end``."""
        # The list is never changed, only replaced, and the end is set last: any thread may read both.
        self._objects = list(objects)
        self._end = end

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Guard writes: after any failure but a full mount, all further ones are refused.

        A put that failed may still arrive, so its positions must not get other bytes. One for which a mount
        had no room was never complete, so it does not.
        """
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except JournalError as error:
            self._failure = None if isinstance(error, JournalFull) else error
            raise

    # --- reading

    def batches(self, low: int, high: int) -> Iterator[FrameBatch]:
        if low >= high:
            return iter(())
        names = self._overlapping(low, high)
        if not names or names[0].first > low or high > self.end:
            raise not_held(self, low, high)
        for one, other in pairwise(names):
            if one.end < other.first:
                raise JournalDamaged(f"messages [{one.end}, {other.first}) of the journal are lost")
        return (batch for name in names for batch in self._batches(name, low, high))

    def _batches(self, name: FramesName, low: int, high: int) -> Iterator[FrameBatch]:
        try:
            yield from self._cache.batches(name, low, high)
        except JournalDamaged:
            if name.first < self.first:
                raise not_held(self, max(low, name.first), min(high, name.end)) from None
            raise

    def held(self, low: int, high: int) -> list[tuple[int, int]]:
        names = self._overlapping(low, high)
        return merged_ranges((max(name.first, low), min(name.end, high)) for name in names)

    def bytes_between(self, low: int, high: int) -> int:
        return bytes_between(map(self._cache.index, self._overlapping(low, high)), low, high)

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        parts = ((self._cache.index(name), name.end) for name in self._overlapping(low, high))
        return end_within(parts, low, high, max_bytes)

    def _overlapping(self, low: int, high: int) -> list[FramesName]:
        objects = self._objects
        begin = max(0, bisect_right(objects, low, key=lambda name: name.first) - 1)
        return [name for name in objects[begin:] if name.first < high and name.end > low]

    # --- opening

    def _listed(self) -> Listing:
        """List the journal, and check the fence: only a newer writer deletes what was listed."""
        try:
            return list_journal(self._blobs)
        finally:
            self._fence.check()

    def _put_manifest(self, found: ListingState) -> Manifest:
        """Put a manifest of what was found. It defines the journal, unless a newer writer exists already."""
        manifest = Manifest(self.writer, self.id, found.end, found.committed, accepted_of(found.frames))
        raw = manifest.encode()
        self._blobs.put(f"{MANIFESTS}/{ManifestName(self.writer, len(raw))}", raw)
        return manifest

    def _clear(self, listing: Listing, found: ListingState) -> None:
        """Delete void frames, and what older writers left."""
        self._blobs.delete(FRAMES, map(str, found.void))
        self._fence.clear(listing.manifests)
        self._dedup_log.compact()

    def _intact(self, names: Sequence[FramesName]) -> list[FramesName]:
        """The objects that can be read; if not ``tolerant`` all, because reading then raises the error."""
        if not self._settings.tolerant:
            return list(names)
        intact = []
        for name in names:
            try:
                self._cache.index(name)
                intact.append(name)
            except JournalDamaged as error:
                self._report([error.message])
        return intact

    def _report(self, damage: Sequence[str]) -> None:
        report_damage(self._blobs.shown, damage, tolerant=self._settings.tolerant)
