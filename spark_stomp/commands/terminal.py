"""Output to a terminal: its size, colours, and a screen that is drawn repeatedly.

This uses only ANSI escapes that every terminal of today knows. A stream that is not a terminal gets plain
text. No text in a line can control the terminal, whoever wrote it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO, TypeAlias

from spark_stomp.quoting import line as printable

Span: TypeAlias = "tuple[str, str]"
"""A piece of a line, and its colour: a name in COLOURS, or "" for none."""

Line: TypeAlias = "Sequence[Span]"

COLOURS: Final = {"good": "32", "bad": "31", "warn": "33", "dim": "2", "strong": "1"}
_OTHER_SCREEN, _FIRST_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
# Columns and lines if the stream is not a terminal.
_SIZE: Final = (100, 40)
# Seconds over which a rate is measured. The mean since the start says little: a run of 5,123 rows a second
# showed 97 for its first batch, before which Spark starts its workers (November 2026).
_RATE_SECONDS: Final = 15.0
CUT: Final = "…"


class Terminal:
    """Writes lines to ``stream``, in colour if it is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.interactive = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        # https://no-color.org
        self._coloured = self.interactive and not os.environ.get("NO_COLOR")

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines. A stream that is not a terminal counts as 100 by 40."""
        try:
            columns, lines = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return _SIZE
        # A terminal that does not know its size reports 0.
        return columns or _SIZE[0], lines or _SIZE[1]

    def write(self, lines: Sequence[Line]) -> None:
        """Write the lines, one below the other."""
        self._put("".join(self._text(_printable(line)) + "\n" for line in lines))

    @contextmanager
    def screen(self) -> Iterator[None]:
        """Show a separate screen for :meth:`draw`. At the end the terminal shows what was there before."""
        self._put(_OTHER_SCREEN)
        try:
            yield
        finally:
            self._put(_FIRST_SCREEN)

    def draw(self, lines: Sequence[Line]) -> None:
        """Replace what the screen shows with these lines. What does not fit is cut off."""
        columns, rows = self.size
        shown = [self._text(fitted(line, columns)) + _CLEAR_LINE for line in lines[:rows]]
        self._put(_HOME + "\r\n".join(shown) + _CLEAR_BELOW)

    def _text(self, line: Line) -> str:
        return "".join(self._painted(text, colour) for text, colour in line)

    def _painted(self, text: str, colour: str) -> str:
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if colour and self._coloured else text

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Rate:
    """How fast a count grows, over the last 15 seconds. It grows batch by batch, so less time says little."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def of(self, count: int, now: float) -> float | None:
        """The growth a second, up to ``now`` (monotonic seconds); None if it is too early to say."""
        self._seen.append((now, count))
        while now - self._seen[0][0] > _RATE_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        return (count - before) / (now - then) if now - then >= 1 else None


def fitted(line: Line, columns: int) -> list[Span]:
    """The line, cut to ``columns``. A line that was cut ends with an ellipsis."""
    line = _printable(line)
    if sum(len(text) for text, _ in line) <= columns:
        return line
    kept: list[Span] = []
    room = max(0, columns - len(CUT))
    for text, colour in line:
        kept.append((text[:room], colour))
        room -= len(kept[-1][0])
    return [*kept, (CUT, "dim")]


def _printable(line: Line) -> list[Span]:
    return [(printable(text), colour) for text, colour in line]


def duration(seconds: float) -> str:
    """A duration for people, in one or two units."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    for unit, size, part, least in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} {int(seconds % size // least)} {part}"
    return f"{int(seconds)} s"


def size(number: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.1f} {unit}" if unit != "B" else f"{int(number)} B"
        number /= 1000
    return f"{number:.1f} TB"
