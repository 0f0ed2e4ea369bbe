"""The journal: frames by position, in objects that are put once, read and deleted.

An object with frames holds all or some records of one append. It is complete before any of its frames counts
as durable. formats.py says which objects there are, and opening.py why two writers never use the same
position, although an object store has no lock.
"""

from __future__ import annotations

import secrets
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from spark_stomp.errors import JournalDamaged, JournalError, JournalFull, JournalTrimmed, UnsupportedError
from spark_stomp.files import resolve, without_credentials
from spark_stomp.frame_batch import FrameBatch, MessageKey, bytes_between, end_within, merged_ranges
from spark_stomp.journal.formats import FOLDERS, FRAMES, STATES, FramesName, State, StateName, lost
from spark_stomp.journal.objects import FrameObjects
from spark_stomp.journal.opening import WriterFence, list_and_read, refuse_old_form
from spark_stomp.journal.store import RetryingStore, open_store
from spark_stomp.logs import get_log

log = get_log(__name__)

# Bytes. Space comes back an object at a time, so an object has at most an eighth of journalMaxBytes, between
# these bounds, unless one record is larger.
_LARGEST_OBJECT: Final = 8 << 20
_SMALLEST_OBJECT: Final = 64 << 10
_OBJECTS: Final = 8
# If more than _MANY messages wait for Spark's commit, and none came for _PATIENCE seconds, the writer lingers
# for _LONG_GATHER: nobody waits for the frames, and there would be many files. With the first condition alone
# ActiveMQ gave 0.84 of the rate of files that were appended to; with both, 0.93 (November 2026).
_MANY: Final = 1_000
_PATIENCE: Final = 5.0
_LONG_GATHER: Final = 0.2


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


class Journal:
    """Durable frames by position. One thread at a time may write; any thread may read meanwhile.

    Positions number the frames of one journal, from 0 without a gap, over all its receivers and all runs of
    the query. The constructor takes the journal over: an older writer stops with JournalInUse. It raises
    JournalInUse if somebody else has the journal, JournalDamaged if something is missing, and
    JournalUnwritable if the store refuses what opening must put.

    Every method that writes raises JournalUnwritable if the location cannot be written to, and JournalInUse
    if another writer took over. Then nothing of that call counts as durable, and no method that writes may be
    again: a put that failed may still arrive, so its positions must not get other bytes.

    Attributes:
        id: the random id of the journal. It is made once, and every offset of the query names it.
        writer: the name of this opening of the journal.
        acked: no message below this position waits for the broker to confirm its ACK.
        size: how many bytes the journal takes up, without the dedup log.
    """

    def __init__(
        self, settings: JournalSettings, store: RetryingStore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._frames = FrameObjects(store)
        self._clock = clock
        self._object_bytes = min(max(settings.max_bytes // _OBJECTS, _SMALLEST_OBJECT), _LARGEST_OBJECT)
        self._failure: JournalError | None = None
        try:
            self._take_over(settings)
        except JournalError:
            store.close()
            raise
        self._appended_at = self._committed_at = clock()

    def _take_over(self, settings: JournalSettings) -> None:
        refuse_old_form(self._store)
        self._store.prepare(FOLDERS)
        self._fence = WriterFence(self._store)
        self.writer = self._fence.writer
        listing, found = list_and_read(
            self._store, self._fence, self._frames, settings.max_remembered, tolerant=settings.tolerant
        )
        self._report(found.damage, tolerant=settings.tolerant)
        self._dedup_log = listing.keys
        # Other threads read this list while it grows. What is deleted is left out of a new list.
        self._objects = found.frames
        self.size = sum(name.size for name in found.frames)
        self._end, self._committed = found.end, found.committed
        self._committed_before = found.committed_before
        self.acked = 0 if listing.state is None else listing.state.acked
        self.id = secrets.token_hex(8) if listing.state is None else listing.state.journal
        self._state = State(self.writer, self.id, found.end, found.accepted, found.end, found.committed)
        self._state_name: StateName | None = None
        # It defines the journal, unless a newer writer exists already.
        self._put_state()
        self._fence.check()
        # Void frames, and what older writers left.
        self._store.delete(FRAMES, map(str, found.void))
        self._fence.clear()
        self._dedup_log.clear(self.writer)

    @property
    def first(self) -> int:
        """Frames below this position are deleted."""
        objects = self._objects
        return objects[0].first if objects else self._end

    @property
    def end(self) -> int:
        """Frames below this position are durable; the next frame gets this position or a later one."""
        return self._end

    @property
    def committed(self) -> int:
        """The position up to which Spark has committed, as far as the journal knows."""
        return self._committed

    @property
    def committed_before(self) -> int:
        """Where the last batch began that Spark had committed before this opening, or an earlier one.

        On a disk or mount without room it is where that batch ended: nothing is kept for longer than needed.
        """
        return self._committed if self._store.lacks_room else self._committed_before

    @property
    def remembered_keys(self) -> Sequence[MessageKey]:
        """The message keys in the dedup log, oldest first."""
        return self._dedup_log.keys

    @property
    def linger(self) -> float:
        """Seconds for which the writer should wait for more frames now, to write them together."""
        now = self._clock()
        idle = self._end - self._committed > _MANY and now - self._committed_at > _PATIENCE
        gather = max(self._store.gather, _LONG_GATHER if idle else 0.0)
        return max(0.0, self._appended_at + gather - now)

    # --- writing

    def append(self, batches: Sequence[FrameBatch]) -> list[int]:
        """Make ``batches`` durable; returns the position of the first frame of each batch.

        After JournalFull none of them is there.
        """
        positions, put, end = list[int](), list[FramesName](), self._end
        for batch in batches:
            positions.append(end)
            end += len(batch.ends)
        with self._writing():
            try:
                for group, first in self._grouped(batches, positions):
                    put.append(self._frames.put(group, first, self._committed, self.writer))
            except JournalFull:
                for name in put:
                    self._delete(name)
                # The next run can delete what is committed, and so make room.
                with suppress(JournalFull):
                    self._put_state()
                raise
            self._fence.check()
        self._durable_commit = self._committed
        self.size += sum(name.size for name in put)
        # The end is set last, because any thread may read both.
        self._objects.extend(put)
        self._end = end
        self._appended_at = self._clock()
        return positions

    def commit(self, position: int, acked: int = 0) -> None:
        """Spark has committed the frames below ``position``. Durable with the next append or flush.

        ``acked``: no message below that position waits for the broker to confirm its ACK.
        """
        if position > self._committed:
            self._committed, self._committed_at = position, self._clock()
        self.acked = max(self.acked, acked)

    def flush(self) -> None:
        """Make the committed position durable. Call it when no frames come for a moment."""
        state = self._state
        if (self._end, self._committed, self.acked) != (state.end, state.committed, state.acked):
            with self._writing():
                self._put_state()

    def remember(self, keys: Sequence[MessageKey]) -> None:
        """Make these message keys durable, because their frames are about to be deleted."""
        if keys:
            with self._writing():
                self._dedup_log.append(keys, self.writer)

    def can_trim(self, upto: int, least: int = 1) -> bool:
        """Whether :meth:`trim` would delete at least so many objects."""
        objects = self._objects
        return len(objects) >= least and objects[least - 1].end <= min(upto, self._committed)

    def trim(self, upto: int) -> None:
        """Delete objects that hold only committed frames below ``upto``."""
        upto = min(upto, self._committed)
        count = bisect_right(self._objects, upto, key=lambda name: name.end)
        if not count:
            return
        old = self._objects[:count]
        with self._writing():
            # What is deleted is recorded as committed before, in a state or in the name of a later object.
            if self._durable_commit < old[-1].end:
                self._put_state()
            self._fence.check()
            self._objects = self._objects[count:]
            for name in old:
                self._delete(name)
                self.size -= name.size

    def skip(self, position: int) -> None:
        """Give the next frame ``position`` or a later one: earlier positions were used before."""
        if position <= self._end:
            return
        if not self._objects:
            self._committed = max(self._committed, position)
        self._end = position
        with self._writing():
            self._put_state()

    def close(self) -> None:
        """Release the journal to the next writer."""
        self._store.close()

    def _delete(self, name: FramesName) -> None:
        self._store.delete(FRAMES, [str(name)])
        self._frames.free(name)

    def _grouped(
        self, batches: Sequence[FrameBatch], positions: Sequence[int]
    ) -> Iterator[tuple[list[FrameBatch], int]]:
        """``batches`` in groups, each for one object, with the position of its first frame."""
        group: list[FrameBatch] = []
        size = first = 0
        for batch, position in zip(batches, positions, strict=True):
            if group and size + len(batch.data) > self._object_bytes:
                yield group, first
                group, size = [], 0
            if not group:
                first = position
            group.append(batch)
            size += len(batch.data)
        if group:
            yield group, first

    def _put_state(self) -> None:
        """Put a state, which says how far the journal is, and delete the old one."""
        old = self._state_name
        state = replace(self._state, end=self._end, committed=self._committed, acked=self.acked)
        raw = state.encode()
        name = StateName(self.writer, 0 if old is None else old.number + 1, len(raw))
        self._store.put(f"{STATES}/{name}", raw)
        self._state, self._state_name, self._durable_commit = state, name, state.committed
        if old is not None:
            self._store.delete(STATES, [str(old)])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Guard writes: after a failure that may have left something, all further ones are refused."""
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except JournalFull:
            raise
        except JournalError as error:
            self._failure = error
            raise

    # --- reading

    def batches(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames [low, high), numbered by position.

        Raises JournalTrimmed if some were deleted or are not written yet, and JournalDamaged if some are not
        as they were written.
        """
        if low >= high:
            return iter(())
        names = self._overlapping(low, high)
        if not names or names[0].first > low or high > self.end:
            raise self._not_held(low, high)
        for one, other in pairwise(names):
            if one.end < other.first:
                raise JournalDamaged(lost(one.end, other.first))
        return (batch for name in names for batch in self._batches(name, low, high))

    def held(self, low: int, high: int) -> list[tuple[int, int]]:
        """The parts of [low, high) that the journal holds, in ascending order."""
        names = self._overlapping(low, high)
        return merged_ranges((max(name.first, low), min(name.end, high)) for name in names)

    def next_held(self, position: int) -> int:
        """The first position from ``position`` on that the journal holds; its end if there is none."""
        objects = self._objects
        at = bisect_right(objects, position, key=lambda name: name.end)
        return max(position, objects[at].first if at < len(objects) else self.end)

    def bytes_between(self, low: int, high: int) -> int:
        """How many bytes the frames [low, high) had on the wire."""
        return bytes_between(map(self._frames.index, self._overlapping(low, high)), low, high)

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        """The largest end up to ``high`` for which [low, end) has at most ``max_bytes``; at least ``low``."""
        parts = ((self._frames.index(name), name.end) for name in self._overlapping(low, high))
        return end_within(parts, low, high, max_bytes)

    def _batches(self, name: FramesName, low: int, high: int) -> Iterator[FrameBatch]:
        try:
            yield from self._frames.batches(name, low, high)
        except JournalDamaged:
            if name.first < self.first:
                raise self._not_held(max(low, name.first), min(high, name.end)) from None
            raise

    def _overlapping(self, low: int, high: int) -> list[FramesName]:
        objects = self._objects
        begin = bisect_right(objects, low, key=lambda name: name.end)
        end = bisect_right(objects, high - 1, key=lambda name: name.first)
        return objects[begin:end] if low < high else []

    def _not_held(self, low: int, high: int) -> JournalTrimmed:
        return JournalTrimmed(
            f"messages [{low}, {high}) of the journal were asked for, but it holds [{self.first}, {self.end})"
        )

    # --- opening

    def _report(self, damage: Sequence[str], *, tolerant: bool) -> None:
        """Raise JournalDamaged for ``damage``, or log it if ``tolerant``. Does nothing if there is none."""
        where = f"the journal at {self._store.shown}"
        if damage and not tolerant:
            raise JournalDamaged(
                f"{where} is damaged: {'; '.join(damage)}. With failOnDataLoss=false the query "
                "goes on without what is lost"
            )
        for text in damage:
            log.error("%s: %s", where, text)


def open_journal(settings: JournalSettings) -> Journal:
    """Open the journal at ``settings.location``; make it if there is none.

    Raises UnsupportedError if no file system is known for the location, and JournalInUse, JournalDamaged or
    JournalUnwritable if the journal cannot be used.
    """
    try:
        location = resolve(settings.location)
    except ValueError as error:
        raise UnsupportedError(
            f"journal = {without_credentials(settings.location)} cannot be opened: {error}. Give a local "
            "directory or a URI of an object store that pyarrow knows"
        ) from error
    return Journal(settings, open_store(location, settings.max_bytes))
