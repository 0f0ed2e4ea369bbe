"""Opening a journal: who may write, which objects belong to it, where it ends, and what is lost.

An object store has no lock. It lists, puts and deletes, and only two things are relied on: an object that was
put completely is in every listing that begins later, and it stays complete while it is put again. It may
appear after its writer was told of a failure, or is dead. So writers announce themselves, and an older one
that sees a newer one stops. To open a journal, a writer

1. picks (generation, random id), a generation above all markers that it sees, and puts its marker,
2. lists frames, then states, then keys. The newest state decides: frames are *valid* if that state accepted
   them, or if they are of that state's writer and not below its base. Others are *void*,
3. checks: it gives up if there is a newer marker,
4. puts its own state, with its base, the end of what is valid, and what it accepted,
5. checks again. Only then it appends, and deletes what is void or older than its state.

An append puts frames from the end on, one object after the other, and checks. If a put failed finally, this
writer appends no more. A trim puts how far Spark has committed, checks, and deletes from the oldest on.

Four invariants, in which *returned* means by ``append``:

- What was returned is accepted by every newer writer that completes the opening.
- No position is returned by two writers.
- A position that was returned always names the same bytes.
- What is deleted as void is never accepted later.

Why: the check of an older writer saw no newer marker after its put. So each newer listing began later, and
finds the object. It is valid there: by the older writer's own state, or because a writer between them
accepted it, by induction; if that one is newer than the lister, the lister fails step 3. So a newer base is
never below what was returned, and the older writer returns nothing after the newer marker. An object of an
older writer that appears late lies behind what was accepted of it, and stays void. What is deleted as void
was so for all that open later: a listing from before this state fails its check in step 5.

One case cannot be excluded: a writer that was paused between its check and its deletions may delete committed
objects that a newer one has listed. The newer one reports it when it is asked for those frames.

On a disk nobody else writes, and the same steps are done without the checks.

A missing position is *lost* only if it was not committed. Only the last object may be unfinished without a
loss: it is from an append that never returned, if no state says that the journal reached it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from spark_stomp.errors import JournalDamaged, JournalError, JournalInUse
from spark_stomp.journal.formats import (
    FRAMES,
    STATES,
    WRITERS,
    Accepted,
    FramesName,
    State,
    StateName,
    WriterName,
    accepted_of,
    lost,
)
from spark_stomp.journal.objects import DedupLog, FrameObjects
from spark_stomp.journal.store import RetryingStore

# How often to list and read again if another writer deletes objects meanwhile.
_ATTEMPTS: Final = 5


class WriterFence:
    """The marker of a writer, which the constructor puts, and the check for newer writers."""

    def __init__(self, store: RetryingStore) -> None:
        self._store = store
        generation = max((writer.generation for writer in self._writers()), default=0) + 1
        self.writer = WriterName(generation, secrets.token_hex(8))
        store.put(f"{WRITERS}/{self.writer}", b"\n")

    def check(self) -> None:
        """Raise JournalInUse if a newer writer took over, and JournalDamaged if the marker was deleted."""
        if self._store.is_locked:
            return
        writers = self._writers()
        if max(writers, default=self.writer) > self.writer:
            raise JournalInUse(
                f"another query took over the journal at {self._store.shown}; each query needs its own. "
                "This query stops: messages that it did not write to the journal stay on the broker"
            )
        if self.writer not in writers:
            raise JournalDamaged(
                f"somebody deleted {WRITERS}/{self.writer} of the journal at {self._store.shown}"
            )

    def clear(self) -> None:
        """Delete the markers and states of older writers."""
        states = StateName.sizes(self._store.sizes(STATES))
        self._store.delete(STATES, [str(name) for name in states if name.writer < self.writer])
        self._store.delete(WRITERS, [str(writer) for writer in self._writers() if writer < self.writer])

    def _writers(self) -> list[WriterName]:
        return [
            writer for name in self._store.sizes(WRITERS) if (writer := WriterName.parse(name)) is not None
        ]


@dataclass(frozen=True)
class Listing:
    """The objects of a journal, as they were listed.

    Attributes:
        frames: the objects of frames in order, with their actual sizes.
        state: the newest state that can be read; None if there is none.
        broken: a sentence about each newer state that cannot be read.
        keys: the dedup log.
    """

    frames: Mapping[FramesName, int]
    state: State | None
    broken: Sequence[str]
    keys: DedupLog

    @property
    def valid(self) -> list[FramesName]:
        """The objects of frames that the state makes valid."""
        return [name for name in self.frames if self.state is not None and self.state.owns(name)]


@dataclass(frozen=True)
class Found:
    """The journal as a listing shows it.

    Attributes:
        frames: the objects of frames that belong to the journal and are whole, in order.
        void: the objects of frames that may be deleted.
        accepted: what a new state accepts.
        end: the next position. Every position that ``append`` ever returned is below it.
        committed: the position up to which Spark had committed.
        committed_before: an earlier committed position: what lies between is one batch or more.
        damage: a sentence about each thing that is damaged or lost.
    """

    frames: list[FramesName]
    void: list[FramesName]
    accepted: tuple[Accepted, ...]
    end: int
    committed: int
    committed_before: int
    damage: list[str]


def list_and_read(
    store: RetryingStore, fence: WriterFence, frames: FrameObjects, max_remembered: int, *, tolerant: bool
) -> tuple[Listing, Found]:
    """List and read the journal, and check that no newer writer came meanwhile.

    What no state proves to be durable is so when this returns. ``tolerant``: all frames are read, to leave
    out those that are damaged.
    """
    for _ in range(_ATTEMPTS):
        try:
            listing = list_journal(store, max_remembered)
            broken = dict(_broken(store, frames, listing, everything=tolerant))
            return listing, resolve(listing, broken)
        except FileNotFoundError:
            pass
        finally:
            # Only a newer writer deletes what was listed; and nobody does after the last check.
            fence.check()
    raise JournalDamaged(f"objects of the journal at {store.shown} keep vanishing")


def refuse_old_form(store: RetryingStore) -> None:
    """Raise JournalError if an earlier release wrote the journal: segments, or objects with manifests."""
    if "journal.json" in store.sizes("") or store.sizes("openings"):
        raise JournalError(
            f"an earlier release wrote the journal at {store.shown}, and this one cannot read it. Let the "
            "query finish under the earlier release until nothing is left. Then begin with a new journal and "
            "a new checkpoint"
        )


def list_journal(store: RetryingStore, max_remembered: int) -> Listing:
    """List frames, then states, then keys: the proof above needs this order.

    Raises FileNotFoundError if a newer writer deletes objects meanwhile. Then check the fence and list again.
    """
    frames = FramesName.sizes(store.sizes(FRAMES))
    state, broken = _newest_state(store)
    return Listing(frames, state, broken, DedupLog(store, max_remembered))


def _newest_state(store: RetryingStore) -> tuple[State | None, list[str]]:
    """The newest state that can be read, and what is wrong with newer ones."""
    broken: list[str] = []
    for name, size in reversed(StateName.sizes(store.sizes(STATES)).items()):
        if size != name.size:
            broken.append(f"{STATES}/{name} is damaged: it has {size} bytes, not {name.size}")
            continue
        raw = store.get(f"{STATES}/{name}")
        try:
            return State.decode(name.writer, raw), broken
        except (ValueError, KeyError, TypeError) as error:
            broken.append(f"{STATES}/{name} is damaged: {error}")
    return None, broken


def _broken(
    store: RetryingStore, frames: FrameObjects, listing: Listing, *, everything: bool
) -> Iterator[tuple[FramesName, str]]:
    """The valid objects that are not whole, with a sentence about each.

    On a disk all are read that no state proves, elsewhere only the last of them: the puts of those before it
    returned. What the state proves is read when it is needed, unless ``everything`` is to be read.
    """
    state, valid = listing.state, listing.valid
    unproven = [name for name in valid if state is not None and name.end > state.end]
    checked = set(valid if everything else unproven if store.is_locked else unproven[-1:])
    for name in valid:
        size = listing.frames[name]
        if size != name.size:
            yield name, f"{FRAMES}/{name} has {size} bytes, not {name.size}"
        elif name in checked:
            try:
                frames.check(name)
            except JournalDamaged as error:
                yield name, error.message


def resolve(listing: Listing, broken: Mapping[FramesName, str]) -> Found:
    """What a listing means, if the objects ``broken`` are not whole. No I/O."""
    state, valid = listing.state, listing.valid
    newer = [name for name in listing.frames if state is None or name.writer > state.writer]
    void = list(listing.frames.keys() - {*valid, *newer})
    end, committed = (0, 0) if state is None else (max(state.base, state.end), state.committed)
    if valid and _may_be_unfinished(valid[-1], state, broken):
        void.append(valid.pop())
        end = max(end, void[-1].first)
    end = max([end, *(name.end for name in (*valid, *newer))])
    committed = max([committed, *(name.committed for name in valid)])
    whole = [name for name in valid if name not in broken]
    gone = [lost(low, high) for low, high in _lost(whole, committed, end)]
    if gone:
        gone = [*(broken[name] for name in valid if name in broken), *gone]
    kept = _behind_gaps(whole, committed)
    old = {name for name in valid if name.end <= committed} - {*kept}
    # If the journal is opened despite lost positions, these count as committed.
    committed = max(committed, kept[0].first if kept else end)
    before = [name.committed for name in kept if name.committed < committed]
    return Found(
        frames=kept,
        void=[*void, *old],
        accepted=accepted_of(name for name in valid if name not in old),
        end=end,
        committed=committed,
        committed_before=max(before, default=0),
        damage=[*_damage(listing, newer, gone), *listing.keys.damage],
    )


def _may_be_unfinished(last: FramesName, state: State | None, broken: Mapping[FramesName, str]) -> bool:
    """Whether the writer of ``last`` may have died before its append returned.

    Then ``last`` is not whole, is from the newest writer, and the journal is not known to have reached it.
    """
    return state is not None and last in broken and last.writer == state.writer and last.first >= state.end


def _lost(whole: Sequence[FramesName], committed: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges between ``committed`` and ``end`` that no complete object has."""
    position = committed
    for name in whole:
        if name.first > position:
            yield position, name.first
        position = max(position, name.end)
    if position < end:
        yield position, end


def _behind_gaps(whole: Sequence[FramesName], committed: int) -> list[FramesName]:
    """Those objects of ``whole`` that come after the last gap below ``committed``.

    The objects before such a gap were deleted once, and appeared again because a put arrived late.
    """
    begin = 0
    for index, (one, other) in enumerate(pairwise(whole), 1):
        if one.end < other.first <= committed:
            begin = index
    return list(whole[begin:])


def _damage(listing: Listing, newer: Sequence[FramesName], lost: Sequence[str]) -> Iterator[str]:
    if listing.state is None and (listing.frames or listing.keys.keys):
        yield from listing.broken
        yield f"under {STATES}, the state that names the journal is missing"
    elif newer:
        one = newer[0]
        yield from listing.broken
        yield f"under {STATES}, the state of {one.writer} is missing, which put {FRAMES}/{one}"
    yield from lost
