"""Opening a connection: what answers, how long we wait, and what the error says."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fronts import websocket_front
from support.options import connected
from support.tcp import says, stomp_server, tcp_server, unused_port
from support.waiting import PATIENCE, pause

from spark_stomp.deadline import Deadline
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import (
    BrokerError,
    ClientIdInUse,
    ConnectFailed,
    ConnectTimeout,
    LoginRefused,
    NotStompServer,
    StompError,
    VersionError,
)
from spark_stomp.transport.logins import RefusedLogins


def connect(url: str, **options: object) -> str | None:
    """Open and close a connection; returns the version spoken."""
    with connected(url, **options) as connection:
        version = connection.session.version
        connection.disconnect(5)
        return version


def refusal(*answers: bytes, **options: object) -> StompError:
    """The error of a connection to a server with these answers."""
    refused = pytest.raises(StompError)
    with stomp_server(says(*answers)) as url, refused as error, connected(url, **options) as connection:
        connection.await_receipts({"r": "SUBSCRIBE"}, PATIENCE)
    return error.value


def all_that_is_shown(error: StompError) -> str:
    return "".join(traceback.format_exception(error))


@pytest.mark.rule("7.1")
class TestWithoutHeartbeats:
    """TCP has to notice that the other side is gone: a dead connection would look like an empty queue."""

    WANTED = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")

    def options_of(self, url: str, **options: object) -> dict[str, int]:
        """What the socket of a connection has."""
        with (
            connected(url, **options) as connection,
            socket.socket(fileno=os.dup(connection._stream.fileno())) as twin,
        ):
            assert twin.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            wanted = {name: getattr(socket, name) for name in self.WANTED}
            return {name: twin.getsockopt(socket.IPPROTO_TCP, number) for name, number in wanted.items()}

    @pytest.fixture(autouse=True)
    def on_this_platform(self) -> None:
        if not all(hasattr(socket, name) for name in self.WANTED):
            pytest.skip("this platform has other names for them")

    @pytest.mark.parametrize(
        ("broker", "client"), [((0, 0), "10s,10s"), ((10_000, 10_000), "0,0"), ((0, 10_000), "10s,10s")]
    )
    def test_a_silent_peer_is_given_two_minutes(self, broker: tuple[int, int], client: str) -> None:
        with DevBroker(heartbeat=broker) as server:
            found = self.options_of(server.url, heartbeat=client)
        probes = found["TCP_KEEPIDLE"] + found["TCP_KEEPINTVL"] * found["TCP_KEEPCNT"]
        assert (probes, found["TCP_USER_TIMEOUT"]) == (120, 120_000)

    def test_nor_over_a_websocket(self, devbroker: DevBroker) -> None:
        with websocket_front(devbroker.port) as port:
            assert self.options_of(f"ws://127.0.0.1:{port}/")["TCP_USER_TIMEOUT"] == 120_000

    def test_heartbeats_are_enough(self) -> None:
        """A broker may let a sender wait for longer than that; its heart-beats say that it lives."""
        with DevBroker(heartbeat=(10_000, 10_000)) as server:
            assert self.options_of(server.url)["TCP_USER_TIMEOUT"] == 0


@pytest.mark.parametrize("scheme", ["stomp", "ws"])
def test_if_nobody_listens_it_asks_whether_stomp_is_on(scheme: str) -> None:
    with pytest.raises(
        ConnectFailed, match=r":\d+: Connection refused; .*RabbitMQ: plugin .*, Artemis: .*, ActiveMQ: "
    ):
        connect(f"{scheme}://127.0.0.1:{unused_port()}")


@pytest.mark.parametrize(
    "answer",
    [
        b"ERROR\nmessage:no %(raw)s\n\nheaders passcode=%(raw)s, token=%(token)s\0",
        b"ERROR\nversion:1.2\nmessage:no %(escaped)s\n\nbody " + b"." * 290 + b"%(raw)s\0",
        b"ERROR\nversion:1.2\n\npasscode:%(escaped)s\ntoken:%(token)s\0",
        b"ERROR\nversion:9.9\nmessage:no %(raw)s\n\n\0",
        b"%(token)s\n\n\0",
    ],
)
def test_a_broker_that_quotes_connect_does_not_give_its_secrets_away(answer: bytes) -> None:
    secret, token = "s3cret\\:word", "t0ken value"
    shown = {b"raw": secret.encode(), b"escaped": rb"s3cret\\\cword", b"token": token.encode()}
    given = {"login": "ada", "password": secret, "acceptVersions": "1.2"}
    headers = json.dumps({"authorization": token})
    texts = all_that_is_shown(refusal(answer % shown, secretConnectHeaders=headers, **given))
    assert "s3cre" not in texts
    assert "t0ken" not in texts
    assert "***" in texts or "body ..." in texts


@pytest.mark.parametrize(
    "answer",
    [
        b"." * 36 + b"%(secret)s\n\n\0",
        b"CONNECTED\nversion:" + b"9" * 96 + b"%(secret)s\n\n\0",
        b"CONNECTED\nversion:1.2\n\n\0ERROR\nmessage:no %(secret)s\n\nbody: %(secret)s\0",
        b"CONNECTED\nversion:1.2\n\n\0RECEIPT\nreceipt-id:%(secret)s\n\n\0",
        b"CONNECTED\nversion:1.2\n\n\0" + b"." * 36 + b"%(secret)s\n\n\0",
    ],
)
def test_nor_does_one_whose_words_are_cut_or_come_later(answer: bytes) -> None:
    given = {"login": "ada", "password": "s3cretword"}
    texts = all_that_is_shown(refusal(answer % {b"secret": b"s3cretword"}, **given))
    assert "s3c" not in texts
    assert "***" in texts


class Reads:
    """A broker with one login, and how it reads CONNECT: it counts how often it gets one."""

    def __init__(self, unescape: str, login: str, password: str) -> None:
        self.connects = 0
        self._login = {b"login": login.encode(), b"passcode": password.encode()}
        self._unescape = unescape

    def serve(self, connection: socket.socket) -> None:
        data = connection.recv(1000)
        self.connects += bool(data)
        lines = [line.partition(b":") for line in data.split(b"\n")]
        read = {name: self._read(value) for name, _, value in lines if name in self._login}
        if None not in read.values():
            refused = b"ERROR\nmessage:Bad CONNECT\n\n\0"
            connection.sendall(b"CONNECTED\nversion:1.2\n\n\0" if read == self._login else refused)

    def _read(self, value: bytes) -> bytes | None:
        if self._unescape == "closes" and re.search(rb"\\(?:[^\\cnr]|$)", value.replace(rb"\\", b"")):
            return None
        known = {b"n": b"\n", b"r": b"\r", b"c": b":", b"\\": b"\\"}
        return re.sub(rb"\\([\\cnr])", lambda m: known[m[1]], value) if self._unescape else value


class TestABackslash:
    """STOMP has no escapes in CONNECT; RabbitMQ (``closes``) and ActiveMQ (``keeps``) read some."""

    @pytest.fixture(autouse=True)
    def unknown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("spark_stomp.transport.connect._unescaping", set())
        monkeypatch.setattr("spark_stomp.transport.connect._refused", RefusedLogins())

    @pytest.mark.parametrize(
        ("unescape", "login", "password", "connects"),
        [
            ("", r"DOM\user", r"a\nb\\c\q", [1, 1]),
            ("closes", r"DOM\user", "p", [2, 1]),
            ("closes", "ada", r"a\nb\\c\q:", [2, 1]),
            ("closes", "ada", r"a\nb", [2, 1]),
            ("closes", "ada", "a\nb\r", [1, 1]),
            ("keeps", r"DOM\user", "p", [1, 1]),
            ("keeps", r"DOM\nina", "p", [2, 1]),
            ("keeps", "ada", "a:b", [1, 1]),
        ],
    )
    def test_is_sent_as_the_broker_reads_it(
        self, unescape: str, login: str, password: str, connects: list[int]
    ) -> None:
        broker = Reads(unescape, login, password)
        with stomp_server(broker.serve) as url:
            for count in connects:
                broker.connects = 0
                connected(url, login=login, password=password).close()
                assert broker.connects == count

    def test_two_connections_that_find_it_out_at_once_know_it_both(self) -> None:
        met = threading.Barrier(2)
        asked: list[bytes] = []

        def serve(connection: socket.socket) -> None:
            asked.append(connection.recv(1 << 16))
            if rb"passcode:a\\nb" not in asked[-1]:
                connection.sendall(b"ERROR\nmessage:Bad CONNECT\n\n\0")
                return
            if len(asked) <= 4:
                met.wait(PATIENCE)
            connection.sendall(b"CONNECTED\nversion:1.2\n\n\0")
            connection.recv(1)

        with stomp_server(serve) as url:

            def connects() -> None:
                connected(url, login="ada", password=r"a\nb").close()

            both = [threading.Thread(target=connects) for _ in range(2)]
            for one in both:
                one.start()
            for one in both:
                one.join(PATIENCE)
            connects()
        assert len(asked) == 5

    @pytest.mark.rule("4.8")
    @pytest.mark.parametrize(
        ("login", "password", "named", "connects"),
        [
            ("ada", "wrong", "auto", 1),
            (r"DOM\user", "wrong", "auto", 1),
            ("ada", r"wr\nong", "auto", 2),
            ("ada", r"wr\nong", "activemq", 1),
            ("ada", r"wr\nong", "artemis", 1),
        ],
    )
    def test_a_refused_password_is_sent_twice_only_if_it_may_have_been_misread(
        self, login: str, password: str, named: str, connects: int
    ) -> None:
        broker = Reads("keeps", "ada", "right")
        with stomp_server(broker.serve) as url:
            for _ in range(3):
                with pytest.raises(LoginRefused):
                    connect(url, login=login, password=password, broker=named)
        assert broker.connects == connects


def test_the_password_of_a_file_is_sent_and_not_given_away(tmp_path: Path) -> None:
    (file := tmp_path / "password").write_text("s3cretword\n")
    quotes = b"ERROR\nmessage:no s3cretword\n\npasscode s3cretword\0"
    refused = refusal(quotes, login="ada", passwordFile=file)
    texts = all_that_is_shown(refused)
    assert type(refused) is LoginRefused and "s3c" not in texts and "***" in texts
    with DevBroker(users={"ada": "s3cretword"}) as broker:
        connect(broker.url, login="ada", passwordFile=file)


def test_each_address_gets_what_the_file_has_then(tmp_path: Path) -> None:
    (file := tmp_path / "password").write_text("old")

    def rotate(connection: socket.socket) -> None:
        connection.recv(1000)
        file.write_text("new")

    with stomp_server(rotate) as url, DevBroker(users={"ada": "new"}) as broker:
        connect(f"{url},{broker.url}", login="ada", passwordFile=file)


@pytest.mark.rule("4.8")
def test_an_error_that_comes_together_with_connected_refuses_no_login() -> None:
    """The same password is sent again at once."""
    connects: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        connects.append(connection.recv(1 << 16))
        connection.sendall(b"CONNECTED\nversion:1.2\n\n\0ERROR\nmessage:too many connections\n\n\0")

    with stomp_server(serve) as url:
        for _ in range(2):
            with (
                connected(url, login="ada", password="right") as connection,
                pytest.raises(BrokerError, match="ended the connection: too many connections") as error,
            ):
                connection.require_open()
            assert type(error.value) is BrokerError
    assert len(connects) == 2


def test_no_common_version() -> None:
    with DevBroker(versions=("1.0",)) as broker, pytest.raises(VersionError, match=r"1\.0"):
        connect(broker.url, acceptVersions="1.2")


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"220 mail ready\r\n", b"\x16\x03\x01\n"]
)
def test_a_server_of_another_kind(answer: bytes) -> None:
    with tcp_server(says(answer)) as port, pytest.raises(NotStompServer, match=rf"{port} .*want TLS"):
        connect(f"stomp://127.0.0.1:{port}", connectTimeout="5s")


@pytest.mark.parametrize(
    ("options", "words"),
    [({}, r"without answering.*\?$"), ({"clientId": "ada"}, "Or is clientId ada still in use")],
)
def test_a_server_that_hangs_up_at_once(options: dict[str, str], words: str) -> None:
    """ActiveMQ may do that if the client id is in use."""
    with stomp_server(lambda connection: None) as url, pytest.raises(ConnectFailed, match=words):
        connect(url, **options)


def test_a_server_that_says_nothing_costs_the_timeout_and_no_more() -> None:
    begun = time.monotonic()
    with stomp_server(says()) as url, pytest.raises(ConnectTimeout, match=r"connectTimeout \(0.5s\)"):
        connect(url, connectTimeout="500ms")
    assert 0.5 <= time.monotonic() - begun < 5


def test_a_broker_that_answered_before_is_a_stomp_port(devbroker: DevBroker) -> None:
    connect(devbroker.url)
    devbroker.faults.answer_nothing = True
    with pytest.raises(
        ConnectTimeout, match=r"\. It did 0\.\d s ago: it hangs, or the network drops packets$"
    ):
        connect(devbroker.url, connectTimeout="500ms")


IN_USE = "Broker: b - Client: ada already connected from tcp://127.0.0.1:5"


@pytest.mark.parametrize(
    ("words", "options", "reason"),
    [
        (IN_USE, {"clientId": "ada"}, "clientId ada"),
        # Whatever the password is.
        (
            "Client: c already connected",
            {"clientId": "c", "login": "ada", "password": "Client"},
            "***: c already",
        ),
        # Only where a client id was given, and the broker says so.
        (IN_USE, {}, None),
        ("User name or password is invalid", {"clientId": "ada"}, None),
    ],
)
def test_a_client_id_in_use_is_told_from_a_refused_login(
    words: str, options: dict[str, str], reason: str | None
) -> None:
    refused = refusal(b"ERROR\nmessage:%b\n\n\0" % words.replace(":", "\\c").encode(), **options)
    assert isinstance(refused, LoginRefused)
    assert isinstance(refused, ClientIdInUse) == (reason is not None)
    assert reason is None or (reason in str(refused) and f"clientId {options['clientId']}" in str(refused))


class TestANameWhoseLookUpHangs:
    """The system's resolver cannot be interrupted, and may take a minute."""

    @pytest.fixture
    def resolver(self, devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
        resolver = Resolver(devbroker.port)
        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        yield resolver
        resolver.answers.set()

    def test_costs_the_timeout(self, resolver: Resolver) -> None:
        begun = time.monotonic()
        with pytest.raises(
            ConnectTimeout, match=r"h:1 within connectTimeout \(0\.3s\): the look-up of its name"
        ):
            connected("stomp://h:1", connectTimeout="300ms")
        assert 0.2 < time.monotonic() - begun < PATIENCE / 2

    def test_is_waited_for_by_all_and_is_done_anew_later(self, resolver: Resolver) -> None:
        for _ in range(3):
            with pytest.raises(ConnectTimeout):
                connected("stomp://h:1", connectTimeout="100ms")
        assert resolver.asked == ["h"]
        resolver.answers.set()
        connected("stomp://h:1").close()
        # Addresses change: an answer is for those who wait for it.
        connected("stomp://h:1").close()
        assert resolver.asked[1:] and set(resolver.asked) == {"h"}

    def test_an_error_of_it_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown(*_: object) -> None:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(ConnectFailed, match="cannot connect to h:1: Name or service not known"):
            connected("stomp://h:1")


class Resolver:
    """Looks each name up as 127.0.0.1 and this port, once it ``answers``."""

    def __init__(self, port: int) -> None:
        self.answers = threading.Event()
        self.asked: list[str] = []
        self._found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    def __call__(self, host: str, *_: object) -> list[Any]:
        self.asked.append(host)
        assert self.answers.wait(PATIENCE)
        return self._found


def test_both_spellings_of_connect_share_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is not known may have misread the first one."""
    deadlines = []

    def refused(_endpoint: object, _options: object, _config: object, deadline: Deadline) -> None:
        deadlines.append(deadline)
        raise LoginRefused("no")

    monkeypatch.setattr("spark_stomp.transport.connect._open_session", refused)
    with pytest.raises(LoginRefused):
        connected("stomp://h:1", login="ada", password=r"a\nb")
    assert len(deadlines) == 2 and len(set(deadlines)) == 1


class TestANameWithSeveralAddresses:
    """connectTimeout is for all of them together."""

    def resolve(self, monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
        infos = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: infos)

    def hang(self, monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
        """Who connects there waits for its timeout."""

        class Hanging(socket.socket):
            def connect(self, address: Any) -> None:
                if address[1] in ports:
                    pause(self.gettimeout() or PATIENCE)
                    raise TimeoutError("timed out")
                super().connect(address)

        monkeypatch.setattr(socket, "socket", Hanging)

    def test_that_all_hang_costs_the_timeout_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resolve(monkeypatch, 1, 2, 3)
        self.hang(monkeypatch, 1, 2, 3)
        begun = time.monotonic()
        with pytest.raises(ConnectTimeout, match=r"no connection to h:1 within connectTimeout \(0\.6s\)"):
            connected("stomp://h:1", connectTimeout="600ms")
        assert 0.5 < time.monotonic() - begun < 1.2

    def test_each_gets_its_share(self, devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resolve(monkeypatch, 1, devbroker.port)
        self.hang(monkeypatch, 1)
        assert connect("stomp://h:1", connectTimeout="2s") == "1.2"

    def test_if_none_answers_the_last_one_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resolve(monkeypatch, 1, unused_port())
        self.hang(monkeypatch, 1)
        with pytest.raises(ConnectFailed, match=r"cannot connect to h:1: .*refused"):
            connected("stomp://h:1", connectTimeout="600ms")


class TestSeveralEndpoints:
    def test_the_first_that_answers(self, devbroker: DevBroker) -> None:
        assert connect(f"stomp://127.0.0.1:{unused_port()},{devbroker.url}") == "1.2"

    def test_all_failures_are_named(self) -> None:
        first, second = unused_port(), unused_port()
        with pytest.raises(ConnectFailed, match=rf"127.0.0.1:{first}.*127.0.0.1:{second}"):
            connect(f"stomp://127.0.0.1:{first},stomp://127.0.0.1:{second}")

    def test_a_refused_login_ends_the_search(self, devbroker: DevBroker) -> None:
        with DevBroker(users={"ada": "right"}) as strict, pytest.raises(LoginRefused):
            connect(f"{strict.url},{devbroker.url}", login="ada", password="wrong")
        assert devbroker.connects == 0
