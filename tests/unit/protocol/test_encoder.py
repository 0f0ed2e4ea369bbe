"""spark_stomp.protocol.encoder."""

from __future__ import annotations

import pytest
from support.codec import decode

from spark_stomp.errors import FrameEncodeError, LocalProtocolError
from spark_stomp.protocol import VERSIONS, Frame, encode_frame
from spark_stomp.protocol.encoder import ack_headers, encode_acks, request, send_frame

ALL = pytest.mark.parametrize("version", VERSIONS)
UNESCAPED = [("CONNECT", "1.1"), ("CONNECTED", "1.2"), ("STOMP", "1.2"), ("SEND", "1.0"), ("SEND", "lenient")]


class TestLayout:
    @ALL
    def test_headers_in_order_repeats_kept(self, version: str) -> None:
        frame = Frame("SEND", (("b", "1"), ("a", "2"), ("b", "3")), b"body")
        assert encode_frame(frame, version) == b"SEND\nb:1\na:2\nb:3\n\nbody\0"

    @ALL
    def test_no_headers_no_body(self, version: str) -> None:
        assert encode_frame(Frame("DISCONNECT"), version) == b"DISCONNECT\n\n\0"

    @ALL
    def test_utf_8(self, version: str) -> None:
        assert encode_frame(Frame("SEND", (("é", "€"),)), version) == b"SEND\n\xc3\xa9:\xe2\x82\xac\n\n\0"

    @ALL
    def test_nothing_is_trimmed_or_padded(self, version: str) -> None:
        assert encode_frame(Frame("SEND", ((" a ", " b "),)), version) == b"SEND\n a : b \n\n\0"


class TestEscapes:
    def test_1_1_and_1_2_in_names_and_values(self) -> None:
        frame = Frame("SEND", (("a:\\", "b\nc:\\"),))
        expected = b"SEND\na\\c\\\\:b\\nc\\c\\\\\n\n\0"
        assert encode_frame(frame, "1.1") == encode_frame(frame, "1.2") == expected

    @pytest.mark.parametrize(
        ("header", "line"),
        [
            (("a", "b\\"), b"a:b\\\\"),
            (("a", "b\n"), b"a:b\\n"),
            (("a", "b:"), b"a:b\\c"),
            (("a\\", "b"), b"a\\\\:b"),
            (("a\n", "b"), b"a\\n:b"),
            (("a:", "b"), b"a\\c:b"),
        ],
    )
    @pytest.mark.parametrize("version", ["1.1", "1.2"])
    def test_each_alone(self, version: str, header: tuple[str, str], line: bytes) -> None:
        plain = ("x", "y")
        octets = encode_frame(Frame("SEND", (plain, header, plain)), version)
        assert octets == b"SEND\nx:y\n%b\nx:y\n\n\0" % line

    def test_cr_has_one_in_1_2_only(self) -> None:
        frame = Frame("SEND", (("a", "b\r"),))
        assert encode_frame(frame, "1.2") == b"SEND\na:b\\r\n\n\0"
        with pytest.raises(
            FrameEncodeError, match=r"header 'a' of SEND holds CR, for which STOMP 1\.1 has no escape"
        ):
            encode_frame(frame, "1.1")

    @pytest.mark.parametrize(("command", "version"), UNESCAPED)
    def test_some_frames_have_none(self, command: str, version: str) -> None:
        assert (
            encode_frame(Frame(command, (("a", "b:\\c"),)), version)
            == b"%b\na:b:\\c\n\n\0" % command.encode()
        )

    @pytest.mark.parametrize(("command", "version"), UNESCAPED)
    @pytest.mark.parametrize(
        "header", [("a\n", "b"), ("a", "b\nc:d"), ("a\r", "b"), ("a", "b\r"), ("a:", "b")]
    )
    def test_and_refuse_what_would_need_one(
        self, command: str, version: str, header: tuple[str, str]
    ) -> None:
        with pytest.raises(FrameEncodeError, match=f"of {command} holds"):
            encode_frame(Frame(command, (header,)), version)


class TestRefusals:
    @pytest.mark.parametrize("header", [("a\0", "b"), ("a", "\0b")])
    @pytest.mark.parametrize("command", ["CONNECT", "SEND"])
    @ALL
    def test_nul_in_a_header(self, version: str, command: str, header: tuple[str, str]) -> None:
        with pytest.raises(FrameEncodeError, match="NUL"):
            encode_frame(Frame(command, (header,)), version)

    @pytest.mark.parametrize("command", ["CONNECT", "SEND"])
    @ALL
    def test_an_empty_name(self, version: str, command: str) -> None:
        with pytest.raises(FrameEncodeError, match="empty"):
            encode_frame(Frame(command, (("", "b"),)), version)
        with pytest.raises(FrameEncodeError, match="empty"):
            encode_frame(Frame(command, (("a", "b"), ("", "b"))), version)

    @ALL
    def test_a_lone_surrogate(self, version: str) -> None:
        with pytest.raises(FrameEncodeError, match="surrogate"):
            encode_frame(Frame("SEND", (("a", "\ud800"),)), version)

    @pytest.mark.parametrize(("version", "commands"), [("1.0", "NACK STOMP"), ("lenient", "NACK STOMP send")])
    def test_a_command_that_the_version_lacks(self, version: str, commands: str) -> None:
        for command in (*commands.split(), "send", "", "SEND\n"):
            with pytest.raises(FrameEncodeError, match=f"STOMP {version} has no command"):
                encode_frame(Frame(command), version)

    def test_an_unknown_version(self) -> None:
        with pytest.raises(LocalProtocolError, match="unknown STOMP version"):
            encode_frame(Frame("SEND"), "2.0")

    def test_the_value_is_never_shown(self) -> None:
        with pytest.raises(FrameEncodeError) as caught:
            encode_frame(Frame("CONNECT", (("passcode", "sec\nret"),)), "1.2")
        assert "sec" not in str(caught.value)
        assert "'passcode'" in str(caught.value)


class TestBody:
    @pytest.mark.parametrize("version", ["1.1", "1.2"])
    def test_only_three_frames_may_have_one(self, version: str) -> None:
        for command in ("SEND", "MESSAGE", "ERROR"):
            assert encode_frame(Frame(command, (), b"x"), version).endswith(b"\n\nx\0")
        with pytest.raises(FrameEncodeError, match=f"a SUBSCRIBE frame has no body in STOMP {version}"):
            encode_frame(Frame("SUBSCRIBE", (), b"x"), version)

    @pytest.mark.parametrize("version", ["1.0", "lenient"])
    def test_any_frame_may_where_no_rule_says_otherwise(self, version: str) -> None:
        assert encode_frame(Frame("SUBSCRIBE", (), b"x"), version) == b"SUBSCRIBE\n\nx\0"

    @ALL
    def test_a_nul_brings_a_content_length(self, version: str) -> None:
        """STOMP 1.2, "Body"; nobody could find the end of the frame without."""
        assert (
            encode_frame(Frame("SEND", (("a", "b"),), b"x\0"), version)
            == b"SEND\na:b\ncontent-length:2\n\nx\0\0"
        )

    @ALL
    def test_a_content_length_given_is_kept_where_it_stands(self, version: str) -> None:
        frame = Frame("SEND", (("content-length", "2"), ("a", "b")), b"x\0")
        assert encode_frame(frame, version) == b"SEND\ncontent-length:2\na:b\n\nx\0\0"

    @pytest.mark.parametrize("value", ["1", "3", "", "-2", "+2", " 2", "2 ", "²", "two", "9" * 5000])
    @ALL
    def test_a_content_length_that_is_not_the_bodys(self, version: str, value: str) -> None:
        with pytest.raises(
            FrameEncodeError, match=r"content-length of SEND is .*, but the body has 2 octets"
        ):
            encode_frame(Frame("SEND", (("content-length", value),), b"xy"), version)

    @ALL
    def test_only_the_first_content_length_counts(self, version: str) -> None:
        frame = Frame("SEND", (("content-length", "1"), ("content-length", "7")), b"x")
        assert encode_frame(frame, version) == b"SEND\ncontent-length:1\ncontent-length:7\n\nx\0"

    def test_case_counts_in_the_versions_but_not_in_the_lenient_dialect(self) -> None:
        frame = Frame("SEND", (("Content-Length", "7"),), b"x\0")
        assert encode_frame(frame, "1.2") == b"SEND\nContent-Length:7\ncontent-length:2\n\nx\0\0"
        with pytest.raises(FrameEncodeError, match="content-length of SEND is '7'"):
            encode_frame(frame, "lenient")


class TestRequest:
    def test_puts_its_own_headers_first_and_the_common_ones_last(self) -> None:
        own = (("id", "1"), ("destination", None))
        frame = request("UNSUBSCRIBE", own, headers=[("x", "y")], transaction="t", receipt="r")
        assert frame == Frame(
            "UNSUBSCRIBE", (("id", "1"), ("x", "y"), ("transaction", "t"), ("receipt", "r"))
        )

    @pytest.mark.parametrize("name", ["receipt", "id", "ack", "destination", "transaction", "content-length"])
    def test_refuses_headers_that_have_a_meaning(self, name: str) -> None:
        with pytest.raises(LocalProtocolError, match=f"SUBSCRIBE takes {name} from its arguments"):
            request("SUBSCRIBE", (), headers=[(name, "v")])


class TestSend:
    def test_adds_the_length_last(self) -> None:
        frame = send_frame("/q", b"abc", headers=[("a", "1"), ("a", "2")], transaction="t", receipt="r")
        assert frame.headers == (
            ("destination", "/q"),
            ("a", "1"),
            ("a", "2"),
            ("transaction", "t"),
            ("receipt", "r"),
            ("content-length", "3"),
        )
        assert frame.body == b"abc"

    def test_leaves_the_length_out_when_asked_to(self) -> None:
        assert send_frame("/q", b"abc", content_length=False).headers == (("destination", "/q"),)

    def test_needs_a_destination(self) -> None:
        with pytest.raises(LocalProtocolError, match="destination"):
            send_frame("", b"")

    @pytest.mark.parametrize("name", ["destination", "receipt", "transaction", "content-length"])
    def test_refuses_headers_that_have_an_argument(self, name: str) -> None:
        with pytest.raises(LocalProtocolError, match=f"SEND takes {name}"):
            send_frame("/q", b"", headers=[(name, "v")])

    @pytest.mark.parametrize("name", ["id", "ack", "subscription", "message-id", "type"])
    def test_lets_an_application_use_all_other_names(self, name: str) -> None:
        assert send_frame("/q", b"", headers=[(name, "v")]).get(name) == "v"


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


class TestBulkAcks:
    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "lenient"])
    def test_is_the_same_as_one_by_one(self, version: str) -> None:
        data = encode_acks("sub:1", [b"a", b"b", b"c"], version)
        assert decode(version, [data]).frames == [
            Frame("ACK", ack_headers("sub:1", handle, version)) for handle in "abc"
        ]

    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
    def test_only_the_last_asks_for_the_receipt(self, version: str) -> None:
        frames = decode(version, [encode_acks("s", [b"a", b"b"], version, receipt="r")]).frames
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
