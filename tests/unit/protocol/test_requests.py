from __future__ import annotations

import pytest

from spark_stomp.errors import FrameEncodeError, LocalProtocolError
from spark_stomp.protocol import ClientConfig, Frame
from spark_stomp.protocol.encoder import encode_connect, request, send_frame


class TestConfig:
    def test_keeps_secrets_out_of_its_repr(self) -> None:
        config = ClientConfig(login="me", passcode="s3cret", connect_headers=(("token", "t0ken"),))
        assert "s3cret" not in repr(config)
        assert "t0ken" not in repr(config)

    @pytest.mark.parametrize("heartbeat", [(-1, 0), (0, -1)])
    def test_refuses_negative_heartbeats(self, heartbeat: tuple[int, int]) -> None:
        with pytest.raises(LocalProtocolError, match="negative"):
            ClientConfig(heartbeat=heartbeat)

    def test_refuses_a_negative_margin(self) -> None:
        with pytest.raises(LocalProtocolError, match="negative"):
            ClientConfig(receive_margin=-0.1)

    def test_refuses_unknown_versions(self) -> None:
        with pytest.raises(LocalProtocolError, match=r"1\.3"):
            ClientConfig(accept_versions=("1.3",))

    @pytest.mark.parametrize("name", ["passcode", "host", "receipt", "heart-beat", "accept-version"])
    def test_refuses_headers_that_have_an_argument(self, name: str) -> None:
        with pytest.raises(LocalProtocolError, match=f"CONNECT takes {name}"):
            ClientConfig(connect_headers=((name, "hidden"),))


class TestConnect:
    """STOMP 1.2, "CONNECT or STOMP Frame"."""

    def test_has_host_versions_login_and_heartbeat(self) -> None:
        config = ClientConfig(
            login="u", passcode="p", heartbeat=(1, 2), connect_headers=(("client-id", "c"),), host="h"
        )
        assert encode_connect(config) == (
            b"CONNECT\naccept-version:1.2,1.1,1.0\nhost:h\nlogin:u\npasscode:p\nheart-beat:1,2\nclient-id:c\n\n\0"
        )

    def test_sends_no_login_where_there_is_none(self) -> None:
        assert (
            encode_connect(ClientConfig(accept_versions=("1.0",)))
            == b"CONNECT\naccept-version:1.0\nhost:/\n\n\0"
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
