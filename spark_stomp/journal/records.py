"""The formats that all journals write: records of frames, and batches of message keys. No I/O.

A record is a fixed head, a JSON array that says who received the frames and how to decode them, the ends of
the frames, and the frames as they came from the socket. All integers are little-endian::

    magic "SSJR" | crc32 u32 | first u64 | committed u64 | durable u64 | data length u64
                 | received at i64 | count u32 | meta length u32
    meta: ["receiver", "version", "dialect"]      ends: count x i64      data

If the frames are malformed, ``meta`` has a fourth text: the reason.

The checksum covers all bytes after it. ``first`` is the position of the first frame in the journal. Two
numbers say how things were when the record was written: ``committed`` is the position up to which Spark had
committed, and ``durable`` is the offset in the file up to which everything was synced. After a crash, bytes
below ``durable`` are there, and bytes above it may be missing. A mark is a record without frames, written
only for these two numbers.

Message keys are those of committed messages whose frames were deleted. A batch of them is::

    magic "SSJK" | crc32 u32 | count u32 | payload length u32
    payload, for each key: name length u32 | id length u32 | body digest (16 bytes) | name | id

The name is the id of the subscription, a NUL, which no such id can contain, and the destination
header of the message.
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
# The most bytes that ``meta`` may have; with more, it is no record. A judgement: destinations are header
# lines, which are far shorter.
_MAX_META: Final = 1 << 24
_KEYS_MAGIC: Final = b"SSJK"
_KEYS_HEAD: Final = struct.Struct("<4sIII")
_KEY: Final = struct.Struct("<II16s")
_NUL: Final = "\0"
# Bytes. Consecutive records share an entry of the index up to this size, and up to this many bytes are read
# to find a frame. With an entry for each record, 60,000 messages that came one by one took 435 bytes of
# memory each (November 2026).
_MAX_STRETCH: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Head:
    """The fixed part of a record.

    Attributes:
        checksum: the CRC-32 of all bytes of the record after it.
        first: the position of its first frame.
        committed: the position up to which Spark had committed when the record was written.
        durable: the offset in the file up to which everything was synced when the record was written.
        data_bytes: how many bytes the frames have.
        received_at: when the frames were read from the socket, in microseconds since 1970.
        count: how many frames the record has.
        meta_bytes: how many bytes of JSON follow the head.
    """

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
        """The position after that of the last frame."""
        return self.first + self.count

    @property
    def ends_at(self) -> int:
        """The offset in the record at which the ends of the frames begin."""
        return HEAD_BYTES + self.meta_bytes

    @property
    def data_at(self) -> int:
        """The offset in the record at which the frames begin."""
        return self.ends_at + _END_BYTES * self.count

    @property
    def size(self) -> int:
        """The size of the whole record in bytes."""
        return self.data_at + self.data_bytes


@dataclass(frozen=True, slots=True)
class Record:
    """A record, and the ``offset`` at which it begins in its file or object."""

    head: Head
    offset: int

    def stretch(self, gap: int = 0) -> Stretch:
        """Where the record is, with the ``gap`` bytes before it."""
        return Stretch(self.offset - gap, self.offset + self.head.size, gap)


class Stretch(NamedTuple):
    """Where consecutive records are in a file or an object: the bytes [begin, end).

    An index has an entry for each stretch, not for each record, because there may be a record for each
    message. Before each record are ``gap`` bytes that are not a part of it.
    """

    begin: int
    end: int
    gap: int = 0

    def joined(self, other: Stretch) -> Stretch | None:
        """This stretch and ``other`` as one; None if they are not adjacent, or too long together."""
        if self.end != other.begin or other.end - self.begin > _MAX_STRETCH:
            return None
        return Stretch(self.begin, other.end, self.gap)

    def records(self, read: Callable[[int, int], bytes | memoryview]) -> Iterator[Record]:
        """The records in order; ``read`` takes an offset and a length. Ends early at a damaged head."""
        offset = self.begin + self.gap
        while offset < self.end:
            head = parse_head(read(offset, HEAD_BYTES))
            if head is None or offset + head.size > self.end:
                return
            yield Record(head, offset)
            offset += head.size + self.gap

    def ends(self, read: Callable[[int, int], bytes | memoryview]) -> npt.NDArray[np.int64]:
        """The ends of all frames, as if the data of all records were one.

        ``read`` takes an offset and a length. Raises JournalDamaged if a record cannot be recognised.
        """
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
    """The record of ``batch`` at position ``first``, in parts that are to be written one after the other."""
    meta = json.dumps(batch.origin).encode()
    ends = np.asarray(batch.ends, "<i8").tobytes()
    counts = (len(batch.data), int(batch.received_at), len(batch.ends), len(meta))
    return _checked((first, committed, durable, *counts), [meta, ends, batch.data])


def encode_mark(first: int, *, committed: int, durable: int) -> Parts:
    """A mark: a record without frames."""
    return _checked((first, committed, durable, 0, 0, 0, 0), [])


def _checked(numbers: Sequence[int], parts: Parts) -> Parts:
    head = _HEAD.pack(MAGIC, 0, *numbers)[_CHECKED_FROM:]
    checksum = zlib.crc32(head)
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return [MAGIC + struct.pack("<I", checksum) + head, *parts]


def parse_head(raw: bytes | memoryview) -> Head | None:
    """The head of a record at the beginning of ``raw``; None if there is no record."""
    if len(raw) < HEAD_BYTES:
        return None
    magic, *numbers = _HEAD.unpack_from(raw)
    head = Head(*numbers)
    return head if magic == MAGIC and head.meta_bytes <= _MAX_META else None


def is_intact(head: Head, record: memoryview) -> bool:
    """Whether ``record``, which begins with ``head``, is complete and as it was written."""
    return len(record) >= head.size and zlib.crc32(record[_CHECKED_FROM : head.size]) == head.checksum


def decode_ends(raw: bytes | memoryview) -> npt.NDArray[np.int64]:
    """The ends of the frames, from the part of a record that holds them."""
    return np.frombuffer(raw, "<i8")


def decode_batch(head: Head, record: memoryview) -> FrameBatch:
    """The frames of an intact record, numbered by position. The data is a view of ``record``, not a copy."""
    receiver, version, dialect, *malformed = json.loads(bytes(record[HEAD_BYTES : head.ends_at]))
    ends = decode_ends(record[head.ends_at : head.data_at])
    data = record[head.data_at : head.size]
    return FrameBatch(data, ends, head.first, head.received_at, version, dialect, receiver, *malformed)


def pack_keys(keys: Collection[MessageKey]) -> bytes:
    """The bytes of one batch of message keys."""
    parts: list[bytes] = []
    origin, name = ("", ""), _NUL.encode()
    for key in keys:
        if (key.subscription, key.destination) != origin:
            origin = key.subscription, key.destination
            name = _NUL.join(origin).encode()
        parts += (_KEY.pack(len(name), len(key.id), key.body), name, key.id)
    payload = b"".join(parts)
    return _KEYS_HEAD.pack(_KEYS_MAGIC, zlib.crc32(payload), len(keys), len(payload)) + payload


def unpack_keys(raw: bytes) -> tuple[list[MessageKey], int]:
    """The keys of all intact batches at the beginning of ``raw``, and how many bytes these batches have."""
    keys: list[MessageKey] = []
    offset = 0
    while (end := _batch_end(raw, offset)) is not None:
        keys += _unpacked(raw[offset + _KEYS_HEAD.size : end])
        offset = end
    return keys, offset


def has_keys(raw: bytes, offset: int) -> bool:
    """Whether an intact batch of keys begins anywhere from ``offset`` on."""
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
        subscription, _, destination = payload[begin : begin + name_bytes].decode().partition(_NUL)
        yield MessageKey(destination, payload[offset - id_bytes : offset], body, subscription)


def _batch_end(raw: bytes, offset: int) -> int | None:
    """Where the batch of keys at ``offset`` ends; None if there is no intact batch."""
    if offset + _KEYS_HEAD.size > len(raw):
        return None
    magic, checksum, _, length = _KEYS_HEAD.unpack_from(raw, offset)
    payload = raw[offset + _KEYS_HEAD.size : offset + _KEYS_HEAD.size + length]
    if magic != _KEYS_MAGIC or len(payload) < length or zlib.crc32(payload) != checksum:
        return None
    return int(offset + _KEYS_HEAD.size + length)
