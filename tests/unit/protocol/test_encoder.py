"""spark_stomp.protocol.encoder."""

from __future__ import annotations

from typing import Any

import pytest
from support.codec import decode

from spark_stomp.errors import FrameEncodeError, LocalProtocolError
from spark_stomp.protocol import VERSIONS, Frame, ack_handles, encode_frame, message_of_handle
from spark_stomp.protocol.encoder import HeaderNames, ValueRule, ack_headers, encode_acks, handle_header

ANY, ESCAPING, RAW = VERSIONS, ("1.1", "1.2"), ("1.0", "lenient")
UNESCAPED = [("CONNECT", "1.1"), ("CONNECTED", "1.2"), ("STOMP", "1.2"), ("SEND", "1.0"), ("SEND", "lenient")]
LONG = "content-length"

ENCODED: list[tuple[tuple[str, ...], Frame, bytes]] = [
    # In order, repeats kept; nothing is trimmed or padded.
    (ANY, Frame("SEND", (("b", "1"), ("a", "2"), ("b", "3")), b"body"), b"SEND\nb:1\na:2\nb:3\n\nbody\0"),
    (ANY, Frame("DISCONNECT"), b"DISCONNECT\n\n\0"),
    (ANY, Frame("SEND", (("é", "€"),)), b"SEND\n\xc3\xa9:\xe2\x82\xac\n\n\0"),
    (ANY, Frame("SEND", ((" a ", " b "),)), b"SEND\n a : b \n\n\0"),
    # Escapes, in names and values.
    (ESCAPING, Frame("SEND", (("a:\\", "b\nc:\\"),)), b"SEND\na\\c\\\\:b\\nc\\c\\\\\n\n\0"),
    *[
        (ESCAPING, Frame("SEND", (("x", "y"), header, ("x", "y"))), b"SEND\nx:y\n%b\nx:y\n\n\0" % line)
        for header, line in [
            (("a", "b\\"), b"a:b\\\\"),
            (("a", "b\n"), b"a:b\\n"),
            (("a", "b:"), b"a:b\\c"),
            (("a\\", "b"), b"a\\\\:b"),
            (("a\n", "b"), b"a\\n:b"),
            (("a:", "b"), b"a\\c:b"),
        ]
    ],
    (("1.2",), Frame("SEND", (("a", "b\r"),)), b"SEND\na:b\\r\n\n\0"),
    *[
        ((version,), Frame(command, (("a", "b:\\c"),)), b"%b\na:b:\\c\n\n\0" % command.encode())
        for command, version in UNESCAPED
    ],
    # Bodies. A NUL brings a content-length: nobody could find the end of the frame without.
    *[(ESCAPING, Frame(name, (), b"x"), name.encode() + b"\n\nx\0") for name in ("SEND", "MESSAGE", "ERROR")],
    (RAW, Frame("SUBSCRIBE", (), b"x"), b"SUBSCRIBE\n\nx\0"),
    (ANY, Frame("SEND", (("a", "b"),), b"x\0"), b"SEND\na:b\ncontent-length:2\n\nx\0\0"),
    (ANY, Frame("SEND", ((LONG, "2"), ("a", "b")), b"x\0"), b"SEND\ncontent-length:2\na:b\n\nx\0\0"),
    # Only the first content-length counts; in the versions case does, too.
    (
        ANY,
        Frame("SEND", ((LONG, "1"), (LONG, "7")), b"x"),
        b"SEND\ncontent-length:1\ncontent-length:7\n\nx\0",
    ),
    (
        ("1.2",),
        Frame("SEND", (("Content-Length", "7"),), b"x\0"),
        b"SEND\nContent-Length:7\ncontent-length:2\n\nx\0\0",
    ),
]

REFUSED: list[tuple[tuple[str, ...], Frame, str]] = [
    (
        ("1.1",),
        Frame("SEND", (("a", "b\r"),)),
        r"header 'a' of SEND holds CR, for which STOMP 1\.1 has no escape",
    ),
    *[
        ((version,), Frame(command, (header,)), f"of {command} holds")
        for command, version in UNESCAPED
        for header in [("a\n", "b"), ("a", "b\nc:d"), ("a\r", "b"), ("a", "b\r"), ("a:", "b")]
    ],
    *[
        (ANY, Frame(command, headers), why)
        for command in ("CONNECT", "SEND")
        for headers, why in [
            ((("a\0", "b"),), "NUL"),
            ((("a", "\0b"),), "NUL"),
            ((("", "b"),), "empty"),
            ((("a", "b"), ("", "b")), "empty"),
        ]
    ],
    (ANY, Frame("SEND", (("a", "\ud800"),)), "surrogate"),
    *[(RAW, Frame(name), "has no command") for name in ("NACK", "STOMP")],
    *[(ANY, Frame(name), "has no command") for name in ("send", "", "SEND\n")],
    (ESCAPING, Frame("SUBSCRIBE", (), b"x"), "a SUBSCRIBE frame has no body in STOMP 1"),
    *[
        (
            ANY,
            Frame("SEND", ((LONG, value),), b"xy"),
            "content-length of SEND is .*, but the body has 2 bytes",
        )
        for value in ["1", "3", "", "-2", "+2", " 2", "2 ", "²", "two", "9" * 5000]
    ],
    (("lenient",), Frame("SEND", (("Content-Length", "7"),), b"x\0"), "content-length of SEND is '7'"),
]


def each(table: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of a table for each version that they name."""
    return [(version, *row) for versions, *row in table for version in versions]


@pytest.mark.parametrize(("version", "frame", "octets"), each(ENCODED))
def test_what_goes_out(version: str, frame: Frame, octets: bytes) -> None:
    assert encode_frame(frame, version) == octets


@pytest.mark.parametrize(("version", "frame", "why"), each(REFUSED))
def test_what_is_refused(version: str, frame: Frame, why: str) -> None:
    with pytest.raises(FrameEncodeError, match=why):
        encode_frame(frame, version)


def test_a_refusal_never_shows_the_value() -> None:
    with pytest.raises(FrameEncodeError) as caught:
        encode_frame(Frame("CONNECT", (("passcode", "sec\nret"),)), "1.2")
    assert "sec" not in str(caught.value)
    assert "'passcode'" in str(caught.value)


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        ("1.0", (("message-id", "h"),)),
        ("lenient", (("message-id", "h"),)),
        ("1.1", (("message-id", "h"), ("subscription", "s"))),
        ("1.2", (("id", "h"),)),
    ],
)
def test_what_an_ack_names(version: str, headers: tuple[tuple[str, str], ...]) -> None:
    """STOMP 1.0 "ACK"; 1.1 and 1.2 "ACK", "NACK"."""
    assert ack_headers("s", "h", version) == headers


class TestAckHandles:
    def test_name_the_subscription_too_in_1_1(self) -> None:
        """As on the wire; messages that name none have the default. What is not known gives no handle."""
        handles = ack_handles([b"a", b"b", b""], [b"q\\c1", None, b"q"], "1.1", "s:1")
        assert handles == [b"a\nsubscription:q\\c1", b"b\nsubscription:s\\c1", b""]
        assert ack_handles([b"a", b"b"], [b"q", None], "1.1", "") == [b"a\nsubscription:q", b""]
        assert list(map(message_of_handle, [*handles[:1], b"c"])) == ["a", "c"]

    @pytest.mark.rule("1.1")
    @pytest.mark.parametrize("version", ["1.0", "lenient"])
    def test_name_it_in_1_0_if_there_are_several(self, version: str) -> None:
        """Two queues may hold copies of one message, with one message-id."""
        handles = ack_handles([b"7", b"7", b"8"], [b"q", b"r", None], version, "")
        assert handles == [b"7\nsubscription:q", b"7\nsubscription:r", b"8"]
        frames = decode(version, [encode_acks(handles, version)]).frames
        assert [frame.get("subscription") for frame in frames] == ["q", "r", None]


class TestBulkAcks:
    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "lenient"])
    def test_is_the_same_as_one_by_one(self, version: str) -> None:
        handles = ack_handles([b"a", b"b", b"c"], [b"q", None, b"r"], version, "sub:1")
        assert decode(version, [encode_acks(handles, version)]).frames == [
            Frame("ACK", ack_headers(subscription, handle, version))
            for handle, subscription in [("a", "q"), ("b", "sub:1"), ("c", "r")]
        ]

    def test_the_receipt_is_escaped(self) -> None:
        assert b"\nreceipt:a\\cb\n" in encode_acks([b"1"], "1.2", receipt="a:b")

    def test_of_nothing_is_nothing(self) -> None:
        assert encode_acks([], "1.2") == b""

    @pytest.mark.parametrize("version", ["1.1", "1.2"])
    @pytest.mark.parametrize("handles", [[b""], [b"a", b"", b"c"]])
    def test_refuses_an_empty_handle(self, handles: list[bytes], version: str) -> None:
        with pytest.raises(LocalProtocolError, match=f"a message has no {handle_header(version)} header"):
            encode_acks(ack_handles(handles, [None] * len(handles), version, "s"), version)

    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
    @pytest.mark.parametrize("bad", [b"a\nreceipt:x", b"a\n\n\0SEND\ndestination:/q", b"a\0"])
    def test_refuses_what_would_inject_headers_or_frames(self, bad: bytes, version: str) -> None:
        for handles in ([bad], [b"ok", bad], [bad, b"ok"]):
            with pytest.raises(LocalProtocolError, match="line feed or a NUL"):
                encode_acks(ack_handles(handles, [None] * len(handles), version, "s"), version)


NAMES = HeaderNames(frozenset({"exclusive"}), ("x-max-",), frozenset({"x-max-mine"}))


@pytest.mark.parametrize(
    ("name", "found", "found_in_any_case"),
    [("exclusive", True, True), ("Exclusive", False, True), ("x-max-length", True, True),
     ("X-MAX-length", False, True), ("x-max-", True, True), ("x-max", False, False),
     ("x-max-mine", False, False), ("", False, False), (1, False, False)],
)  # fmt: skip
def test_names(name: object, found: bool, found_in_any_case: bool) -> None:
    assert (name in NAMES) is found
    any_case = HeaderNames(NAMES.names, NAMES.prefixes, NAMES.but, any_case=True)
    assert (str(name) in any_case) is found_in_any_case


def test_values() -> None:
    digits = ValueRule("a", "[0-9]+", "be a number")
    assert [digits.allows(value) for value in (b"12", b"", b"1\n", b"x")] == [True, False, False, False]
    others = digits._replace(allowed=False)
    assert [others.allows(value) for value in (b"12", b"", b"1\n", b"x")] == [False, True, True, True]
