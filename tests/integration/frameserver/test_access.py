"""Who gets what from the frame server: bare clients with all, some and none of what it wants."""

from __future__ import annotations

import socket
import ssl
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from support.tcp import says, tcp_server

from spark_stomp.errors import FrameServerError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.frameserver import FrameServer, FrameServerAddress, RangeTicket, fetch, report, wire
from spark_stomp.frameserver import client as frame_client
from spark_stomp.frameserver.wire import NAME, KeyPair, new_key_pair, new_token
from spark_stomp.transport.stream import as_file

FRAME = b"MESSAGE\nmessage-id:1\n\nvery secret\0"
TICKET = RangeTicket("e", 0, 1)
PATIENCE = 20.0


class Serving:
    """Serves one frame, and notes what was asked of it."""

    def __init__(self, key_pair: KeyPair | None) -> None:
        self.asked: list[RangeTicket] = []
        self.reports: list[tuple[str, str, str, str, int]] = []
        self.server = FrameServer(
            FrameServerAddress("127.0.0.1", 0, new_token(), key_pair),
            self.read,
            lambda *report: self.reports.append(report),
        )

    @property
    def address(self) -> FrameServerAddress:
        return self.server.address

    def read(self, ticket: RangeTicket) -> Iterator[FrameBatch]:
        self.asked.append(ticket)
        yield FrameBatch(FRAME, [len(FRAME)], 0, 0, "1.2", "generic")


@pytest.fixture(scope="module")
def ended() -> FrameServerAddress:
    """What an earlier run of the query gave its tasks."""
    earlier = Serving(new_key_pair())
    assert list(fetch(earlier.address, TICKET))
    earlier.server.close()
    return earlier.address


@pytest.fixture
def serving() -> Iterator[Serving]:
    made = Serving(new_key_pair())
    yield made
    made.server.close()


@pytest.fixture
def plain() -> Iterator[Serving]:
    made = Serving(None)
    yield made
    made.server.close()


REQUESTS = {"ticket": TICKET.to_bytes(), "report": b'report [["k", "d", "", 1]]'}
REFUSED = b"token is missing or wrong"


def bare(address: FrameServerAddress, root: KeyPair | None, own: KeyPair | None) -> socket.socket:
    """A client that trusts ``root`` and presents ``own``; without both it speaks plain text."""
    connection = socket.create_connection((address.host, address.port), PATIENCE)
    if root is None:
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=root.certificate.decode())
    if own is not None:
        with as_file((own.certificate + own.key).decode()) as file:
            context.load_cert_chain(file or "")
    return context.wrap_socket(connection, server_hostname=NAME)


def answer(connection: socket.socket, said: bytes) -> bytes:
    """All that comes until the server closes the connection, which it does after the last request."""
    found = b""
    with connection, suppress(OSError):
        connection.sendall(said)
        socket.socket.shutdown(connection, socket.SHUT_WR)
        while data := connection.recv(1 << 16):
            found += data
    return found


def test_who_has_the_pair_and_the_token_gets_the_frame(serving: Serving) -> None:
    address = serving.address
    connection = bare(address, address.key_pair, address.key_pair)
    assert FRAME in answer(connection, b"%b %b\n" % (address.token.encode(), REQUESTS["ticket"]))


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("client", ["plain text", "no certificate", "foreign key pair", "ended run"])
def test_whoever_has_not_the_pair_gets_nothing_whatever_token_it_has(
    serving: Serving, ended: FrameServerAddress, client: str, request_: bytes
) -> None:
    key_pair, foreign = serving.address.key_pair, new_key_pair()
    trusted, presented = {
        "plain text": (None, None),
        "no certificate": (key_pair, None),
        "foreign key pair": (key_pair, foreign),
        "ended run": (key_pair, ended.key_pair),
    }[client]
    for token in (serving.address.token, ended.token, ""):
        found = answer(bare(serving.address, trusted, presented), b"%b %b\n" % (token.encode(), request_))
        assert b"MESSAGE" not in found and REFUSED not in found
    assert serving.asked == [] and serving.reports == []


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
@pytest.mark.parametrize("token", ["", "ended", "foreign", "shifted", "the beginning"])
def test_whoever_has_not_the_token_gets_nothing(
    serving: Serving, plain: Serving, ended: FrameServerAddress, token: str, tls: bool, request_: bytes
) -> None:
    asked = serving if tls else plain
    own = asked.address.token
    presented = {
        "": "",
        "ended": ended.token,
        "foreign": new_token(),
        "shifted": f" {own}",
        "the beginning": own[:-1],
    }[token]
    connection = bare(asked.address, asked.address.key_pair, asked.address.key_pair)
    found = answer(connection, b"%b %b\n" % (presented.encode(), request_ + b" " * len(own)))
    assert REFUSED in found and b"MESSAGE" not in found
    assert asked.asked == [] and asked.reports == []


def test_a_request_without_a_token_takes_no_memory(plain: Serving) -> None:
    """It is refused by its first octets, and the others are not read."""
    with bare(plain.address, None, None) as connection:
        connection.settimeout(PATIENCE)
        with pytest.raises(ConnectionError):
            for _ in range(1024):
                connection.sendall(b"x" * (1 << 20))
    assert plain.asked == []


def test_what_a_task_has_noticed_comes_whole(serving: Serving) -> None:
    reports = [("bodies_lost", "/queue/ä", "artemis", "", 3), ("bodies_unfit", "", "activemq", "why", 1)]
    report(serving.address, reports)
    assert serving.reports == reports


def test_a_report_that_cannot_be_made_fails_no_task(ended: FrameServerAddress) -> None:
    report(ended, [("bodies_lost", "/queue/a", "artemis", "", 3)])


def test_a_report_that_nobody_answers_holds_no_task_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_client, "_REPORT_TIMEOUT", 0.2)
    released, waited = threading.Event(), list[bool]()
    address = FrameServerAddress("127.0.0.1", 0, new_token(), None)
    server = FrameServer(address, lambda _: iter(()), lambda *_: waited.append(released.wait(PATIENCE)))
    try:
        report(server.address, [("bodies_lost", "/queue/a", "artemis", "", 3)])
        assert not waited
    finally:
        released.set()
        server.close()


def test_a_task_does_not_wait_for_who_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a stopped process does: the system accepts for it."""
    monkeypatch.setattr(frame_client, "_SILENCE", 0.1)
    monkeypatch.setattr(frame_client, "_REPORT_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = FrameServerAddress("127.0.0.1", silent.getsockname()[1], new_token())
        said = r"could not be fetched from .*: it said nothing for 0\.1 s, nor to another request: timed out"
        with pytest.raises(FrameServerError, match=said):
            list(fetch(address, TICKET))


@pytest.mark.parametrize("key_pair", [None, new_key_pair()], ids=["plain", "tls"])
def test_a_task_waits_for_who_is_slow(monkeypatch: pytest.MonkeyPatch, key_pair: KeyPair | None) -> None:
    """As a journal in a store is."""
    monkeypatch.setattr(frame_client, "_SILENCE", 0.1)
    asked, released = list[bytes](), threading.Event()
    prove = frame_client._prove_alive

    def proved(address: FrameServerAddress) -> None:
        prove(address)
        asked.append(b"")
        if len(asked) == 3:
            released.set()

    def read(_: RangeTicket) -> Iterator[FrameBatch]:
        assert released.wait(PATIENCE)
        yield FrameBatch(FRAME, [len(FRAME)], 0, 0, "1.2", "generic")

    monkeypatch.setattr(frame_client, "_prove_alive", proved)
    server = FrameServer(FrameServerAddress("127.0.0.1", 0, new_token(), key_pair), read)
    try:
        assert [len(one.ends) for one in fetch(server.address, TICKET)] == [1]
        assert len(asked) >= 3
    finally:
        server.close()


def head(*sizes: int) -> bytes:
    return wire._HEAD.pack(b"SFB1", 0, *sizes)


TIME, TEXT = b"\0" * 8, b'["1.2", "", "", null]'
ONE_END = (1).to_bytes(8, "little")
ANSWERS = {
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n" + b" " * 100,
    "no JSON": head(8, 8, 1, 1) + TIME + ONE_END + b"{" + b"x",
    "other JSON": head(8, 8, 2, 1) + TIME + ONE_END + b"[]" + b"x",
    "JSON that is no list": head(8, 8, 1, 1) + TIME + ONE_END + b"5" + b"x",
    "deep JSON": head(8, 8, 100_000, 1) + TIME + ONE_END + b"[" * 100_000 + b"x",
    "no text": head(8, 8, 0, 1) + TIME + ONE_END + b"x",
    "no text in UTF-8": head(8, 8, 1, 1) + TIME + ONE_END + b"\xff" + b"x",
    "no time": head(0, 8, len(TEXT), 1) + ONE_END + TEXT + b"x",
    "more times than frames": head(16, 8, len(TEXT), 1) + TIME + TIME + ONE_END + TEXT + b"x",
    "half an end": head(8, 7, len(TEXT), 1) + TIME + ONE_END[:7] + TEXT + b"x",
    "ends elsewhere": head(8, 8, len(TEXT), 2) + TIME + ONE_END + TEXT + b"xx",
    "ends that go back": head(8, 24, len(TEXT), 1) + TIME + ONE_END * 3 + TEXT + b"x",
    "more frames than octets": head(8, 16, len(TEXT), 1) + TIME + ONE_END * 2 + TEXT + b"x",
    "other types": head(8, 8, 17, 1) + TIME + ONE_END + b'["1.2", 5, "", 5]' + b"x",
    "a text that is too long": head(0, 0, 1 << 24, 0),
    "times of an error": head(1 << 30, 0, 5, 0),
    "octets that nobody has": head(8, 8, 1, 1 << 31),
}
# What it says may be, and does not come.
LARGEST = (1 << 31) - 1
SAID = {
    "octets": head(8, 8, len(TEXT), LARGEST) + TIME + LARGEST.to_bytes(8, "little") + TEXT,
    "ends": head(8, LARGEST // 8 * 8, len(TEXT), LARGEST),
    "times": head(LARGEST // 8 * 8, LARGEST // 8 * 8, len(TEXT), LARGEST),
    "text": head(8, 8, (1 << 24) - 1, 1),
    "error": head(0, 0, (1 << 24) - 1, 0),
}


def taken(ask: Callable[[], object]) -> int:
    """The most bytes that are in memory at a time for ``ask``, which fails."""
    frame_client._free.clear()
    tracemalloc.start()
    try:
        with pytest.raises(FrameServerError):
            ask()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_memory_is_taken_for_what_comes_and_not_for_what_is_said(said: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(said)

    with tcp_server(serve) as port:
        address = FrameServerAddress("127.0.0.1", port, new_token())
        assert taken(lambda: list(fetch(address, TICKET))) < 36 << 20


def test_a_large_frame_comes_whole() -> None:
    data = bytes(range(256)) * 200_000 + b"the end"
    batch = FrameBatch(data, [len(data)], TICKET.low, 1, "1.2", "generic")
    server = FrameServer(FrameServerAddress("127.0.0.1", 0, new_token()), lambda ticket: iter([batch]))
    try:
        (found,) = fetch(server.address, RangeTicket(TICKET.log, TICKET.low, TICKET.low + 1))
        assert bytes(found.data) == data
    finally:
        server.close()


def test_more_than_the_range_fails_the_task() -> None:
    batch = FrameBatch(b"x" * 100, [*range(1, 101)], TICKET.low, 1, "1.2", "generic")
    server = FrameServer(FrameServerAddress("127.0.0.1", 0, new_token()), lambda ticket: iter([batch]))
    try:
        rows = fetch(server.address, RangeTicket(TICKET.log, TICKET.low, TICKET.low + 5))
        with pytest.raises(FrameServerError, match="delivered frames up to"):
            next(rows)
    finally:
        server.close()


def test_a_request_without_an_end_takes_little_memory(plain: Serving) -> None:
    tracemalloc.start()
    try:
        with (
            socket.create_connection((plain.address.host, plain.address.port)) as connection,
            suppress(OSError),
        ):
            connection.sendall(plain.address.token.encode() + b" ")
            for _ in range(64):
                connection.sendall(b"x" * (1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()
    assert plain.asked == []


@pytest.mark.parametrize("said", ANSWERS.values(), ids=ANSWERS)
def test_a_wrong_answer_fails_the_task_with_our_error(said: bytes) -> None:
    with tcp_server(says(said)) as port:
        address = FrameServerAddress("127.0.0.1", port, new_token())
        with pytest.raises(FrameServerError, match="is no frame server of this release"):
            list(fetch(address, TICKET))


def test_a_task_talks_to_nobody_without_the_key_pair(serving: Serving) -> None:
    # Who takes the port of a frame server that has ended gets neither a token nor a task that trusts it.
    for impostor in (Serving(new_key_pair()), Serving(None)):
        task = replace(impostor.address, key_pair=serving.address.key_pair)
        with pytest.raises(FrameServerError):
            list(fetch(task, TICKET))
        assert impostor.asked == []
        impostor.server.close()


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
def test_junk_on_the_port_harms_nobody_else(serving: Serving, plain: Serving, tls: bool) -> None:
    asked = serving if tls else plain
    junk = b"STOMP\naccept-version:1.2\n\n\0" * 100
    assert FRAME[:7] not in answer(bare(asked.address, None, None), junk)
    assert len(list(fetch(asked.address, TICKET))) == 1


MALFORMED = {
    "nothing": b"",
    "a report without JSON": b"report x",
    "a report of another form": b"report [1]",
    "JSON of an earlier release": b'["e", 0, 1]',
    "deep JSON": b"[" * 100_000,
    "Infinity in JSON": b'["e", 0, Infinity]',
    "more than a float": b'["e", 0, 1e400]',
    "wrong types": b'[["e"], "0", true]',
    "infinity": b"e 0 Infinity",
    "negative": b"e -1 1",
    "huge": b"e 0 " + b"9" * 100_000,
    "beyond 64 bits": b"e 0 9999999999999999999",
    "a long id": b"e" * 100_000 + b" 0 1",
    "another encoding": "e 0 1".encode("utf-16"),
    "other digits": "e 0 \u0661".encode(),
    "too much": b"e 0 1 2",
    "NUL": b"e\0 0 1",
    "a MiB": b" " * (1 << 20),
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_an_error_and_no_more(
    plain: Serving, raw: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    connection = bare(plain.address, None, None)
    found = answer(connection, b"%b %b\n" % (plain.address.token.encode(), raw))
    assert len(found) > len(wire.end_of_answer()) and b"MESSAGE" not in found
    assert b"Traceback" not in found and "Traceback" not in capfd.readouterr().err
    assert plain.asked == [] and plain.reports == []
    assert len(list(fetch(plain.address, TICKET))) == 1


class TestClose:
    def test_it_leaves_the_tls_layer_alone(self, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without its layer a socket sends plain text, as another thread may just be about to."""
        assert list(fetch(serving.address, TICKET))
        with monkeypatch.context() as patched:
            patched.setattr(ssl.SSLSocket, "shutdown", lambda *_: pytest.fail("the TLS layer was shut down"))
            serving.server.close()

    def test_a_connection_that_was_just_accepted_is_not_served(self, plain: Serving) -> None:
        plain.server.close()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ours = socket.create_connection(listener.getsockname(), PATIENCE)
            theirs, _ = listener.accept()
        with ours:
            ours.sendall(b"%b %b\n" % (plain.address.token.encode(), TICKET.to_bytes()))
            plain.server._serve(theirs)
            with suppress(ConnectionResetError):  # what it had sent was not read
                assert ours.recv(1) == b""
        assert not plain.asked

    def test_a_client_for_which_no_thread_is_left(
        self, plain: Serving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = threading.Thread.start

        def start_others(thread: threading.Thread) -> None:
            if thread.name == "stomp-frames":
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_others)
        with pytest.raises(FrameServerError, match="could not be fetched"):
            list(fetch(plain.address, TICKET))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" + b" " * 40,
        b"SSH-2.0-Some_Server 1.0 and more\r\n" + b" " * 40,
        b"\0" * 80,
    ],
    ids=["HTTP", "SSH", "zeros"],
)
def test_what_listens_there_is_no_frame_server(answer: bytes) -> None:
    """Another program may have the port by now. A report, on which nothing depends, is lost."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(answer)

    with tcp_server(serve) as port:
        address = FrameServerAddress("127.0.0.1", port, new_token())
        with pytest.raises(FrameServerError, match="is no frame server of this release"):
            list(fetch(address, TICKET))
        report(address, [("k", "d", "", 1)])


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="this platform names the option otherwise")
@pytest.mark.parametrize("name", ["TCP_KEEPIDLE", "TCP_KEEPALIVE"])
def test_tcp_asks_after_a_minute_whether_the_other_machine_is_there(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The second name of the option is that of macOS."""
    option = socket.TCP_KEEPIDLE
    monkeypatch.delattr(socket, "TCP_KEEPIDLE")
    monkeypatch.setattr(socket, name, option, raising=False)
    with socket.socket() as made:
        wire.prepare(made)
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert made.getsockopt(socket.IPPROTO_TCP, option) == 60
