"""Finds many MESSAGE frames at once, by the layouts of their headers.

Goals
    Find frames at less than a microsecond each on one core. Measured: 0.77 us with 10 headers and a body of
    235 bytes, 20 times as fast as stomp.py's parser (tests/benchmarks/RESULTS.md, November 2026).

Plan
    A layout is the list of a frame's header names, in order. A broker sends the headers of one subscription
    in one order, so a frame nearly always has the layout of the frame before it. Each layout in use becomes
    one regular expression. It recognises a head several times faster than a search for every name.

    A run is a sequence of frames of one layout. There are two ways to find one:

    - A sweep splits the bytes at each NUL that a head follows. It is one regular expression, without a step
      in Python for each frame. To a sweep a body ends at its first NUL, so it stops at a frame whose
      content-length says otherwise.
    - A walk matches one head after another and jumps over each body. It also finds bodies that contain NULs,
      and it is faster if bodies are long.

Invariants
    - A layout is learned only from a frame that the exact reader has accepted.
    - Each frame of a run has a head of the layout, and a NUL after its body. Nothing else is known of it: the
      scanner checks the heads of a run, and takes only the frames before the first head that is not plain.
    - A peer cannot make the caches grow without bound, nor have expressions compiled for every frame.

Tried and left, in November 2026
    - Match whole frames instead of the boundaries between them: 9 % slower.
    - Try a run of each layout at each frame: 18 us a frame if two layouts alternate. With a look at one head
      first it is 10 us.
    - Use layouts in the decoder too: it is faster than stomp.py's parser without them.
    - At most 64 names in a layout: with 80 headers, one header cost 2.6 times what it costs with 10.
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
"""Compiled layouts in the cache. A judgement, not measured."""
MAX_NAMES: Final = 128
"""Names in a layout. With 64 of them, and with 80 headers in each message, one header cost 2.6 times what it
cost with 10 (measured in November 2026)."""
MAX_CANDIDATES: Final = 64
"""Remembered layouts that were seen only once. A judgement, not measured."""
COMPILE_EVERY: Final = 256
"""Frames of unknown layout before a full cache compiles another one. Compiling takes 0.5 to 2.5 ms (measured
in November 2026), so it adds at most 10 us to each of these frames."""
ANY_NUMBER: Final = "*+" if sys.version_info >= (3, 11) else "*"
"""The quantifier for any number of times. From Python 3.11 on it is possessive: it never backtracks."""
_PLAIN_NAME: Final = re.compile(r"[!-9;-\[\]-~]{1,128}")
"""Printable ASCII without a colon or a backslash: no version escapes any of it."""

FIRST_RUN: Final = 16
"""Frames of the first run. A judgement, not measured: the length doubles from there."""
LONGEST_RUN: Final = 512
"""Frames of the longest run. A judgement, not measured: if a frame has 256 bytes or more, ``SWEEP_SIZE``
bounds a sweep first."""
SWEEP_SIZE: Final = 128 << 10
"""Bytes of the longest sweep. They should still be in the processor's cache when their heads are checked. A
judgement, not measured."""
MOST_NUMBERS: Final = 1024
"""Values of content-length in a ``Numbers`` cache. A judgement, not measured."""
SMALL: Final = 1024
"""Bytes of a frame up to which a sweep is tried. A sweep is faster for small frames, a walk for large ones. A
judgement: the size at which both take equal time was not measured."""
WALKS: Final = 16
"""Runs that are walked without a sweep, after a sweep found nothing and a walk then found frames: their
bodies contain NULs. A judgement. With it, frames with a NUL in the body took 6 % longer than others (measured
in November 2026)."""


class RunLayout(NamedTuple):
    """A layout and the expressions that find its frames.

    ``length_at``, ``ack_at``, ``id_at``, ``time_at`` and ``subscription_at`` are numbers of groups in
    ``head``: content-length, ack handle, stable id, the time that completes the id, and the subscription.
    None if the layout lacks that header.
    """

    names: tuple[str, ...]
    """The header names, in order."""
    head: re.Pattern[bytes]
    """Matches any EOLs and a head."""
    boundary: re.Pattern[bytes]
    """Matches the NUL of the frame before, then ``head`` as the first group. If no head follows the NUL, it
    matches all that is left."""
    length_at: int | None
    ack_at: int | None
    id_at: int | None
    time_at: int | None
    subscription_at: int | None


class LayoutCache:
    """The layouts in use, the most recently used first, each compiled by ``compile_layout``.

    A layout enters when it is seen for the second time. A peer that varies its headers cannot make us compile
    without bound: the cache is small, and once it is full, a new layout enters only after ``COMPILE_EVERY``
    frames of unknown layout.
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
    """Consecutive frames of one layout, one column for each collected value.

    ``heads`` include the EOLs before them. ``ends`` are offsets in the buffer's data, just after each NUL.
    ``acks``, ``ids``, ``times`` and ``subscriptions`` are values as on the wire; the column is empty if the
    layout lacks that header.
    """

    heads: Sequence[bytes]
    ends: list[int]
    acks: Sequence[bytes] = ()
    ids: Sequence[bytes] = ()
    times: Sequence[bytes] = ()
    subscriptions: Sequence[bytes] = ()


def compile_run(names: tuple[str, ...], collected: RawNames) -> RunLayout:
    """Compile the layout of MESSAGE frames with these header names.

    The expression accepts any value without LF, so the heads that it finds must still be checked for NUL, CR,
    escapes and character set. Only one header is checked here: content-length has 1 to 18 digits. If a name
    is repeated, its first line counts.

    Args:
        names: plain names (``_PLAIN_NAME``), which are the same on the wire.
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
    numbers = (None if at is None else group[at] for at in wanted)
    return RunLayout(names, re.compile(head), re.compile(boundary), *numbers)


class RunFinder:
    """Finds runs of frames, and adapts how many frames the next run may have.

    That number doubles while the scanner uses all frames of a run. If the scanner stops at a head that is not
    plain, the next run is only one frame longer than what was used, so that few are found in vain.
    """

    def __init__(self) -> None:
        self._length = FIRST_RUN  # frames in the next run
        self._size = SMALL  # mean bytes of a frame of the last run
        self._numbers = Numbers()
        self._walks = 0  # runs to be walked before the next sweep

    def find(self, layout: RunLayout, data: bytes, start: int, largest: int) -> Run:
        """The next run from ``start`` on, which may be empty. Its frames have at most ``largest`` bytes."""
        after_nul = start > 0 and not data[start - 1]
        swept = after_nul and self._size <= SMALL and not self._walks
        if swept:
            reach = min(self._length * self._size, SWEEP_SIZE, largest)
            run = sweep(layout, data, start, start + reach, self._numbers)
            if run.heads:
                return run
        # A sweep begins at the NUL before a frame. The first frame received may have none: only that frame is
        # walked then, because the next one has a NUL before it.
        run = walk(layout, data, start, self._length if after_nul else 1, largest)
        if run.heads:
            self._walks = WALKS if swept else max(0, self._walks - 1)
        return run

    def learn(self, run: Run, start: int, plain: int) -> None:
        """Adapt to ``run``, which began at ``start``, and of which the first ``plain`` frames were used."""
        found = len(run.heads)
        if found:
            self._size = (run.ends[-1] - start) // found
        if plain < found:
            self._length = plain + 1
        elif 2 * found >= self._length:
            self._length = min(2 * self._length, LONGEST_RUN)


def sweep(layout: RunLayout, data: bytes, start: int, stop: int, numbers: Numbers) -> Run:
    """The complete frames from ``start`` to ``stop``, up to the first whose body contains a NUL.

    A NUL must precede ``start``.
    """
    # From the NUL before ``start`` up to the last NUL, because no complete frame follows that one.
    stretch = memoryview(data)[start - 1 : data.rfind(b"\0", start - 1, stop)]
    # The first element precedes the first match, and is empty. Then come the groups and the body of each
    # match.
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
    at_groups = (layout.ack_at, layout.id_at, layout.time_at, layout.subscription_at)
    return Run(heads, ends, *([] if at is None else found[at + 1 :: width][: len(ends)] for at in at_groups))


class Numbers(dict[bytes, int]):
    """A bounded cache: content-length as on the wire -> bytes of the body with its NUL."""

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


def walk(layout: RunLayout, data: bytes, start: int, longest: int, largest: int) -> Run:
    """Up to ``longest`` complete frames from ``start`` on, each of at most ``largest`` bytes.

    Unlike a sweep it finds bodies that contain NULs.
    """
    match_head, length_at = layout.head.match, layout.length_at
    columns = (layout.ack_at, layout.id_at, layout.time_at, layout.subscription_at)
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
