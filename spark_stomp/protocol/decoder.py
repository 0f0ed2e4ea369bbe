"""Octets to frames.

A frame whose header layout is known takes the quick path: one regular expression over a window of the buffer
finds its lines, and checks that cost no loop prove that nothing in it needs a closer look. Everything else is
read by ``FrameReader``, which alone decides what is refused.
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
    """Decodes one direction of a STOMP connection, lazily: nothing is looked at before it is asked for.

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
        self._settings_changed()

    def _settings_changed(self) -> None:
        """A layout was learned from a frame that was fine under the settings of its time."""
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
        if self._stalled and self._still_stalled():
            return NEED_DATA
        while True:
            if not self._searched:
                quick = self._quick_event()
                if quick is not None:
                    return quick
            exact = self._exact_event()
            if exact is not None:
                return exact
            if not self._pull():
                self._stalled = True
                return NEED_DATA

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

    def _quick_event(self) -> Frame | Literal[Signal.HEARTBEAT] | None:
        """A frame of a known layout, or an EOL; None where the exact path must say what comes next."""
        buffer, known = self._buffer, self._layouts.known
        if not known:
            return None
        if buffer.data is not self._window_of:
            self._move_window(self._window_size)
        elif buffer.start - self._window_at >= len(self._window):
            # Bodies that jump over a whole window say that a small one costs less.
            self._move_window(min(SMALL_WINDOW, self._widest))
        while True:
            window, place = self._window, buffer.start - self._window_at
            for rank, layout in enumerate(known):
                match = layout.match(window, place)
                if match is not None:
                    if rank:
                        self._layouts.used(rank)
                    return self._quick_frame(layout, match)
            if window[place : place + 1] == "\n":
                buffer.start += 1
                return HEARTBEAT
            if not self._head_goes_on(place):
                return None
            self._move_window(self._widest)

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
        buffer = self._buffer
        data, start = buffer.data, buffer.start
        values = match.groups()
        body = self._window_at + match.end()
        if length_at is None:
            length = None
            end = data.find(b"\0", body)
        else:
            length = int(values[length_at])
            end = body + length
        if end - start >= self._quick_size or "\0" in match[0] or (length and command not in self._with_body):
            return None
        if not self._window_plain:
            try:
                values = _proper_values(match[0], values, command, self._grammar)
            except (FrameSyntaxError, UnicodeDecodeError):
                return None
        headers = tuple(zip(names, values))  # noqa: B905 - as many groups as names, by construction
        if not 0 <= end < len(data):
            self._enter_body(command, headers, length, body - start)
            return None
        if data[end] or (end > body and command not in self._with_body):
            return None
        buffer.start = end + 1
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
