"""The dedup log of a journal: the keys of committed messages whose frames were deleted.

The broker may redeliver a committed message later. Its key is put before its frame is deleted, so that it is
recognised whatever process dies. Each object holds one batch of keys (see records.py). When there are more
than 64 objects, one object with all keys replaces them. It is put before the others are deleted: a crash in
between leaves keys twice, which changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from spark_stomp.frame_batch import MessageKey
from spark_stomp.journal.names import KEYS, KeysName, Writer
from spark_stomp.journal.records import pack_keys, unpack_keys
from spark_stomp.journal.store import NoRoom, Objects
from spark_stomp.quoting import counted

# Beyond this many objects, one replaces them. More mean more requests when a journal is opened, fewer mean
# that all keys are put again more often. A judgement, not measured.
_MOST_OBJECTS: Final = 64


class DedupLog:
    """The dedup log in ``store``. It keeps the newest ``most`` keys. The constructor reads it.

    Raises FileNotFoundError if another writer deletes objects meanwhile.
    """

    def __init__(self, store: Objects, most: int) -> None:
        self._store = store
        sizes = KeysName.sizes(store.names(KEYS))
        found = {name: unpack_keys(store.reread(f"{KEYS}/{name}")) for name in sizes}
        broken = [name for name in sizes if sizes[name] != name.size or found[name] is None]
        # A writer puts one object after the other, so a crash can leave only its last one unfinished. No
        # frame of these keys was deleted yet.
        last = {name.writer: name for name in sizes}
        self._unfinished = [name for name in broken if last[name.writer] == name]
        self._damaged = len(broken) - len(self._unfinished)
        self._names = [name for name in sizes if name not in self._unfinished]
        self._keys = deque(dict.fromkeys(key for keys in found.values() for key in keys or ()), maxlen=most)

    @property
    def keys(self) -> list[MessageKey]:
        """The remembered keys, oldest first."""
        return list(self._keys)

    @property
    def damage(self) -> list[str]:
        """A sentence about what is damaged or lost."""
        if not self._damaged:
            return []
        return [
            f"{counted(self._damaged, 'damaged object')} under {KEYS}: keys of committed messages are lost, "
            "and a redelivery of these messages would give a second row"
        ]

    def append(self, keys: Sequence[MessageKey], writer: Writer) -> None:
        """Make ``keys`` durable."""
        self._put(keys, writer)
        self._keys.extend(keys)
        if len(self._names) > _MOST_OBJECTS:
            # Without room this is done later.
            with suppress(NoRoom):
                self._merge(writer)

    def clear(self, writer: Writer) -> None:
        """Delete what writers before ``writer`` did not finish."""
        self._store.delete(KEYS, (str(name) for name in self._unfinished if name.writer < writer))

    def _merge(self, writer: Writer) -> None:
        old = self._names
        self._put(list(dict.fromkeys(self._keys)), writer)
        self._names = self._names[-1:]
        self._store.delete(KEYS, map(str, old))

    def _put(self, keys: Sequence[MessageKey], writer: Writer) -> None:
        content = pack_keys(keys)
        number = self._names[-1].number + 1 if self._names else 0
        name = KeysName(number, len(keys), writer, len(content))
        self._store.put(f"{KEYS}/{name}", content)
        self._names = [*self._names, name]
