"""The dedup index: how a redelivered message is recognised (contract 4).

When a connection ends, the broker redelivers what was not ACKed, to any receiver of the query, with or
without the header ``redelivered``. A message that is still held must not become a second row. So the id of
every message is looked up among the ids that all receivers of the query hold.

The look-up is done for every message, so it must be cheap: one dictionary maps each raw id to the block that
holds its message, and is searched and filled for a whole block at once. Message keys are made and compared
only if an id is found. Measured in November 2026: 150 ns a message, and 390 ns with a journal, where keys are
remembered too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from itertools import repeat

from spark_stomp.frame_batch import Ids, MessageKey
from spark_stomp.receiver.blocks import Block, Place

# A judgement, not measured: about six times the default prefetch (40,000), the most messages that can be
# un-acked on a connection.
MAX_REMEMBERED = 250_000
"""How many keys of committed messages are remembered."""


class DedupIndex:
    """The messages that the receivers of one query hold, and the keys of recently committed ones.

    Hold ``lock`` to look up or change anything; the methods for unwritten keys take it themselves. The lock
    also makes the handling of a block a single step: between the look-up and the append, no other receiver
    changes the index, and nothing is offered to Spark.

    ``max_remembered`` bounds how many keys of committed messages are remembered, in case they are
    redelivered. Beyond it the oldest keys are evicted and counted. A message whose key was evicted gives a
    second row if it is redelivered.

    With ``journaled``, a key is remembered even after the broker confirmed the ACK, because a broker that is
    killed may forget what it confirmed. Such keys are evicted first. The index then also collects the keys
    that are not in the journal yet.
    """

    def __init__(self, max_remembered: int = MAX_REMEMBERED, *, journaled: bool = False) -> None:
        self.lock = threading.RLock()
        self.journaled = journaled
        self._held: dict[bytes, Block | tuple[Block, ...]] = {}
        self._max_remembered = max_remembered
        self._unconfirmed = RememberedKeys()
        self._confirmed = RememberedKeys()
        self._unwritten: deque[MessageKey] = deque(maxlen=max_remembered)
        self.awaits_acks = False
        """Whether the ACK of a remembered message is not confirmed, and its key may not be in the journal."""
        self._may_double = 0
        self._evicted = 0

    # --- held messages

    @property
    def held(self) -> int:
        """How many different ids the held messages have."""
        return len(self._held)

    def add_new(self, ids: Ids, block: Block) -> bool:
        """Note the ids of the new frames of ``block``.

        Returns False, and notes nothing, if an id is missing, empty, known or repeated. Then the caller has
        to compare message keys.
        """
        known = self._held
        if not known.keys().isdisjoint(ids) or self._unconfirmed.has_any(ids) or self._confirmed.has_any(ids):
            return False
        before = len(known)
        known.update(zip(ids, repeat(block)))  # type: ignore[arg-type]
        if len(known) - before == len(ids) and None not in known and b"" not in known:
            return True
        for name in ids:
            known.pop(name, None)  # type: ignore[arg-type]
        return False

    def add(self, name: bytes, block: Block) -> None:
        """Note that ``block`` has a frame with the id ``name``. Other held frames may have the same id."""
        others = self._held.get(name)
        if others is None:
            self._held[name] = block
            return
        self._held[name] = (*_all(others), block)

    def note(self, ids: Ids, block: Block) -> None:
        """Note the ids of messages that ``block`` has, of which some may be known."""
        if not self.add_new(ids, block):
            for name in filter(None, ids):
                self.add(name, block)

    def remove(self, ids: Ids, block: Block) -> None:
        """Forget that ``block`` has frames with these ids."""
        for name in ids:
            others = self._held.pop(name, block)  # type: ignore[arg-type]
            if others is not block and name:
                rest = [*_all(others)]
                rest.remove(block)
                self._held[name] = tuple(rest) if len(rest) > 1 else rest[0]

    def move(self, ids: Ids, block: Block, to: Block) -> None:
        """The frames with these ids, which ``block`` had, are in ``to`` now."""
        for name in filter(None, ids):
            if self._held.get(name) is block:
                self._held[name] = to
            else:
                self.remove([name], block)
                self.add(name, to)

    def find(self, ids: Ids) -> dict[MessageKey, Place | None]:
        """All known messages that have one of these ids, each with its place; None if it is committed."""
        names = {name for name in ids if name}
        remembered = (self._unconfirmed, self._confirmed)
        found: dict[MessageKey, Place | None] = {
            key: None for keys in remembered for name in names for key in keys.of(name)
        }
        blocks = dict.fromkeys(one for name in names & self._held.keys() for one in _all(self._held[name]))
        for block in blocks:
            found.update(block.find(names))
        return found

    # --- committed messages

    @property
    def remembered(self) -> int:
        """How many committed messages are remembered."""
        return len(self._unconfirmed) + len(self._confirmed)

    @property
    def evicted(self) -> int:
        """How many messages would give a second row if they were redelivered: their keys were evicted."""
        return self._evicted

    def count_evicted(self, count: int) -> None:
        """Count ``count`` more messages whose keys are not remembered."""
        self._evicted += count

    def remember_unconfirmed(self, keys: Iterable[MessageKey | None]) -> None:
        """Remember committed messages whose ACK the broker did not confirm."""
        self.awaits_acks = True
        self._remember(self._unconfirmed, keys)

    def remember_confirmed(self, keys: Iterable[MessageKey | None]) -> None:
        """Remember committed messages whose ACK the broker confirmed. Needed with a journal only."""
        self._remember(self._confirmed, keys)

    def confirm(self, keys: Sequence[MessageKey]) -> None:
        """Forget these messages, whose ACKs the broker confirmed; with a journal, remember them as such."""
        for key in keys:
            self._unconfirmed.remove(key)
        if self.journaled:
            self.remember_confirmed(keys)

    def take_unwritten(self) -> list[MessageKey]:
        """Take the keys of committed messages that are not in the journal yet, to write them there."""
        with self.lock:
            unwritten = list(dict.fromkeys(self._unwritten))
            self._unwritten.clear()
            self.awaits_acks = False
            return unwritten

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
        """``count`` kept messages without an id may be redelivered, and then give second rows."""
        self._may_double += count

    def take_doubles(self, count: int) -> int:
        """``count`` messages without an id were redelivered; returns how many of them give second rows."""
        taken = min(count, self._may_double)
        self._may_double -= taken
        return taken


class RememberedKeys:
    """Message keys in the order in which their ids were first added. The length counts keys.

    Many keys may have one id, if the values of ``idHeader`` repeat. No call takes longer then.
    """

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, MessageKey] = OrderedDict()
        # Further keys of an id that several messages have, oldest first.
        self._others: dict[bytes, OrderedDict[MessageKey, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, name: bytes) -> list[MessageKey]:
        """The keys with this id."""
        first = self._keys.get(name)
        return [] if first is None else [first, *self._others.get(name, ())]

    def has_any(self, ids: Ids) -> bool:
        """Whether any of these ids is known."""
        return bool(self._keys) and not self._keys.keys().isdisjoint(ids)

    def add(self, keys: Sequence[MessageKey]) -> None:
        before = len(self._keys)
        for key in keys:
            first = self._keys.setdefault(key.id, key)
            if first is not key and first != key:
                others = self._others.setdefault(key.id, OrderedDict())
                self._count -= len(others)
                others[key] = None
                self._count += len(others)
        self._count += len(self._keys) - before

    def remove(self, key: MessageKey) -> None:
        others = self._others.get(key.id)
        if self._keys.get(key.id) == key:
            if others is None:
                del self._keys[key.id]
            else:
                self._keys[key.id], _ = others.popitem(last=False)  # keeps the id's place in the order
        elif others is not None and key in others:
            del others[key]
        else:
            return
        self._count -= 1
        if not others:
            self._others.pop(key.id, None)

    def evict_oldest(self, count: int) -> int:
        """Forget up to ``count`` keys, beginning with the oldest id. Returns how many."""
        count = min(count, len(self))
        for _ in range(count):
            name, _key = self._keys.popitem(last=False)
            if others := self._others.get(name):
                self._keys[name], _ = others.popitem(last=False)
                self._keys.move_to_end(name, last=False)
                if not others:
                    del self._others[name]
        self._count -= count
        return count


def _all(block: Block | tuple[Block, ...]) -> tuple[Block, ...]:
    return block if isinstance(block, tuple) else (block,)
