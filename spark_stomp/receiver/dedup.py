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
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from spark_stomp.frame_batch import Ids, MessageKey
from spark_stomp.logs import get_log
from spark_stomp.quoting import counted
from spark_stomp.receiver.blocks import Block, HeldAt

log = get_log(__name__)

# About six times the default prefetch (40,000), the most messages that can be un-acked on a connection.
MAX_REMEMBERED = 250_000
"""After how many newer messages the key of a committed message may be forgotten."""

# The held messages that have one id, if these are several.
_Same = OrderedDict[MessageKey, Block]


class DedupIndex:
    """The messages that the receivers of one query hold, and the keys of recently committed ones.

    Hold ``lock`` to look up or change anything; the methods for unwritten keys take it themselves. The lock
    also makes the handling of a block a single step: between the look-up and the append, no other receiver
    changes the index, and nothing is offered to Spark.

    The key of a committed message is remembered until the broker confirms its ACK, or until at least
    ``max_remembered`` newer messages came: then another consumer has the message, or the broker obeyed and
    its receipt was lost. A message whose key was evicted gives a second row if it is redelivered after all.

    With ``journaled``, the newest ``max_remembered`` keys with a confirmed ACK are remembered too, because a
    broker that is killed may forget what it confirmed. The index then also collects the keys that are not in
    the journal yet.
    """

    def __init__(self, max_remembered: int = MAX_REMEMBERED, *, journaled: bool = False) -> None:
        self.lock = threading.RLock()
        self.journaled = journaled
        self._held: dict[bytes, Block | _Same] = {}
        self._max_remembered = max_remembered
        # Those of the last ``max_remembered`` messages that came, and older ones.
        self._unconfirmed, self._older = RememberedKeys(), RememberedKeys()
        self._confirmed = RememberedKeys()
        self._came = 0
        self._unwritten: list[MessageKey] = []
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
        if not known.keys().isdisjoint(ids) or self._unconfirmed.has_any(ids) or self._older.has_any(ids):
            return False
        if self._confirmed.has_any(ids):
            return False
        before = len(known)
        known.update(zip(ids, repeat(block)))  # type: ignore[arg-type]
        if len(known) - before == len(ids) and None not in known and b"" not in known:
            return True
        for name in ids:
            known.pop(name, None)  # type: ignore[arg-type]
        return False

    def add(self, keys: Iterable[MessageKey], block: Block) -> None:
        """Note that ``block`` has the frames with these keys. Other held frames may have the same ids."""
        by_id: defaultdict[bytes, list[MessageKey]] = defaultdict(list)
        for key in keys:
            by_id[key.id].append(key)
        for name, same in by_id.items():
            others = self._held.get(name)
            if others is None and len(same) == 1:
                self._held[name] = block
                continue
            if not isinstance(others, OrderedDict):
                found = () if others is None else others.find([name])
                others = self._held[name] = OrderedDict((key, place.block) for key, place in found)
            for key in same:
                others.setdefault(key, block)

    def note(self, ids: Ids, block: Block) -> None:
        """Note the ids of messages that ``block`` has, of which some may be known."""
        if not self.add_new(ids, block):
            self.add(filter(None, block.all_keys), block)

    def remove(self, ids: Ids, block: Block) -> None:
        """Forget that ``block`` has frames with these ids. Its data or its keys are still there."""
        for key in self._shared(ids, block):
            same = self._held[key.id]
            assert isinstance(same, OrderedDict)
            del same[key]
            if not same:
                del self._held[key.id]
        for name in ids:
            if self._held.get(name) is block:  # type: ignore[arg-type]
                del self._held[name]  # type: ignore[arg-type]

    def move(self, ids: Ids, block: Block, to: Block) -> None:
        """The frames with these ids, which ``block`` had, are in ``to`` now."""
        for name in filter(None, ids):
            if self._held.get(name) is block:
                self._held[name] = to
        for key in self._shared(ids, block, to):
            self._held[key.id][key] = to  # type: ignore[index]

    def find(self, keys: Iterable[MessageKey | None]) -> dict[MessageKey, HeldAt | None]:
        """Those of these messages that are known, each with its place; None if it is committed.

        Further messages with the same ids may be among them.
        """
        names: defaultdict[Block, set[bytes]] = defaultdict(set)
        found: dict[MessageKey, HeldAt | None] = {}
        for key in filter(None, keys):
            if any(key in remembered for remembered in self._key_sets):
                found[key] = None
            held = self._held.get(key.id)
            block = held.get(key) if isinstance(held, OrderedDict) else held
            if block is not None:
                names[block].add(key.id)
        for block, wanted in names.items():
            found.update(block.find(wanted))
        return found

    def has_other_body(self, key: MessageKey) -> bool:
        """Whether the oldest known message with the id of ``key`` differs from it in the body alone."""
        held = self._held.get(key.id)
        if isinstance(held, Block):
            oldest = next((other for other, _ in held.find([key.id])), None)
        elif held is not None:
            oldest = next(iter(held))
        else:
            oldest = next(filter(None, (keys.oldest(key.id) for keys in self._key_sets)), None)
        return oldest is not None and oldest != key and oldest._replace(body=key.body) == key

    def _shared(self, ids: Ids, block: Block, now: Block | None = None) -> Iterator[MessageKey]:
        """The keys with these ids of ``block`` that share an id with others; their frames are in ``now``."""
        names = {name for name in ids if name and not isinstance(self._held.get(name, block), Block)}
        for key, _ in (now or block).find(names) if names else ():
            same = self._held.get(key.id)
            if not isinstance(same, Block) and same is not None and same.get(key) is block:
                yield key

    # --- committed messages

    @property
    def remembered(self) -> int:
        """How many committed messages are remembered."""
        return sum(map(len, self._key_sets))

    @property
    def _key_sets(self) -> tuple[RememberedKeys, RememberedKeys, RememberedKeys]:
        return self._unconfirmed, self._older, self._confirmed

    @property
    def evicted(self) -> int:
        """How many messages would give a second row if they were redelivered: their keys were evicted."""
        return self._evicted

    def count_evicted(self, count: int) -> None:
        """Count ``count`` more messages whose keys are not remembered."""
        self._evicted += count

    def came(self, count: int) -> None:
        """``count`` new messages came."""
        self._came += count
        if self._came >= self._max_remembered:
            self._came = 0
            if self._older and not self._evicted:
                log.warning(
                    "the ACKs of %s were not confirmed, and %d newer messages came since their commit: from "
                    "now on they would be new if the broker redelivered them (evicted in the status)",
                    counted(len(self._older), "message"),
                    self._max_remembered,
                )
            self.count_evicted(len(self._older))
            self._older, self._unconfirmed = self._unconfirmed, RememberedKeys()

    @property
    def owes_many(self) -> bool:
        """Whether so many ACKs are not confirmed that the keys in a journal could not hold them for long."""
        return len(self._unconfirmed) + len(self._older) > self._max_remembered // 2

    def remember_unconfirmed(self, keys: Iterable[MessageKey | None]) -> None:
        """Remember committed messages whose ACK the broker did not confirm."""
        self.awaits_acks = True
        self._remember(self._unconfirmed, keys)

    def remember_confirmed(self, keys: Iterable[MessageKey | None]) -> None:
        """Remember committed messages whose ACK the broker confirmed. Needed with a journal only."""
        self._remember(self._confirmed, keys)
        self._confirmed.evict_oldest(len(self._confirmed) - self._max_remembered)

    def confirm(self, keys: Sequence[MessageKey]) -> None:
        """Forget these messages, whose ACKs the broker confirmed; with a journal, remember them as such."""
        for key in keys:
            self._unconfirmed.remove(key)
            self._older.remove(key)
        if self.journaled:
            self.remember_confirmed(keys)

    def take_unwritten(self) -> list[MessageKey]:
        """Take the keys of committed messages that are not in the journal yet, to write them there.

        Those whose ACK is not confirmed come last, because the journal keeps the newest.
        """
        with self.lock:
            unwritten, self._unwritten = self._still_unwritten(), []
            self.awaits_acks = False
            return unwritten

    def _still_unwritten(self) -> list[MessageKey]:
        keys = dict.fromkeys(self._unwritten)
        owed = {key: None for key in keys if key in self._unconfirmed or key in self._older}
        return [*(key for key in keys if key in self._confirmed and key not in owed), *owed]

    def _remember(self, where: RememberedKeys, keys: Iterable[MessageKey | None]) -> None:
        present = [key for key in keys if key is not None]
        where.add(present)
        if self.journaled:
            self._unwritten += present
            if len(self._unwritten) > 2 * (self.remembered + self._max_remembered):
                self._unwritten = self._still_unwritten()

    # --- messages without an id

    def expect_doubles(self, count: int) -> None:
        """``count`` kept messages without an id may be redelivered, and then give second rows."""
        self._may_double += count

    def count_second_rows(self, count: int) -> int:
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

    def __contains__(self, key: MessageKey) -> bool:
        return self._keys.get(key.id) == key or key in self._others.get(key.id, ())

    def oldest(self, name: bytes) -> MessageKey | None:
        """The oldest key with this id."""
        return self._keys.get(name)

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
        count = max(0, min(count, len(self)))
        for _ in range(count):
            name, _key = self._keys.popitem(last=False)
            if others := self._others.get(name):
                self._keys[name], _ = others.popitem(last=False)
                self._keys.move_to_end(name, last=False)
                if not others:
                    del self._others[name]
        self._count -= count
        return count
