"""The pump: events before failures, receipts, heart-beats, wake-ups."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MappingProxyType

import pytest
from support import session as by_hand
from support.options import connected
from support.tcp import says, stomp_server
from support.waiting import PATIENCE, pause

from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import (
    BrokerError,
    ConnectionLost,
    DestinationRefused,
    HeartbeatLost,
    ReceiptTimeout,
    RemoteProtocolError,
    StompError,
)
from spark_stomp.protocol import ErrorReceived, Event, Frame, HeartbeatReceived, ReceiptReceived
from spark_stomp.transport import Connection

QUEUE = "/queue/a"
CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"
BEATING = b"CONNECTED\nversion:1.2\nheart-beat:200,0\n\n\0"


def subscribe(connection: Connection, destination: str = QUEUE) -> list[object]:
    receipt = connection.session.new_receipt()
    by_hand.subscribe(connection.session, "0", destination, receipt=receipt)
    events: list[object] = []
    connection.await_receipts({receipt: f"SUBSCRIBE to {destination}"}, PATIENCE, events.extend)
    return events


@contextmanager
def served(serve: Callable[[socket.socket], None], **options: str) -> Iterator[Connection]:
    """A connection to a server that treats it so."""
    with stomp_server(serve) as url, connected(url, **options) as connection:
        yield connection


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        (b"ERROR\nmessage:not authorized\nreceipt-id:%b\n\n\0", True),
        (b"ERROR\nmessage:not authorized\n\n\0", True),
        (b"ERROR\nmessage:no\nreceipt-id:%b\n\n\0", False),
        (b"ERROR\nmessage:no\nreceipt-id:another\n\n\0", False),
        (b"ERROR\nmessage:broker is shutting down\n\n\0", False),
        (b"ERROR\nmessage:broker is shutting down\nreceipt-id:%b\n\n\0", False),
        (b"RECEIPT\nreceipt-id:%b\n\n\0ERROR\nmessage:bye\n\n\0", False),
    ],
)
def test_only_an_error_that_answers_the_request_refuses_it(answer: bytes, refused: bool) -> None:
    """RabbitMQ and Artemis name none, but no other one waits. A broker may have other reasons."""

    def then(connection: socket.socket) -> None:
        receipt = connection.recv(4096).partition(b"receipt:")[2].partition(b"\n")[0]
        connection.sendall(answer.replace(b"%b", receipt))
        connection.recv(4096)

    with served(scripted(then)) as connection, pytest.raises(BrokerError) as error:
        subscribe(connection)
        # What comes with the receipt is the next request's.
        connection.disconnect()
    assert type(error.value) is (DestinationRefused if refused else BrokerError)
    assert (f"refused SUBSCRIBE to {QUEUE}" in str(error.value)) is refused


class TestSeveralReceipts:
    """Of requests that were sent together; brokers answer them in order, or by the receipt's id."""

    REQUESTS = MappingProxyType({f"r{name}": f"SUBSCRIBE to /queue/{name}" for name in "abc"})
    A, B, C = (ReceiptReceived(name) for name in REQUESTS)
    OTHER = HeartbeatReceived()

    def awaited(
        self, broker: DevBroker, rounds: list[list[Event]], timeout: float = PATIENCE, every: float = 0.0
    ) -> list[Event]:
        """What else comes in these rounds, one each ``every`` seconds. After the last nothing comes."""
        others: list[Event] = []
        rest = iter(rounds)

        def poll(_: float) -> list[Event]:
            pause(every)
            return next(rest, [])

        with connected(broker.url) as connection:
            connection.await_receipts(self.REQUESTS, timeout, others.extend, poll)
        return others

    @pytest.mark.parametrize(
        "rounds",
        [[[A, B, C, OTHER]], [[OTHER, A], [B], [], [C]], [[C, OTHER], [A, B]], [[B], [C, A], [OTHER]]],
    )
    def test_all_are_awaited_in_any_order(self, devbroker: DevBroker, rounds: list[list[Event]]) -> None:
        expected = [self.OTHER] if [self.OTHER] not in rounds else []
        assert self.awaited(devbroker, rounds) == expected

    @pytest.mark.parametrize(
        ("rounds", "receipt", "refused"),
        [
            ([[A]], "rb", "/queue/b"),
            ([], "rb", "/queue/b"),
            ([[A]], None, "/queue/b"),
            ([], None, "/queue/a"),
            ([[B], [A]], None, "/queue/c"),
            ([[A]], "ra", None),
            ([[A]], "another", None),
        ],
    )
    def test_an_error_is_blamed_on_the_one_that_it_names_or_the_first(
        self, devbroker: DevBroker, rounds: list[list[Event]], receipt: str | None, refused: str | None
    ) -> None:
        own = () if receipt is None else (("receipt-id", receipt),)
        error = ErrorReceived(Frame("ERROR", (("message", "refused: no"), *own)))
        with pytest.raises(BrokerError) as caught:
            self.awaited(devbroker, [*rounds, [error]])
        assert type(caught.value) is (BrokerError if refused is None else DestinationRefused)
        assert refused is None or f"refused SUBSCRIBE to {refused}: refused: no" in str(caught.value)

    def test_each_receipt_starts_the_time_again(self, devbroker: DevBroker) -> None:
        """500 subscriptions may take longer than connectTimeout altogether."""
        rounds: list[list[Event]] = [[self.A], [self.C], [], []]
        with pytest.raises(ReceiptTimeout, match=r"SUBSCRIBE to /queue/b within 0\.5s"):
            self.awaited(devbroker, rounds, timeout=0.5, every=0.3)
        assert self.awaited(devbroker, [*rounds[:2], [self.B]], timeout=0.5, every=0.3) == []


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (b"RECEIPT\nreceipt-id:\\n\x1b%b\n\n\0", RemoteProtocolError, r"\n\x1bxxx"),
        # As Artemis quotes all headers, in one line of more than 64 KiB.
        (b"ERROR\nmessage:AMQ339011 %b\n\n\0", BrokerError, "AMQ339011"),
    ],
)
def test_what_is_long_is_read_and_quoted_in_short(answer: bytes, error: type[StompError], words: str) -> None:
    serve = says(CONNECTED, answer % (b"x" * (60_000 if error is RemoteProtocolError else 600_000)))
    with served(serve) as connection, pytest.raises(error) as raised:
        subscribe(connection)
    assert words in str(raised.value)
    assert error is BrokerError or len(str(raised.value)) < 300


def test_a_withheld_receipt_times_out_by_name(devbroker: DevBroker) -> None:
    devbroker.faults.withhold_receipts = ("SEND",)
    with connected(devbroker.url) as connection:
        receipt = connection.session.new_receipt()
        by_hand.send(connection.session, QUEUE, b"one", receipt=receipt)
        with pytest.raises(ReceiptTimeout, match="the message"):
            connection.await_receipts({receipt: "the message"}, 0.3)


def scripted(
    then: Callable[[socket.socket], None], heartbeat: bytes = b"0,0"
) -> Callable[[socket.socket], None]:
    """A server that answers CONNECT and goes on with ``then``."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"CONNECTED\nversion:1.2\nheart-beat:" + heartbeat + b"\n\n\0")
        then(connection)

    return serve


def test_what_came_before_the_end_is_delivered_before_the_error() -> None:
    def then(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"MESSAGE\nsubscription:0\nmessage-id:1\nack:1\ndestination:/queue/a\n\nlast\0")

    with served(scripted(then)) as connection:
        by_hand.subscribe(connection.session, "0", QUEUE)
        events: list[object] = []
        with pytest.raises(ConnectionLost, match="closed the connection"):
            while True:
                events += connection.poll(5)
        assert [event.body for event in events if isinstance(event, Frame)] == [b"last"]
        assert connection.ended
        with pytest.raises(ConnectionLost):
            connection.poll(0)
        with pytest.raises(ConnectionLost):
            connection.disconnect(0)


def test_an_error_in_place_of_the_receipt_of_disconnect_is_raised() -> None:
    serve = says(CONNECTED, b"ERROR\nmessage:too late\n\n\0")
    with served(serve) as connection, pytest.raises(BrokerError, match="too late"):
        connection.disconnect()


def test_a_connection_that_is_reset_is_said_in_words() -> None:
    def reset(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with (
        served(scripted(reset)) as connection,
        pytest.raises(ConnectionLost, match=r"broke while \w+: Connection reset by peer$"),
    ):
        connection.poll(PATIENCE)


def test_heartbeats_are_sent_while_nothing_happens() -> None:
    beats: list[bytes] = []
    enough = threading.Event()

    def then(connection: socket.socket) -> None:
        while len(b"".join(beats)) < 3:
            beats.append(connection.recv(100))
        enough.set()

    with served(scripted(then, b"0,100"), heartbeat="100ms,0") as connection:
        deadline = time.monotonic() + 10
        while not enough.is_set() and time.monotonic() < deadline:
            connection.poll(0.5)
    assert b"".join(beats)[:3] == b"\n\n\n"


def test_bytes_that_waited_while_we_could_not_run_are_signs_of_life() -> None:
    sent = threading.Event()

    def then(connection: socket.socket) -> None:
        time.sleep(0.6)
        connection.sendall(b"\n")
        sent.set()
        connection.recv(1)

    with served(scripted(then, b"200,0"), heartbeat="0,200ms") as connection:
        assert sent.wait(PATIENCE)
        connection.poll(0)


@pytest.mark.rule("5.13")
def test_the_silence_of_a_server_that_is_not_read_proves_nothing() -> None:
    with served(says(BEATING), heartbeat="0,200ms") as connection:
        rested = time.monotonic() + 0.8
        while time.monotonic() < rested:
            connection.rest(0.1)
        connection.poll(0)
        deadline = time.monotonic() + PATIENCE
        with pytest.raises(HeartbeatLost):
            while time.monotonic() < deadline:
                connection.poll(1)


class TestTheLastByteOfAFrame:
    """What tells a broker that is silent from one that is in the middle of a frame."""

    @staticmethod
    def moved(first: bytes, then: bytes) -> bool:
        """Whether ``then``, received after ``first``, is a part of a frame."""
        go = threading.Event()

        def serve(connection: socket.socket) -> None:
            connection.sendall(first)
            assert go.wait(PATIENCE)
            connection.sendall(then)
            connection.recv(1)

        with served(scripted(serve)) as connection:
            deadline = time.monotonic() + 0.1
            while time.monotonic() < deadline:
                connection.poll(0.02)
            before = connection.last_frame_byte
            go.set()
            deadline = time.monotonic() + 0.2
            while connection.last_frame_byte == before and time.monotonic() < deadline:
                connection.poll(0.02)
            return connection.last_frame_byte > before

    @pytest.mark.parametrize("first", [b"MESSAGE", b"MESSAGE\nsub:", b"MESSAGE\ndestination:a\n\nbo"])
    def test_any_byte_of_a_frame_that_has_begun_counts(self, first: bytes) -> None:
        assert self.moved(first, b"\n")

    def test_the_first_byte_of_a_frame_counts(self) -> None:
        assert self.moved(b"\n", b"M")

    @pytest.mark.parametrize("first", [b"", b"\n", b"MESSAGE\ndestination:a\n\nbody\0"])
    @pytest.mark.parametrize("then", [b"\n", b"\r\n\n"])
    def test_an_eol_between_frames_does_not(self, first: bytes, then: bytes) -> None:
        assert not self.moved(first, then)


def test_wake_ends_a_poll(devbroker: DevBroker) -> None:
    with connected(devbroker.url) as connection:
        begun = time.monotonic()
        threading.Timer(0.2, connection.wake).start()
        assert connection.poll(20) == []
        assert time.monotonic() - begun < 5
    connection.wake()


def test_more_than_the_socket_takes_is_sent_in_pieces(devbroker: DevBroker) -> None:
    body = b"x" * 20_000_000
    with connected(devbroker.url) as connection:
        receipt = connection.session.new_receipt()
        by_hand.send(connection.session, QUEUE, body, receipt=receipt)
        connection.await_receipts({receipt: "a large message"}, PATIENCE)
    assert devbroker.bodies(QUEUE) == [body]
