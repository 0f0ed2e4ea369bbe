"""For the tests of the codec: all that a decoder or a scanner has to say about some pieces of input."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from spark_stomp.errors import ProtocolError
from spark_stomp.protocol import (
    HEARTBEAT,
    NEED_DATA,
    Frame,
    FrameDecoder,
    FrameScanner,
    Limits,
    MalformedMessage,
    MessageBlock,
)
from spark_stomp.protocol.raw import parted


class Outcome(NamedTuple):
    """Frames in order, how many gaps between them have EOLs, and the class of the error at the end, if any.

    How many events the EOLs of a gap make depends on the pieces in which they come.
    """

    frames: list[Any]
    beats: int
    error: type[ProtocolError] | None


Raw = tuple[bytes, bytes, bytes | None]
"""A raw frame, its handle and its stable id."""


class Scanned(NamedTuple):
    """Frames and raw frames in order, malformed messages as bytes, and the class of the error, if any."""

    events: list[Frame | Raw | bytes]
    error: type[ProtocolError] | None


def decode(version: str, pieces: Iterable[bytes], limits: Limits | None = None) -> Outcome:
    """All events of a fresh decoder that is fed the pieces, asked after each."""
    decoder = FrameDecoder(version, limits or Limits())
    frames: list[Frame] = []
    gaps: set[int] = set()
    for piece in pieces:
        decoder.receive_data(piece)
        try:
            while (event := decoder.next_event()) is not NEED_DATA:
                if event is HEARTBEAT:
                    gaps.add(len(frames))
                else:
                    frames.append(event)
        except ProtocolError as error:
            return Outcome(frames, len(gaps), type(error))
    return Outcome(frames, len(gaps), None)


def scan(
    version: str,
    pieces: Iterable[bytes],
    limits: Limits | None = None,
    *,
    id_header: str | None = None,
    tolerant: bool = False,
) -> Scanned:
    """All events of a fresh scanner that is fed the pieces, asked after each; every block is checked."""
    scanner = FrameScanner(version, limits, tolerant=tolerant)
    scanner.collect(id_header=id_header)
    events: list[Frame | Raw | bytes] = []
    for piece in pieces:
        scanner.receive_data(piece)
        try:
            while (event := scanner.next_event()) is not NEED_DATA:
                if isinstance(event, MessageBlock):
                    assert event.ends and event.ends[-1] == len(event.data)
                    spans = [event.data[start:end] for start, end in pairwise([0, *event.ends])]
                    heads = b"".join(parted(span, version)[0] for span in spans)
                    assert _without_eols(event.heads) == _without_eols(heads)
                    events += zip(spans, event.acks, event.ids, strict=True)
                elif isinstance(event, Frame):
                    events.append(event)
                elif isinstance(event, MalformedMessage):
                    events.append(event.data)
        except ProtocolError as error:
            return Scanned(events, type(error))
    return Scanned(events, None)


Owner = bytes | None | str | tuple[bytes | None]
"""Whose a MESSAGE is: as on the wire if it is in a block (None: it names no subscription), text if it is
foreign and came decoded, and a tuple if it is malformed."""


def owners(version: str, pieces: Iterable[bytes], *subscriptions: str) -> list[Owner]:
    """Whose each MESSAGE is, to a tolerant scanner that collects these subscriptions."""
    scanner = FrameScanner(version, tolerant=True)
    for subscription in subscriptions:
        scanner.collect_from(subscription)
    found: list[Owner] = []
    for piece in pieces:
        scanner.receive_data(piece)
        while (event := scanner.next_event()) is not NEED_DATA:
            if isinstance(event, MessageBlock):
                assert len(event.subscriptions) == len(event.ends) == len(event.acks)
                found += event.subscriptions
            elif isinstance(event, MalformedMessage):
                found.append((event.subscription,))
            elif isinstance(event, Frame):
                found.append(event.get("subscription") or "")
    return found


def message_of(subscription: bytes | None, body: bytes = b"x", line: bytes = b"x:y") -> bytes:
    """A MESSAGE with this header ``subscription``, as on the wire, and one header line more."""
    own = b"" if subscription is None else b"subscription:%b\n" % subscription
    return b"MESSAGE\n%bmessage-id:m\n%b\ncontent-length:%d\n\n%b\0" % (own, line, len(body), body)


def scanned_frames(version: str, scanned: Scanned, limits: Limits | None = None) -> Outcome:
    """What a decoder makes of everything the scanner let through; malformed messages stay bytes."""
    frames: list[Any] = []
    for event in scanned.events:
        if isinstance(event, Frame | bytes):
            frames.append(event)
        else:
            outcome = decode(version, [event[0]], limits)
            assert outcome.error is None and [frame.command for frame in outcome.frames] == ["MESSAGE"]
            frames += outcome.frames
    return Outcome(frames, 0, scanned.error)


def splits(data: bytes) -> list[list[bytes]]:
    """Whole, byte by byte, and in two at every place."""
    two = [[data[:place], data[place:]] for place in range(1, len(data))]
    return [[data], [data[place : place + 1] for place in range(len(data))], *two]


def _without_eols(heads: bytes) -> bytes:
    """The heads of a block may have the EOLs before its frames."""
    return heads.translate(None, b"\r\n\0 ")
