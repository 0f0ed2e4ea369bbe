"""A journal in a local directory: segments that are appended to and synced, and a lock for one writer.

::

    journal.json                   the id and the format of the journal, written once
    lock                           held by the process that writes
    00000000000000000000.segment   frames from this position on
    settled.keys                   the dedup log: keys of messages whose frames were deleted
    reserve                        room on the disk, given up if the disk is full
    00000000000000000000.damaged   a segment of which nothing could be read (``failOnDataLoss=false``)

There is always at least one segment, so that the next position is never forgotten.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

from spark_stomp.errors import JournalDamaged, JournalError, JournalInUse
from spark_stomp.files.durable import lacks_room, sync_folder, write_fully
from spark_stomp.files.private import create_file, make_folder, open_file, replace_file
from spark_stomp.frame_batch import FrameBatch, MessageKey, bytes_between, end_within, merged_ranges
from spark_stomp.journal.api import JournalFull, JournalSettings, not_held, report_damage, unwritable
from spark_stomp.journal.local.dedup_log import DedupLog
from spark_stomp.journal.local.segment import SUFFIX, Segment
from spark_stomp.logs import get_log
from spark_stomp.quoting import whole_number

log = get_log(__name__)

IDENTITY: Final = "journal.json"
LOCK: Final = "lock"
DEDUP_LOG: Final = "settled.keys"
RESERVE: Final = "reserve"
DAMAGED: Final = ".damaged"
_FORMAT: Final = 1
# Bytes. Space comes back a segment at a time, so a segment has an eighth of journalMaxBytes, between these
# bounds. Judgements, not measured.
_LARGEST_SEGMENT: Final = 64 << 20
_SMALLEST_SEGMENT: Final = 64 << 10
_SEGMENTS: Final = 8
# Bytes. The reserve has 1/256 of journalMaxBytes, and at most this. A judgement, not measured.
_LARGEST_RESERVE: Final = 1 << 20
# Seconds to wait for the lock, and between two attempts. The reader process of a driver that was killed
# notices within a second and may need 5 seconds to end; then the lock is free. Judgements, not measured.
_LOCK_TIMEOUT: Final = 30.0
_LOCK_POLL: Final = 0.1


class LocalJournal:
    """The journal in a local directory; :class:`~spark_stomp.journal.api.Journal` describes its methods.

    The constructor raises JournalInUse if another process still holds the lock after ``lock_timeout``
    seconds, JournalDamaged if synced bytes are missing or changed, and JournalUnwritable if the directory
    cannot be used.
    """

    linger: Final = 0.0

    def __init__(self, settings: JournalSettings, lock_timeout: float = _LOCK_TIMEOUT) -> None:
        self._directory = Path(settings.location)
        self._settings = settings
        self._failure: JournalError | None = None
        self._lacks_room = False
        self._reserve = Reserve(self._directory / RESERVE, min(_LARGEST_RESERVE, settings.max_bytes >> 8))
        self._segment_bytes = min(max(settings.max_bytes // _SEGMENTS, _SMALLEST_SEGMENT), _LARGEST_SEGMENT)
        with self._writing():
            make_folder(self._directory)
            self._lock_file: int | None = _locked(self._directory, lock_timeout)
        try:
            with self._writing():
                self.id = self._identity()
                # This list is never changed, only replaced by another one: any thread may read it.
                self._segments = self._opened()
                self._dedup_log = DedupLog(
                    self._directory / DEDUP_LOG, settings.max_remembered, tolerant=settings.tolerant
                )
                self._reserve.fill()
        except JournalError:
            self.close()
            raise
        self._committed = max(self.first, *(segment.committed for segment in self._segments))
        self._durable_commit = self._committed
        self._end = self._segments[-1].end

    @property
    def first(self) -> int:
        return self._segments[0].first

    @property
    def end(self) -> int:
        return self._end

    @property
    def committed(self) -> int:
        return self._committed

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def remembered_keys(self) -> Sequence[MessageKey]:
        return self._dedup_log.keys

    # --- writing

    def append(self, batches: Sequence[FrameBatch]) -> list[int]:
        with self._writing():
            if self._is_full(self._segments[-1]):
                self._rotate(self._segments[-1].end)
            segment = self._segments[-1]
            positions = segment.append(batches, self._committed)
            segment.sync()
        self._lacks_room = False
        self._durable_commit = self._committed
        self._end = segment.end
        return positions

    def commit(self, position: int) -> None:
        self._committed = max(self._committed, position)

    def flush(self) -> None:
        with self._writing():
            self._reserve.fill()
        segment = self._segments[-1]
        if segment.is_marked and self._durable_commit == self._committed:
            return
        known = self._lacks_room
        try:
            with self._writing():
                segment.mark(self._committed)
                segment.sync()
        except JournalFull as error:
            # Nothing is lost: the checkpoint has the committed position too, and the next append writes it.
            if not known:
                log.warning("%s", error)
        else:
            self._durable_commit = self._committed

    def remember(self, keys: Sequence[MessageKey]) -> None:
        if keys:
            with self._writing():
                self._with_reserve(lambda: self._dedup_log.append(keys))

    def can_trim(self, upto: int) -> bool:
        return self._segments[0].end <= upto if len(self._segments) > 1 else self._last_may_go(upto)

    def trim(self, upto: int) -> None:
        # Delete first: that needs no room on the disk.
        with self._writing():
            self._delete_below(upto)
            if self._last_may_go(upto):
                self._with_reserve(lambda: self._rotate(self._end))
                self._delete_below(upto)
            # Here no variable refers to a deleted segment: its space comes back when its file is closed.
            self._reserve.fill()

    def _is_full(self, segment: Segment) -> bool:
        # A segment without frames is never replaced, because the next one would have the same name.
        return segment.size >= self._segment_bytes and segment.end > segment.first

    def _last_may_go(self, upto: int) -> bool:
        """Whether the last segment may be deleted, after a new one was begun.

        All of its frames must be below ``upto``. It must also have its full size, unless the disk is full.
        """
        last = self._segments[-1]
        return last.end <= upto and (self._is_full(last) or (self._lacks_room and last.end > last.first))

    def _delete_below(self, upto: int) -> None:
        while len(self._segments) > 1 and self._segments[0].end <= upto:
            # A reader that has the file open can finish. No other reader finds the file any more.
            path, self._segments = self._segments[0].path, self._segments[1:]
            path.unlink()
            # Sync each deletion: a crash must not undo one and keep a later one.
            sync_folder(self._directory)

    def _with_reserve(self, write: Callable[[], None]) -> None:
        """Call ``write``, which helps to make room; on a full disk, give the reserve up and try again."""
        try:
            write()
        except OSError as error:
            if not lacks_room(error) or not self._reserve.spend():
                raise
            write()

    def skip(self, position: int) -> None:
        if position > self.end:
            with self._writing():
                self._rotate(position)
            self._end = position

    def _rotate(self, first: int) -> None:
        """Begin a new segment, with the frames from position ``first`` on."""
        segment = Segment.create(self._directory, self.id, first)
        try:
            segment.mark(self._committed)
            segment.sync()
        except OSError:
            segment.path.unlink()
            raise
        sync_folder(self._directory)
        self._segments = [*self._segments, segment]

    def close(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    # --- reading

    def batches(self, low: int, high: int) -> Iterator[FrameBatch]:
        if low >= high:
            return iter(())
        segments = self._overlapping(low, high)
        if not segments or segments[0].first > low or high > self.end:
            raise not_held(self, low, high)
        return (batch for segment in segments for batch in segment.batches(low, high))

    def held(self, low: int, high: int) -> list[tuple[int, int]]:
        return merged_ranges(
            (max(piece.first, low), min(piece.end, high))
            for segment in self._overlapping(low, high)
            for piece in segment.index.overlapping(low, high)
        )

    def bytes_between(self, low: int, high: int) -> int:
        return bytes_between((segment.index for segment in self._overlapping(low, high)), low, high)

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        parts = ((segment.index, segment.end) for segment in self._overlapping(low, high))
        return end_within(parts, low, high, max_bytes)

    def _overlapping(self, low: int, high: int) -> list[Segment]:
        segments = self._segments
        begin = max(0, bisect_right(segments, low, key=lambda segment: segment.first) - 1)
        return [segment for segment in segments[begin:] if max(segment.first, low) < min(segment.end, high)]

    # --- opening

    def _identity(self) -> str:
        path = self._directory / IDENTITY
        if not os.path.lexists(path):
            self._create_identity(path)
        with os.fdopen(open_file(path, os.O_RDONLY)) as file:
            text = file.read()
        try:
            content = json.loads(text)
            version, name = content["format"], str(content["id"])
        except (ValueError, TypeError, KeyError) as error:
            raise JournalDamaged(f"{path} does not say which journal this is: {error}") from error
        if version != _FORMAT:
            raise JournalError(
                f"the journal at {self._directory} has format {version}; this release reads {_FORMAT}. "
                "Use the release that wrote it"
            )
        return name

    def _create_identity(self, path: Path) -> None:
        if any(self._directory.glob(f"*{SUFFIX}")):
            raise JournalDamaged(f"{path} is missing, although there are segments beside it")
        temporary = path.with_suffix(".new")
        with os.fdopen(create_file(temporary), "w") as file:
            json.dump({"format": _FORMAT, "id": secrets.token_hex(8)}, file)
            file.flush()
            os.fsync(file.fileno())
        replace_file(temporary, path)
        sync_folder(self._directory)

    def _opened(self) -> list[Segment]:
        found_paths = sorted(self._directory.glob(f"*{SUFFIX}"))
        paths = [path for path in found_paths if whole_number(path.stem, most_digits=20) is not None]
        segments: list[Segment] = []
        others = [path for path in found_paths if path not in paths]
        damage = [f"{path} is not a segment: its name is not a number" for path in others]
        for path in paths:
            segment, found = Segment.open(path, self.id, last=path == paths[-1])
            damage += found
            if segment is None:
                path.unlink()
            else:
                segments.append(segment)
        damage += _gaps(segments)
        report_damage(str(self._directory), damage, tolerant=self._settings.tolerant)
        self._replace_headless(segments)
        if not segments:
            segments.append(Segment.create(self._directory, self.id, 0))
        # An earlier run may have been killed before it synced the directory.
        sync_folder(self._directory)
        return segments

    def _replace_headless(self, segments: list[Segment]) -> None:
        """If the header of the last segment is damaged, and damage is tolerated, begin a new segment."""
        if not segments or segments[-1].is_headed:
            return
        last = segments[-1]
        if last.end == last.first:
            # Nothing can be read of it, and the new segment will have its name.
            segments.pop()
            last.path.replace(last.path.with_suffix(DAMAGED))
        segments.append(Segment.create(self._directory, self.id, last.end))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Guard writes: after any failure but a full disk, all further ones are refused.

        Raises JournalFull or JournalUnwritable in place of OSError.
        """
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except OSError as error:
            if lacks_room(error):
                self._lacks_room = True
                raise unwritable(str(self._directory), error, JournalFull) from error
            self._failure = unwritable(str(self._directory), error)
            raise self._failure from error


class Reserve:
    """A file that only takes up room on the disk: ``size`` bytes at ``path``, given up if the disk is full.

    Before segments can be deleted, message keys may have to be written, or a new segment begun. Without the
    reserve, a full disk would allow neither, and nothing could ever be deleted. A full disk is no error here.
    Raises OSError if ``path`` is a link, or anything else than a regular file.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size

    def fill(self) -> None:
        """Make the file, if it is missing and the disk has room for it."""
        if self._path.exists() and self._path.lstat().st_size >= self._size:
            return
        try:
            # On a full disk some file systems have no room for the file itself.
            descriptor = open_file(self._path, os.O_WRONLY | os.O_CREAT)
        except OSError as error:
            if lacks_room(error):
                return
            raise
        try:
            _allocate(descriptor, self._size)
        except OSError:
            self.spend()
        finally:
            os.close(descriptor)

    def spend(self) -> bool:
        """Delete the file, to make room. Returns False if there was none."""
        if not self._path.exists():
            return False
        self._path.unlink()
        return True


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        write_fully(descriptor, [bytes(size)])


def _gaps(segments: Sequence[Segment]) -> Iterator[str]:
    """A sentence about each loss between two segments. A gap below the committed position is not a loss."""
    committed = max((segment.committed for segment in segments), default=0)
    for one, other in pairwise(segments):
        if one.end < other.first and committed < other.first:
            yield (
                f"messages [{one.end}, {other.first}) of the journal are lost: {one.path.name} is cut off, "
                "or a file after it is missing"
            )


def _locked(directory: Path, timeout: float) -> int:
    """Take the lock and return its descriptor. The system releases the lock when the process ends.

    Raises JournalInUse if another process still holds it after ``timeout`` seconds.
    """
    descriptor = open_file(directory / LOCK, os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise JournalInUse(
                    f"the journal at {directory} is in use by another query; each query needs its own. "
                    "If the driver of the last run was killed, its reader process may still be ending"
                ) from None
            time.sleep(_LOCK_POLL)
