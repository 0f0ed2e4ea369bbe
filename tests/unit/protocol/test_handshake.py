from __future__ import annotations

import pytest

from spark_stomp.errors import (
    FrameEncodeError,
    FrameSyntaxError,
    HeartbeatLost,
    LimitExceeded,
    RemoteProtocolError,
    VersionError,
)
from spark_stomp.protocol import HEARTBEAT, NEED_DATA, ClientConfig, Frame, Limits
from spark_stomp.protocol.handshake import (
    HandshakeDecoder,
    HeartbeatTimer,
    ack_modes,
    best_version,
    check_refusal,
    client_version,
    encode_connect,
    has_heartbeats,
    parse_heartbeat,
    server_version,
)

ALL = ("1.2", "1.1", "1.0")


class TestConnect:
    """STOMP 1.2, "CONNECT or STOMP Frame"."""

    def test_has_host_versions_login_and_heartbeat(self) -> None:
        headers = (("client-id", "c"),)
        config = ClientConfig(login="u", passcode="p", heartbeat=(1, 2), connect_headers=headers, host="h")
        assert encode_connect(config) == (
            b"CONNECT\naccept-version:1.2,1.1,1.0\nhost:h\nlogin:u\npasscode:p\nheart-beat:1,2\nclient-id:c\n\n\0"
        )

    def test_never_escapes_and_shows_no_secret(self) -> None:
        config = ClientConfig(passcode="a:b\\c", connect_headers=(("token", "t0ken"),))
        assert b"\npasscode:a:b\\c\n" in encode_connect(config)
        assert "a:b" not in repr(config) and "t0ken" not in repr(config)

    def test_the_lenient_dialect_is_given_both_spellings_of_the_login(self) -> None:
        data = encode_connect(ClientConfig(accept_versions=("lenient",), login="u", passcode="p"))
        assert data == b"CONNECT\nhost:/\nusername:u\nlogin:u\npasscode:p\n\n\0"

    @pytest.mark.parametrize("secret", ["a\nb", "a\rb", "a\0b"])
    def test_refuses_what_it_cannot_carry_without_telling_it(self, secret: str) -> None:
        with pytest.raises(FrameEncodeError, match="passcode") as caught:
            encode_connect(ClientConfig(passcode=secret))
        assert repr(secret)[1:-1] not in str(caught.value)
        assert secret not in str(caught.value)


def decoder_of(*data: bytes, lenient: bool = True) -> HandshakeDecoder:
    decoder = HandshakeDecoder("1.2", Limits.before_connected(), lenient=lenient)
    for piece in data:
        decoder.receive_data(piece)
    return decoder


@pytest.mark.parametrize(
    ("pieces", "frame", "was_lenient"),
    [
        ([b"CONNECT\nlogin: x \n\n\0rest"], Frame("CONNECT", (("login", " x "),)), False),
        ([b"conn", b"ect\nUserName: x \n\n\0rest"], Frame("CONNECT", (("username", "x"),)), True),
        ([b"connect\n", b"\n\0rest"], Frame("CONNECT"), True),
    ],
)
def test_a_lenient_frame_is_read_on_a_second_try(
    pieces: list[bytes], frame: Frame, was_lenient: bool
) -> None:
    decoder = decoder_of()
    for piece in pieces:
        assert decoder.next_event() is NEED_DATA
        decoder.receive_data(piece)
    assert decoder.next_event() == frame
    assert (decoder.was_lenient, decoder.take_buffer()) == (was_lenient, b"rest")


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
    decoder = decoder_of(b"GET / HTTP/1.1\r\n\r\n")
    for _ in range(2):
        with pytest.raises(FrameSyntaxError, match=r"'GET / HTTP/1\.1' \(STOMP 1\.2\)"):
            decoder.next_event()


def test_limits_hold_on_the_second_try() -> None:
    longest = Limits.before_connected().max_header_line
    assert decoder_of(b"connect\n" + b":".ljust(longest, b"x") + b"\n\n\0").next_event() != NEED_DATA
    with pytest.raises(LimitExceeded):
        decoder_of(b"connect\n" + b":".ljust(longest + 1, b"x") + b"\n\n\0").next_event()


class TestBestVersion:
    """STOMP 1.2, "Protocol Negotiation"."""

    def test_compares_numbers_not_letters(self) -> None:
        assert best_version(["1.9", "1.10"], ["1.9", "1.10"]) == "1.10"

    def test_ignores_what_is_no_version(self) -> None:
        assert best_version(["lenient", "x"], ["lenient", "x"]) is None


@pytest.mark.parametrize(
    ("version", "new"), {"1.0": False, "1.1": True, "1.2": True, "lenient": False}.items()
)
def test_what_came_with_1_1(version: str, new: bool) -> None:
    assert has_heartbeats(version) is new
    assert ("client-individual" in ack_modes(version)) is new
    assert {"auto", "client"} <= set(ack_modes(version))


@pytest.mark.parametrize(
    ("offered", "named", "version"),
    [
        (ALL, "1.1", "1.1"),
        (ALL, "1.2", "1.2"),
        (ALL, None, "1.0"),
        (ALL, "", "1.0"),
        (("lenient",), None, "lenient"),
        (("lenient",), "1.0", "lenient"),
        (("lenient", "1.0"), "1.0", "1.0"),
        (("lenient", "1.0"), None, "lenient"),
        (("1.2", "lenient"), "1.2", "1.2"),
    ],
)
def test_the_version_that_connected_names(offered: tuple[str, ...], named: str | None, version: str) -> None:
    assert client_version(offered, named) == version


@pytest.mark.parametrize(
    ("offered", "named", "said"),
    [
        (("1.2",), "1.1", "version:1.1"),
        (("1.2",), None, "no version, which means 1.0"),
        (ALL, "2.0", "version:2.0"),
        (("lenient",), "1.1", "version:1.1"),
        (("1.2", "lenient"), "lenient", "version:lenient"),
    ],
)
def test_a_version_that_was_not_offered(offered: tuple[str, ...], named: str | None, said: str) -> None:
    with pytest.raises(VersionError, match=f"offered STOMP {', '.join(offered)}, but CONNECTED says {said}"):
        client_version(offered, named)


class TestRefusedByTheBroker:
    @pytest.mark.parametrize("versions", [None, "", "1.0,1.1,1.2", "1.2,2.0"])
    def test_another_error_is_left_alone(self, versions: str | None) -> None:
        check_refusal(("1.2",), versions, "no")

    def test_says_what_the_broker_has(self) -> None:
        with pytest.raises(VersionError, match=r"offered STOMP 1\.2, but the broker has 1\.1, 2\.0: cannot"):
            check_refusal(("1.2",), "1.1,2.0", "cannot talk to you")

    def test_the_lenient_dialect_counts_as_1_0(self) -> None:
        check_refusal(("lenient",), "1.0", "no")
        with pytest.raises(VersionError):
            check_refusal(("lenient",), "1.1", "no")


class TestServerVersion:
    def test_silence_of_a_lenient_client_means_lenient_where_that_is_supported(self) -> None:
        assert server_version(None, (*ALL, "lenient"), lenient=True) == "lenient"
        assert server_version(None, ALL, lenient=True) == "1.0"
        assert server_version("1.0", (*ALL, "lenient"), lenient=True) == "1.0"
        assert server_version(None, (*ALL, "lenient"), lenient=False) == "1.0"

    @pytest.mark.parametrize("offered", ["2.0", "", None])
    def test_nothing_in_common(self, offered: str | None) -> None:
        with pytest.raises(VersionError, match=r"supported are 1\.2"):
            server_version(offered, ("1.2",), lenient=False)


@pytest.mark.parametrize(
    "value",
    [*("", "2", ",", ",2", "-1,0", "1, 2", "1,2\n", "1,2,3", "+1,2", "1.5,2"), *("١,٢", "9" * 19 + ",0")],
)
def test_any_other_heart_beat_header_is_the_peers_fault(value: str) -> None:
    with pytest.raises(RemoteProtocolError, match="invalid heart-beat header"):
        parse_heartbeat(value)
    assert parse_heartbeat(None) == (0, 0)


class TestHeartbeatTimer:
    def timer(self, send: int = 1000, receive: int = 2000) -> HeartbeatTimer:
        return HeartbeatTimer((send, receive), 100.0)

    def test_a_beat_is_due_well_within_the_interval(self) -> None:
        timer = self.timer()
        due = timer.deadline()
        assert due is not None and 100.0 < due < 101.0
        assert not timer.beat_due(due - 0.001)
        assert timer.beat_due(due)

    def test_sending_anything_postpones_the_beat(self) -> None:
        timer = self.timer()
        timer.sent(100.5)
        due = timer.deadline()
        assert due is not None and 100.5 < due < 101.5

    def test_the_peer_has_its_interval_and_the_margin(self) -> None:
        timer = self.timer()
        timer.check(103.999)
        with pytest.raises(
            HeartbeatLost, match=r"nothing was received for 4\.0 s.*every 2000 ms, .* after 4\.0 s"
        ):
            timer.check(104.0)

    def test_any_byte_counts_as_a_sign_of_life(self) -> None:
        timer = self.timer()
        timer.received(102.5)
        timer.check(106.4)
        assert timer.deadline(sending=False) == 106.5

    def test_without_intervals_nothing_is_due(self) -> None:
        timer = self.timer(0, 0)
        assert timer.deadline() is None
        assert not timer.beat_due(1e9)
        timer.check(1e9)

    def test_the_nearer_of_both_deadlines_counts(self) -> None:
        assert self.timer(10_000, 1000).deadline() == 102.0
        assert self.timer(1000, 10_000).deadline() == pytest.approx(100.6)
