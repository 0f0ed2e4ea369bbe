"""STOMP over WebSocket: one frame a message out, any cut in, refusals that say what is wrong."""

from __future__ import annotations

import builtins
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.fronts import websocket_front
from support.options import connected
from support.session import send, subscribe
from support.tcp import says, tcp_server
from support.waiting import PATIENCE
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.sync.server import ServerConnection
from websockets.sync.server import serve as websocket_server
from websockets.typing import Subprotocol

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectionLost, NotStompServer, StompError, UnsupportedError
from spark_stomp.transport.websocket import split_frames

QUEUE = "/queue/a"
CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"
BODIES = [b"", b"text", b"\0\1\2", b"caf\xe9", b"\n\n", b"x" * 1_000_000]


@pytest.fixture
def received() -> list[str | bytes]:
    """The messages that the client sent."""
    return []


@pytest.fixture
def url(devbroker: DevBroker, received: list[str | bytes]) -> Iterator[str]:
    with websocket_front(devbroker.port, received=received) as port:
        yield f"ws://127.0.0.1:{port}/ws"


def test_messages_of_every_sort(devbroker: DevBroker, url: str, received: list[str | bytes]) -> None:
    """Every frame is its own message, and what is UTF-8 goes as text."""
    events: list[Any] = []
    with connected(url) as connection:
        for body in BODIES:
            send(connection.session, QUEUE, body)
        subscribe(connection.session, "0", QUEUE, receipt="r")
        connection.await_receipts({"r": "SUBSCRIBE"}, PATIENCE, events.extend)
        deadline = time.monotonic() + 20
        while len(events) < len(BODIES) and time.monotonic() < deadline:
            events += connection.poll(1)
        assert [event.body for event in events] == BODIES
        connection.session.ack_raw([(event.get("ack") or "").encode() for event in events], receipt="all")
        connection.await_receipts({"all": "ACKs"}, PATIENCE)
        connection.disconnect(10)
    assert devbroker.queue(QUEUE).acked == len(BODIES)
    frames = [one.encode() if isinstance(one, str) else one for one in received]
    sent, others = frames[1:7], [frames[0], *frames[7:]]
    assert [frame.partition(b"\n")[0] for frame in sent] == [b"SEND"] * 6
    assert [type(one) for one in received[1:7]] == [str, str, str, bytes, str, str]
    assert [frame.partition(b"\n")[0] for frame in others] == [
        b"CONNECT", b"SUBSCRIBE", *[b"ACK"] * 6, b"DISCONNECT",
    ]  # fmt: skip
    assert all(frame.endswith(b"\0") for frame in frames)
    assert all(frame.count(b"\0") == 1 for frame in others)


@pytest.mark.parametrize("body", [b"x" * 20_000, "é".encode() * 10_000, b"\xe9" * 20_000])
def test_a_long_frame_goes_in_messages_of_8_kib_to_a_broker_that_joins_them(
    devbroker: DevBroker, url: str, received: list[str | bytes], body: bytes
) -> None:
    for broker, messages in (("generic", 1), ("rabbitmq", 3)):
        with connected(url, broker=broker) as connection:
            send(connection.session, QUEUE, body, receipt="last")
            connection.await_receipts({"last": "SEND"}, PATIENCE)
        sent = [one.encode() if isinstance(one, str) else one for one in received[1:]]
        assert len(sent) == messages and body in b"".join(sent)
        assert messages == 1 or max(map(len, sent)) <= 8192
        received.clear()
    assert devbroker.bodies(QUEUE) == [body, body]


def test_without_the_package_the_error_names_the_extra(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("websockets"):
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UnsupportedError, match=r"spark-stomp\[ws\]"):
        connected(f"ws://127.0.0.1:{devbroker.port}/ws")


def test_frames_are_split_where_they_end() -> None:
    frames = [
        b"CONNECT\nhost:/\n\n\0",
        b"\n",
        b"SEND\ncontent-length:3\n\n\0\n\0\0",
        b"SEND\ncontent-lengthy:3\n\ncontent-length:9\n\0",
        b"\n",
        b"ACK\nid:1\n\n\0",
    ]
    assert list(split_frames(b"".join(frames))) == frames
    assert list(split_frames(b"")) == []


def test_what_the_server_says_is_quoted_in_short() -> None:
    answer = b"HTTP/1.1 101 ok\r\nConnection: Upgrade\r\nUpgrade: %b\r\n\r\n" % (b"x" * 5_000)
    said = pytest.raises(NotStompServer, match="no WebSocket for STOMP")
    with tcp_server(says(answer)) as port, said as refused:
        connected(f"ws://127.0.0.1:{port}/")
    assert len(str(refused.value)) < 400
    with tcp_server(refuses) as port, pytest.raises(NotStompServer, match=rf"ws://127.0.0.1:{port}/ws.*404"):
        connected(f"ws://127.0.0.1:{port}")


TOKEN = "tops3cret/token"
QUERY = "?region=x&token=tops3cret%2Ftoken"


refuses = says(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


def quotes(connection: socket.socket) -> None:
    """Says what it was asked, and its meaning."""
    asked = connection.recv(4096).split(b" ")[1]
    said = asked + TOKEN.encode()
    connection.sendall(b"HTTP/1.1 101 ok\r\nConnection: Upgrade\r\nUpgrade: %b\r\n\r\n" % said)
    connection.recv(4096)


def hangs_up(connection: socket.socket) -> None:
    connection.recv(4096)


def resets(connection: socket.socket) -> None:
    # What was asked stays unread.
    connection.recv(1)


@pytest.mark.parametrize("serve", [refuses, quotes, says(), hangs_up, resets])
def test_a_token_in_the_address_is_sent_and_not_shown(serve: Callable[[socket.socket], None]) -> None:
    with tcp_server(serve) as port, pytest.raises(StompError, match=r"127\.0\.0\.1") as refused:
        connected(f"ws://127.0.0.1:{port}/ws{QUERY}", connectTimeout="500ms")
    assert "s3cret" not in str(refused.value)


def test_the_package_logs_neither_password_nor_token(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        connected(url + QUERY, login="u", password="tops3cret").close()
    ours = [record.getMessage() for record in caplog.records if record.name != "websockets.server"]
    assert not any("s3cret" in said for said in ours)


@contextmanager
def serving(serve: Callable[[ServerConnection], None]) -> Iterator[str]:
    """A WebSocket server that treats each connection so; yields its URL."""
    with websocket_server(serve, "127.0.0.1", 0, subprotocols=["v12.stomp"]) as server:  # type: ignore[list-item]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
        server.shutdown()


@pytest.mark.parametrize("before", [True, False])
def test_the_code_and_the_reason_of_the_end_are_quoted_without_secrets(before: bool) -> None:
    def serve(peer: ServerConnection) -> None:
        peer.recv()
        if not before:
            peer.send(CONNECTED)
            peer.recv()
        peer.close(1009, "tops3cret: Buffer size: [8,192]")

    said = pytest.raises(StompError, match=r"said: 1009 \(message too big\) .*8,192")
    with (
        serving(serve) as url,
        said as refused,
        connected(url, login="a", password="tops3cret") as connection,
    ):
        send(connection.session, QUEUE, b"x" * 20_000, receipt="r")
        connection.await_receipts({"r": "SEND"}, PATIENCE)
    assert "s3cret" not in str(refused.value)


def test_so_they_are_if_the_end_is_found_while_writing() -> None:
    """What comes together with CONNECTED is read with it. The connection stays open below the WebSocket."""

    def serve(connection: socket.socket) -> None:
        server = ServerProtocol(subprotocols=[Subprotocol("v12.stomp")])
        server.receive_data(connection.recv(4096))
        (asked,) = server.events_received()
        assert isinstance(asked, Request)
        server.send_response(server.accept(asked))
        connection.sendall(b"".join(server.data_to_send()))
        connection.recv(4096)
        server.send_text(CONNECTED)
        server.send_close(1008, "bad passcode tops3cret")
        connection.sendall(b"".join(server.data_to_send()))
        while connection.recv(4096):
            pass

    with (
        tcp_server(serve) as port,
        pytest.raises(ConnectionLost, match=r"said: 1008 .*bad passcode \*\*\*") as refused,
        connected(f"ws://127.0.0.1:{port}/", login="a", password="tops3cret") as connection,
    ):
        send(connection.session, QUEUE, b"x", receipt="r")
        connection.await_receipts({"r": "SEND"}, PATIENCE)
    assert "s3cret" not in str(refused.value)


def close(peer: ServerConnection) -> None:
    peer.close(1008, "token t0psecret has expired")


def error(peer: ServerConnection) -> None:
    peer.send(b"ERROR\nmessage:token t0psecret has expired\n\n\0")


def nonsense(peer: ServerConnection) -> None:
    peer.send(b"t0psecret\n\n\0")


@pytest.mark.parametrize("answer", [close, error, nonsense])
@pytest.mark.parametrize("before", [True, False])
def test_a_token_in_the_address_is_in_no_later_error(
    answer: Callable[[ServerConnection], None], before: bool
) -> None:
    def serve(peer: ServerConnection) -> None:
        peer.recv()
        if not before:
            peer.send(CONNECTED)
            peer.recv()
        answer(peer)

    with (
        serving(serve) as url,
        pytest.raises(StompError, match=r"\*\*\*") as refused,
        connected(f"{url}ws?token=t0psecret") as connection,
    ):
        send(connection.session, QUEUE, b"x", receipt="r")
        connection.await_receipts({"r": "SEND"}, PATIENCE)
    assert "t0psecret" not in str(refused.value)


def test_one_large_message_is_not_held() -> None:
    """Who subscribes to nothing has a small bound, whatever maxFrameBytes is."""

    def serve(peer: ServerConnection) -> None:
        peer.recv()
        peer.send(CONNECTED)
        peer.recv()
        peer.send(b"ERROR\nmessage:no\n\n%b\0" % (b"x" * (4 << 20)))

    with serving(serve) as url, connected(url) as connection:
        subscribe(connection.session, "0", QUEUE, receipt="r")
        with pytest.raises(ConnectionLost):
            connection.await_receipts({"r": "SUBSCRIBE"}, PATIENCE)


def test_the_end_of_the_connection_is_noticed(devbroker: DevBroker, url: str) -> None:
    with connected(url) as connection:
        devbroker.drop_connections()
        deadline = time.monotonic() + 10
        with pytest.raises(ConnectionLost):
            while time.monotonic() < deadline:
                connection.poll(1)
