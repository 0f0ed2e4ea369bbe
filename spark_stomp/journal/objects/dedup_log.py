"""The dedup log of an object journal: the keys of committed messages whose frames were deleted.

Each object holds one batch of keys (see journal/records.py). When there are more than 64 objects, one object
with all keys replaces them. It is put before the others are deleted: a crash in between leaves keys twice,
which changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal.api import JournalFull, report_damage
from spark_stomp.journal.objects.blobs import Blobs
from spark_stomp.journal.objects.object_names import DEDUP_LOG, DedupLogName, Writer
from spark_stomp.journal.records import pack_keys, unpack_keys
from spark_stomp.quoting import counted

# Beyond this many objects, one replaces them. More mean more requests when a journal is opened, fewer mean
# that all keys are put again more often. A judgement, not measured.
_MOST_OBJECTS: Final = 64


class ObjectDedupLog:
    """The dedup log of one object journal. It keeps the newest ``most`` keys.

    The constructor reads it, and raises JournalDamaged if keys are lost, unless ``tolerant``.
    """

    def __init__(self, blobs: Blobs, writer: Writer, most: int, *, tolerant: bool) -> None:
        self._blobs = blobs
        self._writer = writer
        self._names: list[DedupLogName] = []
        self._unfinished: list[DedupLogName] = []
        found = [(raw, *unpack_keys(raw)) for raw in blobs.steadily(DEDUP_LOG, self._read)]
        damaged = sum(intact < len(raw) for raw, _, intact in found)
        if damaged:
            text = (
                f"{counted(damaged, 'damaged object')} under {DEDUP_LOG}: keys of committed messages are "
                "lost, and a redelivery of these messages would give a second row"
            )
            report_damage(blobs.shown, [text], tolerant=tolerant)
        keys = dict.fromkeys(key for _, batch, _ in found for key in batch)
        self._keys = deque(keys, maxlen=most)

    @property
    def keys(self) -> list[MessageKey]:
        """The remembered keys, oldest first."""
        return list(self._keys)

    def append(self, keys: Sequence[MessageKey]) -> None:
        """Make ``keys`` durable."""
        self._put(keys)
        self._keys.extend(keys)
        if len(self._names) > _MOST_OBJECTS:
            self.compact()

    def compact(self) -> None:
        """Replace all objects by one, and delete those that older writers did not finish."""
        self._blobs.delete(DEDUP_LOG, (str(name) for name in self._unfinished if name.writer < self._writer))
        old = self._names
        if len(old) > 1:
            # Without room on a mount this is done later.
            with suppress(JournalFull):
                self._put(list(dict.fromkeys(self._keys)))
                self._names = self._names[-1:]
                self._blobs.delete(DEDUP_LOG, map(str, old))

    def _put(self, keys: Sequence[MessageKey]) -> None:
        content = pack_keys(keys)
        number = self._names[-1].number + 1 if self._names else 0
        name = DedupLogName(number, len(keys), self._writer, len(content))
        self._blobs.put(f"{DEDUP_LOG}/{name}", content)
        self._names = [*self._names, name]

    def _read(self) -> list[bytes]:
        """The contents of all objects, oldest first."""
        sizes = self._blobs.names(DEDUP_LOG)
        names = sorted(name for text in sizes if (name := DedupLogName.parse(text)) is not None)
        # A writer puts one object after the other, so a crash can leave only its last one unfinished. No
        # frame of these keys was deleted yet.
        last = {name.writer: name for name in names}
        self._unfinished = [name for name in last.values() if sizes[str(name)] != name.size]
        self._names = [name for name in names if name not in self._unfinished]
        return [self._blobs.get(f"{DEDUP_LOG}/{name}") for name in self._names]
