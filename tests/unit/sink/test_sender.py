"""The sender: success means that every message was confirmed, and only so many are unconfirmed at a time."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

import pytest
from support.options import sink_options
from support.tcp import tcp_server
from support.waiting import wait_until

from spark_stomp.arrow import OutgoingMessage
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import (
    BrokerError,
    ConnectionLost,
    DestinationRefused,
    FrameEncodeError,
    ReceiptTimeout,
)
from spark_stomp.sink.sender import Sender

QUEUE = "/queue/out"


def messages(count: int) -> list[OutgoingMessage]:
    return [OutgoingMessage(QUEUE, (("number", str(n)),), b"body %d" % n) for n in range(count)]


@pytest.mark.parametrize("window", [1, 7, 1000])
def test_all_messages_arrive_in_order_and_are_confirmed(devbroker: DevBroker, window: int) -> None:
    with Sender(sink_options(devbroker.url, receiptWindow=window)) as sender:
        for message in messages(100):
            sender.send(message)
        assert sender.finish() == 100
    assert devbroker.bodies(QUEUE) == [message.body for message in messages(100)]
    wait_until(lambda: devbroker.disconnects == 1, what="the DISCONNECT")


def test_nothing_to_send_opens_no_connection(devbroker: DevBroker) -> None:
    with Sender(sink_options(devbroker.url)) as sender:
        assert sender.finish() == 0
    assert devbroker.connects == 0


def test_the_window_bounds_what_is_unconfirmed(devbroker: DevBroker) -> None:
    devbroker.faults.withhold_receipts = ("SEND",)
    with Sender(sink_options(devbroker.url, receiptWindow=5, receiptTimeout="300ms")) as sender:
        with pytest.raises(ReceiptTimeout, match=r"5 message\(s\).*/queue/out"):
            for message in messages(10):
                sender.send(message)
        assert sender.confirmed == 0
    assert devbroker.queue(QUEUE).enqueued <= 5


def test_a_refusal_names_the_destination() -> None:
    with DevBroker(refuse=(QUEUE,)) as broker, Sender(sink_options(broker.url)) as sender:
        sender.send(messages(1)[0])
        with pytest.raises(DestinationRefused, match=f"SEND to {QUEUE}"):
            sender.finish()


def test_a_refusal_that_names_no_message_blames_no_destination() -> None:
    """RabbitMQ's never name one."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"CONNECTED\nversion:1.2\n\n\0")
        connection.recv(4096)
        connection.sendall(
            b"ERROR\nmessage:Unknown destination\n\n'/nonsense/x' is not a valid destination\0"
        )
        connection.recv(4096)

    with tcp_server(serve) as port, Sender(sink_options(f"stomp://127.0.0.1:{port}")) as sender:
        sender.send(messages(1)[0])
        with pytest.raises(BrokerError, match="/nonsense/x") as error:
            sender.finish()
    assert type(error.value) is BrokerError
    assert QUEUE not in str(error.value)


def test_a_failed_disconnect_does_not_undo_what_was_confirmed(
    devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_stomp.sink.sender._DISCONNECT_TIMEOUT", 0.2)
    devbroker.faults.withhold_receipts = ("DISCONNECT",)
    with Sender(sink_options(devbroker.url)) as sender:
        sender.send(messages(1)[0])
        assert sender.finish() == 1


def test_a_connection_that_breaks_is_no_success(devbroker: DevBroker) -> None:
    devbroker.faults.withhold_receipts = ("SEND",)
    with Sender(sink_options(devbroker.url)) as sender:
        sender.send(messages(1)[0])
        devbroker.drop_connections()
        with pytest.raises(ConnectionLost):
            sender.finish()


def pause(seconds: float) -> None:
    """As Spark does while it computes for so long."""
    threading.Event().wait(seconds)


def pumps() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("stomp-sender")]


class TestWhileSparkComputes:
    def test_a_few_messages_are_sent_and_confirmed(self, devbroker: DevBroker) -> None:
        with Sender(sink_options(devbroker.url)) as sender:
            for message in messages(3):
                sender.send(message)
            wait_until(lambda: devbroker.queue(QUEUE).enqueued == 3, what="the messages")
            wait_until(lambda: sender.confirmed == 3, what="the receipts")
            assert sender.finish() == 3

    def test_heartbeats_go_both_ways(self) -> None:
        with (
            DevBroker(heartbeat=(1000, 1000)) as broker,
            Sender(sink_options(broker.url, heartbeat="1s,1s")) as sender,
        ):
            sender.send(messages(1)[0])
            pause(3.0)
            sender.send(messages(1)[0])
            assert sender.finish() == 2
            assert broker.connects == 1

    def test_a_broken_connection_is_raised_by_the_next_call(self, devbroker: DevBroker) -> None:
        with Sender(sink_options(devbroker.url)) as sender:
            sender.send(messages(1)[0])
            devbroker.drop_connections()
            wait_until(lambda: pumps() == [], what="the end of the pump")
            with pytest.raises(ConnectionLost):
                sender.send(messages(1)[0])
            with pytest.raises(ConnectionLost):
                sender.finish()

    def test_a_refusal_is_raised_by_the_next_call(self) -> None:
        with DevBroker(refuse=(QUEUE,)) as broker, Sender(sink_options(broker.url)) as sender:
            sender.send(messages(1)[0])
            wait_until(lambda: pumps() == [], what="the end of the pump")
            with pytest.raises(DestinationRefused, match=f"SEND to {QUEUE}"):
                sender.send(messages(1)[0])

    @pytest.mark.parametrize("finished", [True, False])
    def test_nothing_runs_on_after_the_sender(self, devbroker: DevBroker, finished: bool) -> None:
        with suppress(KeyError), Sender(sink_options(devbroker.url)) as sender:
            sender.send(messages(1)[0])
            assert len(pumps()) == 1
            if not finished:
                raise KeyError
            sender.finish()
        assert pumps() == []

    def test_a_message_that_cannot_be_sent_is_raised_where_it_is_sent(self, devbroker: DevBroker) -> None:
        with Sender(sink_options(devbroker.url)) as sender:
            sender.send(messages(1)[0])
            with pytest.raises(FrameEncodeError, match="NUL"):
                sender.send(OutgoingMessage(QUEUE, (("a", "\0"),), b""))
            assert sender.finish() == 1


class TestReceiptTimeout:
    @pytest.fixture(autouse=True)
    def no_pump(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As in a process that does not run for a while."""
        monkeypatch.setattr("spark_stomp.sink.sender.Pump", NoPump)

    @pytest.mark.parametrize("sent", [3, 64])
    def test_it_is_judged_by_what_has_come_and_not_by_the_clock_alone(
        self, devbroker: DevBroker, sent: int
    ) -> None:
        with Sender(sink_options(devbroker.url, receiptTimeout="200ms")) as sender:
            for message in messages(sent):
                sender.send(message)
            pause(0.3)
            assert sender.finish() == sent

    def test_it_counts_from_what_was_sent_last(self, devbroker: DevBroker) -> None:
        devbroker.faults.withhold_receipts = ("SEND",)
        with Sender(sink_options(devbroker.url, receiptTimeout="300ms")) as sender:
            sender.send(messages(1)[0])
            pause(0.4)
            begun = time.monotonic()
            with pytest.raises(ReceiptTimeout):
                sender.finish()
        assert 0.3 <= time.monotonic() - begun < 5

    def test_heartbeats_do_not_put_it_off(self) -> None:
        with DevBroker(heartbeat=(500, 500)) as broker:
            broker.faults.withhold_receipts = ("SEND",)
            options = sink_options(broker.url, receiptTimeout="1500ms", heartbeat="500ms,500ms")
            begun = time.monotonic()
            with Sender(options) as sender, pytest.raises(ReceiptTimeout):
                sender.send(messages(1)[0])
                sender.finish()
        assert time.monotonic() - begun < 10


class NoPump:
    failure = None

    def __init__(self, *_: object) -> None:
        pass

    def stop(self) -> None:
        pass
