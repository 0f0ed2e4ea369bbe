"""spark_stomp.protocol.scanner: octets to blocks of raw MESSAGE frames."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from support.codec import message_of, owners, splits

from spark_stomp.errors import FrameSyntaxError
from spark_stomp.protocol import (
    HEARTBEAT,
    NEED_DATA,
    VERSIONS,
    Frame,
    FrameDecoder,
    FrameScanner,
    MessageBlock,
)

ALL = pytest.mark.parametrize("version", VERSIONS)


def message(number: int, *, body: bytes = b"body", ack: bool = True) -> bytes:
    handle = b"ack:a%d\n" % number if ack else b""
    values = (number, handle, number, len(body), body)
    return b"MESSAGE\nmessage-id:m%d\n%bid:s%d\ncontent-length:%d\n\n%b\0" % values


def block_of(octets: bytes, version: str = "1.2", *, id_header: str | None = None) -> MessageBlock:
    scanner = FrameScanner(version)
    scanner.collect(id_header=id_header)
    scanner.receive_data(octets)
    block = scanner.next_event()
    assert isinstance(block, MessageBlock)
    assert scanner.next_event() is NEED_DATA
    return block


class TestBlocks:
    def test_may_be_the_very_octets_received(self) -> None:
        scanner = FrameScanner("1.2")
        scanner.receive_data(message(1) + message(2))
        scanner.next_event()
        octets = message(3) + message(4)
        scanner.receive_data(octets)
        block = scanner.next_event()
        assert isinstance(block, MessageBlock) and block.data is octets

    def test_of_one_large_frame_are_the_octets_that_were_waited_for(self) -> None:
        """Joined once, whatever follows in the last piece, and not copied again."""
        octets = message(1, body=b"x" * 50_000)
        scanner = FrameScanner("1.2")
        for place in range(0, len(octets), 10_000):
            scanner.receive_data(octets[place : place + 10_000])
            event = scanner.next_event()
        scanner.receive_data(b"\n")
        assert isinstance(event, MessageBlock) and event.data == octets
        assert scanner._buffer.data is event.data

    @ALL
    def test_have_the_heads_without_the_bodies(self, version: str) -> None:
        """Of frames of which the first two are read one by one, and the others together."""
        body = b"\nredelivered:true\n"
        block = block_of(b"".join(message(number, body=body) for number in range(40)), version)
        heads = [message(number, body=body).removesuffix(body + b"\0") for number in range(40)]
        assert block.heads == b"".join(heads)

    @ALL
    def test_many_eols_are_one_event(self, version: str) -> None:
        scanner = FrameScanner(version)
        for _ in range(2):
            scanner.receive_data(message(1) + b"\n" * 1_000_000)
            assert isinstance(scanner.next_event(), MessageBlock)
            scanner.receive_data(b"\n" * 1_000_000 + b"RECEIPT\nreceipt-id:1\n\n\0" + b"\n" * 1_000_000)
            events = [*iter(scanner.next_event, NEED_DATA)]
            assert len(events) <= 4
            (receipt,) = (event for event in events if event is not HEARTBEAT)
            assert receipt == Frame("RECEIPT", (("receipt-id", "1"),))


OLD = ("1.0", "1.1", "lenient")
COLLECTED: list[tuple[tuple[str, ...], bytes, bytes, bytes | None]] = [
    # 1.2 names ack, the others the message-id.
    (("1.2",), b"message-id:m\nack:a\nid:s", b"a", b"s"),
    (("1.2",), b"message-id:m", b"", None),
    (OLD, b"message-id:m\nack:a\nid:s", b"m", b"s"),
    (VERSIONS, b"x:y", b"", None),
    (VERSIONS, b"message-id:1\nmessage-id:2\nack:1\nack:2\nid:1\nid:2", b"1", b"1"),
    # A line in the body is no header, nor is the command.
    (VERSIONS, b"x:y\n\n\nack:1\nmessage-id:2\nid:3", b"", None),
    # As on the wire.
    (("1.1", "1.2"), b"message-id:ID\\c1\nack:ID\\c1\nid:a\\nb", b"ID\\c1", b"a\\nb"),
    (("1.2",), b"ack:1\r\nid:2\r", b"1", b"2"),
    (("lenient",), b"Message-ID:  m 1 \r\nID:  x ", b"m 1", b"x"),
]


@pytest.mark.parametrize(
    ("version", "lines", "ack", "stable"),
    [(version, *row) for versions, *row in COLLECTED for version in versions],
)
def test_what_is_collected(version: str, lines: bytes, ack: bytes, stable: bytes | None) -> None:
    block = block_of((b"MESSAGE\n" + lines + b"\n\n\0") * 5, version, id_header="id")
    assert block.acks == [ack] * 5
    assert block.ids == [stable] * 5


class TestSettings:
    def test_takes_over_from_a_decoder(self) -> None:
        decoder, scanner = FrameDecoder("1.2"), FrameScanner("1.1")
        decoder.receive_data(b"CONNECTED\nversion:1.1\n\n\0" + message(1) + b"MESS")
        decoder.receive_data(b"AGE\nmessage-id:2\n\n\0")
        assert decoder.next_event() == Frame("CONNECTED", (("version", "1.1"),))
        scanner.receive_data(decoder.take_buffer())
        block = scanner.next_event()
        assert isinstance(block, MessageBlock) and block.acks == [b"m1", b"2"]

    def test_a_new_stable_id_holds_from_the_next_block_on(self) -> None:
        scanner = FrameScanner("1.2")
        for name, expected in (("id", b"s1"), ("message-id", b"m1"), (None, None)):
            scanner.collect(id_header=name)
            scanner.receive_data(message(1) * 9)
            block = scanner.next_event()
            assert isinstance(block, MessageBlock) and block.ids == [expected] * 9

    def test_the_time_that_completes_an_id_is_collected_too(self) -> None:
        scanner = FrameScanner("1.2")
        scanner.collect(id_header="message-id", time_header="timestamp")
        frames = [b"MESSAGE\nmessage-id:%d\ntimestamp:%d\n\n\0" % (n, 2 * n) for n in range(40)]
        frames[9::10] = [b"MESSAGE\nmessage-id:0\n\n\0"] * 4
        scanner.receive_data(b"".join(frames))
        block = scanner.next_event()
        assert isinstance(block, MessageBlock)
        assert block.times == [None if n % 10 == 9 else b"%d" % (2 * n) for n in range(40)]

    @pytest.mark.rule("4.10")
    def test_the_handle_may_be_in_another_header(self) -> None:
        """Artemis 2.44 under 1.2: a producer's ack precedes the broker's."""
        scanner = FrameScanner("1.2")
        scanner.collect(id_header=None, ack_header="message-id")
        head = b"message-id:%d\nack:EVIL\nack:%d\n"
        scanner.receive_data(b"".join(b"MESSAGE\n%b\n\0" % (head % (n, n)) for n in range(50)))
        block = scanner.next_event()
        assert isinstance(block, MessageBlock) and block.acks == [b"%d" % number for number in range(50)]


class TestSubscriptions:
    """Only messages of the subscriptions that were made are collected."""

    NAMES: ClassVar = [b"a", b"b\\cc", b"d", None]

    @pytest.mark.parametrize(
        ("version", "subscriptions", "found"),
        [
            # A foreign one comes decoded, in its place.
            ("1.2", ["a", "b:c"], [b"a", b"b\\cc", "d", None]),
            ("1.2", [], NAMES),
            # Such a peer may not know them.
            ("lenient", ["0"], NAMES),
        ],
    )
    def test_whose_are_collected(self, version: str, subscriptions: list[str], found: list[Any]) -> None:
        octets = b"".join(map(message_of, self.NAMES))
        assert owners(version, [octets * 50], *subscriptions) == found * 50

    def test_the_first_of_repeated_headers_counts(self) -> None:
        for first, second, ours in (("0", "1", True), ("1", "0", False)):
            scanner = FrameScanner("1.2")
            scanner.collect_from("0")
            head = f"MESSAGE\nsubscription:{first}\nsubscription:{second}\nmessage-id:m\n\n\0"
            for _ in range(5):
                scanner.receive_data(head.encode())
                assert isinstance(scanner.next_event(), MessageBlock) == ours


PLAIN = b"".join(map(message, range(20)))


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            b"MESSAGE\nmessage-id%b\nack:a\nid:s\ncontent-length:4\n\nbody\0" % value
            for value in (b":m\0", b":\\x", b":\\", b":\\\\\\", b"\xff:", b":a\rb", b"")
        ),
        b"MESSAGE\nmessage-id:m\nack:a\nid:s\ncontent-length:4\n\nbodyx\0",
        b"MESSAGE\nmessage-id:m\nack:a\nid:s\ncontent-length:-4\n\nbody\0",
        b"WHAT\n",
    ],
)
def test_errors_come_after_what_was_complete_and_again(wrong: bytes) -> None:
    for pieces in ([PLAIN + wrong + PLAIN], [PLAIN, *splits(wrong)[1]]):
        scanner = FrameScanner("1.2")
        seen = 0
        with pytest.raises(FrameSyntaxError) as caught:
            for piece in pieces:
                scanner.receive_data(piece)
                while isinstance(event := scanner.next_event(), MessageBlock):
                    seen += len(event.ends)
        assert seen == 20
        with pytest.raises(FrameSyntaxError) as again:
            scanner.next_event()
        assert str(again.value) == str(caught.value)
