"""What a listing means: which objects are the journal's, where it ends, and what is lost. No I/O.

Positions whose frames are gone are *lost* only if they were not committed. Only the last object may be cut
off without a loss: that of an append that never returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_stomp.journal.objects.fencing import Listing
from spark_stomp.journal.objects.object_names import FRAMES, FramesName


@dataclass(frozen=True)
class ListingState:
    """The journal as a listing shows it.

    Attributes:
        frames: the journal's objects of frames, in order.
        void: those that may be deleted.
        end: the next position; no position that ``append`` ever returned is behind it.
        committed: the position up to which Spark had committed.
        damage: what is lost, for people.
    """

    frames: list[FramesName]
    void: list[FramesName]
    end: int
    committed: int
    damage: list[str]


def resolve_listing(listing: Listing) -> ListingState:
    """See the module's docstring."""
    manifest = listing.manifest
    valid = sorted(name for name in listing.frames if manifest is not None and manifest.owns(name))
    newer = [name for name in listing.frames if manifest is None or name.writer > manifest.writer]
    void = list(listing.frames.keys() - {*valid, *newer})
    end, committed = _recorded(listing)
    if valid and _may_be_unfinished(valid[-1], listing, end):
        void.append(valid.pop())
        end = max(end, void[-1].first)
    end = max([end, *(name.end for name in (*valid, *newer))])
    committed = max([committed, *(name.committed for name in valid)])
    whole = [name for name in valid if listing.frames[name] == name.size]
    lost = list(_lost(whole, committed, end))
    kept = _behind_gaps(whole, committed)
    void += [name for name in valid if name.end <= committed and name not in kept]
    return ListingState(
        frames=kept,
        void=void,
        end=end,
        # Lost positions that are tolerated count as committed.
        committed=max(committed, kept[0].first if kept else end),
        damage=list(_damage(listing, newer, valid, lost)),
    )


def _recorded(listing: Listing) -> tuple[int, int]:
    """The end and the committed position by the manifest and the marks."""
    ends = [0, *(mark.end for mark in listing.marks)]
    commits = [0, *(mark.committed for mark in listing.marks)]
    if listing.manifest is not None:
        ends.append(listing.manifest.base)
        commits.append(listing.manifest.committed)
    return max(ends), max(commits)


def _may_be_unfinished(last: FramesName, listing: Listing, durable: int) -> bool:
    """Whether a crash may have left ``last`` as it is: cut off, the newest writer's, and never returned."""
    assert listing.manifest is not None
    cut = listing.frames[last] != last.size
    return cut and last.writer == listing.manifest.writer and last.first >= durable


def _lost(whole: Sequence[FramesName], committed: int, end: int) -> Iterator[tuple[int, int]]:
    """The positions from ``committed`` to ``end`` that no object has."""
    position = committed
    for name in whole:
        if name.first > position:
            yield position, name.first
        position = max(position, name.end)
    if position < end:
        yield position, end


def _behind_gaps(whole: Sequence[FramesName], committed: int) -> list[FramesName]:
    """``whole`` after the last gap below ``committed``.

    Objects before such a gap were deleted once, and have appeared again.
    """
    begin = 0
    for index, (one, other) in enumerate(pairwise(whole), 1):
        if one.end < other.first <= committed:
            begin = index
    return list(whole[begin:])


def _damage(
    listing: Listing,
    newer: Sequence[FramesName],
    valid: Sequence[FramesName],
    lost: Sequence[tuple[int, int]],
) -> Iterator[str]:
    yield from listing.broken
    if listing.manifest is None and (listing.frames or listing.marks or listing.broken):
        yield "the object that says which journal this is, under openings, is missing"
    elif newer:
        yield f"under openings, that of {newer[0].writer} is missing, which put {FRAMES}/{newer[0]}"
    for name in valid:
        if lost and listing.frames[name] != name.size:
            yield f"{FRAMES}/{name} has {listing.frames[name]} bytes"
    for low, high in lost:
        yield f"messages [{low}, {high}) of the journal are lost"
