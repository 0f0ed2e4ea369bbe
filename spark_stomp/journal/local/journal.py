"""A journal in a local directory: segments that are appended to and synced, under a lock.

::

    journal.json              the journal's id and format, written once
    lock                      held by the one process that writes
    00000000000000000000.segment   frames from that position on
    settled.keys              keys of messages whose frames were deleted

There is always at least one segment, so that the next position is never forgotten.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

from spark_stomp.errors import JournalDamaged, JournalError, JournalInUse
from spark_stomp.framebatch import FrameBatch, MessageKey, bytes_between, end_within, merged_ranges
from spark_stomp.journal.api import JournalSettings, not_held, report_damage, unwritable
from spark_stomp.journal.files import sync_folder
from spark_stomp.journal.local.dedup_log import DedupLog
from spark_stomp.journal.local.segment import SUFFIX, Segment

IDENTITY: Final = "journal.json"
LOCK: Final = "lock"
DEDUP_LOG: Final = "settled.keys"
_FORMAT: Final = 1
_LARGEST_SEGMENT: Final = 64 << 20
_SMALLEST_SEGMENT: Final = 64 << 10
# So many segments fit into journalMaxBytes: space comes back a segment at a time.
_SEGMENTS: Final = 8
# The reader of a driver that was killed notices within seconds, and then releases the lock.
_LOCK_TIMEOUT: Final = 30.0
_LOCK_POLL: Final = 0.1


class LocalJournal:
    """See :class:`~spark_stomp.journal.api.Journal`.

    Raises JournalInUse if another process holds the lock for ``lock_timeout`` seconds, JournalDamaged if
    synced bytes are missing or changed, JournalUnwritable if the directory cannot be used.
    """

    linger: Final = 0.0

    def __init__(self, settings: JournalSettings, lock_timeout: float = _LOCK_TIMEOUT) -> None:
        self._directory = Path(settings.location)
        self._settings = settings
        self._segment_bytes = min(max(settings.max_bytes // _SEGMENTS, _SMALLEST_SEGMENT), _LARGEST_SEGMENT)
        with self._writing():
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock_file: int | None = _locked(self._directory, lock_timeout)
        try:
            with self._writing():
                self.id = self._identity()
                # Replaced as a whole, never changed: any thread may read it.
                self._segments = self._opened()
                self._dedup_log = DedupLog(
                    self._directory / DEDUP_LOG, settings.max_remembered, tolerant=settings.tolerant
                )
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
        positions = []
        with self._writing():
            if self._segments[-1].size >= self._segment_bytes:
                self._rotate(self._segments[-1].end)
            segment = self._segments[-1]
            for batch in batches:
                positions.append(segment.end)
                segment.append(batch, self._committed)
            segment.sync()
        self._durable_commit = self._committed
        self._end = segment.end
        return positions

    def commit(self, position: int) -> None:
        self._committed = max(self._committed, position)

    def flush(self) -> None:
        segment = self._segments[-1]
        if segment.is_marked and self._durable_commit == self._committed:
            return
        with self._writing():
            segment.mark(self._committed)
            segment.sync()
        self._durable_commit = self._committed

    def remember(self, keys: Sequence[MessageKey]) -> None:
        if keys:
            with self._writing():
                self._dedup_log.append(keys)

    def trim(self, upto: int) -> None:
        with self._writing():
            last = self._segments[-1]
            if last.end <= upto and last.size >= self._segment_bytes:
                self._rotate(last.end)
            while len(self._segments) > 1 and self._segments[0].end <= upto:
                # Readers keep the file open; new readers do not find it.
                path, self._segments = self._segments[0].path, self._segments[1:]
                path.unlink()
                # One by one: a crash must not undo a deletion and keep a later one.
                sync_folder(self._directory)

    def skip(self, position: int) -> None:
        if position > self.end:
            with self._writing():
                self._rotate(position)
            self._end = position

    def _rotate(self, first: int) -> None:
        """Go on in a new segment, whose frames begin at position ``first``."""
        segment = Segment.create(self._directory, self.id, first)
        segment.mark(self._committed)
        segment.sync()
        sync_folder(self._directory)
        self._segments = [*(one for one in self._segments if one.first != first), segment]

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
        if not path.exists():
            self._create_identity(path)
        try:
            content = json.loads(path.read_text())
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
            raise JournalDamaged(f"{path} is missing, though there are segments beside it")
        temporary = path.with_suffix(".new")
        with temporary.open("w") as file:
            json.dump({"format": _FORMAT, "id": secrets.token_hex(8)}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(self._directory)

    def _opened(self) -> list[Segment]:
        paths = sorted(self._directory.glob(f"*{SUFFIX}"))
        segments: list[Segment] = []
        damage: list[str] = []
        for path in paths:
            segment, found = Segment.open(path, self.id, last=path == paths[-1])
            damage += found
            if segment is None:
                path.unlink()
            else:
                segments.append(segment)
        damage += _gaps(segments)
        report_damage(str(self._directory), damage, tolerant=self._settings.tolerant)
        if not segments:
            segments.append(Segment.create(self._directory, self.id, 0))
            sync_folder(self._directory)
        return segments

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(str(self._directory), error) from error


def _gaps(segments: Sequence[Segment]) -> Iterator[str]:
    """What is lost between two segments. A gap below the committed position is no loss."""
    committed = max((segment.committed for segment in segments), default=0)
    for one, other in pairwise(segments):
        if one.end < other.first and committed < other.first:
            yield (
                f"messages [{one.end}, {other.first}) of the journal are lost: {one.path.name} is cut off, "
                "or a file behind it is missing"
            )


def _locked(directory: Path, timeout: float) -> int:
    """The descriptor that holds the lock; the system releases it when the process ends, in whatever way."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise JournalInUse(
                    f"the journal at {directory} is in use by another query; each needs one of its own. "
                    "If the last run's driver was killed, its reader process may still be ending"
                ) from None
            time.sleep(_LOCK_POLL)
