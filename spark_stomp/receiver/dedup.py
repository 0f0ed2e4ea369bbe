"""The dedup index: how a message that is delivered again is recognised (contract 4).

When a connection ends, the broker delivers again what was not ACKed, to any receiver of the query, with or
without the header ``redelivered``. A message that is still held must not become a second row. So every id
that comes is looked up among the ids that all receivers of the query hold.

This look-up is made for every message, so it is cheap: one dictionary from raw id to where it is held, filled
and searched a block at a time. Only if an id is found are the frames decoded, and destinations and bodies
compared.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple, Protocol

from spark_stomp.frame_batch import FrameBatch, Ids, MessageKey
from spark_stomp.protocol import frame_content

MAX_REMEMBERED = 250_000
"""How many keys of committed messages are remembered."""

_SHIFT = 48
_MASK = (1 << _SHIFT) - 1


class HeldAt(NamedTuple):
    """Where a message is held: the number of a receiver in the index, and its sequence number there."""

    owner: int
    sequence: int


COMMITTED = HeldAt(-1, -1)
"""Stands for a message that is committed and held nowhere any more."""


class Holder(Protocol):
    """A receiver as the index sees it; called with the index's lock held."""

    @property
    def committed(self) -> int:
        """Everything below this sequence number is committed."""

    def pin(self, sequence: int) -> None:
        """The frame of this number must not be discarded: a later delivery of it is attached to it."""

    def keys_at(self, wanted: Sequence[tuple[int, bytes]]) -> list[MessageKey]:
        """The keys of held frames, which ``wanted`` names by ascending sequence number and raw id."""


class DedupIndex:
    """The messages that the receivers of one query hold, and those they committed lately.

    Callers hold ``lock``. It also makes the handling of a block a single step: no other receiver, and no
    choice of an offset, comes between the look-up and the append.

    ``max_remembered`` bounds how many keys of committed messages are remembered for a redelivery that may
    never come. Beyond it the oldest are evicted and counted: if such a message comes again, it is a second
    row.

    With ``journaled``, keys whose ACK the broker confirmed are remembered too, because a broker that is
    killed may forget what it confirmed. They are evicted first. The index then also collects the keys that
    are not in the journal yet.
    """

    def __init__(self, max_remembered: int = MAX_REMEMBERED, *, journaled: bool = False) -> None:
        self.lock = threading.RLock()
        self.journaled = journaled
        self._holders: list[Holder] = []
        self._held: dict[bytes, int | tuple[int, ...]] = {}
        self._shared_ids = 0  # ids that several held frames have
        self._max_remembered = max_remembered
        self._unconfirmed = RememberedKeys()
        self._confirmed = RememberedKeys()
        self._unwritten: deque[MessageKey] = deque(maxlen=max_remembered)
        self._may_double = 0
        self._evicted = 0

    def register(self, holder: Holder) -> int:
        """The number of a new receiver."""
        self._holders.append(holder)
        return len(self._holders) - 1

    def committed(self, owner: int) -> int:
        """Below which number this receiver's frames are committed; :data:`COMMITTED` always is."""
        return 0 if owner < 0 else self._holders[owner].committed

    def pin(self, held_at: HeldAt) -> None:
        """Keep the held frame for the delivery that is attached to it."""
        self._holders[held_at.owner].pin(held_at.sequence)

    # --- held messages

    @property
    def held(self) -> int:
        """How many ids are held."""
        return len(self._held)

    def add_new(self, ids: Ids, first: HeldAt) -> bool:
        """Note the ids of new frames, numbered from ``first``.

        False, and nothing is noted, if an id is missing, empty, known or repeated: then compare the keys.
        """
        held = self._held
        if not held.keys().isdisjoint(ids) or self._unconfirmed.has_any(ids) or self._confirmed.has_any(ids):
            return False
        before, packed = len(held), _packed(first)
        held.update(zip(ids, range(packed, packed + len(ids)), strict=True))  # type: ignore[arg-type]
        if len(held) - before == len(ids) and None not in held and b"" not in held:
            return True
        for name in ids:
            held.pop(name, None)  # type: ignore[arg-type]
        return False

    def add(self, name: bytes, held_at: HeldAt) -> None:
        """Note one more frame with this id."""
        others = self._held.get(name)
        if others is None:
            self._held[name] = _packed(held_at)
            return
        self._shared_ids += isinstance(others, int)
        self._held[name] = (*_all(others), _packed(held_at))

    def remove(self, ids: Ids, first: HeldAt) -> None:
        """The frames numbered from ``first`` are not held any more."""
        if not self._shared_ids:
            for name in ids:
                self._held.pop(name, None)  # type: ignore[arg-type]
            return
        for packed, name in enumerate(ids, start=_packed(first)):
            if name:
                self._remove_one(name, packed)

    def find(self, ids: Ids) -> dict[MessageKey, HeldAt]:
        """All known messages with one of these ids, and where they are held."""
        names = {name for name in ids if name}
        remembered = (self._unconfirmed, self._confirmed)
        found = {key: COMMITTED for keys in remembered for name in names for key in keys.of(name)}
        wanted_of: dict[int, list[tuple[int, bytes]]] = {}
        for name in names & self._held.keys():
            for packed in _all(self._held[name]):
                wanted_of.setdefault(packed >> _SHIFT, []).append((packed & _MASK, name))
        for owner, wanted in wanted_of.items():
            wanted.sort()
            keys = self._holders[owner].keys_at(wanted)
            found.update((key, HeldAt(owner, at)) for key, (at, _) in zip(keys, wanted, strict=True))
        return found

    def _remove_one(self, name: bytes, packed: int) -> None:
        others = self._held.get(name)
        if others == packed:
            del self._held[name]
        elif isinstance(others, tuple):
            rest = tuple([other for other in others if other != packed])
            self._shared_ids -= len(rest) == 1
            self._held[name] = rest if len(rest) > 1 else rest[0]

    # --- committed messages

    @property
    def remembered(self) -> int:
        """How many ids of committed messages are remembered."""
        return len(self._unconfirmed) + len(self._confirmed)

    @property
    def evicted(self) -> int:
        """How many messages would be a second row if they came again, because their keys were evicted."""
        return self._evicted

    def count_evicted(self, count: int) -> None:
        """Count so many messages that are held without a key."""
        self._evicted += count

    def remember_unconfirmed(self, keys: Iterable[MessageKey | None]) -> None:
        """These messages are committed, and the broker may not know of their ACK."""
        self._remember(self._unconfirmed, keys)

    def remember_confirmed(self, keys: Iterable[MessageKey | None]) -> None:
        """These messages are committed, and the broker confirmed their ACK; with a journal only."""
        self._remember(self._confirmed, keys)

    def confirm(self, keys: Sequence[MessageKey]) -> None:
        """The broker confirmed the ACKs of these: without a journal they do not come again."""
        for key in keys:
            self._unconfirmed.remove(key)
        if self.journaled:
            self.remember_confirmed(keys)

    def take_unwritten(self) -> list[MessageKey]:
        """The keys of committed messages that are not in the journal yet; the caller writes them there."""
        with self.lock:
            unwritten = list(dict.fromkeys(self._unwritten))
            self._unwritten.clear()
            return unwritten

    def return_unwritten(self, keys: Sequence[MessageKey]) -> None:
        """These were taken and could not be written: give them out again."""
        with self.lock:
            self._unwritten = deque([*keys, *self._unwritten], maxlen=self._max_remembered)

    @property
    def unwritten_are_confirmed(self) -> bool:
        """Whether the broker confirmed the ACKs of all messages whose keys are not in the journal yet."""
        with self.lock:
            return not any(key in self._unconfirmed.of(key.id) for key in self._unwritten)

    def _remember(self, where: RememberedKeys, keys: Iterable[MessageKey | None]) -> None:
        present = [key for key in keys if key is not None]
        where.add(present)
        if self.journaled:
            self._unwritten.extend(present)
        surplus = self.remembered - self._max_remembered
        if surplus > 0:
            surplus -= self._confirmed.evict_oldest(surplus)
            self._evicted += self._unconfirmed.evict_oldest(surplus)

    # --- messages without an id

    def expect_doubles(self, count: int) -> None:
        """So many messages without an id were offered, and may come again as rows of their own."""
        self._may_double += count

    def take_doubles(self, count: int) -> int:
        """So many messages without an id came again; returns how many of them are second rows."""
        taken = min(count, self._may_double)
        self._may_double -= taken
        return taken


class RememberedKeys:
    """Keys by their ids, in the order in which these came. Adding and evicting cost the same at any size."""

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, MessageKey] = OrderedDict()
        self._others: dict[bytes, list[MessageKey]] = {}  # of an id that several messages have

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
        for key in keys:
            first = self._keys.setdefault(key.id, key)
            if first is not key and key not in self.of(key.id):
                self._others.setdefault(key.id, []).append(key)

    def remove(self, key: MessageKey) -> None:
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

    def evict_oldest(self, count: int) -> int:
        """Forget so many ids, or all; returns how many."""
        count = min(count, len(self._keys))
        for _ in range(count):
            name, _key = self._keys.popitem(last=False)
            self._others.pop(name, None)
        return count


def _packed(held_at: HeldAt) -> int:
    # One integer, so that a range numbers a block.
    return held_at.owner << _SHIFT | held_at.sequence


def _all(packed: int | tuple[int, ...]) -> tuple[int, ...]:
    return packed if isinstance(packed, tuple) else (packed,)


def frame_keys(batch: FrameBatch, ids: Ids) -> list[MessageKey | None]:
    """The keys of the frames of ``batch``, whose stable ids are ``ids``; None for a frame without one."""
    data, version, entry = bytes(batch.data), batch.version, batch.entry
    keys: list[MessageKey | None] = []
    for (begin, end), name in zip(pairwise((0, *batch.ends)), ids, strict=True):
        if not name:
            keys.append(None)
            continue
        # Every message of a query with a journal passes here once, so no frame is decoded.
        destination, body = frame_content(data[begin:end], version)
        keys.append(MessageKey(destination, name, blake2b(body, digest_size=16).digest(), entry))
    return keys
