"""What is remembered of messages that are held no more: their keys, the oldest of them forgotten first."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import repeat

from spark_stomp.receiver.keys import Ids, Key

__all__ = ["Remembered"]


class Remembered:
    """Keys by their ids, in the order in which the ids came.

    Adding and forgetting cost the same at any size.
    """

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, Key] = OrderedDict()
        self._others: dict[bytes, list[Key]] = {}  # of an id that means several messages

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, name: bytes) -> list[Key]:
        """The keys with this id."""
        first = self._keys.get(name)
        return [] if first is None else [first, *self._others.get(name, ())]

    def has_any(self, ids: Ids) -> bool:
        """Whether any of these ids is known."""
        return bool(self._keys) and not self._keys.keys().isdisjoint(ids)

    def add(self, keys: Sequence[Key]) -> None:
        names = [key[1] for key in keys]
        before = len(self._keys)
        if self._keys.keys().isdisjoint(names):
            self._keys.update(zip(names, keys, strict=True))
            if len(self._keys) - before == len(names):
                return
            deque(map(self._keys.pop, names, repeat(None)), maxlen=0)
        for key in keys:
            self._add_one(key)

    def _add_one(self, key: Key) -> None:
        if key.id not in self._keys:
            self._keys[key.id] = key
        elif key not in self.of(key.id):
            self._others.setdefault(key.id, []).append(key)

    def discard(self, key: Key) -> None:
        """Forget one."""
        rest = self.of(key.id)
        if key not in rest:
            return
        rest.remove(key)
        self._others.pop(key.id, None)
        if not rest:
            del self._keys[key.id]
            return
        self._keys[key.id] = rest[0]  # in the same place
        if rest[1:]:
            self._others[key.id] = rest[1:]

    def forget_oldest(self, count: int) -> int:
        """Forget so many ids, or all; returns how many."""
        count = min(count, len(self._keys))
        gone = deque(map(self._keys.popitem, repeat(False, count)), maxlen=None if self._others else 0)
        for name, _ in gone:
            self._others.pop(name, None)
        return count
