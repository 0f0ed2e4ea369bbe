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
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple, Protocol

from spark_stomp.receiver.keys import Ids, Key
from spark_stomp.receiver.remembered import Remembered

__all__ = ["MOST_SETTLED", "SETTLED", "Holder", "KeyBook", "Place"]

MOST_SETTLED = 250_000
_SHIFT = 48
_MASK = (1 << _SHIFT) - 1


class Place(NamedTuple):
    """Where a message is held: the number of a receiver in the book, and a sequence number of it."""

    owner: int
    sequence: int


SETTLED = Place(-1, -1)
"""The place of a message that is committed and held nowhere any more."""


class Holder(Protocol):
    """A receiver as the book sees it; called with the book's lock held."""

    @property
    def committed(self) -> int:
        """Everything below this sequence number is committed."""

    def pin(self, sequence: int) -> None:
        """The frame of this number must not be discarded: a later delivery of it counts on it."""

    def keys_at(self, wanted: Sequence[tuple[int, bytes]]) -> list[Key]:
        """The keys of held frames, by ascending sequence number and raw id."""


class KeyBook:
    """The keys that the receivers of one query hold.

    Whoever calls holds ``lock``, which also makes one step of what a receiver does with a block: no other
    receiver, and no choice of an offset, comes between the look-up and the append.

    ``most_settled`` bounds how many keys of committed messages are remembered for a redelivery that may never
    come; beyond it the oldest are forgotten and counted in ``evicted``, and would be delivered a second time.

    With ``journaled`` those whose ACK the broker confirmed are remembered too, as far as the bound lets, and
    go first: a broker that is killed may forget what it confirmed. And it is noted which keys are not in the
    journal yet.
    """

    def __init__(self, most_settled: int = MOST_SETTLED, *, journaled: bool = False) -> None:
        self.lock = threading.RLock()
        self._holders: list[Holder] = []
        self._held: dict[bytes, int | tuple[int, ...]] = {}
        self._crowded = 0
        self._settled = Remembered()
        self._most_settled = most_settled
        self._journaled = journaled
        self._receipted = Remembered()
        self._unsaved: deque[Key] = deque(maxlen=most_settled)
        self._at_risk = 0
        self.evicted = 0

    def enroll(self, holder: Holder) -> int:
        """The number of a new receiver."""
        self._holders.append(holder)
        return len(self._holders) - 1

    def committed(self, owner: int) -> int:
        """How far this receiver's frames are committed; the mark of :data:`SETTLED` is always passed."""
        return 0 if owner < 0 else self._holders[owner].committed

    def pin(self, place: Place) -> None:
        """Keep the frame at ``place`` for the delivery that is attached to it."""
        self._holders[place.owner].pin(place.sequence)

    # --- held

    @property
    def held(self) -> int:
        """How many ids are held."""
        return len(self._held)

    def hold_new(self, ids: Ids, first: Place) -> bool:
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

    def hold(self, name: bytes, place: Place) -> None:
        """Note one more frame of that id."""
        others = self._held.get(name)
        if others is None:
            self._held[name] = _packed(place)
            return
        self._crowded += isinstance(others, int)
        self._held[name] = (*_all(others), _packed(place))

    def drop(self, ids: Ids, first: Place) -> None:
        """The frames numbered from ``first`` are not held any more."""
        if not self._crowded:
            deque(map(self._held.pop, ids, repeat(None)), maxlen=0)  # type: ignore[arg-type]
            return
        for packed, name in enumerate(ids, start=_packed(first)):
            if name:
                self._drop_one(name, packed)

    def known(self, ids: Ids) -> dict[Key, Place]:
        """All messages with one of these ids, and where they are held."""
        names = {name for name in ids if name}
        settled = (self._settled, self._receipted)
        found = {key: SETTLED for keys in settled for name in names for key in keys.of(name)}
        places: dict[int, list[tuple[int, bytes]]] = {}
        for name in names & self._held.keys():
            for packed in _all(self._held[name]):
                places.setdefault(packed >> _SHIFT, []).append((packed & _MASK, name))
        for owner, wanted in places.items():
            wanted.sort()
            keys = self._holders[owner].keys_at(wanted)
            found.update((key, Place(owner, at)) for key, (at, _) in zip(keys, wanted, strict=True))
        return found

    # --- settled

    def settle(self, keys: Iterable[Key | None]) -> None:
        """Messages that are committed, and of whose ACK the broker may know nothing."""
        self._remember(self._settled, keys)

    def retire(self, keys: Iterable[Key | None]) -> None:
        """Messages that are committed, and whose ACK the broker confirmed; with a journal only."""
        self._remember(self._receipted, keys)

    def forget(self, keys: Sequence[Key]) -> None:
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

    def take_unsaved(self) -> list[Key]:
        """The keys of committed messages that are not in the journal yet; the caller puts them there."""
        with self.lock:
            unsaved = list(dict.fromkeys(self._unsaved))
            self._unsaved.clear()
            return unsaved

    def _remember(self, where: Remembered, keys: Iterable[Key | None]) -> None:
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


def _packed(place: Place) -> int:
    # One integer, so that a range numbers a block.
    return place.owner << _SHIFT | place.sequence


def _all(packed: int | tuple[int, ...]) -> tuple[int, ...]:
    return packed if isinstance(packed, tuple) else (packed,)
