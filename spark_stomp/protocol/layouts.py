"""Header layouts that keep coming back, each as one regular expression.

Brokers send the headers of one subscription in one order, so a frame nearly always has the header names of
the frame before, in the same order. One compiled expression with these names in it recognises such a head
several times faster than a search for the end of each name. A layout is only learned from a frame that the
exact reader accepted.

A run is a sequence of frames of one layout. A sweep finds it by one regular expression, with no step in
Python per frame: it splits the octets at each NUL that a head follows. So each body ends at its first NUL,
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
from typing import Final, Generic, NamedTuple, TypeVar

from spark_stomp.protocol.frames import HeaderPairs

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

T = TypeVar("T")
FIRST_RUN: Final = 16
LONGEST_RUN: Final = 512
SWEEP_SIZE: Final = 128 << 10
"""The most octets of a sweep, so that they are still in the processor's cache when they are checked."""
MOST_NUMBERS: Final = 1024
SMALL: Final = 1024
"""Octets per frame up to which a sweep costs less than a walk."""
WALKS: Final = 16
"""So many runs are walked after a sweep found nothing and a walk found frames."""


class Layout(NamedTuple):
    """A command and its header names in order."""

    command: str
    names: tuple[str, ...]

    def position(self, name: str) -> int | None:
        """The index of the first header called ``name``, the one that counts; None if there is none."""
        return self.names.index(name) if name in self.names else None

    def pattern(self, captured: frozenset[int], subscriptions: Sequence[str] = ()) -> str:
        """An expression for a head of this layout, blank line included; ``captured`` values are groups.

        The first content-length must be a number that ``int`` can take, and the first subscription one of
        ``subscriptions``, raw as on the wire, if there are any. Other values may be anything without LF, so a
        match must still be checked for NUL, CR, escapes and character set.
        """
        expressions = {self.position(LENGTH): "[0-9]{1,18}"}
        if subscriptions:
            expressions[self.position(SUBSCRIPTION)] = f"(?:{'|'.join(map(re.escape, subscriptions))})"
        lines = [f"{self.command}\n"]
        for position, name in enumerate(self.names):
            value = expressions.get(position, f".{ANY_NUMBER}")
            lines.append(
                f"{re.escape(name)}:({value})\n" if position in captured else f"{re.escape(name)}:{value}\n"
            )
        return "".join(lines) + "\n"


class LayoutCache(Generic[T]):
    """The few layouts in use, the last used first, each compiled by ``compile_layout``.

    A layout enters when it is seen for the second time. A peer that varies its headers cannot make us compile
    without bound: the cache is small, and once it is full a new layout needs ``COMPILE_EVERY`` frames of
    unknown layout before it.
    """

    def __init__(self, compile_layout: Callable[[Layout], T]) -> None:
        self.known: list[T] = []
        self._layouts: list[Layout] = []
        self._compile = compile_layout
        self._candidates: set[Layout] = set()
        self._credit = 0

    def used(self, rank: int) -> None:
        """Move ``known[rank]`` to the front."""
        if rank:
            self.known.insert(0, self.known.pop(rank))
            self._layouts.insert(0, self._layouts.pop(rank))

    def clear(self) -> None:
        """Forget everything: the version or the limits changed."""
        self.known.clear()
        self._layouts.clear()
        self._candidates.clear()

    def saw(self, command: str, headers: HeaderPairs) -> None:
        """The exact reader accepted a frame with these headers."""
        layout = Layout(command, tuple([name for name, _ in headers]))
        if layout in self._layouts or len(headers) > MAX_NAMES:
            return
        self._credit += 1
        if layout not in self._candidates:
            if len(self._candidates) >= MAX_CANDIDATES:
                self._candidates.clear()
            self._candidates.add(layout)
        elif all(map(_PLAIN_NAME.fullmatch, layout.names)):
            self._enter(layout)

    def _enter(self, layout: Layout) -> None:
        if len(self.known) >= MAX_KNOWN:
            if self._credit < COMPILE_EVERY:
                return
            self.known.pop()
            self._layouts.pop()
        self._credit = 0
        self._candidates.discard(layout)
        self.known.insert(0, self._compile(layout))
        self._layouts.insert(0, layout)


class RunLayout(NamedTuple):
    """How to find the frames of a layout; ``*_at`` are group numbers, None if it has no such header."""

    head: re.Pattern[bytes]
    """EOLs and a head, with the groups that ``*_at`` number."""
    boundary: re.Pattern[bytes]
    """The NUL of the frame before, then ``head`` as the first group; or the whole rest."""
    length_at: int | None
    ack_at: int | None
    id_at: int | None


class Run(NamedTuple):
    """Consecutive frames as columns; ``acks`` and ``ids`` are empty if the layout has no such header.

    ``heads`` include the EOLs before them; ``ends`` are offsets in the buffer's data.
    """

    heads: Sequence[bytes]
    ends: list[int]
    acks: Sequence[bytes]
    ids: Sequence[bytes]


def compile_run(
    layout: Layout, ack_headers: tuple[str, ...], id_header: str | None, subscriptions: Sequence[str] = ()
) -> RunLayout:
    """Compile ``layout``; an ACK names the first of ``ack_headers`` that it has.

    ``subscriptions`` as in :meth:`Layout.pattern`.
    """
    ack_at = next((position for name in ack_headers if (position := layout.position(name)) is not None), None)
    id_at = None if id_header is None else layout.position(id_header)
    length_at = layout.position(LENGTH)
    positions = sorted({position for position in (ack_at, id_at, length_at) if position is not None})
    head = rf"\n{ANY_NUMBER}{layout.pattern(frozenset(positions), subscriptions)}".encode()
    # It begins with one fixed octet, which ``re`` finds quickly. If a frame does not match, the second branch
    # takes the whole rest, so no later frame matches.
    boundary = rb"\0(?:(%b)|(?s:.*))" % head
    group = {position: number for number, position in enumerate(positions, start=1)}
    numbers = (None if at is None else group[at] for at in (length_at, ack_at, id_at))
    return RunLayout(re.compile(head), re.compile(boundary), *numbers)


class RunFinder:
    """Finds runs, and adapts their length to how much of the last ones was used.

    A run grows as long as the last one was used whole. It shrinks to the distance between frames that need a
    closer look, so that little is found in vain.
    """

    def __init__(self) -> None:
        self._length = FIRST_RUN  # frames
        self._size = SMALL  # octets per frame of the last run
        self._numbers = Numbers()
        self._walks = 0  # still to come before the next sweep

    def find(self, layout: RunLayout, data: bytes, start: int, largest: int) -> Run:
        """Complete frames from ``start`` on, each of at most ``largest`` octets; maybe none."""
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
    octets = memoryview(data)[start - 1 : data.rfind(b"\0", start - 1, stop)]
    # What precedes the first match (nothing), then for each match its groups and what follows it.
    found: list[bytes] = layout.boundary.split(octets)
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
    acks, ids = (
        [] if at is None else found[at + 1 :: width][: len(ends)] for at in (layout.ack_at, layout.id_at)
    )
    return Run(heads, ends, acks, ids)


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
    """Up to ``longest`` complete frames from ``start`` on, each of at most ``largest`` octets."""
    pattern, _, length_at, ack_at, id_at = layout
    match_head = pattern.match
    heads: list[bytes] = []
    ends: list[int] = []
    acks: list[bytes] = []
    ids: list[bytes] = []
    add_head, add_end, add_ack, add_id = heads.append, ends.append, acks.append, ids.append
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
        add_head(match[0])
        add_end(position)
        if ack_at is not None:
            add_ack(match[ack_at])
        if id_at is not None:
            add_id(match[id_at])
    return Run(heads, ends, acks, ids)
