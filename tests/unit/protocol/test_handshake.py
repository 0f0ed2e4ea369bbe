from __future__ import annotations

import pytest

from spark_stomp.errors import CommandTooLong, FrameSyntaxError
from spark_stomp.protocol import HEARTBEAT, NEED_DATA, Frame, Limits
from spark_stomp.protocol.handshake import HandshakeDecoder


def opening(*data: bytes, version: str = "1.2", lenient: bool = True) -> HandshakeDecoder:
    decoder = HandshakeDecoder(version, Limits.before_connected(), lenient=lenient)
    for piece in data:
        decoder.receive_data(piece)
    return decoder


def test_a_strict_frame_is_read_strictly() -> None:
    decoder = opening(b"CONNECT\nlogin: x \n\n\0rest")
    assert decoder.next_event() == Frame("CONNECT", (("login", " x "),))
    assert not decoder.was_lenient
    assert decoder.take_buffer() == b"rest"


def test_a_lenient_frame_is_read_on_the_second_try() -> None:
    decoder = opening(b"conn", b"ect\nUserName: x \n\n\0rest")
    assert decoder.next_event() == Frame("CONNECT", (("username", "x"),))
    assert decoder.was_lenient
    assert decoder.take_buffer() == b"rest"


def test_the_second_try_may_need_more_data() -> None:
    decoder = opening(b"connect\n")
    assert decoder.next_event() is NEED_DATA
    decoder.receive_data(b"\n\0")
    assert decoder.next_event() == Frame("CONNECT")


def test_beats_before_the_frame_are_told_once() -> None:
    decoder = opening(b"\n\nconnect\n\n\0")
    assert decoder.next_event() is HEARTBEAT
    while (event := decoder.next_event()) is HEARTBEAT:
        pass
    assert event == Frame("CONNECT")
    assert decoder.next_event() is NEED_DATA


def test_where_lenience_is_not_offered_only_an_error_is_read_so() -> None:
    assert opening(b"ERROR\nmessage:a\\tb\n\n\0", lenient=False).next_event() == Frame(
        "ERROR", (("message", "a\\tb"),)
    )
    decoder = opening(b"connected\n\n\0", lenient=False)
    for _ in range(2):
        with pytest.raises(FrameSyntaxError):
            decoder.next_event()


def test_when_both_refuse_the_strict_reason_is_told_every_time() -> None:
    data = b"GET / HTTP/1.1\r\n\r\n"
    strict = opening(data, version="1.2")
    with pytest.raises(FrameSyntaxError) as first:
        strict.next_event()
    with pytest.raises(FrameSyntaxError) as second:
        strict.next_event()
    assert str(second.value) == str(first.value)


def test_a_lenient_start_has_no_second_try() -> None:
    decoder = opening(b"GET / HTTP/1.1\r\n\r\n", version="lenient")
    with pytest.raises(FrameSyntaxError):
        decoder.next_event()


def test_limits_have_no_second_try() -> None:
    with pytest.raises(CommandTooLong):
        opening(b"x" * 1000).next_event()
