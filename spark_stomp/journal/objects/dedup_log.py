"""Keys of committed messages whose frames are gone, in objects of batches as in ``journal.records``.

Each object holds one batch or several. Sixteen objects at a time are merged, so that few objects hold many
keys and each key is put only a few times. The merged one is put before the others are deleted: a crash in
between leaves keys twice, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from spark_stomp.errors import JournalDamaged
from spark_stomp.framebatch import MessageKey
from spark_stomp.journal.objects.blobs import Blobs
from spark_stomp.journal.objects.object_names import DEDUP_LOG, DedupLogName, Writer
from spark_stomp.journal.records import pack_keys, unpack_keys
from spark_stomp.logs import get_log
from spark_stomp.quoting import counted

log = get_log(__name__)

_MERGED: Final = 16
_ATTEMPTS: Final = 5


class ObjectDedupLog:
    """The remembered keys of one journal. It keeps at least the newest ``most``.

    ``keys`` are those that earlier runs left. JournalDamaged if some cannot be read, unless ``tolerant``.
    """

    def __init__(self, blobs: Blobs, writer: Writer, most: int, *, tolerant: bool) -> None:
        self._blobs = blobs
        self._writer = writer
        self._most = most
        self._names: list[DedupLogName] = []
        self._unfinished: list[DedupLogName] = []
        keys, damaged = _unpacked(self._read(lambda names: names))
        if damaged:
            self._report(damaged, tolerant)
        self.keys: Sequence[MessageKey] = list(dict.fromkeys(keys))[-most:]

    def compact(self) -> None:
        """Make one object of those that earlier runs left, and delete what they did not finish."""
        self._blobs.delete(DEDUP_LOG, (str(name) for name in self._unfinished if name.writer < self._writer))
        if len(self._names) > 1:
            tier = max(name.tier for name in self._names) + 1
            self._replace(self._names, pack_keys(self.keys), len(self.keys), tier)

    def append(self, keys: Sequence[MessageKey]) -> None:
        """Durable when this returns."""
        number = self._names[-1].number + 1 if self._names else 0
        self._put(number, 0, pack_keys(keys), len(keys))
        self._merge()
        self._evict()

    def _put(self, number: int, tier: int, content: bytes, count: int) -> None:
        name = DedupLogName(number, tier, count, self._writer, len(content))
        self._blobs.put(f"{DEDUP_LOG}/{name}", content)
        self._names = sorted([*self._names, name])

    def _merge(self) -> None:
        while _mergeable(self._names):
            batches = self._read(_mergeable, listed=True)
            last = _mergeable(self._names)
            if last:
                content, count = b"".join(batches), sum(name.count for name in last)
                self._replace(last, content, count, last[-1].tier + 1)

    def _replace(self, names: Sequence[DedupLogName], content: bytes, count: int, tier: int) -> None:
        self._put(names[-1].number, tier, content, count)
        self._delete(names)

    def _evict(self) -> None:
        """Delete the oldest objects, as long as the others have enough."""
        count = sum(name.count for name in self._names)
        old = []
        for name in self._names:
            count -= name.count
            if count < self._most:
                break
            old.append(name)
        self._delete(old)

    def _delete(self, names: Sequence[DedupLogName]) -> None:
        self._blobs.delete(DEDUP_LOG, map(str, names))
        self._names = [name for name in self._names if name not in names]

    def _read(
        self, choice: Callable[[list[DedupLogName]], list[DedupLogName]], *, listed: bool = False
    ) -> list[bytes]:
        """The contents of those objects that ``choice`` picks; ``listed`` tells that all names are known."""
        for _ in range(_ATTEMPTS):
            if not listed:
                self._list()
            try:
                return [self._blobs.get(f"{DEDUP_LOG}/{name}") for name in choice(self._names)]
            except FileNotFoundError:
                # Another writer has merged it into its own object. One of the two is about to stop.
                listed = False
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


def _mergeable(names: list[DedupLogName]) -> list[DedupLogName]:
    """The last sixteen names, if the first of them was not merged more often than the last."""
    last = names[-_MERGED:]
    return last if len(last) == _MERGED and last[0].tier <= last[-1].tier else []


def _unpacked(batches: Sequence[bytes]) -> tuple[list[MessageKey], int]:
    """The keys of all intact batches, and how many objects are not intact."""
    keys: list[MessageKey] = []
    damaged = 0
    for raw in batches:
        found, intact = unpack_keys(raw)
        keys += found
        damaged += intact < len(raw)
    return keys, damaged
