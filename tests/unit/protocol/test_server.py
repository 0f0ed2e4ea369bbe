from __future__ import annotations

import pytest
from support.codec import decode
from support.session import events

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol import (
    NEED_DATA,
    ConnectRequested,
    Frame,
    ServerConfig,
    ServerConnection,
    SessionState,
)

ALL = ("1.2", "1.1", "1.0", "lenient")


def accepted(version: str = "1.2") -> ServerConnection:
    connection = ServerConnection(ServerConfig(ALL))
    strict = f"CONNECT\naccept-version:{version}\nhost:/\n\n\0".encode()
    connection.receive_data(b"connect\nusername: u\n\n\0" if version == "lenient" else strict, 0.0)
    assert isinstance(connection.next_event(), ConnectRequested)
    connection.accept(0.0, session="s")
    connection.data_to_send()
    return connection


def frames(data: bytes, version: str = "1.2") -> list[Frame]:
    return decode(version, [data]).frames


class TestConnect:
    """STOMP 1.2, "Connecting"."""

    def request(self, data: bytes) -> tuple[ServerConnection, ConnectRequested]:
        connection = ServerConnection(ServerConfig(ALL, server="x/1", heartbeat=(10, 20)))
        connection.receive_data(data, 0.0)
        event = connection.next_event()
        assert isinstance(event, ConnectRequested)
        return connection, event

    @pytest.mark.parametrize("command", [b"CONNECT", b"STOMP"])
    def test_is_asked_and_answered(self, command: bytes) -> None:
        data = b"\naccept-version:1.0,1.2\nhost:h\nlogin:u\npasscode: p\nheart-beat:30,5\nx:y\n\n\0"
        connection, request = self.request(command + data)
        assert (request.login, request.passcode) == ("u", " p")
        assert {("host", "h"), ("x", "y")} <= {*request.headers}
        assert (connection.state, connection.version) == (SessionState.CONNECTING, None)
        connection.accept(0.0, session="s1")
        assert connection.data_to_send() == (
            b"CONNECTED\nversion:1.2\nsession:s1\nserver:x/1\nheart-beat:10,20\n\n\0\n"
        )
        assert (connection.version, connection.heartbeat) == ("1.2", (10, 30))
        assert connection.state is SessionState.CONNECTED

    def test_nothing_is_decoded_before_the_answer(self) -> None:
        connection, _ = self.request(b"CONNECT\naccept-version:1.0\n\n\0SEND\ndestination:a\\tb\n\n\0")
        assert connection.next_event() is NEED_DATA
        connection.accept(0.0, session="s")
        assert events(connection) == [Frame("SEND", (("destination", "a\\tb"),))]

    def test_a_client_that_names_no_versions_speaks_1_0_and_is_told_none(self) -> None:
        connection, _ = self.request(b"CONNECT\nheart-beat:5,5\n\n\0")
        connection.accept(0.0, session="s1")
        assert connection.data_to_send() == b"CONNECTED\nsession:s1\nserver:x/1\n\n\0\n"
        assert (connection.version, connection.heartbeat) == ("1.0", (0, 0))

    def test_a_client_that_names_its_user_both_ways_is_no_lenient_one(self) -> None:
        connection, request = self.request(b"CONNECT\nusername:fred\nlogin: fred\n\n\0")
        assert request.login == " fred"
        connection.accept(0.0, session="s")
        assert connection.version == "1.0"

    @pytest.mark.parametrize("header", [b"receipt:1", b"heart-beat:x"])
    def test_what_connect_may_not_say(self, header: bytes) -> None:
        connection = ServerConnection(ServerConfig(ALL))
        connection.receive_data(b"CONNECT\naccept-version:1.2\n" + header + b"\n\n\0", 0.0)
        with pytest.raises(RemoteProtocolError):
            connection.next_event()
        assert [frame.command for frame in frames(connection.data_to_send())] == ["ERROR"]


class TestFrames:
    """STOMP 1.2, "Client Frames"."""

    @pytest.mark.parametrize(
        ("version", "command", "headers"),
        [
            (version, command, headers)
            for version in ALL
            for command, headers in {
                "SEND": ["destination"],
                "SUBSCRIBE": ["destination", "id"] if version in ("1.1", "1.2") else ["destination"],
                "UNSUBSCRIBE": ["id"] if version in ("1.1", "1.2") else [],
                "ACK": {"1.2": ["id"], "1.1": ["message-id", "subscription"]}.get(version, ["message-id"]),
                "BEGIN": ["transaction"],
                "COMMIT": ["transaction"],
                "ABORT": ["transaction"],
                "DISCONNECT": [],
            }.items()
        ],
    )
    def test_headers_that_a_frame_must_have(self, version: str, command: str, headers: list[str]) -> None:
        whole = accepted(version)
        lines = [f"{name}:v\n" for name in headers]
        whole.receive_data(f"{command}\n{''.join(lines)}\n\0".encode(), 1.0)
        assert events(whole) == [Frame(command, tuple((name, "v") for name in headers))]
        for missing in headers:
            connection = accepted(version)
            rest = "".join(line for line in lines if not line.startswith(missing))
            connection.receive_data(f"{command}\n{rest}receipt:r\n\n\0".encode(), 1.0)
            with pytest.raises(RemoteProtocolError, match=f"{command} lacks the header '{missing}'"):
                connection.next_event()
            (error,) = frames(connection.data_to_send(), version)
            assert error.get("receipt-id") == "r"

    @pytest.mark.parametrize("version", ["1.0", "lenient"])
    def test_no_nack(self, version: str) -> None:
        connection = accepted(version)
        connection.receive_data(b"NACK\nmessage-id:1\n\n\0", 1.0)
        with pytest.raises(RemoteProtocolError, match="NACK"):
            connection.next_event()

    def test_a_fault_is_told_with_the_receipt_of_its_own_frame_only(self) -> None:
        connection = accepted()
        connection.receive_data(b"SEND\ndestination:/q\nreceipt:r\n\n\0RUBBISH\n\n\0", 1.0)
        assert isinstance(connection.next_event(), Frame)
        for _ in range(2):
            with pytest.raises(RemoteProtocolError):
                connection.next_event()
        (error,) = frames(connection.data_to_send())
        assert error.get("receipt-id") is None
        assert connection.state is SessionState.FAILED

    @pytest.mark.parametrize("version", ["1.0", "1.1"])
    def test_a_receipt_that_cannot_be_given(self, version: str) -> None:
        connection = accepted(version)
        connection.receive_data(b"SEND\ndestination:/q\nreceipt:a\rb\n\n\0", 1.0)
        with pytest.raises(RemoteProtocolError, match=f"{version} cannot give a receipt whose id has a CR"):
            connection.next_event()
        (error,) = frames(connection.data_to_send(), version)
        assert error.get("receipt-id") is None

    @pytest.mark.parametrize("command", ["MESSAGE", "RECEIPT", "ERROR", "CONNECTED"])
    def test_a_client_may_not_send_a_servers_frames(self, command: str) -> None:
        connection = accepted()
        connection.receive_data(f"{command}\n\n\0".encode(), 1.0)
        with pytest.raises(RemoteProtocolError, match=f"a client may not send {command}"):
            connection.next_event()
