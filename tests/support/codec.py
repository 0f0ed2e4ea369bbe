"""For the tests of the codec: all that a decoder or a scanner has to say about some pieces of input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spark_stomp.errors import ProtocolError
from spark_stomp.protocol import (
    HEARTBEAT,
    NEED_DATA,
    ClientConfig,
    ClientConnection,
    Frame,
    FrameDecoder,
    FrameScanner,
    Limits,
    MalformedMessage,
    MessageBlock,
    MessagesScanned,
    encode_frame,
    unescape,
)


class Outcome(NamedTuple):
    """Frames in order, how many gaps between them have EOLs, and the class of the error at the end, if any.

    How many events the EOLs of a gap make depends on the pieces in which they come.
    """

    frames: list[Frame]
    beats: int
    error: type[ProtocolError] | None


class Scanned(NamedTuple):
    """The same from a scanner, its blocks split into raw frames, each with its handle and stable id."""

    events: list[Frame | tuple[bytes, bytes, bytes | None]]
    error: type[ProtocolError] | None


class Tolerated(NamedTuple):
    """Good frames and the octets of malformed messages, in order, and the class of the error at the end."""

    events: list[Frame | bytes]
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
    version: str, pieces: Iterable[bytes], limits: Limits | None = None, *, id_header: str | None = None
) -> Scanned:
    """All events of a fresh scanner that is fed the pieces, asked after each; every block is checked."""
    scanner = FrameScanner(version, limits or Limits(), id_header=id_header)
    events: list[Frame | tuple[bytes, bytes, bytes | None]] = []
    for piece in pieces:
        scanner.receive_data(piece)
        try:
            while (event := scanner.next_event()) is not NEED_DATA:
                if isinstance(event, MessageBlock):
                    events += raw_frames(event)
                elif isinstance(event, Frame):
                    events.append(event)
        except ProtocolError as error:
            return Scanned(events, type(error))
    return Scanned(events, None)


def scan_tolerantly(version: str, pieces: Iterable[bytes], limits: Limits | None = None) -> Tolerated:
    """All events of a tolerant scanner, its messages decoded where they are good."""
    scanner = FrameScanner(version, limits or Limits(), tolerant=True)
    events: list[Frame | bytes] = []
    for piece in pieces:
        scanner.receive_data(piece)
        try:
            while (event := scanner.next_event()) is not NEED_DATA:
                if isinstance(event, MessageBlock):
                    octets = [octets for octets, _, _ in raw_frames(event)]
                    events += [frame for raw in octets for frame in decode(version, [raw], limits).frames]
                elif isinstance(event, MalformedMessage):
                    events.append(event.data)
                elif isinstance(event, Frame):
                    events.append(event)
        except ProtocolError as error:
            return Tolerated(events, type(error))
    return Tolerated(events, None)


def raw_frames(block: MessageBlock) -> list[tuple[bytes, bytes, bytes | None]]:
    """One (octets, handle, stable id) for each frame of a block."""
    assert block.ends
    assert len(block.ends) == len(block.acks) == len(block.ids)
    assert block.ends[-1] == len(block.data)
    starts = [0, *block.ends[:-1]]
    spans = [block.data[start:end] for start, end in zip(starts, block.ends, strict=True)]
    return list(zip(spans, block.acks, block.ids, strict=True))


def scanned_frames(version: str, scanned: Scanned, limits: Limits | None = None) -> Outcome:
    """What a decoder makes of everything the scanner let through."""
    frames: list[Frame] = []
    for event in scanned.events:
        if isinstance(event, Frame):
            frames.append(event)
        else:
            outcome = decode(version, [event[0]], limits)
            assert outcome.error is None and len(outcome.frames) == 1
            assert outcome.frames[0].command == "MESSAGE"
            frames += outcome.frames
    return Outcome(frames, 0, scanned.error)


def splits(data: bytes) -> list[list[bytes]]:
    """Whole, octet by octet, and in two at every place."""
    two = [[data[:place], data[place:]] for place in range(1, len(data))]
    return [[data], [data[place : place + 1] for place in range(len(data))], *two]


def acknowledgement(command: str, message: Frame, version: str) -> Frame:
    """The ACK or NACK that a client sends for ``message``, which came to a subscription of that name."""
    subscription = message.get("subscription") or "0"
    connection = ClientConnection(ClientConfig(accept_versions=(version,), scan=True))
    connection.connect(0.0)
    connection.receive_data(encode_frame(Frame("CONNECTED", (("version", version),)), version), 0.0)
    connection.receive_data(encode_frame(message, version), 0.0)
    connection.next_event()
    connection.subscribe(subscription, "/q", ack="client")
    event = connection.next_event()
    assert isinstance(event, MessagesScanned)
    handle = unescape(event.block.acks[0], version)
    connection.data_to_send()
    acknowledge = connection.ack if command == "ACK" else connection.nack
    acknowledge(subscription, handle)
    (frame,) = decode(version, [bytes(connection.data_to_send())]).frames
    return frame
