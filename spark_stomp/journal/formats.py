"""The formats of a journal: the names of its objects, and what they contain. No I/O.

The objects, or files on a disk. With a state, their names say which frames the journal has::

    writers/G-W           the marker of a writer; G is its generation, W its random id
    states/G-W-K-S        a state: what the writer found, and how far it is (State); S: size in bytes
    frames/P-N-C-G-W-S    N frames from position P on; C was the committed position when they were written
    keys/K-N-G-W-S        the dedup log: N message keys; K is a serial number
    lock                  on a disk: held by the process that writes
    reserve               on a disk or mount: it only takes up room, and is given up if there is none

An object whose name has another form does not belong to the journal. It is neither read nor deleted.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from spark_stomp.errors import JournalError
from spark_stomp.frame_batch import FrameBatch, MessageKey

N = TypeVar("N", bound="_Name")

WRITERS: Final = "writers"
STATES: Final = "states"
FRAMES: Final = "frames"
KEYS: Final = "keys"
FOLDERS: Final = (WRITERS, STATES, FRAMES, KEYS)
LOCK: Final = "lock"
RESERVE: Final = "reserve"

_WRITER: Final = re.compile(r"(\d{10})-([0-9a-f]{16})")
# A writer in another name.
_BY: Final = r"(?P<writer>\d{10}-[0-9a-f]{16})"


class WriterName(NamedTuple):
    """One opening of a journal for writing. Of two writers, the greater one is newer."""

    generation: int
    id: str

    def __str__(self) -> str:
        return f"{self.generation:010d}-{self.id}"

    @classmethod
    def parse(cls, name: str) -> WriterName | None:
        found = _WRITER.fullmatch(name)
        return None if found is None else cls(int(found[1]), found[2])


class _Name:
    """A name in parts: ``_FORM`` has a group for each field, the writer or a number."""

    __slots__ = ()
    _FORM: ClassVar[re.Pattern[str]]

    @classmethod
    def parse(cls: type[N], text: str) -> N | None:
        """``text`` in its parts; None if it has another form."""
        found = cls._FORM.fullmatch(text)
        if found is None:
            return None
        parts = found.groupdict()
        fields: dict[str, Any] = {name: int(part) for name, part in parts.items() if name != "writer"}
        fields["writer"] = WriterName.parse(parts["writer"])
        return cls(**fields)

    @classmethod
    def sizes(cls: type[N], listed: Mapping[str, int]) -> dict[N, int]:
        """The names of this form among ``listed``, in order, with their actual sizes."""
        found = ((cls.parse(text), size) for text, size in listed.items())
        return dict(sorted((name, size) for name, size in found if name is not None))


@dataclass(frozen=True, order=True, slots=True)
class StateName(_Name):
    """The name of a state. The greatest name is that of the newest state."""

    _FORM = re.compile(_BY + r"-(?P<number>\d{10})-(?P<size>\d+)")
    writer: WriterName
    number: int
    size: int

    def __str__(self) -> str:
        return f"{self.writer}-{self.number:010d}-{self.size}"


@dataclass(frozen=True, order=True, slots=True)
class FramesName(_Name):
    """The name of an object that holds frames. Names sort by position.

    Attributes:
        first: the position of its first frame.
        count: how many frames it has.
        committed: the committed position when it was written.
        writer: who put it.
        size: its size in bytes.
    """

    _FORM = re.compile(r"(?P<first>\d{20})-(?P<count>\d+)-(?P<committed>\d+)-" + _BY + r"-(?P<size>\d+)")
    first: int
    count: int
    committed: int
    writer: WriterName
    size: int

    @property
    def end(self) -> int:
        """The position after that of the last frame."""
        return self.first + self.count

    def __str__(self) -> str:
        return f"{self.first:020d}-{self.count}-{self.committed}-{self.writer}-{self.size}"


@dataclass(frozen=True, order=True, slots=True)
class KeysName(_Name):
    """The name of an object that holds remembered keys. Names sort from the oldest to the newest."""

    _FORM = re.compile(r"(?P<number>\d{20})-(?P<count>\d+)-" + _BY + r"-(?P<size>\d+)")
    number: int
    count: int
    writer: WriterName
    size: int

    def __str__(self) -> str:
        return f"{self.number:020d}-{self.count}-{self.writer}-{self.size}"


# --- states
#
# Each writer puts a state when it opens the journal, and again when more is known. The newest state of the
# newest writer decides. It is put before the older one is deleted, so there always is one.

_FORMAT: Final = 2


class Accepted(NamedTuple):
    """The objects of ``writer`` that a state accepts: those with positions within [low, high)."""

    writer: WriterName
    low: int
    high: int


@dataclass(frozen=True)
class State:
    """What ``writer`` found when it opened the journal, and how far it is. The first four never change.

    Attributes:
        writer: who put the state.
        journal: the id of the journal.
        base: the end of all that was valid at the opening; the writer's own frames begin here.
        accepted: which objects of older writers are valid.
        end: the frames below this position are durable, or deleted.
        committed: the position up to which Spark had committed.
        acked: no message below this position waits for the broker to confirm its ACK.
    """

    writer: WriterName
    journal: str
    base: int
    accepted: tuple[Accepted, ...]
    end: int
    committed: int
    acked: int = 0

    def owns(self, frames: FramesName) -> bool:
        """Whether this state makes the object ``frames`` valid."""
        if frames.writer == self.writer:
            return frames.first >= self.base
        return any(
            frames.writer == writer and low <= frames.first and frames.end <= high
            for writer, low, high in self.accepted
        )

    def encode(self) -> bytes:
        """The bytes of the state: a checksum, a line feed, and JSON."""
        content = json.dumps(
            {
                "format": _FORMAT,
                "journal": self.journal,
                "base": self.base,
                "accepted": [[*writer, low, high] for writer, low, high in self.accepted],
                "end": self.end,
                "committed": self.committed,
                "acked": self.acked,
            }
        ).encode()
        return b"%08x\n" % zlib.crc32(content) + content

    @classmethod
    def decode(cls, writer: WriterName, raw: bytes) -> State:
        """The state with these bytes.

        Raises ValueError if they are not as they were written, and JournalError if the format is not known.
        """
        checksum, _, content = raw.partition(b"\n")
        if int(checksum, 16) != zlib.crc32(content):
            raise ValueError("the checksum is wrong")
        fields = json.loads(content)
        if fields["format"] != _FORMAT:
            raise JournalError(
                f"the journal has format {fields['format']}; this release reads {_FORMAT}. Use the release "
                "that wrote it"
            )
        accepted = tuple(Accepted(WriterName(*one[:2]), *one[2:]) for one in fields["accepted"])
        numbers = (fields[name] for name in ("end", "committed", "acked"))
        return cls(writer, fields["journal"], fields["base"], accepted, *numbers)


def lost(low: int, high: int) -> str:
    """That the messages [low, high) are."""
    return f"messages [{low}, {high}) of the journal are lost, {high - low:,} in all"


def accepted_of(frames: Iterable[FramesName]) -> tuple[Accepted, ...]:
    """For each writer, the positions from its first to its last object among ``frames``."""
    ranges: dict[WriterName, tuple[int, int]] = {}
    for one in frames:
        low, high = ranges.get(one.writer, (one.first, one.end))
        ranges[one.writer] = (min(low, one.first), max(high, one.end))
    return tuple(Accepted(writer, low, high) for writer, (low, high) in ranges.items())


# --- records of frames
#
# A record is a fixed head, a JSON array that says who received the frames and how to decode them, the ends of
# the frames, and the frames as they came from the socket. All integers are little-endian:
#
#     magic "SSJF" | crc32 u32 | first u64 | data length u64 | received at i64 | count u32 | meta length u32
#     meta: ["receiver", "version", "dialect"]      ends: count x i64      data
#
# If the frames are malformed, ``meta`` has a fourth text: the reason. The checksum covers all bytes after it.
# ``first`` is the position of the first frame in the journal.

_MAGIC: Final = b"SSJF"
_HEAD: Final = struct.Struct("<4sIQQqII")
_HEAD_BYTES: Final = _HEAD.size
_CHECKED_FROM: Final = 8
_END_BYTES: Final = 8
# The most bytes of ``meta`` in a valid record. Names of receivers contain destinations, which are header
# lines and far shorter.
_MAX_META: Final = 1 << 24
# Bytes. Consecutive records share an entry of the index up to this size, and up to this many bytes are read
# to find a frame. With an entry for each record, 60,000 messages that came one by one took 435 bytes of
# memory each (November 2026).
_MAX_RANGE: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class RecordHead:
    """The fixed part of a record.

    Attributes:
        checksum: the CRC-32 of all bytes of the record after it.
        first: the position of its first frame.
        data_bytes: how many bytes the frames have.
        received_at: when the frames were read from the socket, in microseconds since 1970.
        count: how many frames the record has.
        meta_bytes: how many bytes of JSON follow the head.
    """

    checksum: int
    first: int
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
        return _HEAD_BYTES + self.meta_bytes

    @property
    def data_at(self) -> int:
        """The offset in the record at which the frames begin."""
        return self.ends_at + _END_BYTES * self.count

    @property
    def size(self) -> int:
        """The size of the whole record in bytes."""
        return self.data_at + self.data_bytes


class ByteRange(NamedTuple):
    """Where consecutive records are in an object: the bytes [begin, end).

    An index has an entry for each range, not for each record, because there may be a record for each
    message.
    """

    begin: int
    end: int

    def joined(self, other: ByteRange) -> ByteRange | None:
        """This one and ``other`` as one; None if they are not adjacent, or too long together."""
        if self.end != other.begin or other.end - self.begin > _MAX_RANGE:
            return None
        return ByteRange(self.begin, other.end)

    def records(self, content: memoryview) -> Iterator[tuple[RecordHead, memoryview]]:
        """The records of an intact object with this ``content``, in order."""
        offset = self.begin
        while offset < self.end:
            head = parse_head(content[offset:])
            assert head is not None, "the object was checked"
            yield head, content[offset : offset + head.size]
            offset += head.size

    def ends(self, content: memoryview) -> npt.NDArray[np.int64]:
        """The ends of all frames, as if the data of all records were one."""
        found, before = [], 0
        for head, record in self.records(content):
            found.append(_ends(head, record) + before)
            before += head.data_bytes
        return np.concatenate(found)


def encode_batch(batch: FrameBatch, first: int) -> tuple[RecordHead, list[bytes | memoryview]]:
    """The record of ``batch`` at position ``first``: its head, and the parts that are to be written."""
    meta = json.dumps(batch.origin).encode()
    ends = np.asarray(batch.ends, "<i8").tobytes()
    numbers = first, len(batch.data), int(batch.received_at), len(batch.ends), len(meta)
    head = _HEAD.pack(_MAGIC, 0, *numbers)[_CHECKED_FROM:]
    parts = [meta, ends, batch.data]
    checksum = zlib.crc32(head)
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return RecordHead(checksum, *numbers), [_MAGIC + struct.pack("<I", checksum) + head, *parts]


def parse_head(raw: bytes | memoryview) -> RecordHead | None:
    """The head of a record at the beginning of ``raw``; None if there is no record."""
    if len(raw) < _HEAD_BYTES:
        return None
    magic, *numbers = _HEAD.unpack_from(raw)
    head = RecordHead(*numbers)
    return head if magic == _MAGIC and head.meta_bytes <= _MAX_META else None


def is_intact(head: RecordHead, record: memoryview) -> bool:
    """Whether ``record``, which begins with ``head``, is complete and as it was written."""
    return len(record) >= head.size and zlib.crc32(record[_CHECKED_FROM : head.size]) == head.checksum


def _ends(head: RecordHead, record: memoryview) -> npt.NDArray[np.int64]:
    return np.frombuffer(record[head.ends_at : head.data_at], "<i8")


def decode_batch(head: RecordHead, record: memoryview) -> FrameBatch:
    """The frames of an intact record, numbered by position. The data is a view of ``record``, not a copy."""
    receiver, version, dialect, *malformed = json.loads(bytes(record[_HEAD_BYTES : head.ends_at]))
    data = record[head.data_at : head.size]
    ends = _ends(head, record)
    return FrameBatch(data, ends, head.first, head.received_at, version, dialect, receiver, *malformed)


# --- message keys
#
# Those of committed messages whose frames were deleted. A batch of them is:
#
#     magic "SSJK" | crc32 u32 | count u32 | payload length u32
#     payload, for each key: name length u32 | id length u32 | body digest (16 bytes) | name | id
#
# The name is the id of the subscription, a NUL, which no such id can contain, and the destination header of
# the message.

_KEYS_MAGIC: Final = b"SSJK"
_KEYS_HEAD: Final = struct.Struct("<4sIII")
_KEY: Final = struct.Struct("<II16s")
_NUL: Final = "\0"


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


def unpack_keys(raw: bytes) -> list[MessageKey] | None:
    """The keys that :func:`pack_keys` packed; None if ``raw`` is not as it was written."""
    if len(raw) < _KEYS_HEAD.size:
        return None
    magic, checksum, _, length = _KEYS_HEAD.unpack_from(raw)
    payload = raw[_KEYS_HEAD.size :]
    if magic != _KEYS_MAGIC or len(payload) != length or zlib.crc32(payload) != checksum:
        return None
    return list(_unpacked(payload))


def _unpacked(payload: bytes) -> Iterator[MessageKey]:
    offset = 0
    while offset < len(payload):
        name_bytes, id_bytes, body = _KEY.unpack_from(payload, offset)
        begin = offset + _KEY.size
        offset = begin + name_bytes + id_bytes
        subscription, _, destination = payload[begin : begin + name_bytes].decode().partition(_NUL)
        yield MessageKey(destination, payload[offset - id_bytes : offset], body, subscription)
