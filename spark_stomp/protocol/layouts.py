"""Finds many MESSAGE frames at once, by the layouts of their headers.

A layout is the list of a frame's header names, in order. A broker sends the headers of one subscription in
one order, so a frame nearly always has the layout of the frame before it. Each layout in use becomes one
regular expression. There are two ways to find uniform frames, which are consecutive frames of one layout:

- A sweep splits the bytes at each NUL that a head follows. It is one regular expression, without a step in
  Python for each frame. To a sweep a body ends at its first NUL, so it stops at a frame whose content-length
  says otherwise.
- A walk matches one head after another and jumps over each body. It also finds bodies that contain NULs, and
  it is faster if bodies are long.

Invariants:

- A layout is learned only from a frame that the exact path has accepted.
- Each frame that is found has a head of the layout, and a NUL after its body. Nothing else is known of it:
  the scanner checks the heads, and takes only the frames before the first head that is not valid.
- A peer cannot make the caches grow without bound, nor have expressions compiled for every frame.

A frame with 10 headers and a body of 235 bytes takes 0.77 us (November 2026).
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
"""Compiled layouts in the cache."""
MAX_NAMES: Final = 128
"""Names in a layout. With 64 of them, and with 80 headers in each message, one header cost 2.6 times what it
cost with 10 (measured in November 2026)."""
MAX_CANDIDATES: Final = 64
"""Remembered layouts that were seen only once."""
COMPILE_EVERY: Final = 256
"""Frames of unknown layout before a full cache compiles another one. Compiling takes 0.5 to 2.5 ms (measured
in November 2026), so it adds at most 10 us to each of these frames."""
ANY_NUMBER: Final = "*+" if sys.version_info >= (3, 11) else "*"
"""The quantifier for any number of times. From Python 3.11 on it is possessive: it never backtracks."""
_UNESCAPED_NAME: Final = re.compile(r"[!-9;-\[\]-~]{1,128}")
"""Printable ASCII without a colon or a backslash: no version escapes any of it."""

FIRST_COUNT: Final = 16
"""Frames to find at first. The number doubles from there."""
MOST_FRAMES: Final = 512
"""Frames to find at most. If a frame has 256 bytes or more, ``SWEEP_SIZE``
bounds a sweep first."""
SWEEP_SIZE: Final = 128 << 10
"""Bytes of the longest sweep. They should still be in the processor's cache when their heads are checked."""
MOST_NUMBERS: Final = 1024
"""Values of content-length in a ``Numbers`` cache."""
SMALL: Final = 1024
"""Bytes of a frame up to which a sweep is tried. A sweep is faster for small frames, a walk for large
ones."""
WALKS: Final = 16
"""Walks without a sweep, after a sweep found nothing and a walk then found frames: their
bodies contain NULs. With it, frames with a NUL in the body took 6 % longer than others (measured
in November 2026)."""


class Layout(NamedTuple):
    """A layout and the expressions that find its frames.

    ``length_at`` and ``values_at`` are numbers of groups in ``head``: that of content-length, and in order
    those of :class:`~spark_stomp.protocol.raw.RawValues`. None if the layout lacks the header.
    """

    names: tuple[str, ...]
    """The header names, in order."""
    head: re.Pattern[bytes]
    """Matches any EOLs and a head."""
    boundary: re.Pattern[bytes]
    """Matches the NUL of the frame before, then ``head`` as the first group. If no head follows the NUL, it
    matches all that is left."""
    length_at: int | None
    values_at: tuple[int | None, ...]


class LayoutCache:
    """The layouts in use, the most recently used first, each compiled by ``compile_layout``.

    A layout enters when it is seen for the second time. A peer that varies its headers cannot make us compile
    without bound: the cache is small, and once it is full, a new layout enters only after ``COMPILE_EVERY``
    frames of unknown layout.
    """

    def __init__(self, compile_layout: Callable[[tuple[str, ...]], Layout]) -> None:
        self.known: list[Layout] = []
        self._compile = compile_layout
        self._candidates: set[tuple[str, ...]] = set()
        self._credit = 0

    def used(self, rank: int) -> None:
        """Move ``known[rank]`` to the front."""
        if rank:
            self.known.insert(0, self.known.pop(rank))

    def clear(self) -> None:
        """Forget all layouts. Call this if other headers or subscriptions are to be collected from now on.

        A layout is compiled for the headers and subscriptions that were to be collected at the time.
        """
        self.known.clear()
        self._candidates.clear()

    def saw(self, headers: HeaderPairs) -> None:
        """Note the layout of a MESSAGE with these headers, which the exact reader has accepted."""
        names = tuple([name for name, _ in headers])
        if len(names) > MAX_NAMES or any(known.names == names for known in self.known):
            return
        self._credit += 1
        if names not in self._candidates:
            if len(self._candidates) >= MAX_CANDIDATES:
                self._candidates.clear()
            self._candidates.add(names)
        elif all(map(_UNESCAPED_NAME.fullmatch, names)):
            self._enter(names)

    def _enter(self, names: tuple[str, ...]) -> None:
        if len(self.known) >= MAX_KNOWN:
            if self._credit < COMPILE_EVERY:
                return
            self.known.pop()
        self._credit = 0
        self._candidates.discard(names)
        self.known.insert(0, self._compile(names))


class UniformFrames(NamedTuple):
    """Consecutive frames of one layout.

    ``heads`` include the EOLs before them. ``ends`` are offsets in the buffer's data, just after each NUL.
    ``values`` has a column for each of ``Layout.values_at``, as on the wire; it is empty if the layout lacks
    that header.
    """

    heads: Sequence[bytes]
    ends: list[int]
    values: Sequence[Sequence[bytes]]


def compile_layout(names: tuple[str, ...], collected: RawNames) -> Layout:
    """Compile the layout of MESSAGE frames with these header names.

    The expression accepts any value without LF, so the heads that it finds must still be checked for NUL, CR,
    escapes and character set. Only one header is checked here: content-length has 1 to 18 digits. If a name
    is repeated, its first line counts.

    Args:
        names: names without escapes (``_UNESCAPED_NAME``), which are the same on the wire.
        collected: the headers whose values are wanted.
    """

    def position(name: str) -> int | None:
        """The index of the first header called ``name``."""
        return names.index(name) if name in names else None

    at_names = (None if name is None else position(name.decode()) for name in collected)
    wanted = (position(LENGTH), *at_names, position(SUBSCRIPTION))
    captured = sorted({at for at in wanted if at is not None})
    lines = [rf"\n{ANY_NUMBER}MESSAGE\n"]
    for at, name in enumerate(names):
        value = "[0-9]{1,18}" if at == wanted[0] else f".{ANY_NUMBER}"
        lines.append(f"{re.escape(name)}:" + (f"({value})\n" if at in captured else f"{value}\n"))
    head = "".join([*lines, "\n"]).encode()
    # The expression begins with one fixed byte, which ``re`` finds quickly. If a frame does not match, the
    # second branch takes all that is left, so that no later frame matches either.
    boundary = rb"\0(?:(%b)|(?s:.*))" % head
    group = {at: number for number, at in enumerate(captured, start=1)}
    length_at, *values_at = (None if at is None else group[at] for at in wanted)
    return Layout(names, re.compile(head), re.compile(boundary), length_at, tuple(values_at))


class UniformFinder:
    """Finds uniform frames, and adapts how many it looks for.

    That number doubles while the scanner uses all frames that were found. If the scanner stops at a head that
    is not valid, it is only one more than what was used, so that few are found in vain.
    """

    def __init__(self) -> None:
        self._length = FIRST_COUNT  # frames to find next
        self._size = SMALL  # mean bytes of the frames that were found last
        self._numbers = Numbers()
        self._walks = 0  # walks before the next sweep

    def find(self, layout: Layout, data: bytes, start: int, largest: int) -> UniformFrames:
        """The next uniform frames from ``start`` on, maybe none. Each has at most ``largest`` bytes."""
        after_nul = start > 0 and not data[start - 1]
        swept = after_nul and self._size <= SMALL and not self._walks
        if swept:
            reach = min(self._length * self._size, SWEEP_SIZE, largest)
            found = sweep(layout, data, start, start + reach, self._numbers)
            if found.heads:
                return found
        # A sweep begins at the NUL before a frame. The first frame received may have none: only that frame is
        # walked then, because the next one has a NUL before it.
        found = walk(layout, data, start, self._length if after_nul else 1, largest)
        if found.heads:
            self._walks = WALKS if swept else max(0, self._walks - 1)
        return found

    def learn(self, found: UniformFrames, start: int, used: int) -> None:
        """Adapt to the frames ``found`` from ``start`` on, of which the first ``used`` were used."""
        count = len(found.heads)
        if count:
            self._size = (found.ends[-1] - start) // count
        if used < count:
            self._length = used + 1
        elif 2 * count >= self._length:
            self._length = min(2 * self._length, MOST_FRAMES)


def sweep(layout: Layout, data: bytes, start: int, stop: int, numbers: Numbers) -> UniformFrames:
    """The complete frames from ``start`` to ``stop``, up to the first whose body contains a NUL.

    A NUL must precede ``start``.
    """
    # From the NUL before ``start`` up to the last NUL, because no complete frame follows that one.
    searched = memoryview(data)[start - 1 : data.rfind(b"\0", start - 1, stop)]
    # The first element precedes the first match, and is empty. Then come the groups and the body of each
    # match.
    found: list[bytes] = layout.boundary.split(searched)
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
    values = [[] if at is None else found[at + 1 :: width][: len(ends)] for at in layout.values_at]
    return UniformFrames(heads, ends, values)


class Numbers(dict[bytes, int]):
    """A bounded cache: content-length as on the wire -> size of the body with its NUL, in bytes."""

    def __missing__(self, digits: bytes) -> int:
        if len(self) >= MOST_NUMBERS:
            self.clear()
        size = self[digits] = int(digits) + 1
        return size


def _agreed(expected: list[int], sizes: list[int]) -> int:
    """How many sizes precede the first that is not as expected."""
    if expected == sizes:
        return len(sizes)
    return next(position for position, size in enumerate(sizes) if size != expected[position])


def walk(layout: Layout, data: bytes, start: int, longest: int, largest: int) -> UniformFrames:
    """Up to ``longest`` complete frames from ``start`` on, each of at most ``largest`` bytes.

    Unlike a sweep it finds bodies that contain NULs.
    """
    match_head, length_at = layout.head.match, layout.length_at
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
    values = [[] if at is None else [match[at] for match in heads] for at in layout.values_at]
    return UniformFrames([match[0] for match in heads], ends, values)
