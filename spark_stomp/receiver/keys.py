"""Keys: how a redelivered message is known again (contract 4).

The key of a message is its destination and its stable id. When a connection breaks, the broker delivers again
what was not ACKed, to any receiver of the query, and with or without a mark; what is still held must not
become a second row. So every id that comes is looked up among those held by all receivers of the query.

That look-up is made for every message, so it is cheap: one dictionary from raw id to place, filled and
searched a block at a time. Only where an id is found are the frames decoded, and destinations and bodies
compared, since an id that comes with another body is another message.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import NamedTuple, Protocol

from spark_stomp.protocol import NEED_DATA, Frame, FrameDecoder, Limits

__all__ = [
    "MOST_SETTLED",
    "NO_LIMITS",
    "SETTLED",
    "Holder",
    "IdRuns",
    "Key",
    "KeyBook",
    "Place",
    "Remembered",
    "frame_keys",
]

Ids = Sequence[bytes | None]

_SHIFT = 48
_MASK = (1 << _SHIFT) - 1
MOST_SETTLED = 250_000
# Where a header of plain ASCII without backslash and CR means what it says.
_STRICT = frozenset({"1.1", "1.2"})
_DESTINATION = b"\ndestination:"
_LF = 0x0A
_SLACK = 1_000
NO_LIMITS = Limits(
    max_command=_MASK, max_header_line=_MASK, max_headers=_MASK, max_body=_MASK, max_frame=_MASK
)
"""For frames that were checked against the limits when they came."""


class Key(NamedTuple):
    """A message's destination and raw stable id, and a digest of its body to tell impostors."""

    destination: str
    id: bytes
    body: bytes


class Place(NamedTuple):
    """Where a message is held: the number of a receiver in the book, and a sequence number of it."""

    owner: int
    sequence: int


SETTLED = Place(-1, -1)
"""The place of a message that is committed and held nowhere any more."""


def frame_keys(data: bytes | memoryview, ends: Sequence[int], ids: Ids, version: str) -> list[Key | None]:
    """The keys of the complete MESSAGE frames in ``data``, which end at ``ends`` and whose stable ids are
    ``ids``; None without one."""
    raw = bytes(data)
    # Every message of a query with a journal passes here once, so what is plain is not decoded.
    if version in _STRICT and raw.isascii() and b"\\" not in raw and b"\r" not in raw:
        return _plain_keys(raw, ends, ids)
    keys: list[Key | None] = []
    begin = 0
    for end, name in zip(ends, ids, strict=True):
        keys.append(_decoded_key(raw[begin:end], name, version) if name else None)
        begin = end
    return keys


def _plain_keys(raw: bytes, ends: Sequence[int], ids: Ids) -> list[Key | None]:
    """The same where every header means what it says."""
    keys: list[Key | None] = []
    find, value, destination = raw.find, b"", ""
    begin = 0
    for end, name in zip(ends, ids, strict=True):
        if not name:
            keys.append(None)
            begin = end
            continue
        while raw[begin] == _LF:
            begin += 1
        body = find(b"\n\n", begin, end) + 2
        at = find(_DESTINATION, begin, body)
        found = raw[at + len(_DESTINATION) : find(b"\n", at + 1, body)] if at >= 0 else b""
        if found != value:
            value, destination = found, found.decode()
        keys.append(Key(destination, name, blake2b(raw[body : end - 1], digest_size=16).digest()))
        begin = end
    return keys


def _decoded_key(data: bytes, name: bytes, version: str) -> Key:
    decoder = FrameDecoder(version, NO_LIMITS)
    decoder.receive_data(data)
    while not isinstance(frame := decoder.next_event(), Frame):
        # EOLs may lead it.
        assert frame is not NEED_DATA
    return Key(frame.get("destination") or "", name, blake2b(frame.body, digest_size=16).digest())


class Holder(Protocol):
    """A receiver as the book sees it; called with the book's lock held."""

    @property
    def committed(self) -> int:
        """Everything below this sequence number is committed."""

    def pin(self, sequence: int) -> None:
        """The frame of this number must not be discarded: a later delivery of it counts on it."""

    def keys_at(self, wanted: Sequence[tuple[int, bytes]]) -> list[Key]:
        """The keys of held frames, by ascending sequence number and raw id."""


class IdRuns:
    """The stable ids of one receiver's frames, by sequence number; dense within each run."""

    def __init__(self) -> None:
        self._runs: deque[tuple[int, Ids]] = deque()

    def add(self, first: int, ids: Ids) -> None:
        self._runs.append((first, ids))

    def take_below(self, upto: int) -> list[tuple[int, Ids]]:
        """Remove and return what lies below ``upto``."""
        taken: list[tuple[int, Ids]] = []
        while self._runs and self._runs[0][0] < upto:
            first, ids = self._runs.popleft()
            count = min(len(ids), upto - first)
            taken.append((first, ids[:count]))
            if count < len(ids):
                self._runs.appendleft((first + count, ids[count:]))
        return taken

    def take_from(self, low: int) -> list[tuple[int, Ids]]:
        """Remove and return what lies at and beyond ``low``."""
        kept = self.take_below(low)
        taken, self._runs = list(self._runs), deque(kept)
        return taken

    def count(self, low: int, high: int) -> int:
        """How many frames of [low, high) have an id."""
        return sum(
            len(part) - part.count(None)
            for first, ids in self._runs
            if (part := ids[max(low - first, 0) : max(high - first, 0)])
        )


class Remembered:
    """Keys by their ids, in the order in which they came; adding and forgetting cost the same at any size."""

    def __init__(self) -> None:
        self._keys: dict[bytes, Key] = {}
        self._others: dict[bytes, list[Key]] = {}  # of an id that means several messages
        self._order: deque[bytes] = deque()

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
                self._order.extend(names)
                return
            deque(map(self._keys.pop, names, repeat(None)), maxlen=0)
        for key in keys:
            self._add_one(key)

    def _add_one(self, key: Key) -> None:
        first = self._keys.setdefault(key.id, key)
        if first is key:
            self._order.append(key.id)
        elif key not in self.of(key.id):
            self._others.setdefault(key.id, []).append(key)

    def discard(self, key: Key) -> None:
        """Forget one."""
        rest = [other for other in self.of(key.id) if other != key]
        self._keys.pop(key.id, None)
        self._others.pop(key.id, None)
        if rest:
            self._keys[key.id] = rest[0]
        if rest[1:]:
            self._others[key.id] = rest[1:]
        if len(self._order) > 2 * len(self._keys) + _SLACK:
            self._order = deque(name for name in dict.fromkeys(self._order) if name in self._keys)

    def forget_oldest(self, count: int) -> int:
        """Forget so many ids, or all; returns how many."""
        before = len(self._keys)
        while self._keys and before - len(self._keys) < count:
            name = self._order.popleft()
            self._keys.pop(name, None)
            self._others.pop(name, None)
        return before - len(self._keys)


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
