"""The contents of objects of frames: read as a whole, checked, and kept in memory within a bound.

A batch is planned, read and often read again soon after its frames came, so what was just written is kept.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_stomp.errors import JournalDamaged
from spark_stomp.framebatch import FrameBatch
from spark_stomp.journal.objects.blobs import Blobs
from spark_stomp.journal.objects.object_names import FRAMES, FramesName
from spark_stomp.journal.records import HEAD_BYTES, Head, decode_run, is_intact, parse_head

__all__ = ["ObjectCache"]

_KEPT_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class _Record:
    """Where a record is: ``offset`` in the object; ``before`` is how many bytes of frames precede it."""

    head: Head
    offset: int
    before: int


class ObjectCache:
    """What the objects hold. Methods may be called from any thread.

    All raise JournalDamaged where an object is missing or not as it was written, and JournalError where it
    cannot be read.
    """

    def __init__(self, blobs: Blobs, kept_bytes: int = _KEPT_BYTES) -> None:
        self._blobs = blobs
        self._kept_bytes = kept_bytes
        self._lock = threading.Lock()
        self._raw: OrderedDict[FramesName, bytes] = OrderedDict()
        self._raw_bytes = 0
        self._records: dict[FramesName, list[_Record]] = {}

    def keep(self, name: FramesName, raw: bytes) -> None:
        """``raw`` was put under ``name``, or read from there."""
        records = _records(name, raw)
        if records is None:
            raise JournalDamaged(
                f"{FRAMES}/{name} is damaged: messages [{name.first}, {name.end}) of the journal are lost"
            )
        with self._lock:
            self._records[name] = records
            self._raw_bytes += 0 if name in self._raw else len(raw)
            self._raw[name] = raw
            while self._raw_bytes > self._kept_bytes:
                self._raw_bytes -= len(self._raw.popitem(last=False)[1])

    def forget(self, name: FramesName) -> None:
        """The object is deleted."""
        with self._lock:
            self._records.pop(name, None)
            self._raw_bytes -= len(self._raw.pop(name, b""))

    def runs(self, name: FramesName, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames of [low, high) that are in this object."""
        raw = memoryview(self._raw_of(name))
        for record in self._records_of(name):
            head = record.head
            if head.first < high and head.end > low:
                yield decode_run(head, raw[record.offset : record.offset + head.size]).part(low, high)

    def bytes_before(self, name: FramesName, position: int) -> int:
        """How many bytes of frames lie in this object before ``position``."""
        if position <= name.first:
            return 0
        records = self._records_of(name)
        record = records[bisect_right(records, position, key=lambda one: one.head.first) - 1]
        if position >= record.head.end:
            return record.before + record.head.data_bytes
        inside = position - record.head.first
        return record.before + (int(self._ends(name, record)[inside - 1]) if inside else 0)

    def end_within(self, name: FramesName, max_bytes: int) -> int:
        """The largest position before which at most ``max_bytes`` of this object's frames lie."""
        records = self._records_of(name)
        index = bisect_right(records, max_bytes, key=lambda one: one.before) - 1
        if index < 0:
            return name.first
        record = records[index]
        fitting = np.searchsorted(self._ends(name, record), max_bytes - record.before, side="right")
        return record.head.first + int(fitting)

    def _ends(self, name: FramesName, record: _Record) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        begin, end = record.offset + record.head.ends_at, record.offset + record.head.data_at
        return np.frombuffer(memoryview(self._raw_of(name))[begin:end], "<i8")

    def _records_of(self, name: FramesName) -> list[_Record]:
        with self._lock:
            records = self._records.get(name)
        if records is None:
            # Read from the bytes at hand: what is forgotten meanwhile can still be looked into.
            records = _records(name, self._raw_of(name))
            assert records is not None
        return records

    def _raw_of(self, name: FramesName) -> bytes:
        with self._lock:
            raw = self._raw.get(name)
            if raw is not None:
                self._raw.move_to_end(name)
                return raw
        try:
            raw = self._blobs.get(f"{FRAMES}/{name}")
        except FileNotFoundError:
            raise JournalDamaged(
                f"{FRAMES}/{name} is missing: messages [{name.first}, {name.end}) of the journal are lost"
            ) from None
        self.keep(name, raw)
        return raw


def _records(name: FramesName, raw: bytes) -> list[_Record] | None:
    """The records of an object; None where it is not as it was written."""
    view = memoryview(raw)
    records: list[_Record] = []
    offset, before, position = 0, 0, name.first
    while offset < len(raw):
        head = parse_head(view[offset : offset + HEAD_BYTES])
        if head is None or head.first != position or not is_intact(head, view[offset:]):
            return None
        records.append(_Record(head, offset, before))
        offset, before, position = offset + head.size, before + head.data_bytes, head.end
    return records if position == name.end and offset == name.size else None
