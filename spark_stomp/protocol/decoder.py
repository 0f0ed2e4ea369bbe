"""Octets to frames.

Frames whose header layout is known take the quick path: one regular expression over a window of the buffer
finds the lines of each, and checks that cost no loop prove that nothing in it needs a closer look. What a
window holds is read at once and given out event by event. Everything else is read by ``FrameReader``, which
alone decides what is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from spark_stomp.errors import FrameSyntaxError, RemoteProtocolError

from .frames import HEARTBEAT, NEED_DATA, Frame, Signal
from .grammar import Grammar, plain_text
from .layouts import LENGTH, Layout, LayoutBook
from .limits import Limits
from .reader import FrameReader, Span

__all__ = ["FrameDecoder"]

WINDOW: Final = 8192
"""Octets of the buffer held as text at a time; heads that do not fit take the exact path."""
SMALL_WINDOW: Final = 1024
"""The same where bodies are so large that a window holds one head only."""
_new_frame = tuple.__new__
"""Frame(...) at half its cost."""


class _QuickLayout(NamedTuple):
    match: Callable[[str, int], re.Match[str] | None]
    command: str
    names: tuple[str, ...]
    length_at: int | None


class FrameDecoder(FrameReader):
    """Decodes one direction of a STOMP connection, lazily: an event depends on nothing that comes behind it.

    Args:
        version: one of ``VERSIONS``.
        limits: what to refuse; ``Limits()`` by default.

    ``version`` and ``limits`` may be set at any time and hold from the next frame on.
    """

    def __init__(self, version: str, limits: Limits | None = None) -> None:
        super().__init__(version, limits)
        self._layouts: LayoutBook[_QuickLayout] = LayoutBook(_compile)
        self._window = ""
        self._window_at = 0
        self._window_of: bytes | bytearray = b""
        self._window_plain = True
        self._ready: list[Frame | Literal[Signal.HEARTBEAT]] = []  # read already, the next one last
        self._ready_ends: list[int] = []  # where each of them ended in the buffer's data, the first one first
        self._ready_start = 0
        self._frame_end = 0
        self._settings_changed()

    def _settings_changed(self) -> None:
        """A layout was learned from a frame that was fine under the settings of its time."""
        self._take_back()
        limits = self._limits
        self._layouts.clear()
        self._window_of = b""
        self._window_size = self._widest = min(WINDOW, limits.max_header_line)
        self._quick_size = min(limits.max_frame, limits.max_body)
        self._with_body = self._grammar.with_body

    def next_event(self) -> Frame | Literal[Signal.HEARTBEAT, Signal.NEED_DATA]:
        """The next frame; HEARTBEAT for each EOL between frames; NEED_DATA where nothing is complete.

        Raises:
            RemoteProtocolError: bad octets or a limit was reached, after every frame in front of it was
                returned; and again on every later call.
        """
        if self._ready:
            return self._ready.pop()
        if self._stalled and self._still_stalled():
            return NEED_DATA
        while True:
            if not self._searched and self._layouts.known and self._read_ahead():
                return self._ready.pop()
            exact = self._exact_event()
            if exact is not None:
                return exact
            if not self._pull():
                self._stalled = True
                return NEED_DATA

    def take_buffer(self) -> bytes:
        self._take_back()
        return super().take_buffer()

    def _take_back(self) -> None:
        """Go back to the first octet that no event was given for."""
        if self._ready:
            given = len(self._ready_ends) - len(self._ready)
            self._ready.clear()
            self._buffer.start = self._ready_ends[given - 1] if given else self._ready_start

    def _exact_event(self) -> Frame | Literal[Signal.HEARTBEAT] | None:
        self._raise_error()
        try:
            event = self._read_span()
        except RemoteProtocolError as error:
            self._fail(error)
            raise
        if not isinstance(event, Span):
            return event
        body = self._buffer.peek(event.body_start, event.body_end)
        plain = not self._grammar.lenient and b"\r" not in self._buffer.peek(0, event.body_start)
        self._consume(event.body_end + 1)
        if plain:
            self._layouts.saw(event.command, event.headers)
        return Frame(event.command, event.headers, body)

    # -- the quick path

    def _read_ahead(self) -> bool:
        """Read what begins in the window; False where the exact path must say what comes next."""
        buffer = self._buffer
        if buffer.data is not self._window_of:
            self._move_window(self._window_size)
        elif not 0 <= buffer.start - self._window_at < len(self._window):
            # Bodies that jump over a whole window say that a small one costs less. (And octets in pieces may
            # come again as the very same object.)
            self._move_window(min(SMALL_WINDOW, self._widest))
        ready: list[Frame | Literal[Signal.HEARTBEAT]] = []
        ends: list[int] = []
        self._read_window(ready, ends)
        if not ready:
            return False
        ready.reverse()
        self._ready, self._ready_ends, self._ready_start = ready, ends, buffer.start
        buffer.start = ends[-1]
        return True

    def _read_window(self, ready: list[Frame | Literal[Signal.HEARTBEAT]], ends: list[int]) -> None:
        """Collect frames of known layouts, and EOLs, with their ends, until something else comes."""
        known = self._layouts.known
        place = self._buffer.start - self._window_at
        while place < len(self._window):
            if self._window[place] == "\n":
                ready.append(HEARTBEAT)
                place += 1
                ends.append(self._window_at + place)
                continue
            match = known[0].match(self._window, place) or self._match_other(place)
            if match is not None:
                frame = self._quick_frame(known[0], match)
                if frame is None:
                    return
                ready.append(frame)
                ends.append(self._frame_end)
                place = self._frame_end - self._window_at
            elif ready or not self._head_goes_on(place):
                return
            else:
                self._move_window(self._widest)
                place = 0

    def _match_other(self, place: int) -> re.Match[str] | None:
        """The head at ``place``, if it is of another layout than the one used last; that comes to the front."""
        for rank, layout in enumerate(self._layouts.known):
            match = layout.match(self._window, place)
            if match is not None:
                self._layouts.used(rank)
                return match
        return None

    def _head_goes_on(self, place: int) -> bool:
        """Whether the head at ``place`` may reach behind the window, and a wider or later one shows more."""
        size = len(self._window)
        if self._window_at + size >= len(self._window_of):
            return False
        return place > size // 2 or size < self._widest

    def _move_window(self, size: int) -> None:
        buffer = self._buffer
        self._window_size = size
        self._window_of = buffer.data
        self._window_at = buffer.start
        self._window = window = buffer.data[buffer.start : buffer.start + size].decode("latin-1")
        self._window_plain = window.isascii() and "\\" not in window and "\r" not in window

    def _quick_frame(self, layout: _QuickLayout, match: re.Match[str]) -> Frame | None:
        """The frame whose head matched; None where it is not all here, or not plainly fine."""
        _, command, names, length_at = layout
        data, start = self._buffer.data, self._window_at + match.start()
        values = match.groups()
        body = self._window_at + match.end()
        length = None if length_at is None else int(values[length_at])
        end = data.find(b"\0", body) if length is None else body + length
        if end - start >= self._quick_size or (end > body and command not in self._with_body):
            return None
        if "\0" in match[0]:
            return None
        if not self._window_plain:
            try:
                values = _proper_values(match[0], values, command, self._grammar)
            except (FrameSyntaxError, UnicodeDecodeError):
                return None
        headers = tuple(zip(names, values))  # noqa: B905 - as many groups as names, by construction
        if not 0 <= end < len(data):
            if start == self._buffer.start:
                self._enter_body(command, headers, length, body - start)
            return None
        if data[end]:
            return None
        self._frame_end = end + 1
        return _new_frame(Frame, (command, headers, bytes(data[body:end])))


def _proper_values(head: str, values: tuple[str, ...], command: str, grammar: Grammar) -> tuple[str, ...]:
    """Header values decoded and unescaped, from octets that were read as Latin-1.

    Raises FrameSyntaxError or UnicodeDecodeError where the exact path has to look.
    """
    if "\r" in head:
        raise FrameSyntaxError("a CR in a header")
    if not head.isascii():
        values = tuple([value if value.isascii() else value.encode("latin-1").decode() for value in values])
    if "\\" in head and command not in grammar.raw:
        values = tuple([plain_text(value, grammar) if "\\" in value else value for value in values])
    return values


def _compile(layout: Layout) -> _QuickLayout:
    everything = frozenset(range(len(layout.names)))
    pattern = re.compile(layout.pattern(everything))
    return _QuickLayout(pattern.match, layout.command, layout.names, layout.place(LENGTH))
