"""A receiver without room: it leaves the socket unread, and goes on as soon as there is room (contract 5)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from support import receivers
from support.receivers import LoneReceiver
from support.scripted import answer, message, opened
from support.tcp import stomp_server
from support.waiting import PATIENCE, pause, wait_until

from spark_stomp.deadline import Deadline
from spark_stomp.devbroker import DevBroker

QUEUE = "/queue/a"
SIZE = 10_000
# Far more than the buffers of two sockets and of the dev broker.
MANY = 3_000
BOUND = 256 << 10
receiving = partial(receivers.receiving, maxBufferedBytes="256k")
# Beyond the bound: the least that is read at once, and the message that was begun.
MORE = (64 << 10) + 2 * SIZE


def commit_all(receiver: LoneReceiver) -> int:
    """Commit what is held; returns how many bytes that is."""
    status = receiver.status()
    # If the connection has just been lost, that was discarded.
    receiver.acknowledge(status.received)
    return status.buffered


def drained(receiver: LoneReceiver, broker: DevBroker) -> int:
    """Commit until the broker has the ACKs of all; returns the most bytes that were held."""
    held: list[int] = []

    def drained_now() -> bool:
        held.append(commit_all(receiver))
        return not broker.queue(QUEUE).depth

    wait_until(drained_now, what="the ACKs of all", every=0.01)
    return max(held)


@pytest.fixture
def full(devbroker: DevBroker) -> DevBroker:
    devbroker.publish_many(QUEUE, [b"x" * SIZE] * MANY)
    return devbroker


@pytest.mark.rule("5.7")
def test_beyond_the_bound_the_socket_is_left_unread(
    full: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving(full.url) as receiver:
        receiver.wait_paused()
        before = receiver.status()
        assert before.buffered <= BOUND + MORE
        assert before.received < MANY / 10
        wait_until(lambda: "raise maxBufferedBytes" in caplog.text, what="a line in the log")
        most = drained(receiver, full)
        assert most <= BOUND + MORE
        wait_until(lambda: receiver.status().paused_since is None, what="the end of the pause")
        assert receiver.status().received == MANY
        assert receiver.status().connection.reconnects == 0
    assert full.queue(QUEUE).acked == MANY
    assert caplog.text.count("raise maxBufferedBytes") == 1


@pytest.mark.rule("5.7")
def test_a_message_larger_than_the_bound_is_read_to_its_end(devbroker: DevBroker) -> None:
    bodies = [bytes([number]) * 1_500_000 for number in range(1, 6)]
    devbroker.publish_many(QUEUE, bodies)
    with receiving(devbroker.url) as receiver:
        for number in range(1, 6):
            receiver.wait_received(number)
            receiver.wait_paused()
            assert receiver.status().received == number
            commit_all(receiver)
    assert devbroker.queue(QUEUE).acked == 5


@pytest.mark.rule("5.2")
def test_a_paused_receiver_counts_as_full(full: DevBroker) -> None:
    with receiving(full.url, prefetch=100_000) as receiver:
        receiver.wait_paused()
        assert receiver.status().window_full
        receiver.offer(5)
        receiver.deliveries.log.commit(5)  # and wake nobody: it counts as full no more before it has looked
        assert receiver.status().paused_since is None
        assert not receiver.status().window_full
        receiver.wake()
        drained(receiver, full)
        wait_until(lambda: not receiver.status().window_full, what="room")


@pytest.mark.rule("5.13")
def test_heart_beats_go_on_and_none_is_missed() -> None:
    with DevBroker(heartbeat=(1_000, 1_000)) as broker:
        broker.publish_many(QUEUE, [b"x" * SIZE] * MANY)
        with receiving(broker.url, heartbeat="1s,1s") as receiver:
            receiver.wait_paused()
            pause(4.0)
            assert (broker.connects, broker.connections) == (1, 1)
            drained(receiver, broker)
            assert broker.connects == 1


@pytest.mark.rule("5.13")
def test_a_broker_that_died_meanwhile_is_missed_soon_after(devbroker: DevBroker) -> None:
    """The time within which it has to send something starts again, but it does start."""

    def serve(connection: socket.socket) -> None:
        opened(connection)
        connection.sendall(message(1, b"x" * (300 << 10)))
        answer(connection)
        # Neither a heart-beat nor anything else any more.
        while connection.recv(4096):
            pass

    with receiving(serve, heartbeat="100ms,100ms") as receiver:
        receiver.wait_paused()
        pause(1.0)
        assert receiver.status().connection.connected
        commit_all(receiver)
        wait_until(lambda: "nothing was received" in (receiver.status().connection.last_error or ""))


@contextmanager
def subscribing() -> Iterator[tuple[str, list[socket.socket]]]:
    """A broker that confirms SUBSCRIBE after 1,000 messages and nothing else; its URL and its connections."""
    connections: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        connections.append(connection)
        connection.recv(4096)
        connection.sendall(b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0")
        answer(connection, b"".join(message(number, b"x" * SIZE) for number in range(1_000)))
        while (asked := connection.recv(4096)) and b"DISCONNECT" not in asked:
            pass

    with stomp_server(serve) as url:
        yield url, connections


@pytest.mark.rule("5.7", "5.13")
def test_messages_before_the_subscription_is_confirmed_find_the_same_bounds() -> None:
    with subscribing() as (url, connections), receiving(url, connectTimeout="1s") as receiver:
        receiver.wait_paused()
        pause(1.5)
        most = 0
        while not receiver.status().subscribed:
            wait_until(lambda: receiver.status().subscribed or receiver.status().paused_since is not None)
            most = max(most, commit_all(receiver))
        assert BOUND - SIZE < most <= BOUND + MORE
        assert len(connections) == 1
        assert receiver.status().received == 1_000


def test_the_end_of_one_that_waits_for_room_and_for_its_subscription() -> None:
    with subscribing() as (url, _), receiving(url, connectTimeout="60s") as receiver:
        receiver.wait_paused()
        begun = time.monotonic()
        receiver.stop(Deadline.after(PATIENCE))
        assert time.monotonic() - begun < PATIENCE / 2


@pytest.mark.rule("4.7", "5.13")
def test_a_receipt_behind_messages_that_wait_is_not_missing(full: DevBroker) -> None:
    with receiving(full.url, ackReceiptTimeout="2s", prefetch=MANY) as receiver:
        receiver.wait_paused()
        before = receiver.status().received
        commit_all(receiver)
        wait_until(lambda: receiver.status().received > before, what="more messages")
        receiver.wait_paused()
        assert receiver.status().acks_pending
        pause(4)
        assert receiver.status().connection.reconnects == 0
        drained(receiver, full)
        assert receiver.status().connection.reconnects == 0


@pytest.mark.rule("4.7")
def test_messages_beyond_what_the_window_allows_do_not_put_off_a_missing_receipt() -> None:
    """A broker that never stops sending messages and never confirms an ACK is given up."""

    def serve(connection: socket.socket) -> None:
        opened(connection)
        number = 0
        while True:
            number += 1
            connection.sendall(message(number, b"x") + b"\n")
            time.sleep(0.001)

    with receiving(serve, ackReceiptTimeout="500ms", prefetch=50, heartbeat="0,0") as receiver:
        receiver.wait_received(20)
        receiver.acknowledge(20)
        wait_until(lambda: "ackReceiptTimeout" in (receiver.status().connection.last_error or ""))


@pytest.mark.rule("5.14")
def test_committed_messages_make_room_before_their_receipts_come(full: DevBroker) -> None:
    full.faults.withhold_receipts = ("ACK",)
    with receiving(full.url, prefetch=MANY) as receiver:
        for _ in range(3):
            receiver.wait_paused()
            before = receiver.status().received
            commit_all(receiver)
            wait_until(lambda before=before: receiver.status().received > before, what="more messages")
        wait_until(lambda: full.queue(QUEUE).acked, what="ACKs at the broker")
        assert receiver.status().acked == 0
        full.faults.withhold_receipts = ()
        full.drop_connections()
        drained(receiver, full)
        status = receiver.status()
    assert (status.received, status.connection.reconnects, status.counts.doubled) == (MANY, 1, 0)


@pytest.mark.rule("5.15")
def test_the_end_reads_on_for_the_last_receipts_and_keeps_nothing(full: DevBroker) -> None:
    with receiving(full.url, prefetch=MANY) as receiver:
        receiver.wait_paused()
        upto = receiver.status().received
        held = receiver.frames.memory_bytes
        receiver.offer(upto)
        receiver.deliveries.log.commit(upto)
        receiver.stop(Deadline.after(PATIENCE))
        assert receiver.status().received == upto
        assert receiver.frames.memory_bytes <= held
    full.wait_until(lambda: full.connections == 0, what="the end")
    assert full.disconnects == 1
    assert full.queue(QUEUE).acked == upto
    assert len(full.bodies(QUEUE)) == MANY - upto


@pytest.mark.rule("5.7")
def test_the_next_connection_asks_for_what_there_is_room_for(full: DevBroker) -> None:
    with receiving(full.url, prefetch=MANY) as receiver:
        receiver.wait_paused()
        assert receiver.status().window == MANY
        full.drop_connections()
        # It sees that once it has read what came before.
        wait_until(lambda: commit_all(receiver) >= 0 and receiver.status().connection.reconnects)
        wait_until(lambda: receiver.status().window_full)
        status = receiver.status()
        assert status.window is not None and BOUND - 2 * SIZE < status.unacked * SIZE <= BOUND
        assert (status.unacked, status.paused_since) == (status.window, None)
        drained(receiver, full)


@pytest.mark.rule("5.7")
def test_after_a_loss_in_a_pause_all_destinations_together_fit_into_memory(devbroker: DevBroker) -> None:
    """RabbitMQ ends a connection that is not read, and would end the next one too."""
    names = [f"/queue/{name}" for name in "abcd"]
    for name in names:
        devbroker.publish_many(name, [b"x" * SIZE] * MANY)
    with receiving(devbroker.url, names) as receiver:
        receiver.wait_paused()
        devbroker.drop_connections()

        def is_back() -> bool:
            commit_all(receiver)  # a paused receiver does not notice it
            return receiver.status().connection.connections == 2

        wait_until(is_back, what="a new connection")
        window, mean = receiver.status().window, receiver.frames.mean_bytes
        assert window is not None and mean is not None and window >= 1
        assert window * len(names) * mean <= BOUND
