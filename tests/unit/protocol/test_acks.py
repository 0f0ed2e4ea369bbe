"""STOMP 1.0 "ACK"; 1.1 and 1.2 "ACK", "NACK"."""

from __future__ import annotations

import pytest

from spark_stomp.errors import LocalProtocolError
from spark_stomp.protocol import NEED_DATA, Frame, FrameDecoder
from spark_stomp.protocol.encoder import ack_for, ack_handle, ack_headers, encode_acks, nack_for

MESSAGE = Frame("MESSAGE", (("subscription", "s"), ("message-id", "m"), ("ack", "a")))


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        ("1.0", (("message-id", "m"),)),
        ("lenient", (("message-id", "m"),)),
        ("1.1", (("message-id", "m"), ("subscription", "s"))),
        ("1.2", (("id", "a"),)),
    ],
)
def test_what_an_ack_names(version: str, headers: tuple[tuple[str, str], ...]) -> None:
    assert ack_for(MESSAGE, version) == Frame("ACK", headers)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_nack_names_the_same(version: str) -> None:
    assert nack_for(MESSAGE, version).headers == ack_for(MESSAGE, version).headers


@pytest.mark.parametrize("version", ["1.0", "lenient"])
def test_old_versions_have_no_nack(version: str) -> None:
    with pytest.raises(LocalProtocolError, match="has no NACK"):
        nack_for(MESSAGE, version)


def test_a_1_2_message_without_ack_header_is_named_by_its_message_id() -> None:
    assert ack_handle(Frame("MESSAGE", (("message-id", "m"),)), "1.2") == "m"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_message_without_any_id_cannot_be_named(version: str) -> None:
    with pytest.raises(LocalProtocolError, match="no message-id"):
        ack_handle(Frame("MESSAGE"), version)


def test_1_1_names_the_subscription_or_nothing() -> None:
    with pytest.raises(LocalProtocolError, match="names its subscription"):
        ack_headers(None, "m", "1.1")


def decoded(data: bytes, version: str) -> list[Frame]:
    decoder = FrameDecoder(version)
    decoder.receive_data(data)
    frames = []
    while (event := decoder.next_event()) is not NEED_DATA:
        assert isinstance(event, Frame)
        frames.append(event)
    return frames


class TestBulk:
    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "lenient"])
    def test_is_the_same_as_one_by_one(self, version: str) -> None:
        data = encode_acks("sub:1", [b"a", b"b", b"c"], version)
        name = "sub:1" if version == "1.1" else None
        assert decoded(data, version) == [
            Frame("ACK", ack_headers(name, handle, version)) for handle in "abc"
        ]

    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
    def test_only_the_last_asks_for_the_receipt(self, version: str) -> None:
        frames = decoded(encode_acks("s", [b"a", b"b"], version, receipt="r"), version)
        assert [frame.get("receipt") for frame in frames] == [None, "r"]

    def test_handles_go_out_as_they_came_in(self) -> None:
        assert encode_acks("s", [b"ID\\c1"], "1.2") == b"ACK\nid:ID\\c1\n\n\0"

    def test_the_receipt_is_escaped(self) -> None:
        assert b"\nreceipt:a\\cb\n" in encode_acks("s", [b"1"], "1.2", receipt="a:b")

    def test_of_nothing_is_nothing(self) -> None:
        assert encode_acks("s", [], "1.2") == b""

    @pytest.mark.parametrize("handles", [[b""], [b"a", b"", b"c"]])
    def test_refuses_an_empty_handle(self, handles: list[bytes]) -> None:
        with pytest.raises(LocalProtocolError, match="message-id"):
            encode_acks("s", handles, "1.2")

    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
    @pytest.mark.parametrize("bad", [b"a\nreceipt:x", b"a\n\n\0SEND\ndestination:/q", b"a\0"])
    def test_refuses_what_would_inject_headers_or_frames(self, bad: bytes, version: str) -> None:
        for handles in ([bad], [b"ok", bad], [bad, b"ok"]):
            with pytest.raises(LocalProtocolError, match="line feed or a NUL"):
                encode_acks("s", handles, version)
