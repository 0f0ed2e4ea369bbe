"""Octets to frames.

Frames with a known header layout take the quick path. A part of the buffer is held as text, one regular
expression finds the lines of a frame in it, and checks without a loop prove that the frame is plain. Small
frames that are complete in the text are found by a single ``findall``, a sweep, and returned one by one.
Everything else is read by ``FrameReader``, which alone decides what is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from spark_stomp.errors import FrameSyntaxError, RemoteProtocolError
from spark_stomp.protocol.frames import HEARTBEAT, NEED_DATA, Frame, Limits, Signal
from spark_stomp.protocol.grammar import Grammar, unescape_text
from spark_stomp.protocol.layouts import LENGTH, Layout, LayoutCache
from spark_stomp.protocol.reader import LFS, FrameReader, Span, run_end

TEXT_SIZE: Final = 8192
"""Octets of the buffer held as text at a time. Heads that do not fit take the exact path."""
SMALL_TEXT: Final = 1024
"""The same if bodies are so large that the text holds only one head."""
LEAST_REACH: Final = 256
"""A sweep covers at least so many octets, whatever earlier sweeps found."""
PAUSE: Final = 16
"""After a sweep could not use its first frame (a NUL in the body, for example), so many are read singly."""
_new_frame = tuple.__new__
"""Frame(...) at half its cost."""

_Event: TypeAlias = Frame | Literal[Signal.HEARTBEAT]


class _QuickLayout(NamedTuple):
    match: Callable[[str, int], re.Match[str] | None]
    sweep: Callable[[str, int, int], list[tuple[str, ...]]]
    """Returns one tuple per frame: header values, body, the EOLs after its NUL, and "". If a rest does not
    match, it is the last part of one more tuple, whose other parts are empty."""
    command: str
    names: tuple[str, ...]
    length_at: int | None
    size: int
    """Octets of a frame outside its groups."""


class FrameDecoder(FrameReader):
    """Decodes one direction of a STOMP connection, lazily: no event depends on what follows it.

    Args:
        version: one of ``VERSIONS``.
        limits: what to refuse; ``Limits()`` by default.

    ``version`` and ``limits`` may be set at any time and hold from the next frame on.
    """

    def __init__(self, version: str, limits: Limits | None = None) -> None:
        super().__init__(version, limits)
        self._layouts: LayoutCache[_QuickLayout] = LayoutCache(self._compile)
        self._text = ""
        self._text_at = 0
        self._text_source: bytes | bytearray = b""
        self._text_is_plain = True
        self._ready: list[_Event] = []  # swept up and not returned yet, the next one last
        self._pause = 0  # frames to be read singly before the next sweep
        self._swept: list[tuple[str, ...]] = []  # what they were made of: the octets before buffer.start
        self._settings_changed()

    def _settings_changed(self) -> None:
        """Forget the layouts: their frames were accepted under the old settings."""
        self._take_back()
        limits = self._limits
        self._layouts.clear()
        self._text_source = b""
        self._text_size = self._largest_text = min(TEXT_SIZE, limits.max_header_line)
        self._quick_size = min(limits.max_frame, limits.max_body)
        self._reach = min(TEXT_SIZE, self._quick_size)
        self._with_body = self._grammar.with_body

    def next_event(self) -> Frame | Literal[Signal.HEARTBEAT, Signal.NEED_DATA]:
        """The next frame; HEARTBEAT for EOLs between frames; NEED_DATA if nothing is complete.

        A run of EOLs is one HEARTBEAT, or a few if it came in pieces.

        Raises:
            RemoteProtocolError: bad octets, or a limit was reached. Raised after all frames before it were
                returned, and again on every later call.
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
        """A frame of a known layout, or an EOL; None if the exact path must read what comes next."""
        buffer, known = self._buffer, self._layouts.known
        if buffer.data is not self._text_source or not 0 <= buffer.start - self._text_at < len(self._text):
            self._load_text()
        while True:
            text, at = self._text, buffer.start - self._text_at
            if text.startswith("\n", at):
                buffer.start = run_end(LFS, buffer.data, buffer.start)
                return HEARTBEAT
            # No frame within the reach is too large, and none is complete after its last NUL.
            stop = text.rfind("\0", at, at + self._reach) + 1
            if not stop:
                self._reach_further()
            elif self._pause:
                self._pause -= 1
            elif self._sweep(at, stop):
                return self._ready.pop()
            if stop or not self._is_late(at):
                match = known[0].match(text, at) or self._match_other(at)
                if match is not None:
                    return self._quick_frame(known[0], match)
                if len(text) == self._largest_text and not self._is_late(at):
                    return None
            if not self._more_follows():
                return None
            self._decode_text(self._largest_text)

    def _match_other(self, at: int) -> re.Match[str] | None:
        """Match the head at ``at`` with the other layouts; the one that fits comes to the front."""
        for rank, layout in enumerate(self._layouts.known[1:], start=1):
            match = layout.match(self._text, at)
            if match is not None:
                self._layouts.used(rank)
                return match
        return None

    def _sweep(self, at: int, stop: int) -> bool:
        """Read the next frames as long as they are small, plain and of the layout used last."""
        text, layout = self._text, self._layouts.known[0]
        stop += text.startswith("\n", stop)
        found = layout.sweep(text, at, stop)
        if rest := found[-1][-1]:
            found.pop()
            stop -= len(rest)
        # Bodies hold no NUL here, so a further NUL must be in a head.
        plain = text.count("\0", at, stop) == len(found)
        count = self._take_swept(layout, found) if plain else 0
        if count < len(found):
            self._pause = 0 if count else PAUSE
            del found[count:]
            stop = at + sum([_octets(layout, groups) for groups in found])
            # So frames swept in vain stay in proportion to frames used.
            self._reach = min(max(stop - at, LEAST_REACH), self._quick_size)
        else:
            self._reach_further()
        self._swept = found
        self._buffer.start = self._text_at + stop
        return count > 0

    def _take_swept(self, layout: _QuickLayout, found: list[tuple[str, ...]]) -> int:
        """Make events of the frames found, up to the first that needs the exact path; returns how many."""
        command, names, length_at = layout.command, layout.names, layout.length_at
        ready, width = self._ready, len(layout.names)
        count = 0
        for groups in found:
            body, eols = groups[width], groups[width + 1]
            if length_at is not None and int(groups[length_at]) != len(body):
                break
            values = groups
            if not self._text_is_plain:
                try:
                    values = _proper_values(groups[:width], command, self._grammar)
                except (FrameSyntaxError, UnicodeDecodeError):
                    break
            headers = tuple(zip(names, values))  # noqa: B905 - the names come first, and are fewer
            ready.append(_new_frame(Frame, (command, headers, body.encode("latin-1"))))
            if eols:
                ready.append(HEARTBEAT)
            count += 1
        ready.reverse()
        return count

    def _take_back(self) -> None:
        """Go back to the octets of the events in ``_ready``. The layout used last is still at the front."""
        left, at = len(self._ready), self._buffer.start
        self._ready.clear()
        while left:
            groups = self._swept.pop()
            eols = len(groups[-2])
            if eols and left == 1:
                at -= eols
                break
            at -= _octets(self._layouts.known[0], groups)
            left -= 1 + bool(eols)
        self._buffer.start = at

    def _reach_further(self) -> None:
        self._reach = min(2 * self._reach, TEXT_SIZE, self._quick_size)

    def _more_follows(self) -> bool:
        """Whether the data goes on after the text."""
        return self._text_at + len(self._text) < len(self._text_source)

    def _is_late(self, at: int) -> bool:
        """Whether a text that begins at ``at`` would hold much more of the data."""
        return at > len(self._text) // 2 and self._more_follows()

    def _load_text(self) -> None:
        """Make the text begin at the next octet to read."""
        buffer = self._buffer
        # If a body ends far after the text, a small text costs less. (``start`` may also be before the text:
        # Python reuses one object for equal single octets.)
        jumped = buffer.start - self._text_at >= len(self._text) + SMALL_TEXT
        small = jumped and buffer.data is self._text_source
        self._decode_text(min(SMALL_TEXT, self._largest_text) if small else self._text_size)

    def _decode_text(self, size: int) -> None:
        buffer = self._buffer
        self._text_size = size
        self._text_source = buffer.data
        self._text_at = buffer.start
        self._text = text = buffer.data[buffer.start : buffer.start + size].decode("latin-1")
        self._text_is_plain = text.isascii() and "\\" not in text and "\r" not in text

    def _quick_frame(self, layout: _QuickLayout, match: re.Match[str]) -> Frame | None:
        """The frame whose head matched; None if it is not complete, or not plain."""
        command, names, length_at = layout.command, layout.names, layout.length_at
        buffer = self._buffer
        data, start = buffer.data, buffer.start
        values = match.groups()
        body = self._text_at + match.end()
        if length_at is None:
            length = None
            end = data.find(b"\0", body)
        else:
            length = int(values[length_at])
            end = body + length
        if end - start >= self._quick_size or "\0" in match[0] or (length and command not in self._with_body):
            return None
        if not self._text_is_plain:
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
        # If a frame does not match, the second branch takes the whole rest, so no later frame matches.
        sweep = re.compile(rf"{head}{body}\0(\n*)|((?s:.+))").findall
        size = len(layout.command) + sum([len(name) + 2 for name in layout.names]) + 3
        match, length_at = re.compile(head).match, layout.position(LENGTH)
        return _QuickLayout(match, sweep, layout.command, layout.names, length_at, size)


def _octets(layout: _QuickLayout, groups: tuple[str, ...]) -> int:
    """How many octets a swept frame has, including the EOLs after it."""
    return layout.size + sum(map(len, groups))


def _proper_values(values: tuple[str, ...], command: str, grammar: Grammar) -> tuple[str, ...]:
    """Header values decoded and unescaped, from octets that were read as Latin-1.

    Raises FrameSyntaxError or UnicodeDecodeError if the exact path has to read them.
    """
    text = "".join(values)
    if "\r" in text:
        raise FrameSyntaxError("a CR in a header")
    if not text.isascii():
        values = tuple([value if value.isascii() else value.encode("latin-1").decode() for value in values])
    if "\\" in text and command not in grammar.raw:
        values = tuple([unescape_text(value, grammar) if "\\" in value else value for value in values])
    return values
