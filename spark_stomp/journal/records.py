"""What both kinds of journal write: records of frames, and batches of keys. Bytes in and out.

A record is a fixed head, a JSON array that says who received the frames and how, the ends of the frames, and
the frames themselves as they came from the socket. All integers are little-endian::

    magic "SSJR" | crc32 u32 | first u64 | committed u64 | durable u64 | data length u64
                 | received at i64 | count u32 | meta length u32
    meta: ["receiver", "version", "dialect"]      ends: count x i64      data

If the frames are malformed, ``meta`` has a fourth text: why.

The checksum covers everything behind it. ``first`` is the position of the first frame in the journal.
``committed`` is the position up to which Spark had committed, and ``durable`` the offset in the file up to
which everything was synced, both when the record was written: bytes below ``durable`` are never missing, and
bytes above it may be what a crash left. A mark is a record without frames; it holds just these two.

Keys are those of committed messages whose frames are gone. A batch of them is::

    magic "SSJK" | crc32 u32 | count u32 | payload length u32
    payload, for each key: name length u32 | id length u32 | body digest (16 bytes) | name | id

The name is the entry of the option ``destination``, a NUL, which no entry can contain, and the destination of
the header.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_stomp.errors import JournalDamaged
from spark_stomp.files.durable import Parts
from spark_stomp.frame_batch import FrameBatch, MessageKey

MAGIC: Final = b"SSJR"
_HEAD: Final = struct.Struct("<4sIQQQQqII")
HEAD_BYTES: Final = _HEAD.size
_CHECKED_FROM: Final = 8
_END_BYTES: Final = 8
# No meta is longer: destinations are header lines, and those are bounded.
_MOST_META: Final = 1 << 24
_KEYS_MAGIC: Final = b"SSJK"
_KEYS_HEAD: Final = struct.Struct("<4sIII")
_KEY: Final = struct.Struct("<II16s")
_NUL: Final = "\0"
_LONGEST_STRETCH: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Head:
    """The fixed part of a record; see the module's docstring."""

    checksum: int
    first: int
    committed: int
    durable: int
    data_bytes: int
    received_at: int
    count: int
    meta_bytes: int

    @property
    def end(self) -> int:
        """The position after the last frame."""
        return self.first + self.count

    @property
    def ends_at(self) -> int:
        """Where in the record the frames' ends begin."""
        return HEAD_BYTES + self.meta_bytes

    @property
    def data_at(self) -> int:
        """Where in the record the frames begin."""
        return self.ends_at + _END_BYTES * self.count

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return self.data_at + self.data_bytes


@dataclass(frozen=True, slots=True)
class Record:
    """A record, and the ``offset`` at which it begins in its file or object."""

    head: Head
    offset: int

    def stretch(self, gap: int = 0) -> Stretch:
        """Where it lies, with the ``gap`` bytes before it."""
        return Stretch(self.offset - gap, self.offset + self.head.size, gap)


class Stretch(NamedTuple):
    """Where some records lie, one behind the other, in a file or an object.

    An index knows stretches, not records: there may be a record for each message, and none is so small that
    an entry of its own would cost little. Before each record stand ``gap`` bytes that are no part of it.
    """

    begin: int
    end: int
    gap: int = 0

    def joined(self, other: Stretch) -> Stretch | None:
        """Both, if ``other`` follows and they are not too long to be looked through."""
        if self.end != other.begin or other.end - self.begin > _LONGEST_STRETCH:
            return None
        return Stretch(self.begin, other.end, self.gap)

    def records(self, read: Callable[[int, int], bytes | memoryview]) -> Iterator[Record]:
        """The records; ``read`` takes offset and length. Ends early at what can be no record."""
        offset = self.begin + self.gap
        while offset < self.end:
            head = parse_head(read(offset, HEAD_BYTES))
            if head is None or offset + head.size > self.end:
                return
            yield Record(head, offset)
            offset += head.size + self.gap

    def ends(self, read: Callable[[int, int], bytes | memoryview]) -> npt.NDArray[np.int64]:
        """Where the frames end, as if the data of all records were one; JournalDamaged if a record is none
        any more."""
        found, before, read_to = [], 0, self.begin
        for head, offset in ((record.head, record.offset) for record in self.records(read)):
            ends = decode_ends(read(offset + head.ends_at, head.data_at - head.ends_at))
            found.append(ends + before)
            before += head.data_bytes
            read_to = offset + head.size
        if read_to < self.end:
            raise JournalDamaged(
                f"a record of the journal is damaged, between bytes {read_to} and {self.end}"
            )
        return np.concatenate(found)


def encode_batch(batch: FrameBatch, first: int, *, committed: int, durable: int) -> Parts:
    """The record of ``batch`` at position ``first``, in parts to be written one after the other."""
    meta = json.dumps(batch.origin).encode()
    ends = np.asarray(batch.ends, "<i8").tobytes()
    counts = (len(batch.data), int(batch.received_at), len(batch.ends), len(meta))
    return _checked((first, committed, durable, *counts), [meta, ends, batch.data])


def encode_mark(first: int, *, committed: int, durable: int) -> Parts:
    """A record without frames."""
    return _checked((first, committed, durable, 0, 0, 0, 0), [])


def _checked(numbers: Sequence[int], parts: Parts) -> Parts:
    head = _HEAD.pack(MAGIC, 0, *numbers)[_CHECKED_FROM:]
    checksum = zlib.crc32(head)
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return [MAGIC + struct.pack("<I", checksum) + head, *parts]


def parse_head(raw: bytes | memoryview) -> Head | None:
    """The head at the beginning of ``raw``; None if there is none."""
    if len(raw) < HEAD_BYTES:
        return None
    magic, *numbers = _HEAD.unpack_from(raw)
    head = Head(*numbers)
    return head if magic == MAGIC and head.meta_bytes <= _MOST_META else None


def is_intact(head: Head, record: memoryview) -> bool:
    """Whether ``record``, which begins with ``head``, is whole and as it was written."""
    return len(record) >= head.size and zlib.crc32(record[_CHECKED_FROM : head.size]) == head.checksum


def decode_ends(raw: bytes | memoryview) -> npt.NDArray[np.int64]:
    """The part of a record that holds the frames' ends."""
    return np.frombuffer(raw, "<i8")


def decode_batch(head: Head, record: memoryview) -> FrameBatch:
    """The frames of an intact record, numbered by their positions; views of ``record``, not copies."""
    receiver, version, dialect, *malformed = json.loads(bytes(record[HEAD_BYTES : head.ends_at]))
    ends = decode_ends(record[head.ends_at : head.data_at])
    data = record[head.data_at : head.size]
    return FrameBatch(data, ends, head.first, head.received_at, version, dialect, receiver, *malformed)


def pack_keys(keys: Collection[MessageKey]) -> bytes:
    """The bytes of one batch."""
    parts: list[bytes] = []
    origin, name = ("", ""), _NUL.encode()
    for key in keys:
        if (key.entry, key.destination) != origin:
            origin = key.entry, key.destination
            name = _NUL.join(origin).encode()
        parts += (_KEY.pack(len(name), len(key.id), key.body), name, key.id)
    payload = b"".join(parts)
    return _KEYS_HEAD.pack(_KEYS_MAGIC, zlib.crc32(payload), len(keys), len(payload)) + payload


def unpack_keys(raw: bytes) -> tuple[list[MessageKey], int]:
    """The keys of all intact batches at the beginning of ``raw``, and how many bytes those take up."""
    keys: list[MessageKey] = []
    offset = 0
    while (end := _batch_end(raw, offset)) is not None:
        keys += _unpacked(raw[offset + _KEYS_HEAD.size : end])
        offset = end
    return keys, offset


def has_keys(raw: bytes, offset: int) -> bool:
    """Whether any intact batch begins at or behind ``offset``."""
    while (offset := raw.find(_KEYS_MAGIC, offset)) >= 0:
        if _batch_end(raw, offset) is not None:
            return True
        offset += 1
    return False


def _unpacked(payload: bytes) -> Iterator[MessageKey]:
    offset = 0
    while offset < len(payload):
        name_bytes, id_bytes, body = _KEY.unpack_from(payload, offset)
        begin = offset + _KEY.size
        offset = begin + name_bytes + id_bytes
        entry, _, header = payload[begin : begin + name_bytes].decode().partition(_NUL)
        yield MessageKey(header, payload[offset - id_bytes : offset], body, entry)


def _batch_end(raw: bytes, offset: int) -> int | None:
    """Where the batch at ``offset`` ends; None if none is intact there."""
    if offset + _KEYS_HEAD.size > len(raw):
        return None
    magic, checksum, _, length = _KEYS_HEAD.unpack_from(raw, offset)
    payload = raw[offset + _KEYS_HEAD.size : offset + _KEYS_HEAD.size + length]
    if magic != _KEYS_MAGIC or len(payload) < length or zlib.crc32(payload) != checksum:
        return None
    return int(offset + _KEYS_HEAD.size + length)
