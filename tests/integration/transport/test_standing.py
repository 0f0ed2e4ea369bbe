"""What brokers answer when they are asked how much waits in a queue, and what they may answer instead."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority
from support.options import sink_options
from support.scripted import ScriptedBroker, header_of, message
from support.tcp import says, stomp_server, tcp_server, unused_port
from support.waiting import PATIENCE

from spark_stomp.brokers import dialect_named
from spark_stomp.brokers.standing import HttpAnswer, LoginNotAccepted, Standing
from spark_stomp.errors import UnsupportedError
from spark_stomp.transport.standing import ask_standing

QUEUE = "/queue/a b"
FIGURES = {"messages_ready": 12_400, "messages_unacknowledged": 3, "consumers": 4}
ALARM = {"status": "failed", "alarms": [{"node": "n", "resource": "memory"}, {"resource": "disk"}]}


class Management:
    """RabbitMQ's HTTP API: a status and a content for each path."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {
            "/api/health/checks/alarms": (200, {"status": "ok"}),
            "/api/queues/%2F/a%20b": (200, FIGURES),
        }
        self.headers: dict[str, str] = {}
        self.asked: list[str] = []
        management = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                management.asked.append(self.path)
                given = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                code, content = management.answers.get(self.path, (404, {}))
                code = code if given == "ada:s3cret" else 401
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(code)
                for name, value in management.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def ask(self, url: str = "stomp://127.0.0.1:1", **options: Any) -> Standing:
        given = {"login": "ada", "password": "s3cret", "managementUrl": self.url} | options
        connection = sink_options(url, **given).connection
        return ask_standing(connection, dialect_named("rabbitmq"), QUEUE, "127.0.0.1:1")


@pytest.fixture
def management() -> Iterator[Management]:
    made = Management()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.05,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


class TestRabbitMQ:
    def test_figures(self, management: Management) -> None:
        found = management.ask()
        assert found == Standing(True, 12_400, 3, 4)
        assert str(found) == "12,400 messages wait, 3 un-acked, 4 consumers"

    def test_a_queue_that_is_not_there(self, management: Management) -> None:
        del management.answers["/api/queues/%2F/a%20b"]
        assert management.ask() == Standing(is_there=False)

    def test_an_alarm(self, management: Management) -> None:
        management.answers["/api/health/checks/alarms"] = (503, ALARM)
        assert management.ask().alarm == "RabbitMQ has an alarm for disk and memory"

    def test_a_login_without_the_right(self, management: Management) -> None:
        with pytest.raises(LoginNotAccepted, match=r"answers 401 .* needs the tag monitoring") as caught:
            management.ask(password="0ther")
        assert "0ther" not in str(caught.value)

    def test_the_password_goes_nowhere_else(self, management: Management) -> None:
        other = Management()
        management.headers["Location"] = f"{other.url}/"
        management.answers["/api/health/checks/alarms"] = (302, {})
        with pytest.raises(UnsupportedError, match="answers 302"):
            management.ask()
        assert other.asked == []
        other.server.server_close()

    @pytest.mark.parametrize(
        "content", [b"<html>", b"[]", b'{"alarms": 5}', b"[" * 100_000, b"x" * 2_000_000]
    )
    def test_an_answer_of_something_else(self, management: Management, content: bytes) -> None:
        management.answers["/api/health/checks/alarms"] = (200, content)
        with pytest.raises(UnsupportedError):
            management.ask()

    @pytest.mark.parametrize("figures", [[], None, "5", {"messages_ready": "5"}, {"consumers": 1.5}])
    def test_figures_that_are_none(self, management: Management, figures: object) -> None:
        management.answers["/api/queues/%2F/a%20b"] = (200, figures)
        with pytest.raises(UnsupportedError):
            management.ask()

    @pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
    def test_a_server_that_sends_octet_by_octet(
        self, management: Management, monkeypatch: pytest.MonkeyPatch, begin: bytes
    ) -> None:
        monkeypatch.setattr("spark_stomp.transport.standing._TIMEOUT", 0.2)
        gone = threading.Event()

        def drip(connection: socket.socket) -> None:
            until = time.monotonic() + PATIENCE
            with suppress(OSError):
                connection.sendall(begin)
                while time.monotonic() < until:
                    connection.sendall(b" ")
                    time.sleep(0.01)
                return
            gone.set()

        with tcp_server(drip) as port:
            with pytest.raises(UnsupportedError, match="managementUrl cannot be asked: timed out"):
                management.ask(managementUrl=f"http://127.0.0.1:{port}")
            assert gone.wait(PATIENCE)

    def test_a_name_whose_look_up_hangs(
        self, management: Management, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark_stomp.transport.standing._TIMEOUT", 0.2)
        answers = threading.Event()

        def look_up(*_: object) -> list[Any]:
            assert answers.wait(PATIENCE)
            return []

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        begun = time.monotonic()
        try:
            with pytest.raises(
                UnsupportedError, match=r"managementUrl cannot be asked: .*look-up of its name"
            ):
                management.ask(managementUrl="http://h:1")
        finally:
            answers.set()
        assert time.monotonic() - begun < PATIENCE / 2

    def test_all_answers_share_one_limit(
        self, management: Management, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deadlines = []

        def get(*given: Any) -> HttpAnswer:
            deadlines.append(given[3])
            return HttpAnswer(200, b"{}")

        monkeypatch.setattr("spark_stomp.transport.standing.http_get", get)
        management.ask()
        assert len(deadlines) == 2 and len(set(deadlines)) == 1

    @pytest.mark.parametrize(
        "says_more",
        [
            b"Content-Length: %d\r\n\r\n[" % (1 << 60),
            b"Transfer-Encoding: chunked\r\n\r\n%x\r\n[" % (1 << 60),
            b"Transfer-Encoding: chunked\r\n\r\n-1\r\n[",
            b"X: " + b"x" * (1 << 20),
        ],
        ids=["length", "chunk", "less than nothing", "header"],
    )
    def test_memory_is_taken_for_what_comes_and_not_for_what_is_said(
        self, management: Management, says_more: bytes
    ) -> None:
        def more(connection: socket.socket) -> None:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + says_more)

        with tcp_server(more) as port:
            tracemalloc.start()
            try:
                with pytest.raises(UnsupportedError, match="managementUrl"):
                    management.ask(managementUrl=f"http://127.0.0.1:{port}")
                assert tracemalloc.get_traced_memory()[1] < 12 << 20
            finally:
                tracemalloc.stop()

    def test_what_sends_back_the_password_reveals_none(self, management: Management) -> None:
        def echo(connection: socket.socket) -> None:
            sent = connection.recv(1 << 16).decode()
            connection.sendall(f"what is {sent.partition('Basic ')[2].split()[0]} or s3cret?\r\n".encode())

        with tcp_server(echo) as port, pytest.raises(UnsupportedError) as raised:
            management.ask(managementUrl=f"http://127.0.0.1:{port}")
        assert str(raised.value).rstrip().endswith("managementUrl cannot be asked: what is *** or ***?\\r\\n")

    def test_over_tls(self, management: Management, tmp_path: Path) -> None:
        authority = Authority(tmp_path, "authority")
        context = authority.issue("localhost").server_context()
        management.server.socket = context.wrap_socket(management.server.socket, server_side=True)
        broker, url = (
            "stomp+ssl://127.0.0.1:1",
            management.url.replace("http://127.0.0.1", "https://localhost"),
        )
        assert management.ask(broker, managementUrl=url, tlsCaFile=str(authority.ca_file)) == Standing(
            True, 12_400, 3, 4
        )
        with pytest.raises(
            UnsupportedError, match=r"managementUrl cannot be asked: .*CERTIFICATE_VERIFY_FAILED"
        ):
            management.ask(broker, managementUrl=url)

    def test_nobody_there(self, management: Management) -> None:
        with pytest.raises(UnsupportedError, match=r"managementUrl cannot be asked: .*refused"):
            management.ask(managementUrl=f"http://127.0.0.1:{unused_port()}")

    def test_without_the_option(self, management: Management) -> None:
        connection = sink_options("stomp://127.0.0.1:1").connection
        with pytest.raises(UnsupportedError, match="at managementUrl alone"):
            ask_standing(connection, dialect_named("rabbitmq"), QUEUE, "127.0.0.1:1")
        assert management.asked == []


def ask_over_stomp(
    dialect: str, server: bytes, answers: dict[bytes, bytes], selector: str | None = None
) -> Standing:
    """Ask a broker that answers each SEND to one of these destinations with this body."""

    def answer(number: int, frame: bytes) -> bytes:
        if not frame.startswith(b"SEND"):
            return b""
        names = (b"_AMQ_OperationName", b"_AMQ_ResourceName", b"destination")
        body = answers.get(next(filter(None, (header_of(frame, name) for name in names))))
        if body is None:
            return b""
        return message(1, body, b"standing", [b"correlation-id:" + header_of(frame, b"correlation-id")])

    class Broker(ScriptedBroker):
        def _answer(self, number: int, frame: bytes) -> bytes:
            # The query has it.
            assert b"client-id" not in frame
            return super()._answer(number, frame)

    with stomp_server(Broker(server, answer).serve) as url:
        connection = sink_options(url, clientId="me").connection
        peer = connection.endpoints[0].address
        return ask_standing(connection, dialect_named(dialect), "/queue/a", peer, selector)


def entries(**figures: object) -> bytes:
    """A map as ActiveMQ writes it."""
    each = (f"<entry><string>{key}</string><long>{value}</long></entry>" for key, value in figures.items())
    return f"<map>\n{''.join(each)}</map>".encode()


BROKER, OF_QUEUE = b"/topic/ActiveMQ.Statistics.Broker", b"/topic/ActiveMQ.Statistics.Destination.queue\\c//a"
HELD = {"size": 10, "inflightCount": 4, "consumerCount": 2}


class TestActiveMQ:
    def ask(self, answers: dict[bytes, bytes], selector: str | None = None) -> Standing:
        return ask_over_stomp("activemq", b"ActiveMQ/6.3.1", answers, selector)

    def test_figures(self) -> None:
        assert self.ask({OF_QUEUE: entries(**HELD), BROKER: entries()}) == Standing(True, 6, 4, 2)

    def test_a_queue_that_is_not_there(self) -> None:
        assert self.ask({BROKER: entries()}) == Standing(is_there=False)

    def test_without_the_plugin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("spark_stomp.transport.standing._TIMEOUT", 0.2)
        with pytest.raises(UnsupportedError, match="only with its plugin"):
            self.ask({})

    def test_an_answer_that_makes_no_sense(self) -> None:
        with pytest.raises(UnsupportedError, match="not understood"):
            self.ask({OF_QUEUE: entries(size="many"), BROKER: entries()})


class TestArtemis:
    def ask(self, queues: object, selector: str | None = None) -> Standing:
        answers = {
            b"countMessages": b"[5]",
            b"listQueues": json.dumps([json.dumps({"data": queues})]).encode(),
            b"getAddressSettingsAsJSON": b'["{}"]',
            b"address.a": b"[0]",
        }
        return ask_over_stomp("artemis", b"ActiveMQ-Artemis/2.56.0", answers, selector)

    def test_figures(self) -> None:
        queue = {"messageCount": "10", "deliveringCount": "4", "consumerCount": "2"}
        assert self.ask([queue]) == Standing(True, 6, 4, 2)
        assert self.ask([queue], "a = 1").wanted == 1

    def test_an_answer_that_makes_no_sense(self) -> None:
        with pytest.raises(UnsupportedError, match="not understood"):
            self.ask(["x"])


@pytest.mark.parametrize("dialect", ["activemq", "artemis"])
def test_a_login_that_a_broker_refuses(dialect: str) -> None:
    with stomp_server(says(b"ERROR\nmessage:no user ada\n\n\0")) as url:
        options = sink_options(url, login="ada", password="old").connection
        with pytest.raises(LoginNotAccepted, match="no user ada"):
            ask_standing(options, dialect_named(dialect), QUEUE, options.endpoints[0].address)


@pytest.mark.parametrize(
    ("dialect", "destination", "words"),
    [
        ("rabbitmq", "/topic/a", "only queues"),
        ("artemis", "/queue/a.#", "a wildcard"),
        ("devbroker", "/queue/a", "how to ask this broker"),
    ],
)
def test_what_no_broker_is_asked(dialect: str, destination: str, words: str) -> None:
    connection = sink_options("stomp://127.0.0.1:1").connection
    with pytest.raises(UnsupportedError, match=words):
        ask_standing(connection, dialect_named(dialect), destination, "127.0.0.1:1")
