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
import logging
import os
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

from spark_stomp.errors import JournalDamaged, JournalError, JournalInUse, JournalTrimmed, JournalUnwritable
from spark_stomp.framebatch import FrameBatch, MessageKey
from spark_stomp.journal.api import JournalSettings
from spark_stomp.journal.local.dedup_log import DedupLog
from spark_stomp.journal.local.segment import SUFFIX, Segment

__all__ = ["LocalJournal"]

log = logging.getLogger(__name__)

_FORMAT: Final = 1
_LARGEST_SEGMENT: Final = 64 << 20
_SMALLEST_SEGMENT: Final = 64 << 10
# So many segments fit into journalMaxBytes: space comes back a segment at a time.
_SEGMENTS: Final = 8
# The reader of a driver that was killed notices within seconds, and then lets go of the lock.
_LOCK_PATIENCE: Final = 30.0
_LOCK_POLL: Final = 0.1


class LocalJournal:
    """See :class:`~spark_stomp.journal.api.Journal`.

    Raises JournalInUse where another process holds the lock for half a minute, JournalDamaged where what was
    synced is not there as it was written, JournalUnwritable where the directory cannot be had.
    """

    patience: Final = 0.0

    def __init__(self, settings: JournalSettings, lock_patience: float = _LOCK_PATIENCE) -> None:
        self._directory = Path(settings.location)
        self._settings = settings
        self._lock = threading.Lock()
        self._segment_bytes = min(max(settings.max_bytes // _SEGMENTS, _SMALLEST_SEGMENT), _LARGEST_SEGMENT)
        with self._writing():
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock_file: int | None = _locked(self._directory, lock_patience)
        try:
            with self._writing():
                self.id = self._identity()
                self._segments = self._opened()
                self._settled = DedupLog(
                    self._directory / "settled.keys", settings.max_remembered, tolerant=settings.tolerant
                )
        except JournalError:
            self.close()
            raise
        self._committed = max(self.first, *(segment.committed for segment in self._segments))
        self._noted = self._committed
        self._durable = self._segments[-1].end

    @property
    def first(self) -> int:
        return self._segments[0].first

    @property
    def end(self) -> int:
        return self._durable

    @property
    def committed(self) -> int:
        return self._committed

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def settled(self) -> Sequence[MessageKey]:
        return self._settled.keys

    # --- writing

    def append(self, runs: Sequence[FrameBatch]) -> list[int]:
        positions = []
        with self._writing():
            if self._segments[-1].size >= self._segment_bytes:
                self._rotate()
            segment = self._segments[-1]
            for run in runs:
                positions.append(segment.end)
                segment.append(run, self._committed)
            segment.sync()
        self._noted = self._committed
        self._durable = segment.end
        return positions

    def commit(self, position: int) -> None:
        self._committed = max(self._committed, position)

    def rest(self) -> None:
        segment = self._segments[-1]
        if segment.is_marked and self._noted == self._committed:
            return
        with self._writing():
            segment.mark(self._committed)
            segment.sync()
        self._noted = self._committed

    def settle(self, keys: Sequence[MessageKey]) -> None:
        if keys:
            with self._writing():
                self._settled.append(keys)

    def trim(self, upto: int) -> None:
        with self._writing():
            last = self._segments[-1]
            if last.end <= upto and last.size >= self._segment_bytes:
                self._rotate()
            while len(self._segments) > 1 and self._segments[0].end <= upto:
                # Readers hold what they read; nobody new finds it.
                with self._lock:
                    path = self._segments.pop(0).path
                path.unlink()
                # One by one: of two deletions a crash must not keep only the later one.
                self._sync_directory()

    def skip(self, position: int) -> None:
        if position > self.end:
            with self._writing():
                self._rotate(position)
            self._durable = position

    def _rotate(self, position: int | None = None) -> None:
        first = self._segments[-1].end if position is None else position
        segment = Segment.create(self._directory, self.id, first)
        segment.mark(self._committed)
        segment.sync()
        self._sync_directory()
        with self._lock:
            if self._segments and self._segments[-1].first == first:
                self._segments.pop()
            self._segments.append(segment)

    def close(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    # --- reading

    def runs(self, low: int, high: int) -> Iterator[FrameBatch]:
        if low >= high:
            return iter(())
        segments = self._overlapping(low, high)
        if not segments or segments[0].first > low or high > self.end:
            raise JournalTrimmed(
                f"messages [{low}, {high}) of the journal were asked for, but it holds "
                f"[{self.first}, {self.end})"
            )
        return (run for segment in segments for run in segment.runs(low, high))

    def held(self, low: int, high: int) -> list[tuple[int, int]]:
        parts: list[tuple[int, int]] = []
        for segment in self._overlapping(low, high):
            for begin, end in segment.held(low, high):
                if parts and parts[-1][1] == begin:
                    parts[-1] = (parts[-1][0], end)
                else:
                    parts.append((begin, end))
        return parts

    def bytes_between(self, low: int, high: int) -> int:
        return sum(
            segment.bytes_before(high) - segment.bytes_before(low) for segment in self._overlapping(low, high)
        )

    def end_within(self, low: int, high: int, max_bytes: int) -> int:
        best = low
        for segment in self._overlapping(low, high):
            before = segment.bytes_before(low)
            best = max(best, min(segment.end_within(before + max_bytes), high))
            max_bytes -= segment.bytes_before(high) - before
            if max_bytes < 0:
                break
        return best

    def _overlapping(self, low: int, high: int) -> list[Segment]:
        with self._lock:
            begin = max(0, bisect_right(self._segments, low, key=lambda segment: segment.first) - 1)
            return [
                segment for segment in self._segments[begin:] if segment.first < high and segment.end > low
            ]

    # --- opening

    def _identity(self) -> str:
        path = self._directory / "journal.json"
        if not path.exists():
            if any(self._directory.glob(f"*{SUFFIX}")):
                raise JournalDamaged(f"{path} is missing, though there are segments beside it")
            temporary = path.with_suffix(".new")
            with temporary.open("w") as file:
                json.dump({"format": _FORMAT, "id": secrets.token_hex(8)}, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            self._sync_directory()
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
        damage += [
            f"messages [{one.end}, {other.first}) of the journal are lost: {one.path.name} is cut off, or a "
            "file behind it is missing"
            for one, other in pairwise(segments)
            if one.end < other.first and not self._was_committed(segments, other.first)
        ]
        self._report(damage)
        return segments or [self._first_segment()]

    @staticmethod
    def _was_committed(segments: Sequence[Segment], position: int) -> bool:
        """Whether everything below ``position`` was committed: what is missing there is nobody's loss."""
        return position <= max(segment.committed for segment in segments)

    def _first_segment(self) -> Segment:
        segment = Segment.create(self._directory, self.id, 0)
        self._sync_directory()
        return segment

    def _report(self, damage: list[str]) -> None:
        if damage and not self._settings.tolerant:
            raise JournalDamaged(
                f"the journal at {self._directory} is damaged: {'; '.join(damage)}. With "
                "failOnDataLoss=false the query goes on without what is lost"
            )
        for text in damage:
            log.error("the journal at %s: %s", self._directory, text)

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JournalUnwritable(
                f"the journal at {self._directory} cannot be written: {error}. What it does not hold was "
                "neither ACKed on its account nor given to Spark, and stays on the broker"
            ) from error


def _locked(directory: Path, patience: float) -> int:
    """The descriptor that holds the lock; it goes with the process, however that ends."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience
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
