from __future__ import annotations

from collections.abc import Callable

import pytest
from support.session import ack, events, send, subscribe

from spark_stomp.errors import (
    FrameEncodeError,
    HeartbeatLost,
    LimitExceeded,
    LocalProtocolError,
    RemoteProtocolError,
)
from spark_stomp.protocol import (
    ClientConfig,
    ClientConnection,
    Connected,
    ErrorReceived,
    HeartbeatReceived,
    Limits,
    SessionState,
)

MESSAGE = b"MESSAGE\nsubscription:0\nmessage-id:m1\nack:a1\ndestination:/q\n\nhi\0"


def connecting(**config: object) -> ClientConnection:
    connection = ClientConnection(ClientConfig(**config))  # type: ignore[arg-type]
    connection.connect(0.0)
    connection.data_to_send()
    return connection


def connected(version: str = "1.2", **config: object) -> ClientConnection:
    connection = connecting(**config)
    connection.receive_data(f"CONNECTED\nversion:{version}\nheart-beat:1000,1000\n\n\0".encode(), 0.0)
    assert isinstance(connection.next_event(), Connected)
    return connection


def sent(connection: ClientConnection, act: Callable[[ClientConnection], None]) -> bytes:
    act(connection)
    return connection.data_to_send()


class TestConnecting:
    """STOMP 1.2, "Connecting"."""

    @pytest.mark.parametrize("scan", [False, True])
    def test_what_follows_in_the_same_read_is_of_the_negotiated_version(self, scan: bool) -> None:
        connection = connecting(scan=scan)
        # In 1.0 a backslash is a backslash; in 1.2 this escape would be fatal.
        connection.receive_data(b"CONNECTED\nversion:1.0\n\n\0ERROR\nmessage:a\\tb\n\n\0", 0.0)
        assert isinstance(connection.next_event(), Connected)
        error = connection.next_event()
        assert isinstance(error, ErrorReceived)
        assert error.message == "a\\tb"

    def test_limits_are_low_before_connected_and_the_configured_ones_after(self) -> None:
        many = "".join(f"h{n}:v\n" for n in range(500))
        connection = connecting(limits=Limits(max_headers=1000))
        connection.receive_data(f"CONNECTED\nversion:1.2\n{many}\n\0".encode(), 0.0)
        with pytest.raises(LimitExceeded):
            connection.next_event()
        connection = connected(limits=Limits(max_headers=600))
        connection.receive_data(f"ERROR\n{many}\n\0".encode(), 0.0)
        assert isinstance(connection.next_event(), ErrorReceived)

    def test_an_error_that_fits_no_strict_grammar_is_read_all_the_same(self) -> None:
        connection = connecting()
        connection.receive_data(b"\nERROR\nmessage:C:\\temp is full\n", 0.0)
        assert events(connection) == [HeartbeatReceived()]
        connection.receive_data(b"\nbody\0", 0.0)
        (error,) = events(connection)
        assert isinstance(error, ErrorReceived)
        assert error.message == "C:\\temp is full"

    def test_the_lenient_dialect_takes_a_lenient_answer(self) -> None:
        connection = connecting(accept_versions=("1.2", "lenient"), login="u")
        connection.receive_data(b"connected\nsession:  77 \n\n\0", 0.0)
        assert connection.next_event() == Connected()
        assert (connection.version, connection.server, connection.session) == ("lenient", None, "77")


class TestSending:
    def test_a_connect_that_cannot_be_sent_leaves_everything_as_it_was(self) -> None:
        connection = ClientConnection(ClientConfig(host="a\nb"))
        with pytest.raises(FrameEncodeError):
            connection.connect(0.0)
        assert connection.state is SessionState.IDLE

    def test_subscribe_and_unsubscribe(self) -> None:
        connection = connected()
        headers = [("prefetch-count", "10")]
        assert sent(connection, lambda c: subscribe(c, "0", "/q", headers=headers, receipt="r")) == (
            b"SUBSCRIBE\nid:0\ndestination:/q\nack:client-individual\nprefetch-count:10\nreceipt:r\n\n\0"
        )
        further = [("id", "0"), ("durable", "x")]
        assert sent(connection, lambda c: c.request("UNSUBSCRIBE", further, receipt="s")) == (
            b"UNSUBSCRIBE\nid:0\ndurable:x\nreceipt:s\n\n\0"
        )

    def test_a_frame_that_cannot_be_encoded_changes_nothing(self) -> None:
        connection = connected()
        with pytest.raises(FrameEncodeError):
            subscribe(connection, "0", "/q", headers=[("x", "a\0b")], receipt="r")
        assert connection.data_to_send() == b""
        subscribe(connection, "0", "/q", receipt="r")

    def test_acks_in_bulk(self) -> None:
        connection = connected()
        subscribe(connection, "0", "/q")
        connection.data_to_send()
        assert sent(connection, lambda c: c.ack_raw([b"a\\c1", b"b"], receipt="r")) == (
            b"ACK\nid:a\\c1\n\n\0ACK\nid:b\nreceipt:r\n\n\0"
        )
        assert sent(connection, lambda c: c.ack_raw([])) == b""
        with pytest.raises(LocalProtocolError, match="a message has no ack header"):
            ack(connection, "0", "")


class TestReceiving:
    def test_an_error_ends_it_whatever_follows(self) -> None:
        connection = connected()
        send(connection, "/q", b"", receipt="7")
        connection.data_to_send()
        connection.receive_data(b"ERROR\nreceipt-id:7\nmessage:no\n\ntext\0" + MESSAGE + b"rubbish", 1.0)
        (event,) = events(connection)
        assert isinstance(event, ErrorReceived)
        assert event.receipt_id == "7"
        assert connection.state is SessionState.FAILED
        with pytest.raises(LocalProtocolError, match="not allowed in state 'failed'"):
            connection.request("DISCONNECT")

    @pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE", "ACK", "CONNECT", "DISCONNECT"])
    def test_a_broker_may_not_send_a_clients_frames(self, command: str) -> None:
        connection = connected()
        connection.receive_data(f"{command}\n\n\0".encode(), 1.0)
        with pytest.raises(RemoteProtocolError, match=f"a broker may not send {command}"):
            connection.next_event()


class TestHeartbeats:
    """STOMP 1.2, "Heart-beating"; times are passed in."""

    @pytest.mark.rule("5.13")
    def test_a_beat_without_reading_puts_off_the_next_one(self) -> None:
        connection = beating(send=1000)
        connection.beat(5.0)
        assert connection.data_to_send() == b"\n"
        deadline = connection.deadline(5.0)
        assert deadline is not None and deadline > 5.0
        connection.beat(5.0)
        assert connection.data_to_send() == b""

    def test_without_a_time_the_last_one_passed_in_counts_as_the_time_of_sending(self) -> None:
        connection = beating(send=1000)
        connection.receive_data(b"\n", 0.4)
        send(connection, "/q", b"")
        connection.data_to_send()
        assert connection.deadline(0.4) == pytest.approx(1.0)

    def test_what_waits_to_be_sent_counts_and_nothing_is_added_to_it(self) -> None:
        connection = beating(send=1000)
        send(connection, "/q", b"")
        connection.tick(5.0)
        deadline = connection.deadline(5.0)
        assert deadline is not None and deadline > 5.0
        assert connection.data_to_send().endswith(b"\0")

    def test_the_broker_is_watched_until_it_confirmed_the_end(self) -> None:
        connection = beating(receive=1000)
        connection.request("DISCONNECT", receipt="bye")
        with pytest.raises(HeartbeatLost):
            connection.tick(2.0)

    def test_over_is_over(self) -> None:
        connection = beating(receive=1000)
        connection.request("DISCONNECT", receipt="bye")
        connection.receive_data(b"RECEIPT\nreceipt-id:bye\n\n\0", 1.0)
        events(connection)
        connection.tick(100.0)
        assert connection.deadline(100.0) is None


def beating(send: int = 0, receive: int = 0) -> ClientConnection:
    """A session that beats every ``send`` ms, and is beaten every ``receive`` ms."""
    connection = connecting(heartbeat=(send, receive))
    connection.receive_data(f"CONNECTED\nversion:1.2\nheart-beat:{receive},{send}\n\n\0".encode(), 0.0)
    assert isinstance(connection.next_event(), Connected)
    return connection
