"""Keys of committed messages whose frames are gone, in objects of batches as in ``journal.records``.

Each object holds one batch. Sixty-four objects are replaced by one, so that few objects hold many keys and
each key is put only a few times. The new one is put before the others are deleted: a crash in between leaves
keys twice, which changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from spark_stomp.errors import JournalDamaged
from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal.objects.blobs import Blobs
from spark_stomp.journal.objects.object_names import DEDUP_LOG, DedupLogName, Writer
from spark_stomp.journal.records import pack_keys, unpack_keys
from spark_stomp.logs import get_log
from spark_stomp.quoting import counted

log = get_log(__name__)

_MOST_OBJECTS: Final = 64
_ATTEMPTS: Final = 5


class ObjectDedupLog:
    """The remembered keys of one journal, the newest ``most``.

    JournalDamaged if some cannot be read, unless ``tolerant``.
    """

    def __init__(self, blobs: Blobs, writer: Writer, most: int, *, tolerant: bool) -> None:
        self._blobs = blobs
        self._writer = writer
        self._names: list[DedupLogName] = []
        self._unfinished: list[DedupLogName] = []
        found = [(raw, *unpack_keys(raw)) for raw in self._read()]
        damaged = sum(intact < len(raw) for raw, _, intact in found)
        if damaged:
            self._report(damaged, tolerant)
        keys = dict.fromkeys(key for _, batch, _ in found for key in batch)
        self._keys = deque(keys, maxlen=most)

    @property
    def keys(self) -> list[MessageKey]:
        """The keys to be remembered, oldest first."""
        return list(self._keys)

    def append(self, keys: Sequence[MessageKey]) -> None:
        """Durable when this returns."""
        self._put(keys)
        self._keys.extend(keys)
        if len(self._names) > _MOST_OBJECTS:
            self.compact()

    def compact(self) -> None:
        """Make one object of all, and delete what earlier runs did not finish."""
        self._blobs.delete(DEDUP_LOG, (str(name) for name in self._unfinished if name.writer < self._writer))
        old = self._names
        if len(old) > 1:
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
        """What the objects hold."""
        for _ in range(_ATTEMPTS):
            self._list()
            try:
                return [self._blobs.get(f"{DEDUP_LOG}/{name}") for name in self._names]
            except FileNotFoundError:
                # Another writer has replaced it by its own object. One of the two is about to stop.
                continue
        raise JournalDamaged(
            f"objects under {DEDUP_LOG} of the journal at {self._blobs.shown} keep vanishing"
        )

    def _list(self) -> None:
        sizes = self._blobs.names(DEDUP_LOG)
        names = sorted(name for text in sizes if (name := DedupLogName.parse(text)) is not None)
        # A writer puts one after the other: a crash leaves only its last one unfinished, and no frame was
        # deleted yet because of that one.
        last = {name.writer: name for name in names}
        self._unfinished = [name for name in last.values() if sizes[str(name)] != name.size]
        self._names = [name for name in names if name not in self._unfinished]

    def _report(self, damaged: int, tolerant: bool) -> None:
        text = (
            f"{counted(damaged, 'damaged object')} under {DEDUP_LOG} of the journal at {self._blobs.shown}: "
            "keys of committed messages are lost, so the broker's redeliveries of those would give a second "
            "row"
        )
        if not tolerant:
            raise JournalDamaged(text + ". With failOnDataLoss=false the query goes on")
        log.error("%s", text)
