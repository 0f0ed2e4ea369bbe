"""spark_stomp.protocol.encoder."""

from __future__ import annotations

import pytest

from spark_stomp.errors import FrameEncodeError, LocalProtocolError
from spark_stomp.protocol import VERSIONS, Frame, encode_frame, encoder

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

    @pytest.mark.parametrize("version", ["1.1", "1.2"])
    def test_plain_headers_are_not_looked_at_one_by_one(
        self, version: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(encoder, "_escaped")
        for count in (1, 2, 9):
            octets = encode_frame(Frame("SEND", (("a", "é"),) * count), version)
            assert octets == b"SEND\n" + b"a:\xc3\xa9\n" * count + b"\n\0"


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
