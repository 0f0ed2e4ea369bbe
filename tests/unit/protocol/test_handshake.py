from __future__ import annotations

import pytest

from spark_stomp.errors import (
    FrameEncodeError,
    FrameSyntaxError,
    LimitExceeded,
)
from spark_stomp.protocol import HEARTBEAT, NEED_DATA, ClientConfig, Frame, Limits
from spark_stomp.protocol.handshake import HandshakeDecoder, encode_connect


class TestConfig:
    def test_keeps_secrets_out_of_its_repr(self) -> None:
        config = ClientConfig(login="me", passcode="s3cret", connect_headers=(("token", "t0ken"),))
        assert "s3cret" not in repr(config)
        assert "t0ken" not in repr(config)


class TestConnect:
    """STOMP 1.2, "CONNECT or STOMP Frame"."""

    def test_has_host_versions_login_and_heartbeat(self) -> None:
        config = ClientConfig(
            login="u", passcode="p", heartbeat=(1, 2), connect_headers=(("client-id", "c"),), host="h"
        )
        assert encode_connect(config) == (
            b"CONNECT\naccept-version:1.2,1.1,1.0\nhost:h\nlogin:u\npasscode:p\nheart-beat:1,2\nclient-id:c\n\n\0"
        )

    def test_never_escapes(self) -> None:
        assert b"\npasscode:a:b\\c\n" in encode_connect(ClientConfig(passcode="a:b\\c"))

    def test_the_lenient_dialect_is_given_both_spellings_of_the_login(self) -> None:
        data = encode_connect(ClientConfig(accept_versions=("lenient",), login="u", passcode="p"))
        assert data == b"CONNECT\nhost:/\nusername:u\nlogin:u\npasscode:p\n\n\0"

    @pytest.mark.parametrize("secret", ["a\nb", "a\rb", "a\0b"])
    def test_refuses_what_it_cannot_carry_without_telling_it(self, secret: str) -> None:
        with pytest.raises(FrameEncodeError, match="passcode") as caught:
            encode_connect(ClientConfig(passcode=secret))
        assert repr(secret)[1:-1] not in str(caught.value)
        assert secret not in str(caught.value)


def decoder_of(*data: bytes, version: str = "1.2", lenient: bool = True) -> HandshakeDecoder:
    decoder = HandshakeDecoder(version, Limits.before_connected(), lenient=lenient)
    for piece in data:
        decoder.receive_data(piece)
    return decoder


def test_a_lenient_frame_is_read_on_the_second_try() -> None:
    decoder = decoder_of(b"conn", b"ect\nUserName: x \n\n\0rest")
    assert decoder.next_event() == Frame("CONNECT", (("username", "x"),))
    assert decoder.was_lenient
    assert decoder.take_buffer() == b"rest"


def test_beats_before_the_frame_are_told_once() -> None:
    decoder = decoder_of(b"\n\nconnect\n\n\0")
    assert decoder.next_event() is HEARTBEAT
    while (event := decoder.next_event()) is HEARTBEAT:
        pass
    assert event == Frame("CONNECT")
    assert decoder.next_event() is NEED_DATA


def test_where_lenience_is_not_offered_only_an_error_is_read_so() -> None:
    assert decoder_of(b"ERROR\nmessage:a\\tb\n\n\0", lenient=False).next_event() == Frame(
        "ERROR", (("message", "a\\tb"),)
    )
    decoder = decoder_of(b"connected\n\n\0", lenient=False)
    for _ in range(2):
        with pytest.raises(FrameSyntaxError):
            decoder.next_event()


def test_when_both_refuse_the_strict_reason_is_told_every_time() -> None:
    data = b"GET / HTTP/1.1\r\n\r\n"
    strict = decoder_of(data, version="1.2")
    with pytest.raises(FrameSyntaxError) as first:
        strict.next_event()
    with pytest.raises(FrameSyntaxError) as second:
        strict.next_event()
    assert str(second.value) == str(first.value)
    assert "(STOMP 1.2)" in str(first.value)


def test_limits_hold_on_the_second_try() -> None:
    longest = Limits.before_connected().max_header_line
    assert decoder_of(b"connect\n" + b":".ljust(longest, b"x") + b"\n\n\0").next_event() != NEED_DATA
    with pytest.raises(LimitExceeded):
        decoder_of(b"connect\n" + b":".ljust(longest + 1, b"x") + b"\n\n\0").next_event()
