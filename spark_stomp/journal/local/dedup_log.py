"""Keys of messages whose frames the journal no longer has, but which the broker may deliver once more.

They are written before the frames go, so that whatever dies, such a message is known again. A file of
batches, each ``magic "SSJK" | crc32 u32 | count u32 | payload bytes u32 | payload``; the payload is for each
key ``destination bytes u32 | id bytes u32 | digest (16 bytes) | destination | id``, all little-endian.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from spark_stomp.errors import JournalDamaged
from spark_stomp.framebatch import MessageKey

__all__ = ["DedupLog", "pack_keys", "unpack_keys"]

log = logging.getLogger(__name__)

_MAGIC: Final = b"SSJK"
_HEAD: Final = struct.Struct("<4sIII")
_KEY: Final = struct.Struct("<II16s")


def pack_keys(keys: Collection[MessageKey]) -> bytes:
    """One batch."""
    parts: list[bytes] = []
    destination, name = "", b""
    for key in keys:
        if key.destination != destination:
            destination, name = key.destination, key.destination.encode()
        parts += (_KEY.pack(len(name), len(key.id), key.body), name, key.id)
    payload = b"".join(parts)
    return _HEAD.pack(_MAGIC, zlib.crc32(payload), len(keys), len(payload)) + payload


def unpack_keys(raw: bytes) -> tuple[list[MessageKey], int]:
    """The keys of all intact batches at the beginning of ``raw``, and how many bytes those take up."""
    keys: list[MessageKey] = []
    offset = 0
    while (end := _batch_end(raw, offset)) is not None:
        keys += _unpacked(raw[offset + _HEAD.size : end])
        offset = end
    return keys, offset


def _unpacked(payload: bytes) -> Iterator[MessageKey]:
    offset = 0
    while offset < len(payload):
        destination, name, body = _KEY.unpack_from(payload, offset)
        begin = offset + _KEY.size
        offset = begin + destination + name
        yield MessageKey(payload[begin : begin + destination].decode(), payload[offset - name : offset], body)


def _batch_end(raw: bytes, offset: int) -> int | None:
    """Where the batch at ``offset`` ends; None where none is intact."""
    if offset + _HEAD.size > len(raw):
        return None
    magic, checksum, _, length = _HEAD.unpack_from(raw, offset)
    payload = raw[offset + _HEAD.size : offset + _HEAD.size + length]
    if magic != _MAGIC or len(payload) < length or zlib.crc32(payload) != checksum:
        return None
    return int(offset + _HEAD.size + length)


class DedupLog:
    """The file of one local journal; ``most`` bounds how many keys are kept when it is opened.

    Opening needs no space: what is torn is cut off, and what is forgotten goes only where there is room to
    write the rest anew.
    """

    def __init__(self, path: Path, most: int, *, tolerant: bool) -> None:
        self._path = path
        found = self._load(tolerant)
        self._keys = deque(dict.fromkeys(found), maxlen=most)
        self._written = len(found)
        if self._written > len(self._keys):
            self._rewrite()

    @property
    def keys(self) -> list[MessageKey]:
        """The keys to be remembered, oldest first."""
        return list(self._keys)

    def append(self, keys: Sequence[MessageKey]) -> None:
        """Durable when this returns; OSError as the system raises it."""
        _write_synced(self._path, "ab", keys)
        self._keys.extend(keys)
        self._written += len(keys)
        if self._written > 2 * (self._keys.maxlen or 0):
            self._rewrite()

    def _load(self, tolerant: bool) -> list[MessageKey]:
        raw = self._path.read_bytes() if self._path.exists() else b""
        keys, intact = unpack_keys(raw)
        # A batch is appended and synced as a whole: what a crash leaves is the last one, cut off.
        damaged = any(_batch_end(raw, at) is not None for at in _magics(raw, intact + 1))
        if damaged and not tolerant:
            raise JournalDamaged(
                f"{self._path.name} is damaged at byte {intact}: keys of committed messages are lost, so the "
                "broker's redeliveries of those would give a second row"
            )
        if intact < len(raw):
            os.truncate(self._path, intact)
        return keys

    def _rewrite(self) -> None:
        """The old file stands until the new one is durable, and for another run where the disk is full."""
        temporary = self._path.with_suffix(".new")
        try:
            _write_synced(temporary, "wb", self._keys)
        except OSError as error:
            log.warning("%s could not be made smaller: %s", self._path, error)
            temporary.unlink(missing_ok=True)
        else:
            temporary.replace(self._path)
            self._written = len(self._keys)


def _write_synced(path: Path, mode: str, keys: Collection[MessageKey]) -> None:
    with path.open(mode, buffering=0) as file:
        content = memoryview(pack_keys(keys))
        while content:
            content = content[file.write(content) :]
        os.fsync(file.fileno())


def _magics(raw: bytes, begin: int) -> Iterator[int]:
    while (begin := raw.find(_MAGIC, begin)) >= 0:
        yield begin
        begin += 1
