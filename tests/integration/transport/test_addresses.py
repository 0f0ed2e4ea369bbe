"""In which order the addresses of ``url`` are tried: what failed last is tried last."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from support.driven import Run
from support.logins import CountedUsers
from support.options import connected, sink_options
from support.scripted import CLOSE, ScriptedBroker
from support.slices import encoded
from support.tcp import says, stomp_server, tcp_server
from support.waiting import PATIENCE

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    ConnectTimeout,
    DestinationRefused,
    LoginRefused,
    ReceiptTimeout,
    StompError,
)
from spark_stomp.sink.sender import Sender

PASSES = b"ERROR\nmessage:Processing error\n\n\0"


def hangs(connection: socket.socket) -> None:
    """As a node that is suspended: the kernel accepts."""
    while connection.recv(1 << 16):
        pass


@contextmanager
def one_that_hangs(devbroker: DevBroker) -> Iterator[str]:
    """A URL with a node that hangs, and with one that serves behind it."""
    with stomp_server(hangs) as url:
        yield f"{url},{devbroker.url}"


def peer(url: str, **options: Any) -> str:
    """Which address a connection goes to."""
    with connected(url, **options) as connection:
        return connection.peer


def used_until(error: StompError, url: str) -> None:
    """A connection to ``url`` whose use ends with this error."""
    with suppress(StompError), connected(url):
        raise error


def test_one_that_hung_costs_one_connection_its_timeout(devbroker: DevBroker) -> None:
    with one_that_hangs(devbroker) as url:
        begun = time.monotonic()
        for _ in range(10):
            assert peer(url, connectTimeout="500ms") == f"127.0.0.1:{devbroker.port}"
        assert 0.5 <= time.monotonic() - begun < 3


@pytest.mark.rule("S.3")
def test_it_costs_one_task_of_the_sink_that_and_the_next_ones_nothing(devbroker: DevBroker) -> None:
    with one_that_hangs(devbroker) as url:
        begun = time.monotonic()
        for number in range(5):
            with Sender(sink_options(url, connectTimeout="1s"), patient=True) as sender:
                sender.send(encoded([b"%d" % number]))
                assert sender.finish().confirmed == 1
        assert 1 <= time.monotonic() - begun < 4


@pytest.mark.parametrize(
    ("error", "next_one"),
    [
        (ReceiptTimeout("SUBSCRIBE was not confirmed"), 1),
        (ConnectFailed("it cannot be asked"), 1),
        (ConnectionLost("closed, and nothing had come"), 1),
        (DestinationRefused("there is no such queue"), 0),
        (LoginRefused("it may not have a second connection"), 0),
    ],
)
def test_one_that_cannot_serve_is_tried_last(error: StompError, next_one: int) -> None:
    with DevBroker() as first, DevBroker() as second:
        url, both = f"{first.url},{second.url}", (first, second)
        used_until(error, url)
        assert peer(url) == f"127.0.0.1:{both[next_one].port}"


def test_so_is_one_that_refuses_for_now(devbroker: DevBroker) -> None:
    with DevBroker() as other:
        url = f"{other.url},{devbroker.url}"
        passing = BrokerError("it starts")
        passing.verdict = "passes"
        used_until(passing, url)
        assert peer(url) == f"127.0.0.1:{devbroker.port}"


def test_one_that_served_and_broke_is_tried_first_again(devbroker: DevBroker) -> None:
    with DevBroker() as other:
        url = f"{other.url},{devbroker.url}"
        with pytest.raises(ConnectionLost), connected(url) as connection:
            receipt = connection.session.new_receipt()
            connection.session.request("SEND", [("destination", "/queue/a")], receipt=receipt)
            connection.await_receipts({receipt: "SEND"}, PATIENCE)
            other.drop_connections()
            while True:
                connection.poll(1.0)
        assert peer(url) == f"127.0.0.1:{other.port}"


def test_each_is_tried_in_turn_while_none_can_serve() -> None:
    with DevBroker() as first, DevBroker() as second, DevBroker() as third:
        url = ",".join(one.url for one in (first, second, third))
        for one in (first, second, third, first):
            assert peer(url) == f"127.0.0.1:{one.port}"
            used_until(ReceiptTimeout("nothing"), url)


@pytest.mark.rule("4.8")
def test_a_refused_login_ends_the_search_and_the_next_one_begins_with_the_first() -> None:
    """Else the same password would go to the next one, and accounts get locked."""
    refusing = CountedUsers(ada="other")
    with DevBroker(users={"ada": "right"}) as first, DevBroker(users=refusing) as second:
        url, login = f"{first.url},{second.url}", {"login": "ada", "password": "right"}
        with suppress(StompError), connected(url, **login):
            raise ReceiptTimeout("nothing")
        with pytest.raises(LoginRefused):
            connected(url, **login)
        assert peer(url, **login) == f"127.0.0.1:{first.port}"
        assert refusing.asked == 1


def test_one_behind_connected_that_passes(devbroker: DevBroker) -> None:
    full = says(b"CONNECTED\nversion:1.2\n\n\0ERROR\nmessage:Server shutting down\n\n\0")
    with stomp_server(full) as url:
        both = f"{url},{devbroker.url}"
        with pytest.raises(BrokerError), connected(both) as connection:
            connection.require_open()
        assert peer(both) == f"127.0.0.1:{devbroker.port}"


@pytest.mark.parametrize("scheme", ["stomp", "stomp+ssl", "ws"])
def test_so_it_is_with_the_addresses_of_a_name(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Whatever it was that the one before did not answer."""
    with tcp_server(hangs, together=True) as hanging:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", hanging))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [*found])
        with pytest.raises(ConnectTimeout):
            connected(f"{scheme}://h:1", connectTimeout="300ms")
        found.append((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", devbroker.port)))
        assert peer("stomp://h:1", connectTimeout="1s") == "h:1"


def serving(answer: bytes) -> Callable[[int, bytes], bytes]:
    """A node that answers SUBSCRIBE or SEND so; it lets everyone in."""
    return lambda _, frame: answer if frame.startswith((b"SUBSCRIBE", b"SEND")) else b""


@pytest.mark.rule("4.8")
@pytest.mark.parametrize("answer", [PASSES, CLOSE])
def test_a_query_starts_at_the_next_one(devbroker: DevBroker, answer: bytes) -> None:
    """As of a stream that has no replica at the first one."""
    first = ScriptedBroker(b"RabbitMQ/4.3.6", serving(answer))
    with stomp_server(first.serve) as url:
        both = f"{url},{devbroker.url}"
        with Run({"url": both, "destination": "/queue/a", "broker": "devbroker"}) as query:
            query.idle()
            assert devbroker.connects == 1
        assert first.connections == 1


@pytest.mark.rule("S.3")
@pytest.mark.parametrize("answer", [PASSES, CLOSE])
def test_a_task_goes_on_at_the_next_one(answer: bytes) -> None:
    first, second = (ScriptedBroker(b"RabbitMQ/4.3.6", serving(one)) for one in (answer, b""))
    with stomp_server(first.serve) as one, stomp_server(second.serve) as other:
        with Sender(sink_options(f"{one},{other}")) as sender:
            sender.send(encoded([b"0"]))
            assert sender.finish().confirmed == 1
        assert (first.connections, second.connections) == (1, 1)
