"""Records: runs of raw frames as the journal writes them; pure, bytes in and out.

A record is a fixed head, a JSON array that says who received the frames and how, the ends of the frames, and
the frames themselves as they came from the socket. All integers are little-endian::

    magic "SSJR" | crc32 u32 | first u64 | committed u64 | durable u64 | data length u64
                 | received at i64 | count u32 | meta length u32
    meta: ["receiver", "version", "dialect"]      ends: count x i64      data

The checksum covers everything behind it. ``first`` is the position of the first frame in the journal.
``committed`` is the position up to which Spark had committed, and ``durable`` the offset in the file up to
which everything was synced, both when the record was written: bytes below it may never be missing, whatever
lies behind may be what a crash left over. A record without frames says just these two.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_stomp.framebatch import FrameBatch

__all__ = [
    "HEAD_BYTES",
    "MAGIC",
    "Head",
    "Parts",
    "decode_run",
    "encode_mark",
    "encode_run",
    "is_intact",
    "parse_head",
]

MAGIC: Final = b"SSJR"
_HEAD: Final = struct.Struct("<4sIQQQQqII")
HEAD_BYTES: Final = _HEAD.size
_CHECKED_FROM: Final = 8
_END_BYTES: Final = 8
# No meta is longer: destinations are header lines, and those are bounded.
_MOST_META: Final = 1 << 24

Parts = list[bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Head:
    """The fixed part of a record; see the module's text."""

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


def encode_run(run: FrameBatch, first: int, *, committed: int, durable: int) -> Parts:
    """The record of ``run`` at position ``first``, in parts to be written one after the other."""
    meta = json.dumps([run.receiver, run.version, run.dialect]).encode()
    ends = np.asarray(run.ends, "<i8").tobytes()
    numbers = (first, committed, durable, len(run.data), int(run.received_at), len(run.ends), len(meta))
    return _checked(numbers, [meta, ends, run.data])


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
    """The head at the beginning of ``raw``; None where none can be."""
    if len(raw) < HEAD_BYTES:
        return None
    magic, *numbers = _HEAD.unpack_from(raw)
    head = Head(*numbers)
    return head if magic == MAGIC and head.meta_bytes <= _MOST_META else None


def is_intact(head: Head, record: memoryview) -> bool:
    """Whether ``record``, which begins with ``head``, is whole and as it was written."""
    return len(record) >= head.size and zlib.crc32(record[_CHECKED_FROM : head.size]) == head.checksum


def decode_run(head: Head, record: memoryview) -> FrameBatch:
    """The frames of an intact record, numbered by their positions; views of ``record``, not copies."""
    receiver, version, dialect = json.loads(bytes(record[HEAD_BYTES : head.ends_at]))
    ends = np.frombuffer(record[head.ends_at : head.data_at], "<i8")
    data = record[head.data_at : head.size]
    return FrameBatch(
        data,
        ends,
        head.first,
        head.received_at,
        version,
        dialect,
        receiver,
    )
