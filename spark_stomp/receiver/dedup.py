"""The book of keys: how a redelivered message is known again (contract 4).

When a connection breaks, the broker delivers again what was not ACKed, to any receiver of the query, and with
or without a mark; what is still held must not become a second row. So every id that comes is looked up among
those held by all receivers of the query.

That look-up is made for every message, so it is cheap: one dictionary from raw id to place, filled and
searched a block at a time. Only where an id is found are the frames decoded, and destinations and bodies
compared.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple, Protocol

from spark_stomp.framebatch import MessageKey
from spark_stomp.receiver.keys import Ids

__all__ = ["COMMITTED", "MAX_REMEMBERED", "DedupIndex", "HeldAt", "Holder", "RememberedKeys"]

MAX_REMEMBERED = 250_000
_SHIFT = 48
_MASK = (1 << _SHIFT) - 1


class HeldAt(NamedTuple):
    """Where a message is held: the number of a receiver in the book, and a sequence number of it."""

    owner: int
    sequence: int


COMMITTED = HeldAt(-1, -1)
"""The place of a message that is committed and held nowhere any more."""


class Holder(Protocol):
    """A receiver as the book sees it; called with the book's lock held."""

    @property
    def committed(self) -> int:
        """Everything below this sequence number is committed."""

    def pin(self, sequence: int) -> None:
        """The frame of this number must not be discarded: a later delivery of it counts on it."""

    def keys_at(self, wanted: Sequence[tuple[int, bytes]]) -> list[MessageKey]:
        """The keys of held frames, by ascending sequence number and raw id."""


class DedupIndex:
    """The keys that the receivers of one query hold.

    Whoever calls holds ``lock``, which also makes one step of what a receiver does with a block: no other
    receiver, and no choice of an offset, comes between the look-up and the append.

    ``max_remembered`` bounds how many keys of committed messages are remembered for a redelivery that may
    never come; beyond it the oldest are forgotten and counted in ``evicted``, and would be delivered a
    second time.

    With ``journaled`` those whose ACK the broker confirmed are remembered too, as far as the bound lets, and
    go first: a broker that is killed may forget what it confirmed. And it is noted which keys are not in the
    journal yet.
    """

    def __init__(self, max_remembered: int = MAX_REMEMBERED, *, journaled: bool = False) -> None:
        self.lock = threading.RLock()
        self._holders: list[Holder] = []
        self._held: dict[bytes, int | tuple[int, ...]] = {}
        self._crowded = 0
        self._settled = RememberedKeys()
        self._most_settled = max_remembered
        self._journaled = journaled
        self._receipted = RememberedKeys()
        self._unsaved: deque[MessageKey] = deque(maxlen=max_remembered)
        self._at_risk = 0
        self.evicted = 0

    def enroll(self, holder: Holder) -> int:
        """The number of a new receiver."""
        self._holders.append(holder)
        return len(self._holders) - 1

    def committed(self, owner: int) -> int:
        """How far this receiver's frames are committed; the mark of :data:`COMMITTED` is always passed."""
        return 0 if owner < 0 else self._holders[owner].committed

    def pin(self, place: HeldAt) -> None:
        """Keep the frame at ``place`` for the delivery that is attached to it."""
        self._holders[place.owner].pin(place.sequence)

    # --- held

    @property
    def held(self) -> int:
        """How many ids are held."""
        return len(self._held)

    def hold_new(self, ids: Ids, first: HeldAt) -> bool:
        """Note the ids of new frames, numbered from ``first``.

        False, and nothing is noted, where any of them needs a closer look: it is missing, empty, known or
        repeated.
        """
        held = self._held
        if not held.keys().isdisjoint(ids) or self._settled.has_any(ids) or self._receipted.has_any(ids):
            return False
        before, packed = len(held), _packed(first)
        held.update(zip(ids, range(packed, packed + len(ids)), strict=True))  # type: ignore[arg-type]
        if len(held) - before == len(ids) and None not in held and b"" not in held:
            return True
        deque(map(held.pop, ids, repeat(None)), maxlen=0)  # type: ignore[arg-type]
        return False

    def hold(self, name: bytes, place: HeldAt) -> None:
        """Note one more frame of that id."""
        others = self._held.get(name)
        if others is None:
            self._held[name] = _packed(place)
            return
        self._crowded += isinstance(others, int)
        self._held[name] = (*_all(others), _packed(place))

    def drop(self, ids: Ids, first: HeldAt) -> None:
        """The frames numbered from ``first`` are not held any more."""
        if not self._crowded:
            deque(map(self._held.pop, ids, repeat(None)), maxlen=0)  # type: ignore[arg-type]
            return
        for packed, name in enumerate(ids, start=_packed(first)):
            if name:
                self._drop_one(name, packed)

    def known(self, ids: Ids) -> dict[MessageKey, HeldAt]:
        """All messages with one of these ids, and where they are held."""
        names = {name for name in ids if name}
        settled = (self._settled, self._receipted)
        found = {key: COMMITTED for keys in settled for name in names for key in keys.of(name)}
        places: dict[int, list[tuple[int, bytes]]] = {}
        for name in names & self._held.keys():
            for packed in _all(self._held[name]):
                places.setdefault(packed >> _SHIFT, []).append((packed & _MASK, name))
        for owner, wanted in places.items():
            wanted.sort()
            keys = self._holders[owner].keys_at(wanted)
            found.update((key, HeldAt(owner, at)) for key, (at, _) in zip(keys, wanted, strict=True))
        return found

    # --- settled

    def settle(self, keys: Iterable[MessageKey | None]) -> None:
        """Messages that are committed, and of whose ACK the broker may know nothing."""
        self._remember(self._settled, keys)

    def retire(self, keys: Iterable[MessageKey | None]) -> None:
        """Messages that are committed, and whose ACK the broker confirmed; with a journal only."""
        self._remember(self._receipted, keys)

    def forget(self, keys: Sequence[MessageKey]) -> None:
        """The broker confirmed the ACKs of these: without a journal they are taken for gone."""
        for key in keys:
            self._settled.discard(key)
        if self._journaled:
            self.retire(keys)

    @property
    def journaled(self) -> bool:
        """Whether there is a journal."""
        return self._journaled

    @property
    def settled(self) -> int:
        """How many ids of committed messages are remembered."""
        return len(self._settled) + len(self._receipted)

    def take_unsaved(self) -> list[MessageKey]:
        """The keys of committed messages that are not in the journal yet; the caller puts them there."""
        with self.lock:
            unsaved = list(dict.fromkeys(self._unsaved))
            self._unsaved.clear()
            return unsaved

    def _remember(self, where: RememberedKeys, keys: Iterable[MessageKey | None]) -> None:
        present = [key for key in keys if key is not None]
        where.add(present)
        if self._journaled:
            self._unsaved.extend(present)
        surplus = self.settled - self._most_settled
        if surplus > 0:
            surplus -= self._receipted.forget_oldest(surplus)
            self.evicted += self._settled.forget_oldest(surplus)

    # --- what has no id

    def put_at_risk(self, count: int) -> None:
        """So many messages without an id were offered, and may come again as rows of their own."""
        self._at_risk += count

    def take_at_risk(self, count: int) -> int:
        """So many messages without an id came again; how many of them are second rows."""
        taken = min(count, self._at_risk)
        self._at_risk -= taken
        return taken

    def _drop_one(self, name: bytes, packed: int) -> None:
        others = self._held.get(name)
        if others == packed:
            del self._held[name]
        elif isinstance(others, tuple):
            rest = tuple([other for other in others if other != packed])
            self._crowded -= len(rest) == 1
            self._held[name] = rest if len(rest) > 1 else rest[0]


def _packed(place: HeldAt) -> int:
    # One integer, so that a range numbers a block.
    return place.owner << _SHIFT | place.sequence


def _all(packed: int | tuple[int, ...]) -> tuple[int, ...]:
    return packed if isinstance(packed, tuple) else (packed,)


# MERGED from remembered.py: What is remembered of messages that are held no more: their keys, the o


class RememberedKeys:
    """Keys by their ids, in the order in which the ids came.

    Adding and forgetting cost the same at any size.
    """

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, MessageKey] = OrderedDict()
        self._others: dict[bytes, list[MessageKey]] = {}  # of an id that means several messages

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, name: bytes) -> list[MessageKey]:
        """The keys with this id."""
        first = self._keys.get(name)
        return [] if first is None else [first, *self._others.get(name, ())]

    def has_any(self, ids: Ids) -> bool:
        """Whether any of these ids is known."""
        return bool(self._keys) and not self._keys.keys().isdisjoint(ids)

    def add(self, keys: Sequence[MessageKey]) -> None:
        names = [key[1] for key in keys]
        before = len(self._keys)
        if self._keys.keys().isdisjoint(names):
            self._keys.update(zip(names, keys, strict=True))
            if len(self._keys) - before == len(names):
                return
            deque(map(self._keys.pop, names, repeat(None)), maxlen=0)
        for key in keys:
            self._add_one(key)

    def _add_one(self, key: MessageKey) -> None:
        if key.id not in self._keys:
            self._keys[key.id] = key
        elif key not in self.of(key.id):
            self._others.setdefault(key.id, []).append(key)

    def discard(self, key: MessageKey) -> None:
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
