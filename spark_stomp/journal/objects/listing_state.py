"""What a listing means: which objects belong to the journal, where it ends, and what is lost. No I/O.

A missing position is *lost* only if it was not committed. Only the last object may be incomplete without a
loss: it is from an append that never returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_stomp.journal.objects.fencing import Listing
from spark_stomp.journal.objects.object_names import FRAMES, MANIFESTS, FramesName


@dataclass(frozen=True)
class ListingState:
    """The journal as a listing shows it.

    Attributes:
        frames: the objects of frames that belong to the journal, in order.
        void: the objects of frames that may be deleted.
        end: the next position. Every position that ``append`` ever returned is below it.
        committed: the position up to which Spark had committed.
        damage: a sentence about each thing that is damaged or lost.
    """

    frames: list[FramesName]
    void: list[FramesName]
    end: int
    committed: int
    damage: list[str]


def resolve_listing(listing: Listing) -> ListingState:
    """The state of the journal that this listing shows."""
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
        # If the journal is opened despite lost positions, these count as committed.
        committed=max(committed, kept[0].first if kept else end),
        damage=list(_damage(listing, newer, valid, lost)),
    )


def _recorded(listing: Listing) -> tuple[int, int]:
    """The end and the committed position, as the manifest and the marks have them."""
    ends = [0, *(mark.end for mark in listing.marks)]
    commits = [0, *(mark.committed for mark in listing.marks)]
    if listing.manifest is not None:
        ends.append(listing.manifest.base)
        commits.append(listing.manifest.committed)
    return max(ends), max(commits)


def _may_be_unfinished(last: FramesName, listing: Listing, durable: int) -> bool:
    """Whether the writer of ``last`` may have died before its append returned.

    Then ``last`` is incomplete, from the newest writer, and not below ``durable``.
    """
    assert listing.manifest is not None
    cut = listing.frames[last] != last.size
    return cut and last.writer == listing.manifest.writer and last.first >= durable


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


def _damage(
    listing: Listing,
    newer: Sequence[FramesName],
    valid: Sequence[FramesName],
    lost: Sequence[tuple[int, int]],
) -> Iterator[str]:
    yield from listing.broken
    if listing.manifest is None and (listing.frames or listing.marks or listing.broken):
        yield f"under {MANIFESTS}, the manifest that names the journal is missing"
    elif newer:
        one = newer[0]
        yield f"under {MANIFESTS}, the manifest of {one.writer} is missing, which put {FRAMES}/{one}"
    for name in valid:
        if lost and listing.frames[name] != name.size:
            yield f"{FRAMES}/{name} has {listing.frames[name]} bytes, not {name.size}"
    for low, high in lost:
        yield f"messages [{low}, {high}) of the journal are lost"
