"""Header layouts that keep coming back, each as one regular expression.

Brokers send the headers of one subscription in one order, so a frame nearly always has the header names of
the frame before, in the same order. One compiled expression with these names in it recognises such a head
several times faster than a search for the end of each name. A layout is only learned from a frame that the
exact reader accepted.

A run is a sequence of frames of one layout. A sweep finds it by one regular expression, with no step in
Python per frame: it splits the bytes at each NUL that a head follows. So each body ends at its first NUL,
and only frames whose content-length agrees are found. A walk matches one head after the other and jumps over
each body: it also finds bodies with NULs, and is quicker if bodies are long. Both find frames with a head of
the layout and a NUL after the body; the caller checks the heads of a whole run at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from operator import add
from typing import Final, NamedTuple

from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.protocol.raw import RawNames

LENGTH: Final = "content-length"
SUBSCRIPTION: Final = "subscription"
MAX_KNOWN: Final = 8
MAX_NAMES: Final = 128
MAX_CANDIDATES: Final = 64
COMPILE_EVERY: Final = 256
"""Once the cache is full, a layout is compiled (0.5 to 2.5 ms) only after so many unknown ones."""
ANY_NUMBER: Final = "*+" if sys.version_info >= (3, 11) else "*"
"""Any number of times; possessive, hence without backtracking, if Python has that."""
_PLAIN_NAME: Final = re.compile(r"[!-9;-\[\]-~]{1,128}")
"""Printable ASCII without a colon or a backslash: the same in every version, escaped or not."""

FIRST_RUN: Final = 16
LONGEST_RUN: Final = 512
SWEEP_SIZE: Final = 128 << 10
"""The most bytes of a sweep, so that they are still in the processor's cache when they are checked."""
MOST_NUMBERS: Final = 1024
SMALL: Final = 1024
"""Octets per frame up to which a sweep costs less than a walk."""
WALKS: Final = 16
"""So many runs are walked after a sweep found nothing and a walk found frames."""


class RunLayout(NamedTuple):
    """How to find the frames of a layout; ``*_at`` are group numbers, None if it has no such header."""

    names: tuple[str, ...]
    """Of the headers, in order."""
    head: re.Pattern[bytes]
    """EOLs and a head, with the groups that ``*_at`` number."""
    boundary: re.Pattern[bytes]
    """The NUL of the frame before, then ``head`` as the first group; or the whole rest."""
    length_at: int | None
    ack_at: int | None
    id_at: int | None
    time_at: int | None


class LayoutCache:
    """The few layouts in use, the last used first, each compiled by ``compile_layout``.

    A layout enters when it is seen for the second time. A peer that varies its headers cannot make us compile
    without bound: the cache is small, and once it is full a new layout needs ``COMPILE_EVERY`` frames of
    unknown layout before it.
    """

    def __init__(self, compile_layout: Callable[[tuple[str, ...]], RunLayout]) -> None:
        self.known: list[RunLayout] = []
        self._compile = compile_layout
        self._candidates: set[tuple[str, ...]] = set()
        self._credit = 0

    def used(self, rank: int) -> None:
        """Move ``known[rank]`` to the front."""
        if rank:
            self.known.insert(0, self.known.pop(rank))

    def clear(self) -> None:
        """Forget everything: other headers are to be found."""
        self.known.clear()
        self._candidates.clear()

    def saw(self, headers: HeaderPairs) -> None:
        """The exact reader accepted a MESSAGE with these headers."""
        names = tuple([name for name, _ in headers])
        if len(names) > MAX_NAMES or any(known.names == names for known in self.known):
            return
        self._credit += 1
        if names not in self._candidates:
            if len(self._candidates) >= MAX_CANDIDATES:
                self._candidates.clear()
            self._candidates.add(names)
        elif all(map(_PLAIN_NAME.fullmatch, names)):
            self._enter(names)

    def _enter(self, names: tuple[str, ...]) -> None:
        if len(self.known) >= MAX_KNOWN:
            if self._credit < COMPILE_EVERY:
                return
            self.known.pop()
        self._credit = 0
        self._candidates.discard(names)
        self.known.insert(0, self._compile(names))


class Run(NamedTuple):
    """Consecutive frames as columns; a column of headers that the layout does not have is empty.

    ``heads`` include the EOLs before them; ``ends`` are offsets in the buffer's data.
    """

    heads: Sequence[bytes]
    ends: list[int]
    acks: Sequence[bytes] = ()
    ids: Sequence[bytes] = ()
    times: Sequence[bytes] = ()


def compile_run(names: tuple[str, ...], collected: RawNames, subscriptions: Sequence[str] = ()) -> RunLayout:
    """Compile the layout of MESSAGE frames with these names, which are plain: the same on the wire.

    The first content-length must be a number that ``int`` can take, and the first subscription one of
    ``subscriptions``, raw as on the wire, if there are any. Other values may be anything without LF, so a
    match must still be checked for NUL, CR, escapes and character set.
    """

    def position(name: str) -> int | None:
        """Of the first header called ``name``, the one that counts."""
        return names.index(name) if name in names else None

    ack_at = next((at for name in collected.acks if (at := position(name.decode())) is not None), None)
    id_at, time_at = (None if name is None else position(name.decode()) for name in collected[1:])
    wanted = (position(LENGTH), ack_at, id_at, time_at)
    captured = sorted({at for at in wanted if at is not None})
    values = {position(LENGTH): "[0-9]{1,18}"}
    if subscriptions:
        values[position(SUBSCRIPTION)] = f"(?:{'|'.join(map(re.escape, subscriptions))})"
    lines = [rf"\n{ANY_NUMBER}MESSAGE\n"]
    for at, name in enumerate(names):
        value = values.get(at, f".{ANY_NUMBER}")
        lines.append(f"{re.escape(name)}:" + (f"({value})\n" if at in captured else f"{value}\n"))
    head = "".join([*lines, "\n"]).encode()
    # It begins with one fixed byte, which ``re`` finds quickly. If a frame does not match, the second branch
    # takes the whole rest, so no later frame matches.
    boundary = rb"\0(?:(%b)|(?s:.*))" % head
    group = {at: number for number, at in enumerate(captured, start=1)}
    numbers = (None if at is None else group[at] for at in wanted)
    return RunLayout(names, re.compile(head), re.compile(boundary), *numbers)


class RunFinder:
    """Finds runs, and adapts their length to how much of the last ones was used.

    A run grows as long as the last one was used whole. It shrinks to the distance between frames that need a
    closer look, so that little is found in vain.
    """

    def __init__(self) -> None:
        self._length = FIRST_RUN  # frames
        self._size = SMALL  # bytes per frame of the last run
        self._numbers = Numbers()
        self._walks = 0  # still to come before the next sweep

    def find(self, layout: RunLayout, data: bytes, start: int, largest: int) -> Run:
        """Complete frames from ``start`` on, each of at most ``largest`` bytes; maybe none."""
        after_nul = start > 0 and not data[start - 1]
        swept = after_nul and self._size <= SMALL and not self._walks
        if swept:
            reach = min(self._length * self._size, SWEEP_SIZE, largest)
            run = sweep(layout, data, start, start + reach, self._numbers)
            if run.heads:
                return run
        # The first frame received may have no NUL before it; the next one has.
        run = walk(layout, data, start, self._length if after_nul else 1, largest)
        if run.heads:
            self._walks = WALKS if swept else max(0, self._walks - 1)
        return run

    def learn(self, run: Run, start: int, plain: int) -> None:
        """The first ``plain`` frames of a run that began at ``start`` needed no closer look."""
        found = len(run.heads)
        if found:
            self._size = (run.ends[-1] - start) // found
        if plain < found:
            self._length = plain + 1
        elif 2 * found >= self._length:
            self._length = min(2 * self._length, LONGEST_RUN)


def sweep(layout: RunLayout, data: bytes, start: int, stop: int, numbers: Numbers) -> Run:
    """The frames from ``start``, which follows a NUL, to ``stop``, up to the first with a NUL in its body."""
    # From that NUL to the last one: what follows is not complete.
    stretch = memoryview(data)[start - 1 : data.rfind(b"\0", start - 1, stop)]
    # What precedes the first match (nothing), then for each match its groups and what follows it.
    found: list[bytes] = layout.boundary.split(stretch)
    width = layout.boundary.groups + 1
    if found[-width:][0] is None:
        del found[-width:]
    heads, bodies = found[1::width], found[width::width]
    sizes = [len(body) + 1 for body in bodies]
    if layout.length_at is not None:
        agreed = _agreed(list(map(numbers.__getitem__, found[layout.length_at + 1 :: width])), sizes)
        del heads[agreed:], sizes[agreed:]
    ends = list(accumulate(map(add, map(len, heads), sizes), initial=start))
    del ends[0]
    at_groups = (layout.ack_at, layout.id_at, layout.time_at)
    return Run(heads, ends, *([] if at is None else found[at + 1 :: width][: len(ends)] for at in at_groups))


class Numbers(dict[bytes, int]):
    """Size of a body with its NUL by its content-length as sent; a bounded cache."""

    def __missing__(self, digits: bytes) -> int:
        if len(self) >= MOST_NUMBERS:
            self.clear()
        size = self[digits] = int(digits) + 1
        return size


def _agreed(expected: list[int], sizes: list[int]) -> int:
    """How many of the first sizes are as expected."""
    if expected == sizes:
        return len(sizes)
    return next(position for position, size in enumerate(sizes) if size != expected[position])


def walk(layout: RunLayout, data: bytes, start: int, longest: int, largest: int) -> Run:
    """Up to ``longest`` complete frames from ``start`` on, each of at most ``largest`` bytes."""
    match_head, length_at = layout.head.match, layout.length_at
    columns = (layout.ack_at, layout.id_at, layout.time_at)
    heads: list[re.Match[bytes]] = []
    ends: list[int] = []
    position, size = start, len(data)
    for _ in repeat(None, longest):
        match = match_head(data, position)
        if match is None:
            break
        body = match.end()
        end = data.find(b"\0", body) if length_at is None else body + int(match[length_at])
        if not body <= end < size or data[end] or end - position >= largest:
            break
        position = end + 1
        heads.append(match)
        ends.append(position)
    values = ([] if at is None else [match[at] for match in heads] for at in columns)
    return Run([match[0] for match in heads], ends, *values)
