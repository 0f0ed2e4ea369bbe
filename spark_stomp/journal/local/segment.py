"""A segment: one file of a local journal. It has a header, then records, and is written from front to back.

All integers are little-endian::

    header: magic "STOMPJRN" | format u32 | id of the journal (16 bytes) | first u64 | marker (16 bytes)
            | crc32 u32 of all before it
    then, for each record: marker | the record (see records.py)

Before each record is the marker of the segment, 16 random bytes that are also in the header. If the file is
damaged, the next record is found by its marker. Without one, a producer could send a body that looks like
records, and these would be taken for the journal's own.

Invariants:

- A synced record is never overwritten.
- After a crash, only bytes that were not synced may be missing or wrong, and only at the end of the journal's
  last file.
- The header is synced before the first record is written.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_stomp.errors import JournalDamaged
from spark_stomp.files.durable import OpenFile, Parts, sync, sync_and_drop_cache, write_fully
from spark_stomp.files.private import open_file
from spark_stomp.frame_batch import FrameBatch, FrameIndex
from spark_stomp.journal.records import (
    HEAD_BYTES,
    MAGIC,
    Record,
    Stretch,
    decode_batch,
    encode_batch,
    encode_mark,
    is_intact,
    parse_head,
)

SUFFIX: Final = ".segment"
_MAGIC: Final = b"STOMPJRN"
_FORMAT: Final = 2
_HEADER: Final = struct.Struct("<8sI16sQ")
_MARKER_BYTES: Final = 16
# What is left of a damaged header counts as a marker only with at least this many different bytes, as 16
# random bytes practically always have. A lost block of the disk has equal bytes, and a producer's body may
# have these before what looks like a record. A judgement.
_MARKER_MIN_VARIETY: Final = 5
_CHECKSUM: Final = struct.Struct("<I")
_HEADER_BYTES: Final = _HEADER.size + _MARKER_BYTES + _CHECKSUM.size
# Bytes that are read at once when a damaged file is searched for the next record. A judgement, not measured.
_SEARCH_BYTES: Final = 1 << 20


def _ends(file: OpenFile, stretch: Stretch) -> npt.NDArray[np.int64]:
    return stretch.ends(file.read)


class Segment:
    """A segment that is open for reading, and for writing if it is the last one of the journal.

    Any thread may read while one thread appends.

    Attributes:
        path: the file.
        first: the position of its first frame.
        end: the position after its last frame.
        committed: the committed position that its last record names.
        size: how many bytes it has.
        index: finds the records that hold frames.
        is_headed: whether its header is intact.
    """

    def __init__(self, path: Path, descriptor: int, first: int) -> None:
        self.path = path
        self.first = first
        self.end = first
        self.committed = 0
        self.is_headed = True
        self._marker = b""
        self.size = _HEADER_BYTES
        self._file = OpenFile(descriptor)
        # Bound to the file, not to the segment: a circle of references would keep the file open until the
        # garbage collector runs, and its space would not come back.
        self.index: FrameIndex[Stretch] = FrameIndex(partial(_ends, self._file), Stretch.joined)
        self._durable = 0
        self._last: Record | None = None

    @classmethod
    def create(cls, directory: Path, journal: str, first: int) -> Segment:
        """Make and sync a new file for the frames from ``first`` on. After an OSError, no file is left."""
        path = directory / f"{first:020d}{SUFFIX}"
        # A crash during these steps can leave only a file without records.
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        segment = cls(path, descriptor, first)
        segment._marker = secrets.token_bytes(_MARKER_BYTES)
        header = _HEADER.pack(_MAGIC, _FORMAT, journal.encode(), first) + segment._marker
        try:
            write_fully(descriptor, [header + _CHECKSUM.pack(zlib.crc32(header))])
            segment.sync()
        except OSError:
            path.unlink()
            raise
        return segment

    @classmethod
    def open(cls, path: Path, journal: str, *, last: bool) -> tuple[Segment | None, list[str]]:
        """Open a file that an earlier run left; returns the segment, and what is damaged in it.

        All frames that are found are durable. The ``last`` file of the journal may end with bytes that a
        crash left and that were never synced: these are cut off. If nothing in it was ever synced, the
        segment is None. A file without an intact header is not changed, and must not be written to:
        see ``is_headed``.
        """
        descriptor = open_file(path, os.O_RDWR)
        segment = cls(path, descriptor, int(path.name.removesuffix(SUFFIX)))
        # Only the last file can have bytes that were not synced, or whose sync failed.
        (sync_and_drop_cache if last else sync)(descriptor)
        length = os.fstat(descriptor).st_size
        damage = []
        if not segment._header_is_intact(journal):
            if last and length <= _HEADER_BYTES:
                return None, []
            segment.is_headed = False
            segment._find_marker(length)
            damage.append(f"the header of {path.name} is damaged, or it belongs to another journal")
        # The header was synced before any record, so a crash cannot damage it: what is not found is lost.
        damage += segment._scan(length, last=last and segment.is_headed)
        segment._durable = segment.size
        return segment, damage

    # --- writing

    def append(self, batches: Sequence[FrameBatch], committed: int) -> list[int]:
        """Write ``batches`` at the end; returns the position of each. They are durable after :meth:`sync`.

        Raises OSError if the system does; then the file is as it was.
        """
        positions, end, records = [], self.end, []
        for batch in batches:
            positions.append(end)
            records.append(encode_batch(batch, end, committed=committed, durable=self._durable))
            end += len(batch.ends)
        self._write(records)
        return positions

    def mark(self, committed: int) -> None:
        """Write a mark, which says what is durable. Damage there is then not taken for what a crash left."""
        self._write([encode_mark(self.end, committed=committed, durable=self._durable)])

    def sync(self) -> None:
        """Make all records durable. Raises SyncFailed if that is not certain."""
        sync(self._file.descriptor)
        self._durable = self.size

    @property
    def is_marked(self) -> bool:
        """Whether the last record says that everything before it is durable."""
        last = self._last
        return last is None or (last.head.count == 0 and last.head.durable == last.offset - len(self._marker))

    def _write(self, records: Sequence[Parts]) -> None:
        descriptor = self._file.descriptor
        try:
            for parts in records:
                write_fully(descriptor, [self._marker, *parts])
        except OSError:
            # The next record must follow the last complete one.
            os.ftruncate(descriptor, self.size)
            os.lseek(descriptor, self.size, os.SEEK_SET)
            raise
        for parts in records:
            head = parse_head(parts[0])
            assert head is not None
            self._add(Record(head, self.size + len(self._marker)))

    def _add(self, record: Record) -> None:
        head = record.head
        self.index.append(head.first, head.count, head.data_bytes, record.stretch(len(self._marker)))
        self._last = record
        self.committed = head.committed
        self.size = record.offset + head.size
        # Last, because readers in other threads look at ``end`` first.
        self.end = head.end

    # --- reading

    def batches(self, low: int, high: int) -> Iterator[FrameBatch]:
        """The frames of [low, high) that are in this file.

        Raises JournalDamaged if some of them are not as they were written.
        """
        for piece in self.index.overlapping(low, high):
            position = piece.first
            for head, offset in ((one.head, one.offset) for one in piece.item.records(self._file.read)):
                if head.first != position or head.first >= high:
                    break
                position = head.end
                if not head.count or head.end <= low:
                    continue
                raw = memoryview(self._file.read(offset, head.size))
                if not is_intact(head, raw):
                    raise JournalDamaged(self._lost(head.first, head.end))
                yield decode_batch(head, raw).part(low, high)
            if position < min(piece.end, high):
                raise JournalDamaged(self._lost(position, piece.end))

    # --- what an earlier run left

    def _header_is_intact(self, journal: str) -> bool:
        """Whether the header is intact and belongs to this journal. If it is intact, its marker is used."""
        raw = self._file.read(0, _HEADER_BYTES)
        if len(raw) < _HEADER_BYTES:
            return False
        magic, version, owner, first = _HEADER.unpack_from(raw)
        content, checksum = raw[: -_CHECKSUM.size], raw[-_CHECKSUM.size :]
        whole = magic == _MAGIC and checksum == _CHECKSUM.pack(zlib.crc32(content))
        if whole and version != _FORMAT:
            raise JournalDamaged(
                f"{self.path.name} has format {version}; this release reads {_FORMAT}. "
                "Use the release that wrote it"
            )
        if whole:
            self._marker = content[_HEADER.size :]
        return whole and owner == journal.encode() and first == self.first

    def _find_marker(self, length: int) -> None:
        """Set the marker of a file whose header is damaged.

        There is a copy in the header, and one before the first record. A copy is used only if it leads to an
        intact record. If neither does, the marker is random.
        """
        raw = self._file.read(0, _HEADER_BYTES + _MARKER_BYTES)
        for marker in (raw[_HEADER.size :][:_MARKER_BYTES], raw[_HEADER_BYTES:]):
            self._marker = marker
            if len(set(marker)) >= _MARKER_MIN_VARIETY and self._next_intact(0, length) is not None:
                return
        # No marker is left. A new random one matches nothing, so no record is found.
        self._marker = secrets.token_bytes(_MARKER_BYTES)

    def _scan(self, length: int, *, last: bool) -> list[str]:
        """Find the records and fill the index; returns what is damaged."""
        offset, damage = self.size, []
        while offset < length:
            record = self._intact_at(offset, length)
            if record is None or record.head.first < self.end:
                following = self._next_intact(offset + 1, length)
                if last and not self._was_durable(offset, length):
                    os.ftruncate(self._file.descriptor, offset)
                    break
                damage.append(self._damage(offset, following))
                if following is None:
                    break
                record = following
            elif record.head.first > self.end:
                damage.append(self._lost(self.end, record.head.first))
            self._add(record)
            offset = self.size
        os.lseek(self._file.descriptor, self.size if last else 0, os.SEEK_SET)
        return damage

    def _was_durable(self, offset: int, length: int) -> bool:
        """Whether a later record says that the bytes at ``offset`` were synced."""
        found = self._next_intact(offset + 1, length)
        while found is not None:
            if found.head.durable > offset:
                return True
            found = self._next_intact(found.offset + found.head.size, length)
        return False

    def _intact_at(self, offset: int, length: int) -> Record | None:
        begin = offset + len(self._marker)
        if self._file.read(offset, len(self._marker)) != self._marker:
            return None
        head = parse_head(self._file.read(begin, HEAD_BYTES))
        if head is None or begin + head.size > length:
            return None
        return Record(head, begin) if is_intact(head, memoryview(self._file.read(begin, head.size))) else None

    def _next_intact(self, offset: int, length: int) -> Record | None:
        """The first intact record that begins at ``offset`` or later; None if there is none."""
        wanted = self._marker + MAGIC
        while offset < length:
            found = self._file.read(offset, _SEARCH_BYTES).find(wanted)
            if found < 0:
                # The bytes that are looked for may begin in this piece and end in the next one.
                offset += max(_SEARCH_BYTES - len(wanted) + 1, 1)
                continue
            offset += found
            record = self._intact_at(offset, length)
            if record is not None:
                return record
            offset += 1
        return None

    def _damage(self, offset: int, following: Record | None) -> str:
        if following is not None and following.head.first > self.end:
            return self._lost(self.end, following.head.first)
        if following is not None:
            return f"{self.path.name} is damaged at byte {offset}, where no message is affected"
        return f"{self.path.name} is damaged from byte {offset} on: messages from {self.end} on are lost"

    def _lost(self, low: int, high: int) -> str:
        return f"{self.path.name} is damaged: messages [{low}, {high}) of the journal are lost"
