"""A local journal's file with the keys of committed messages whose frames it has deleted.

The broker may deliver such a message once more. Its key is written before its frame is deleted, so that it is
known again whatever dies. The file holds batches of keys (see ``journal.records``), one behind the other.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path

from spark_stomp.errors import JournalDamaged
from spark_stomp.files.durable import SyncFailed, lacks_room, sync, sync_and_drop_cache, write_fully
from spark_stomp.files.private import create_file, open_file, replace_file
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal.records import has_keys, pack_keys, unpack_keys
from spark_stomp.logs import get_log

log = get_log(__name__)


class DedupLog:
    """The file of one local journal. It keeps the newest ``most`` keys.

    Opening needs no space on the disk: a torn end is cut off, and evicted keys leave the file only if there
    is room to write the others anew.
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
        """Durable when this returns; OSError as the system raises it, and then the file is as it was."""
        try:
            self._length += self._append(keys)
        except SyncFailed:
            raise
        except OSError:
            # What follows must not stand behind a part of a batch.
            if self._path.exists():
                self._cut(self._length)
            raise
        self._keys.extend(keys)
        self._written += len(keys)
        if self._written > 2 * (self._keys.maxlen or 0):
            self._rewrite()

    def _load(self, tolerant: bool) -> list[MessageKey]:
        raw = self._read_synced() if os.path.lexists(self._path) else b""
        keys, intact = unpack_keys(raw)
        # A batch is appended and synced as a whole: a crash can only cut off the last one.
        if has_keys(raw, intact + 1) and not tolerant:
            raise JournalDamaged(
                f"{self._path.name} is damaged at byte {intact}: keys of committed messages are lost, so the "
                "broker's redeliveries of those would give a second row"
            )
        if intact < len(raw):
            self._cut(intact)
        self._length = intact
        return keys

    def _read_synced(self) -> bytes:
        with os.fdopen(open_file(self._path, os.O_RDWR), "r+b") as file:
            sync_and_drop_cache(file.fileno())
            return file.read()

    def _append(self, keys: Collection[MessageKey]) -> int:
        return _write_synced(open_file(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), keys)

    def _cut(self, length: int) -> None:
        with os.fdopen(open_file(self._path, os.O_RDWR), "r+b") as file:
            file.truncate(length)

    def _rewrite(self) -> None:
        """Leave out evicted keys. The old file stays until the new one is durable; if the disk is full, the
        next run tries again."""
        temporary = self._path.with_suffix(".new")
        try:
            length = _write_synced(create_file(temporary), self._keys)
        except OSError as error:
            if not lacks_room(error):
                raise
            log.warning("%s could not be made smaller: %s", self._path, error)
            temporary.unlink(missing_ok=True)
        else:
            replace_file(temporary, self._path)
            self._written, self._length = len(self._keys), length


def _write_synced(descriptor: int, keys: Collection[MessageKey]) -> int:
    """Write a batch of ``keys`` and close the file; returns the batch's length in bytes."""
    try:
        batch = pack_keys(keys)
        write_fully(descriptor, [batch])
        sync(descriptor)
    finally:
        os.close(descriptor)
    return len(batch)
