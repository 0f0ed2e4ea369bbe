"""One file of a local journal: a header, then records, written once from front to back.

Invariants: a record that was synced is never written again; only what lies behind everything synced may be
missing or damaged after a crash, and only in the last file of a journal.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from spark_stomp.errors import JournalDamaged
from spark_stomp.framebatch import FrameBatch
from spark_stomp.journal.records import (
    HEAD_BYTES,
    MAGIC,
    Head,
    Parts,
    decode_run,
    encode_mark,
    encode_run,
    is_intact,
    parse_head,
)

__all__ = ["SUFFIX", "Segment", "write_fully"]

SUFFIX: Final = ".segment"
_FORMAT: Final = 1
_HEADER: Final = struct.Struct("<8sI16sQ")
_CHECKSUM: Final = struct.Struct("<I")
_HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
_SEARCH_BYTES: Final = 1 << 20
# What is needed to find the file's length again is synced as well; times are not worth a second write.
_sync = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a record is: ``offset`` in the file; ``before`` is how many bytes of frames precede it there."""

    head: Head
    offset: int
    before: int


class Segment:
    """A segment that is open for reading, and for writing where it is a journal's last.

    Reading may happen in any thread while one thread appends.
    """

    def __init__(self, path: Path, descriptor: int, first: int) -> None:
        self.path = path
        self.first = first
        self.end = first
        self.size = _HEADER_BYTES
        self.frame_bytes = 0
        self.committed = 0
        self._descriptor = descriptor
        self._durable = 0
        self._entries: list[_Entry] = []

    @classmethod
    def create(cls, directory: Path, journal: str, first: int) -> Segment:
        """A new file for the frames from position ``first`` on; it is synced."""
        path = directory / f"{first:020d}{SUFFIX}"
        # Of a crash in the middle of this only a file without records can be left.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        header = _HEADER.pack(b"STOMPJRN", _FORMAT, journal.encode(), first)
        write_fully(descriptor, [header + _CHECKSUM.pack(zlib.crc32(header))])
        segment = cls(path, descriptor, first)
        segment.sync()
        return segment

    @classmethod
    def open(cls, path: Path, journal: str, *, last: bool) -> tuple[Segment | None, list[str]]:
        """A file as an earlier run left it, and what is damaged in it.

        What a crash left behind the synced part of the ``last`` one is cut off; None where nothing of it was
        ever synced.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        segment = cls(path, descriptor, int(path.name.removesuffix(SUFFIX)))
        length = os.fstat(descriptor).st_size
        damage = []
        if not segment._header_is_intact(journal):
            if last and segment._next_intact(0, length) is None:
                return None, []
            damage.append(f"the header of {path.name} is damaged, or it belongs to another journal")
        damage += segment._scan(length, last=last)
        segment._durable = segment.size
        return segment, damage

    def __del__(self) -> None:
        # A reader may still hold a segment that is deleted already; the descriptor goes with the last one.
        os.close(self._descriptor)

    # --- writing

    def append(self, run: FrameBatch, committed: int) -> None:
        """Write ``run`` behind what is there; durable after :meth:`sync`. OSError as the system raises it."""
        self._write(encode_run(run, self.end, committed=committed, durable=self._durable))

    def mark(self, committed: int) -> None:
        """Note what is durable, so that damage to it can be told from what a crash leaves."""
        self._write(encode_mark(self.end, committed=committed, durable=self._durable))

    def sync(self) -> None:
        """What was written is on the disk when this returns."""
        _sync(self._descriptor)
        self._durable = self.size

    @property
    def is_marked(self) -> bool:
        """Whether the last record says that everything before it is durable."""
        if not self._entries:
            return True
        last = self._entries[-1]
        return last.head.count == 0 and last.head.durable == last.offset

    def _write(self, parts: Parts) -> None:
        head = parse_head(parts[0])
        assert head is not None
        write_fully(self._descriptor, parts)
        self._enter(head, self.size)

    def _enter(self, head: Head, offset: int) -> None:
        self._entries.append(_Entry(head, offset, self.frame_bytes))
        self.frame_bytes += head.data_bytes
        self.committed = head.committed
        self.size = offset + head.size
        # Last: readers go by it.
        self.end = head.end

    # --- reading

    def runs(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames of [low, high) that are here; JournalDamaged where they are not as they were written."""
        for entry in self._overlapping(low, high):
            yield decode_run(entry.head, self._record(entry)).part(low, high)

    def held(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The positions of [low, high) that are here, record by record."""
        for entry in self._overlapping(low, high):
            yield max(entry.head.first, low), min(entry.head.end, high)

    def bytes_before(self, position: int) -> int:
        """How many bytes of frames lie in this file before ``position``."""
        entry = self._entry(position)
        if entry is None:
            return 0
        inside = min(position, entry.head.end) - entry.head.first
        return entry.before + (int(self._ends(entry)[inside - 1]) if inside > 0 else 0)

    def end_within(self, max_bytes: int) -> int:
        """The largest position before which at most ``max_bytes`` of this file's frames lie."""
        index = bisect_right(self._entries, max_bytes, key=lambda entry: entry.before) - 1
        if index < 0:
            return self.first
        entry = self._entries[index]
        if not entry.head.count:
            return entry.head.first
        fitting = np.searchsorted(self._ends(entry), max_bytes - entry.before, side="right")
        return entry.head.first + int(fitting)

    def _overlapping(self, low: int, high: int) -> Iterator[_Entry]:
        index = max(0, bisect_right(self._entries, low, key=lambda entry: entry.head.first) - 1)
        for entry in self._entries[index:]:
            if entry.head.first >= high:
                return
            if entry.head.count and entry.head.end > low:
                yield entry

    def _entry(self, position: int) -> _Entry | None:
        index = bisect_right(self._entries, position, key=lambda entry: entry.head.first) - 1
        return self._entries[index] if index >= 0 else None

    def _ends(self, entry: _Entry) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        raw = self._read(entry.offset + entry.head.ends_at, entry.head.data_at - entry.head.ends_at)
        return np.frombuffer(raw, "<i8")

    def _record(self, entry: _Entry) -> memoryview:
        record = memoryview(self._read(entry.offset, entry.head.size))
        if not is_intact(entry.head, record):
            raise JournalDamaged(self._lost(entry.head.first, entry.head.end))
        return record

    def _read(self, offset: int, length: int) -> bytes:
        parts = []
        while length > 0 and (part := os.pread(self._descriptor, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # --- what an earlier run left

    def _header_is_intact(self, journal: str) -> bool:
        raw = self._read(0, _HEADER_BYTES)
        if len(raw) < _HEADER_BYTES:
            return False
        magic, version, owner, first = _HEADER.unpack_from(raw)
        whole = _CHECKSUM.unpack_from(raw, _HEADER.size)[0] == zlib.crc32(raw[: _HEADER.size])
        if whole and magic == b"STOMPJRN" and version != _FORMAT:
            raise JournalDamaged(
                f"{self.path.name} has format {version}; this release reads format {_FORMAT}. "
                "Use the release that wrote it"
            )
        return bool(whole and owner == journal.encode() and first == self.first)

    def _scan(self, length: int, *, last: bool) -> list[str]:
        """Find the records; returns what is damaged."""
        offset, damage = self.size, []
        while offset < length:
            head = self._intact_at(offset, length)
            if head is None or head.first < self.end:
                following = self._next_intact(offset + 1, length)
                if last and not self._was_durable(offset, length):
                    os.ftruncate(self._descriptor, offset)
                    break
                damage.append(self._damage(offset, following))
                if following is None:
                    break
                offset, head = following
            elif head.first > self.end:
                damage.append(self._lost(self.end, head.first))
            self._enter(head, offset)
            offset += head.size
        os.lseek(self._descriptor, self.size if last else 0, os.SEEK_SET)
        return damage

    def _was_durable(self, offset: int, length: int) -> bool:
        """Whether a record behind ``offset`` says that what is there was synced."""
        found = self._next_intact(offset + 1, length)
        while found is not None:
            if found[1].durable > offset:
                return True
            found = self._next_intact(found[0] + found[1].size, length)
        return False

    def _intact_at(self, offset: int, length: int) -> Head | None:
        head = parse_head(self._read(offset, HEAD_BYTES))
        if head is None or offset + head.size > length:
            return None
        return head if is_intact(head, memoryview(self._read(offset, head.size))) else None

    def _next_intact(self, offset: int, length: int) -> tuple[int, Head] | None:
        """The first intact record at or behind ``offset``."""
        while offset < length:
            found = self._read(offset, _SEARCH_BYTES).find(MAGIC)
            if found < 0:
                # The magic may begin in this piece and end in the next one.
                offset += max(_SEARCH_BYTES - len(MAGIC) + 1, 1)
                continue
            offset += found
            head = self._intact_at(offset, length)
            if head is not None:
                return offset, head
            offset += 1
        return None

    def _damage(self, offset: int, following: tuple[int, Head] | None) -> str:
        if following is not None and following[1].first > self.end:
            return self._lost(self.end, following[1].first)
        if following is not None:
            return f"{self.path.name} is damaged at byte {offset}, where no message is affected"
        return f"{self.path.name} is damaged from byte {offset} on: messages from {self.end} on are lost"

    def _lost(self, low: int, high: int) -> str:
        return f"{self.path.name} is damaged: messages [{low}, {high}) of the journal are lost"


def write_fully(descriptor: int, parts: Parts) -> None:
    """Write all of ``parts``; OSError as the system raises it."""
    written = os.writev(descriptor, parts)
    if written == sum(map(len, parts)):
        return
    rest = memoryview(b"".join(parts))[written:]
    while rest:
        rest = rest[os.write(descriptor, rest) :]
