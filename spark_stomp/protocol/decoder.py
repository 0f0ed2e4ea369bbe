"""Octets to frames.

Frames whose header layout is known take the quick path: one regular expression over a window of the buffer
finds the lines of a frame, and checks that cost no loop prove that nothing in it needs a closer look. Small
frames that lie whole in the window are swept up by a single ``findall`` and given out one by one. Everything
else is read by ``FrameReader``, which alone decides what is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from spark_stomp.errors import FrameSyntaxError, RemoteProtocolError
from spark_stomp.protocol.frames import HEARTBEAT, NEED_DATA, Frame, Limits, Signal
from spark_stomp.protocol.grammar import Grammar, plain_text
from spark_stomp.protocol.layouts import LENGTH, Layout, LayoutCache
from spark_stomp.protocol.reader import FrameReader, Span

__all__ = ["FrameDecoder"]

WINDOW: Final = 8192
"""Octets of the buffer held as text at a time; heads that do not fit take the exact path."""
SMALL_WINDOW: Final = 1024
"""The same where bodies are so large that a window holds one head only."""
LEAST_REACH: Final = 256
"""Octets that are swept however often that was in vain."""
PAUSE: Final = 16
"""Frames that are read singly after a sweep found a body with a NUL, or another oddity, in front."""
_new_frame = tuple.__new__
"""Frame(...) at half its cost."""

_Event: TypeAlias = Frame | Literal[Signal.HEARTBEAT]


class _QuickLayout(NamedTuple):
    match: Callable[[str, int], re.Match[str] | None]
    sweep: Callable[[str, int, int], list[tuple[str, ...]]]
    """For each frame the headers' values, the body, the EOLs behind its NUL, and nothing; in the end, with
    nothing else, the octets that are no such frame."""
    command: str
    names: tuple[str, ...]
    length_at: int | None
    size: int
    """Octets of a frame beside what the groups hold."""


class FrameDecoder(FrameReader):
    """Decodes one direction of a STOMP connection, lazily: no event depends on what comes behind it.

    Args:
        version: one of ``VERSIONS``.
        limits: what to refuse; ``Limits()`` by default.

    ``version`` and ``limits`` may be set at any time and hold from the next frame on.
    """

    def __init__(self, version: str, limits: Limits | None = None) -> None:
        super().__init__(version, limits)
        self._layouts: LayoutCache[_QuickLayout] = LayoutCache(self._compile)
        self._window = ""
        self._window_at = 0
        self._window_of: bytes | bytearray = b""
        self._window_plain = True
        self._ready: list[_Event] = []  # swept up and not given out, the next one last
        self._pause = 0  # frames to be read singly before the next sweep
        self._swept: list[tuple[str, ...]] = []  # what they were made of: the octets in front of buffer.start
        self._settings_changed()

    def _settings_changed(self) -> None:
        """A layout was learned from a frame that was fine under the settings of its time."""
        self._take_back()
        limits = self._limits
        self._layouts.clear()
        self._window_of = b""
        self._window_size = self._widest = min(WINDOW, limits.max_header_line)
        self._quick_size = min(limits.max_frame, limits.max_body)
        self._reach = min(WINDOW, self._quick_size)
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
            if not self._searched and self._layouts.known:
                quick = self._quick_event()
                if quick is not None:
                    return quick
            exact = self._exact_event()
            if exact is not None:
                return exact
            if not self._pull():
                self._stalled = True
                return NEED_DATA

    def take_buffer(self) -> bytes:
        self._take_back()
        return super().take_buffer()

    def _exact_event(self) -> _Event | None:
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

    def _quick_event(self) -> _Event | None:
        """A frame of a known layout, or an EOL; None where the exact path must say what comes next."""
        buffer, known = self._buffer, self._layouts.known
        if buffer.data is not self._window_of or not 0 <= buffer.start - self._window_at < len(self._window):
            self._place_window()
        while True:
            window, place = self._window, buffer.start - self._window_at
            if window.startswith("\n", place):
                buffer.start += 1
                return HEARTBEAT
            # Within so many octets no frame is too large, and behind the last NUL none is complete.
            stop = window.rfind("\0", place, place + self._reach) + 1
            if not stop:
                self._reach_further()
            elif self._pause:
                self._pause -= 1
            elif self._sweep(place, stop):
                return self._ready.pop()
            if stop or not self._is_late(place):
                match = known[0].match(window, place) or self._match_other(place)
                if match is not None:
                    return self._quick_frame(known[0], match)
                if len(window) == self._widest and not self._is_late(place):
                    return None
            if not self._more_behind():
                return None
            self._move_window(self._widest)

    def _match_other(self, place: int) -> re.Match[str] | None:
        """The head at ``place`` if its layout is another than the one used last; that comes to the front."""
        for rank, layout in enumerate(self._layouts.known[1:], start=1):
            match = layout.match(self._window, place)
            if match is not None:
                self._layouts.used(rank)
                return match
        return None

    def _sweep(self, place: int, stop: int) -> bool:
        """Read those frames in front that are of the layout used last, small and plainly fine."""
        window, layout = self._window, self._layouts.known[0]
        stop += window.startswith("\n", stop)
        found = layout.sweep(window, place, stop)
        if rest := found[-1][-1]:
            found.pop()
            stop -= len(rest)
        # Bodies hold no NUL here, so that one too many stands in a head.
        plain = window.count("\0", place, stop) == len(found)
        count = self._take_swept(layout, found) if plain else 0
        if count < len(found):
            self._pause = 0 if count else PAUSE
            del found[count:]
            stop = place + sum([_octets(layout, groups) for groups in found])
            # What is found in vain stays in proportion to what is not.
            self._reach = min(max(stop - place, LEAST_REACH), self._quick_size)
        else:
            self._reach_further()
        self._swept = found
        self._buffer.start = self._window_at + stop
        return count > 0

    def _take_swept(self, layout: _QuickLayout, found: list[tuple[str, ...]]) -> int:
        """Have the frames that were found ready, up to the first that needs a closer look; how many are."""
        command, names, length_at = layout.command, layout.names, layout.length_at
        ready, width = self._ready, len(layout.names)
        count = 0
        for groups in found:
            body, eols = groups[width], groups[width + 1]
            if length_at is not None and int(groups[length_at]) != len(body):
                break
            values = groups
            if not self._window_plain:
                try:
                    values = _proper_values(groups[:width], command, self._grammar)
                except (FrameSyntaxError, UnicodeDecodeError):
                    break
            headers = tuple(zip(names, values))  # noqa: B905 - the names come first, and are fewer
            ready.append(_new_frame(Frame, (command, headers, body.encode("latin-1"))))
            if eols:
                ready += [HEARTBEAT] * len(eols)
            count += 1
        ready.reverse()
        return count

    def _take_back(self) -> None:
        """Go back to the first octet that no event was given for. The layout used last is still in front."""
        left, place = len(self._ready), self._buffer.start
        self._ready.clear()
        while left:
            groups = self._swept.pop()
            beats = len(groups[-2])
            if left <= beats:
                place -= left
                break
            place -= _octets(self._layouts.known[0], groups)
            left -= 1 + beats
        self._buffer.start = place

    def _reach_further(self) -> None:
        self._reach = min(2 * self._reach, WINDOW, self._quick_size)

    def _more_behind(self) -> bool:
        """Whether the window ends before the data does."""
        return self._window_at + len(self._window) < len(self._window_of)

    def _is_late(self, place: int) -> bool:
        """Whether a window that begins at ``place`` would show much more."""
        return place > len(self._window) // 2 and self._more_behind()

    def _place_window(self) -> None:
        """Have the window show what comes next."""
        buffer = self._buffer
        # A body that jumps far over a window says that a small one costs less. (The place may also lie in
        # front of the window: single octets come again as the very same object.)
        jumped = buffer.start - self._window_at >= len(self._window) + SMALL_WINDOW
        small = jumped and buffer.data is self._window_of
        self._move_window(min(SMALL_WINDOW, self._widest) if small else self._window_size)

    def _move_window(self, size: int) -> None:
        buffer = self._buffer
        self._window_size = size
        self._window_of = buffer.data
        self._window_at = buffer.start
        self._window = window = buffer.data[buffer.start : buffer.start + size].decode("latin-1")
        self._window_plain = window.isascii() and "\\" not in window and "\r" not in window

    def _quick_frame(self, layout: _QuickLayout, match: re.Match[str]) -> Frame | None:
        """The frame whose head matched; None where it is not all here, or not plainly fine."""
        command, names, length_at = layout.command, layout.names, layout.length_at
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
                values = _proper_values(values, command, self._grammar)
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

    def _compile(self, layout: Layout) -> _QuickLayout:
        head = layout.pattern(frozenset(range(len(layout.names))))
        body = r"([^\0]*)" if layout.command in self._grammar.with_body else "()"
        # The second branch takes all that is left where a frame does not match, so that none behind it does.
        sweep = re.compile(rf"{head}{body}\0(\n*)|((?s:.+))").findall
        size = len(layout.command) + sum([len(name) + 2 for name in layout.names]) + 3
        match, length_at = re.compile(head).match, layout.place(LENGTH)
        return _QuickLayout(match, sweep, layout.command, layout.names, length_at, size)


def _octets(layout: _QuickLayout, groups: tuple[str, ...]) -> int:
    """How many octets a swept frame has, the EOLs behind it included."""
    return layout.size + sum(map(len, groups))


def _proper_values(values: tuple[str, ...], command: str, grammar: Grammar) -> tuple[str, ...]:
    """Header values decoded and unescaped, from octets that were read as Latin-1.

    Raises FrameSyntaxError or UnicodeDecodeError where the exact path has to look.
    """
    text = "".join(values)
    if "\r" in text:
        raise FrameSyntaxError("a CR in a header")
    if not text.isascii():
        values = tuple([value if value.isascii() else value.encode("latin-1").decode() for value in values])
    if "\\" in text and command not in grammar.raw:
        values = tuple([plain_text(value, grammar) if "\\" in value else value for value in values])
    return values
