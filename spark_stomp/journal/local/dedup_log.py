"""The dedup log of a local journal: a file with the keys of committed messages whose frames were deleted.

The broker may redeliver a committed message later. Its key is written before its frame is deleted, so that it
is recognised whatever process dies. The file is a sequence of batches of keys (see journal/records.py).
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
    """The dedup log of one local journal. It keeps the newest ``most`` keys.

    Opening needs no space on the disk: an unfinished end is cut off, and the file is rewritten without
    evicted keys only if there is room. Raises JournalDamaged if keys are lost, unless ``tolerant``.
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
        """The remembered keys, oldest first."""
        return list(self._keys)

    def append(self, keys: Sequence[MessageKey]) -> None:
        """Make ``keys`` durable. Raises OSError if the system does.

        Then the file is as it was, except that after SyncFailed this is not certain.
        """
        try:
            self._length += self._append(keys)
        except SyncFailed:
            raise
        except OSError:
            # Remove what was written of this batch: the next batch must follow a complete one.
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
        # Each batch is synced before the next one is written: a crash can only leave the last one unfinished.
        if has_keys(raw, intact + 1) and not tolerant:
            raise JournalDamaged(
                f"{self._path.name} is damaged at byte {intact}: keys of committed messages are lost, and a "
                "redelivery of these messages would give a second row"
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
        """Rewrite the file without evicted keys.

        The old file stays until the new one is durable. If the disk is full, this is tried again later.
        """
        temporary = self._path.with_suffix(".new")
        try:
            length = _write_synced(create_file(temporary), self._keys)
        except OSError as error:
            if not lacks_room(error):
                raise
            log.warning("%s could not be rewritten without old keys: %s", self._path, error)
            temporary.unlink(missing_ok=True)
        else:
            replace_file(temporary, self._path)
            self._written, self._length = len(self._keys), length


def _write_synced(descriptor: int, keys: Collection[MessageKey]) -> int:
    """Write a batch of ``keys``, sync it and close the file; returns the size of the batch in bytes."""
    try:
        batch = pack_keys(keys)
        write_fully(descriptor, [batch])
        sync(descriptor)
    finally:
        os.close(descriptor)
    return len(batch)
