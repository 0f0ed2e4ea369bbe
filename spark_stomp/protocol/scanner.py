"""Octets to blocks of raw MESSAGE frames: where each ends, what its ACK must name, and its stable id.

For the receiver, which keeps frames as they are and decodes none. Frames of one header layout are found many
at once (``layouts``), and their heads are checked together. ``FrameReader`` reads all that are not plain, so
scanner and decoder accept and refuse the same input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol.frames import HEARTBEAT, NEED_DATA, Frame, HeaderPairs, Limits, Signal
from spark_stomp.protocol.grammar import escape
from spark_stomp.protocol.layouts import (
    SUBSCRIPTION,
    LayoutCache,
    RunFinder,
    RunLayout,
    compile_run,
)
from spark_stomp.protocol.raw import BadFrame, MalformedMessage, RawNames, raw_values, read_malformed
from spark_stomp.protocol.reader import FrameReader, Span


@dataclass(slots=True)
class MessageBlock:
    """Consecutive complete MESSAGE frames as they were on the wire.

    ``data`` holds the frames and, between or before them, EOLs. The lists have one entry per frame.
    """

    data: bytes
    ends: list[int]
    """Offsets in ``data`` just after each frame's NUL; frame i is ``data[ends[i - 1]:ends[i]]``."""
    acks: list[bytes]
    """What an ACK must name, raw as on the wire: the ``ack`` header in 1.2 (leniency: ``message-id`` if a
    broker sends none), ``message-id`` before that; ``b""`` if it is missing."""
    ids: list[bytes | None]
    """The raw value of the stable id header; None if it is absent or none was asked for."""
    times: list[bytes | None] = field(default_factory=list)
    """The same of the header with the time that completes the id; no entries if none was asked for."""
    malformed: str | None = None
    """Why all of these frames are malformed; None if they are good."""

    @classmethod
    def of_malformed(cls, message: MalformedMessage) -> MessageBlock:
        """A malformed message as a block of its own."""
        data = message.data
        return cls(data, [len(data)], [message.ack], [message.id], [message.time], str(message.error))


@dataclass(slots=True)
class _BlockBuilder:
    """Builds a block of frames that lie one after another in ``source``."""

    source: bytes | bytearray = b""
    begin: int = 0
    ends: list[int] = field(default_factory=list)
    acks: list[bytes] = field(default_factory=list)
    ids: list[bytes | None] = field(default_factory=list)
    times: list[bytes | None] = field(default_factory=list)

    def extend(self, source: bytes | bytearray, begin: int, ends: list[int]) -> None:
        """Add frames of ``source``: the first begins at ``begin``, and each ends at one of ``ends``.

        Between them and earlier frames are only EOLs.
        """
        if not self.ends:
            self.source, self.begin = source, begin
        self.ends += ends

    def block(self) -> MessageBlock:
        begin, end = self.begin, self.ends[-1]
        if isinstance(self.source, bytes) and end - begin == len(self.source):
            data = self.source
        else:
            data = bytes(memoryview(self.source)[begin:end])
        ends = [end - begin for end in self.ends] if begin else self.ends
        return MessageBlock(data, ends, self.acks, self.ids, self.times)


class FrameScanner(FrameReader):
    """Finds MESSAGE frames in one direction of a STOMP connection without decoding them.

    Args:
        version: one of ``VERSIONS``.
        limits: what to refuse; ``Limits()`` by default.
        id_header: the header that holds the stable id, by its unescaped name.
        tolerant: a MESSAGE whose head is refused is a MalformedMessage if its end is known, not an error.
    """

    def __init__(
        self,
        version: str,
        limits: Limits | None = None,
        *,
        id_header: str | None = None,
        tolerant: bool = False,
    ) -> None:
        super().__init__(version, limits)
        self._tolerant = tolerant
        self._bad: BadFrame | None = None
        self._escaped = {char.encode() for char in self._grammar.unescapes} - {b"\\"}
        self._subscriptions: tuple[str, ...] = ()
        self._layouts: LayoutCache = LayoutCache(self._compile)
        self._runs = RunFinder()
        self.collect(id_header=id_header)

    def collect(
        self, *, id_header: str | None, ack_header: str | None = None, time_header: str | None = None
    ) -> None:
        """Collect stable ids, ack handles and times from these headers, from the next block on.

        ``ack_header`` None: from those that the version names.
        """
        # STOMP 1.2 "ACK": by ack. 1.1 and 1.0 "ACK": by message-id.
        own = (b"ack", b"message-id") if self.version == "1.2" else (b"message-id",)
        ack, stable, time = (
            None if name is None else escape(name, self.version).encode()
            for name in (ack_header, id_header, time_header)
        )
        self._collected = RawNames(own if ack is None else (ack,), stable, time)
        self._layouts.clear()

    def collect_from(self, subscription: str) -> None:
        """Collect MESSAGE frames of this subscription, and of others for which this was called.

        One that names another subscription then comes like a frame of another kind; one that names none is
        collected. Before the first call all are.
        """
        self._subscriptions += (subscription,)
        self._layouts.clear()

    def next_event(
        self,
    ) -> MessageBlock | MalformedMessage | Frame | Literal[Signal.HEARTBEAT, Signal.NEED_DATA]:
        """All MESSAGE frames up to the next other frame, or to the end of one read, as a block.

        Other frames come decoded, between the blocks, and so do malformed messages, as they are. HEARTBEAT is
        a run of EOLs outside a block; EOLs in a block or right after it are not reported.

        Raises:
            RemoteProtocolError: exactly when FrameDecoder would raise it (if ``tolerant``, only once it is
                certain that the end of a refused MESSAGE is unknown), after everything before it was
                returned; and again on every later call.
        """
        if self._stalled and self._still_stalled():
            return NEED_DATA
        self._raise_error()
        builder = _BlockBuilder()
        event = self._fill_block(builder)
        if builder.ends:
            return builder.block()
        self._raise_error()
        if isinstance(event, Span):
            return self._take_frame(event)
        if isinstance(event, int):
            return self._take_malformed(event)
        return event

    def _fill_block(self, builder: _BlockBuilder) -> Span | int | Literal[Signal.HEARTBEAT, Signal.NEED_DATA]:
        """Collect MESSAGE frames until something else comes; an error is remembered, not raised."""
        while not builder.ends or builder.source is self._buffer.data:
            if not self._searched:
                self._scan_runs(builder)
            try:
                event = self._read_span() if self._bad is None else self._bad_end(self._bad)
            except RemoteProtocolError as error:
                if not self._may_end(error):
                    self._fail(error)
                    return NEED_DATA
                continue
            if event is None:
                if not self._pull():
                    self._stalled = True
                    return NEED_DATA
            elif event is HEARTBEAT:
                if not builder.ends:
                    return HEARTBEAT
            elif isinstance(event, int):
                return event
            elif event.command == "MESSAGE" and self._collects(event.headers):
                self._take_message(event, builder)
            else:
                return event
        return NEED_DATA

    def _collects(self, headers: HeaderPairs) -> bool:
        """Whether a MESSAGE belongs to a subscription that is collected.

        A quicker path may have read its head and passed on no headers: it knows only heads that do. A lenient
        peer may not know ids, so what it says is not looked at.
        """
        if not self._subscriptions or self._grammar.lenient:
            return True
        named = next((value for name, value in headers if name == SUBSCRIPTION), None)
        return named is None or named in self._subscriptions

    # -- the exact path

    def _take_message(self, span: Span, builder: _BlockBuilder) -> None:
        buffer, grammar = self._buffer, self._grammar
        head = buffer.peek(0, span.body_start)
        builder.extend(buffer.data, buffer.start, [buffer.start + span.body_end + 1])
        self._consume(span.body_end + 1)
        values = raw_values(head, self._collected, grammar)
        builder.acks.append(values.ack)
        builder.ids.append(values.id)
        if self._collected.time is not None:
            builder.times.append(values.time)
        if span.headers and b"\r" not in head and not grammar.lenient:
            self._layouts.saw(span.headers)

    # -- malformed messages

    def _forget_progress(self) -> None:
        super()._forget_progress()
        self._bad = None

    def _may_end(self, error: RemoteProtocolError) -> bool:
        """Whether to search for the end of the frame that is refused with ``error``."""
        head = self._head
        if not self._tolerant or self._bad or head is None or head.complete or head.command != "MESSAGE":
            return False
        self._bad = BadFrame(head, error)
        return True

    def _bad_end(self, bad: BadFrame) -> int | None:
        """The offset of the refused frame's NUL; None if more data is needed. Raises if it is unknown."""
        if not bad.body:
            if not bad.find_body(self._buffer):
                return None
            self._enter_body("MESSAGE", bad.length, bad.body)
        assert self._head is not None
        try:
            span = self._read_body(self._head)
        except RemoteProtocolError:
            raise bad.error from None
        return None if span is None else span.body_end

    def _take_malformed(self, end: int) -> MalformedMessage | Frame:
        """The refused frame; if it belongs to a foreign subscription, what can be read of it."""
        assert self._bad is not None
        bad, data = self._bad, self._buffer.peek(0, end + 1)
        self._consume(end + 1)
        readable = read_malformed(data, self.version)
        if not self._collects(readable.headers):
            return Frame("MESSAGE", *readable)
        return bad.message(data, self._collected)

    # -- the quick path

    def _scan_runs(self, builder: _BlockBuilder) -> None:
        """Collect frames as long as the next one has a known layout."""
        found = True
        while found:
            found = any(self._scan_run(rank, builder) for rank in range(len(self._layouts.known)))
        self._scan_head()

    def _scan_head(self) -> None:
        """Read the next head if it is of a known layout and only its body is not complete."""
        data, limits = self._buffer.data, self._limits
        for layout in self._layouts.known:
            match = layout.head.match(data, self._buffer.start)
            if match is not None:
                head = match[0].lstrip(b"\n")
                length = None if layout.length_at is None else int(match[layout.length_at])
                size = len(head) + (length or 0)
                if self._count_plain([head]) and size < min(limits.max_frame, limits.max_body):
                    self._buffer.start = match.end() - len(head)
                    self._enter_body("MESSAGE", length, len(head))
                return

    def _scan_run(self, rank: int, builder: _BlockBuilder) -> bool:
        """Collect a run of the layout at ``rank``; False if the next frame is not a plain one of it."""
        data, start = self._buffer.data, self._buffer.start
        layout = self._layouts.known[rank]
        if not isinstance(data, bytes) or layout.head.match(data, start) is None:
            # A run that finds nothing costs far more than this look at one head.
            return False
        run = self._runs.find(layout, data, start, min(self._limits.max_frame, self._limits.max_body))
        count = self._count_plain(run.heads)
        self._runs.learn(run, start, count)
        if not count:
            return False
        builder.extend(data, start, run.ends[:count])
        builder.acks += [b""] * count if layout.ack_at is None else run.acks[:count]
        builder.ids += [None] * count if layout.id_at is None else run.ids[:count]
        if self._collected.time is not None:
            builder.times += [None] * count if layout.time_at is None else run.times[:count]
        self._buffer.start = run.ends[count - 1]
        self._layouts.used(rank)
        return True

    def _count_plain(self, heads: Sequence[bytes]) -> int:
        """How many heads are plain up to the first that is not; they are checked together first."""
        longest, together = self._limits.max_header_line, b"".join(heads)
        if self._is_plain(together) and (len(together) <= longest or max(map(len, heads)) <= longest):
            return len(heads)
        return next(
            count for count, head in enumerate(heads) if len(head) > longest or not self._is_plain(head)
        )

    def _is_plain(self, head: bytes) -> bool:
        """No NUL, no CR, only escapes that the version defines, valid UTF-8."""
        if b"\0" in head or b"\r" in head:
            return False
        if self._escaped and b"\\" in head and not self._escapes_are_known(head):
            return False
        if head.isascii():
            return True
        try:
            head.decode()
        except UnicodeDecodeError:
            return False
        return True

    def _escapes_are_known(self, head: bytes) -> bool:
        """Whether every backslash belongs to an escape that the version defines."""
        _, *after = head.split(b"\\")
        if b"" in after:
            # A pair of backslashes is one escape, from the left; each of the rest must begin another.
            _, *after = head.replace(b"\\\\", b"").split(b"\\")
        return {escaped[:1] for escaped in after} <= self._escaped

    def _compile(self, names: tuple[str, ...]) -> RunLayout:
        subscriptions = [escape(name, self.version) for name in self._subscriptions]
        return compile_run(names, self._collected, subscriptions)
