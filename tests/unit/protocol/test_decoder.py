"""spark_stomp.protocol.decoder and reader: octets to frames."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.codec import decode, scan, scanned_frames, splits

from spark_stomp.errors import FrameSyntaxError, LimitExceeded, ProtocolError
from spark_stomp.protocol import HEARTBEAT, NEED_DATA, VERSIONS, Frame, FrameDecoder, FrameScanner, Limits
from spark_stomp.protocol.decoder import FrameReader

ALL = pytest.mark.parametrize("version", VERSIONS)
STRICT = pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])


def one(version: str, octets: bytes) -> Frame:
    """The one frame that the octets are, however split."""
    for pieces in splits(octets):
        outcome = decode(version, pieces)
        assert outcome.error is None
        assert len(outcome.frames) == 1
    return outcome.frames[0]


def refusal(version: str, octets: bytes, limits: Limits | None = None) -> type[ProtocolError] | None:
    """How the octets are refused, however split, after no frame."""
    outcomes = [decode(version, pieces, limits) for pieces in splits(octets)]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert outcomes[0].frames == []
    return outcomes[0].error


def message(version: str, octets: bytes, limits: Limits | None = None) -> str:
    decoder = FrameDecoder(version, limits or Limits())
    decoder.receive_data(octets)
    with pytest.raises(ProtocolError) as caught:
        while decoder.next_event() is not NEED_DATA:
            pass
    return str(caught.value)


ANY, STRICTLY, ESCAPED, OLD = VERSIONS, ("1.0", "1.1", "1.2"), ("1.1", "1.2"), ("1.0", "1.1")
PRINTABLE = "".join(map(chr, range(0x21, 0x7F))).replace("\\", "").replace(":", "")

# What data/conformance does not have.
READ: list[tuple[tuple[str, ...], bytes, Frame]] = [
    (
        ANY,
        f"SEND\na:{PRINTABLE}\nb:{PRINTABLE}\n\n\0".encode(),
        Frame("SEND", (("a", PRINTABLE), ("b", PRINTABLE))),
    ),
    (STRICTLY, f"SEND\n{PRINTABLE}:a\n\n\0".encode(), Frame("SEND", ((PRINTABLE, "a"),))),
    # Only the first content-length counts; it may have leading zeros.
    (
        ANY,
        b"SEND\ncontent-length:%b1\ncontent-length:x\n\na\0" % (b"0" * 30),
        Frame("SEND", (("content-length", "0" * 30 + "1"), ("content-length", "x")), b"a"),
    ),
    # STOMP 1.2, "Augmented BNF": EOL = [CR] LF. Before, a CR is data.
    (("1.2",), b"SEND\r\na:b\n\r\nx\0", Frame("SEND", (("a", "b"),), b"x")),
    (("1.2",), b"SEND\na:b\r\n\nx\0", Frame("SEND", (("a", "b"),), b"x")),
    (OLD, b"SEND\na\r:\rb\n\nx\0", Frame("SEND", (("a\r", "\rb"),), b"x")),
    *[
        (ESCAPED, f"{command}\na\\c:\\t\\\n\n\0".encode(), Frame(command, (("a\\c", "\\t\\"),)))
        for command in ("CONNECT", "CONNECTED", "STOMP")
    ],
    (("1.0", "lenient"), b"SEND\npath:C:\\new\\\n\n\0", Frame("SEND", (("path", "C:\\new\\"),))),
    (("1.0", "lenient"), b"SEND\n:b\n\n\0", Frame("SEND", (("", "b"),))),
    (("1.0", "lenient"), b"RECEIPT\nreceipt-id:1\n\nx\0", Frame("RECEIPT", (("receipt-id", "1"),), b"x")),
    (ESCAPED, b"RECEIPT\ncontent-length:0\n\n\0", Frame("RECEIPT", (("content-length", "0"),))),
    # The dialect of peers that follow no version closely.
    (("lenient",), b"SEND \r\na:b \r\n \r\nx\0", Frame("SEND", (("a", "b"),), b"x")),
    (("lenient",), b"SEND\na:b\rc\n\n\0", Frame("SEND", (("a", "b\rc"),))),
    (("lenient",), b"NACK\nmessage-id:1\n\n\0", Frame("NACK", (("message-id", "1"),))),
    *[
        (
            ("lenient",),
            b"SEND\ncontent-length:%b\n\nxyz\0" % value,
            Frame("SEND", (("content-length", value.decode()),), b"xyz"),
        )
        for value in (b"", b"1x", b"- 1", b"+1")
    ],
]

REFUSED: list[tuple[tuple[str, ...], bytes]] = [
    *[(STRICTLY, b"%b\n" % name) for name in (b"SEND ", b" SEND", b"HTTP/1.1 400 Bad", b"\xff")],
    # Commands that came later.
    *[(("1.0",), b"%b\n\n\0" % name) for name in (b"NACK", b"STOMP")],
    *[(ANY, b"SEND\n%b\n\n\0" % line) for line in (b"a:\xff", b"\xff:b", b"a:\xc3", b"a:\xed\xa0\x80")],
    *[(ANY, b"SEND" + rest) for rest in (b"\0", b"\n\0", b"\na:b\n\0", b"\na\0:b\n\n\0")],
    *[
        (STRICTLY, b"SEND\ncontent-length:%b\n\n\0" % value)
        for value in (b"", b" 1", b"1 ", b"+1", b"1.0", "²".encode(), b"0x1", b"1_0")
    ],
    (("lenient",), b"SEND\ncontent-length:-1\n\n\0"),
    (ESCAPED, b"RECEIPT\nreceipt-id:1\n\nx"),
    (ESCAPED, b"RECEIPT\ncontent-length:1\n\n"),
    *[
        (ESCAPED, b"SEND\n%b:%b\n\n\0" % pair)
        for bad in (b"\\", b"\\\\\\", b"\\C", b"\\c\\x")
        for pair in ((b"a", bad), (bad, b"b"))
    ],
    (OLD, b"SEND\r\na:b\n\n\0"),
    (OLD, b"SEND\na:b\n\r\n\0"),
    # A CR that no LF follows, in 1.2.
    *[
        (("1.2",), head + line + b"\r\n\r\nx\0")
        for line in (b"a:b\r\r", b"a\r:b", b"a:\rb", b"a:b\rc\r", b"\r\r")
        for head in (b"SEND\r\n", b"CONNECT\r\nx:y\r\n")
    ],
]


def each(table: list[tuple[Any, ...]]) -> list[Any]:
    """The rows of a table for each version that they name."""
    rows = [(version, *row) for versions, *row in table for version in versions]
    return [pytest.param(*row, id=f"{row[0]} {row[1][:40]!r}") for row in rows]


@pytest.mark.parametrize(("version", "octets", "frame"), each(READ))
def test_what_is_read(version: str, octets: bytes, frame: Frame) -> None:
    """By the decoder and by the scanner, alone and when its header layout has come before."""
    assert one(version, octets) == frame
    assert scanned_frames(version, scan(version, [octets * 5])).frames == [frame] * 5


@pytest.mark.parametrize(("version", "octets"), each(REFUSED))
def test_what_is_refused(version: str, octets: bytes) -> None:
    assert refusal(version, octets) is FrameSyntaxError
    assert scan(version, [octets]).error is FrameSyntaxError


def test_a_refusal_names_the_command_or_the_line() -> None:
    text = message("1.2", b"HTTP/1.1 400 Bad Request\n")
    assert "unknown command 'HTTP/1.1 400 Bad Request' (STOMP 1.2)" in text
    assert message("1.2", b"SEND\na:b\nsecret\n\n\0").endswith("header line 2 of SEND has no colon")


@pytest.mark.parametrize("eol", [b"\n", b"\r\n"])
def test_a_million_eols_are_few_events(eol: bytes) -> None:
    decoder = FrameDecoder("1.2")
    decoder.receive_data(b"MESSAGE\n\n\0" + eol * 1_000_000 + b"MESSAGE\n\n\0")
    events = [*iter(decoder.next_event, NEED_DATA)]
    assert len([event for event in events if event is not HEARTBEAT]) == 2
    assert len(events) < 10


@ALL
def test_errors_come_after_what_was_complete_and_again(version: str) -> None:
    decoder = FrameDecoder(version)
    decoder.receive_data(b"SEND\n\na\0\nSEND\n\nb\0FOO\n")
    assert decoder.next_event() == Frame("SEND", (), b"a")
    assert decoder.next_event() is HEARTBEAT
    assert decoder.next_event() == Frame("SEND", (), b"b")
    errors = []
    for _ in range(3):
        with pytest.raises(FrameSyntaxError) as caught:
            decoder.next_event()
        errors.append(str(caught.value))
        decoder.receive_data(b"SEND\n\n\0")
    assert errors == errors[:1] * 3


@pytest.mark.parametrize("kind", [FrameDecoder, FrameScanner])
class TestWaiting:
    """What was looked at once is not looked at again before something comes that could matter."""

    def reads(
        self, reader: FrameDecoder | FrameScanner, pieces: list[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> list[int]:
        """How often the exact reader was asked, for each piece."""
        exact, counts = FrameReader._read, [0]

        def read(reader: FrameReader) -> Any:
            counts[-1] += 1
            return exact(reader)

        monkeypatch.setattr(FrameReader, "_read", read)
        for piece in pieces:
            counts.append(0)
            reader.receive_data(piece)
            for _ in range(3):
                assert reader.next_event() is NEED_DATA
        return counts[1:]

    @pytest.mark.parametrize("head", [b"MESSAGE\na:", b"MESSAGE\na:b\n\nbody"])
    def test_without_new_octets(
        self, kind: type[FrameDecoder | FrameScanner], head: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.reads(kind("1.2"), [head, b"", b"x"], monkeypatch) == [2, 0, 1]

    def test_for_the_rest_of_a_body_of_known_length(
        self, kind: type[FrameDecoder | FrameScanner], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pieces = [b"MESSAGE\ncontent-length:3\n\n", b"a", b"b", b"c"]
        reader = kind("1.2")
        assert self.reads(reader, pieces, monkeypatch) == [2, 0, 0, 0]
        reader.receive_data(b"\0")
        assert reader.next_event() is not NEED_DATA


ALLOWED: list[tuple[Limits, bytes]] = [
    (Limits(max_command=4), b"SEND\n\n\0"),
    (Limits(max_command=4), b"XXXX"),
    (Limits(max_header_line=5), b"SEND\naa:bb\n\n\0"),
    (Limits(max_headers=2), b"SEND\na:1\nb:2\n\n\0" * 4),
    (Limits(max_body=3), b"SEND\n\nabc\0SEND\ncontent-length:3\n\nabc\0" * 4),
    # From the command's first byte to the NUL, both included.
    (Limits(max_frame=12), b"SEND\na:b\n\nx\0" * 4),
    (Limits(max_frame=26), b"SEND\ncontent-length:2\n\nxx\0"),
]
BEYOND: list[tuple[Limits, bytes]] = [
    (Limits(max_command=4), b"BEGIN\n\n\0"),
    (Limits(max_command=4), b"XXXXX"),
    (Limits(max_header_line=5), b"SEND\naa:bbb\n\n"),
    (Limits(max_header_line=5), b"SEND\naaabbb\n\n"),
    (Limits(max_headers=2), b"SEND\na:1\nb:2\nc:3\n\n"),
    *[
        (Limits(max_body=3), b"SEND\n" + rest)
        for rest in (b"\nabcd", b"content-length:4\n\n", b"content-length:%b\n\n" % (b"9" * 5000))
    ],
    (Limits(max_frame=26), b"SEND\ncontent-length:3\n\n"),
]
# Each is refused at the first byte after which no frame of 12 bytes is possible.
LAST_STRAWS = [
    *(b"SEND\na:b\n\nxx", b"SEND\na:bbbbb", b"SEND\na:bbbb\n"),
    *(b"SENDSENDSEND", b"SEND\na:b\nc:d", b"SEND\nccccccc"),
]


class TestLimits:
    @pytest.mark.parametrize(("limits", "octets"), ALLOWED)
    @ALL
    def test_reached(self, version: str, limits: Limits, octets: bytes) -> None:
        assert all(decode(version, pieces, limits).error is None for pieces in splits(octets))

    @pytest.mark.parametrize(("limits", "octets"), BEYOND)
    @ALL
    def test_passed(self, version: str, limits: Limits, octets: bytes) -> None:
        assert refusal(version, octets, limits) is LimitExceeded

    @pytest.mark.parametrize("octets", LAST_STRAWS)
    @ALL
    def test_of_a_frame_at_once(self, version: str, octets: bytes) -> None:
        limits = Limits(max_frame=12)
        assert refusal(version, octets, limits) is LimitExceeded
        assert refusal(version, octets + b"\n", limits) is LimitExceeded
        assert refusal(version, octets[:-1], limits) is None

    @ALL
    def test_are_named(self, version: str) -> None:
        assert message(version, b"SEND\n\nabcd", Limits(max_body=3)).endswith("more than 3 bytes")
        named = message(version, b"SEND\n\nabcdefgh", Limits(max_frame=9))
        assert named.endswith("a frame of more than 9 bytes")
        assert "SEND has more than 0 headers" in message(version, b"SEND\na:b\n\n", Limits(max_headers=0))


@contextmanager
def traced() -> Iterator[list[int]]:
    """At the end it holds the most bytes that were in use within the block."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


class TestMemory:
    def test_is_not_taken_for_what_is_only_declared(self) -> None:
        decoder = FrameDecoder("1.2")
        with traced() as peak:
            decoder.receive_data(b"SEND\ncontent-length:%d\n\n" % Limits().max_body)
            assert decoder.next_event() is NEED_DATA
        assert peak[0] < 100_000

    def test_of_a_large_frame_in_pieces_stays_near_its_size(self) -> None:
        size = 8_000_000
        decoder, piece = FrameDecoder("1.2"), b"x" * 16_000
        with traced() as peak:
            decoder.receive_data(b"SEND\ncontent-length:%d\n\n" % size)
            for _ in range(size // len(piece)):
                decoder.receive_data(piece)
                assert decoder.next_event() is NEED_DATA
            decoder.receive_data(b"\0")
            frame = decoder.next_event()
        assert isinstance(frame, Frame) and len(frame.body) == size
        assert peak[0] < 3 * size


@pytest.mark.soak
class TestLinearCost:
    """Each would take hours if anything were searched or copied again for each piece."""

    def test_4_mb_octet_by_octet(self) -> None:
        size = 4_000_000
        for head in (b"SEND\ncontent-length:%d\n\n" % size, b"SEND\n\n", b"SEND\na:"):
            decoder = FrameDecoder("1.2", Limits(max_header_line=2 * size))
            decoder.receive_data(head)
            for _ in range(size):
                decoder.receive_data(b"x")
                assert decoder.next_event() is NEED_DATA
            decoder.receive_data(b"\n\n\0" if head.endswith(b":") else b"\0")
            frame = decoder.next_event()
            assert isinstance(frame, Frame) and len(frame.body) + len(frame.get("a", "")) == size

    @pytest.mark.parametrize("piece", [4096, 65536])
    def test_100_mb_in_pieces(self, piece: int) -> None:
        size = 100_000_000
        decoder, octets = FrameDecoder("1.2"), b"x" * piece
        decoder.receive_data(b"SEND\na:b\n\n")
        for _ in range(size // piece):
            decoder.receive_data(octets)
            assert decoder.next_event() is NEED_DATA
        decoder.receive_data(b"\0")
        frame = decoder.next_event()
        assert isinstance(frame, Frame) and len(frame.body) == size // piece * piece
