"""Many destinations on one connection, against the dev broker."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from itertools import pairwise

import pytest
from support.receivers import LoneReceiver, receiving
from support.scripted import CLOSE, NO_STREAM, ScriptedBroker, answer, message, read_late, receipt_for
from support.waiting import PATIENCE, wait_until

from spark_stomp.brokers import subscription_id
from spark_stomp.deadline import Deadline
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import DestinationRefused, RemoteProtocolError

QUEUES = [f"/queue/{number}" for number in range(20)]
EACH = 10


def bodies(receiver: LoneReceiver) -> Counter[str]:
    """How often each body is held."""
    found: Counter[str] = Counter()
    for batch in receiver.frames.batches(receiver.frames.committed, receiver.frames.received):
        data = bytes(batch.data)
        frames = [data[begin:end] for begin, end in pairwise((0, *map(int, batch.ends)))]
        found.update(frame.partition(b"\n\n")[2].rstrip(b"\0").decode() for frame in frames)
    return found


@pytest.fixture
def filled(devbroker: DevBroker) -> DevBroker:
    for queue in QUEUES:
        devbroker.publish_many(queue, [f"{queue} {number}".encode() for number in range(EACH)])
    return devbroker


@pytest.mark.rule("1.1", "4.4")
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_all_are_received_and_acked_on_one_connection(filled: DevBroker, version: str) -> None:
    count = len(QUEUES) * EACH
    with receiving(filled.url, QUEUES, acceptVersions=version) as receiver:
        receiver.wait_received(count)
        assert receiver.status().destinations == tuple(QUEUES)
        assert set(bodies(receiver).values()) == {1} and len(bodies(receiver)) == count
        receiver.acknowledge(count - 7)
        wait_until(lambda: receiver.status().unacked == 7, what="the receipts")
        assert sum(filled.queue(queue).acked for queue in QUEUES) == count - 7
        receiver.acknowledge(count)
        wait_until(lambda: receiver.status().unacked == 0, what="the other receipts")
        assert [filled.queue(queue).acked for queue in QUEUES] == [EACH] * len(QUEUES)
        assert filled.connects == 1


@pytest.mark.rule("4.3")
def test_after_a_break_each_message_is_known_by_its_subscription(filled: DevBroker) -> None:
    count = len(QUEUES) * EACH
    with receiving(filled.url, QUEUES) as receiver:
        receiver.wait_received(count)
        receiver.offer(count // 2)
        filled.drop_connections()
        wait_until(lambda: receiver.status().counts.reattached == count // 2, what="the redelivery")
        wait_until(lambda: receiver.status().received == count, what="the others")
        assert set(bodies(receiver).values()) == {1}
        receiver.acknowledge(count)
        wait_until(lambda: not any(filled.queue(queue).depth for queue in QUEUES), what="the ACKs")


@pytest.mark.rule("2.4")
def test_what_a_plain_topic_brought_stays_beside_queues(devbroker: DevBroker) -> None:
    """The broker redelivers the queue's messages, and not the topic's."""
    with receiving(devbroker.url, ["/queue/a", "/topic/t"], allowLoss="true") as receiver:
        receiver.wait_subscribed()
        devbroker.publish_many("/queue/a", [b"a0", b"a1"])
        devbroker.publish_many("/topic/t", [b"t0", b"t1"])
        receiver.wait_received(4)
        devbroker.drop_connections()
        wait_until(lambda: receiver.status().connection.reconnects, what="another connection")
        wait_until(lambda: receiver.status().received == 4, what="the queue's messages")
        assert bodies(receiver) == {"a0": 1, "a1": 1, "t0": 1, "t1": 1}
        receiver.acknowledge(4)
        wait_until(lambda: devbroker.queue("/queue/a").depth == 0, what="the ACKs")


@pytest.mark.parametrize("destinations", [1, 2])
def test_under_11_a_message_that_names_no_subscription(destinations: int) -> None:
    """Its ACK must name one: the only one, if there is no other."""
    acks: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"CONNECTED\nversion:1.1\n\n\0")
        answer(connection, b"MESSAGE\nmessage-id:1\ndestination:/queue/0\n\nx\0")
        acks.append(answer(connection))

    with receiving(serve, QUEUES[:destinations]) as receiver:
        if destinations == 1:
            receiver.wait_received(1)
            receiver.acknowledge(1)
            wait_until(lambda: not receiver.status().unacked, what="the receipt")
            assert b"\nsubscription:%b\n" % subscription_id(QUEUES[0]).encode() in acks[0]
        else:
            failure = receiver.wait_failed()
            assert isinstance(failure, RemoteProtocolError) and "no subscription header" in str(failure)


@pytest.mark.parametrize("place", [0, 7, 19])
def test_a_refused_subscription_names_its_destination_and_acks_nothing(filled: DevBroker, place: int) -> None:
    filled.faults.refuse = (QUEUES[place],)
    with receiving(filled.url, QUEUES) as receiver:
        failure = receiver.wait_failed()
        receiver.acknowledge(receiver.status().received)
    assert isinstance(failure, DestinationRefused)
    assert f"refused SUBSCRIBE to {QUEUES[place]}:" in str(failure)
    filled.wait_until(lambda: filled.connections == 0, what="the end of the connection")
    assert [(filled.queue(queue).depth, filled.queue(queue).acked) for queue in QUEUES] == [(EACH, 0)] * 20


@pytest.mark.rule("4.8")
def test_heart_beats_go_out_while_rabbitmq_is_asked_about_many_queues() -> None:
    """It is asked about one after the other, each on a connection of its own, before the first SUBSCRIBE."""
    before: list[bytes] = []
    is_classic = NO_STREAM.format("rabbit_classic_queue").encode()

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"CONNECTED\nversion:1.2\nserver:RabbitMQ/3.10.8\nheart-beat:100,100\n\n\0")
        came = b""
        while b"SUBSCRIBE" not in came:
            came += connection.recv(4096)
        if b"x-stream-offset" in came:
            time.sleep(0.1)
            connection.sendall(b"ERROR\nmessage:precondition_failed\n\n%b\0" % is_classic)
        else:
            before.append(came.partition(b"SUBSCRIBE")[0])

    with receiving(serve, [f"/amq/queue/{number}" for number in range(8)], heartbeat="100ms,100ms"):
        wait_until(lambda: before, what="the first SUBSCRIBE")
    assert before[0].count(b"\n") >= 4


@pytest.mark.rule("7.6")
def test_a_malformed_message_without_a_destination_is_named_by_its_subscription() -> None:
    name = subscription_id(QUEUES[1]).encode()
    bad = b"MESSAGE\nsubscription:%b\nmessage-id:1\nack:1\nbad:\\q\n\nx\0" % name
    broker = ScriptedBroker(b"x", lambda number, frame: bad if b"\nid:%b\n" % name in frame else b"")
    with receiving(broker.serve, QUEUES[:2], broker="generic") as receiver:
        wait_until(lambda: receiver.status().refused, what="the malformed message")
        assert f"message '1' from {QUEUES[1]} is malformed" in str(receiver.status().refused)


@pytest.mark.rule("5.1", "5.13")
def test_acks_go_out_before_all_subscriptions_are_confirmed() -> None:
    """The receipt of one may lie behind more messages of another than there is room for."""
    acked = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"CONNECTED\nversion:1.2\n\n\0")
        asked = b""
        while asked.count(b"receipt:") < 2:
            asked += connection.recv(4096)
        first = asked.partition(b"receipt:")[2].partition(b"\n")[0]
        connection.sendall(b"RECEIPT\nreceipt-id:%b\n\n\0" % first + message(1))
        while piece := connection.recv(4096):
            if b"ACK\nid:a1\n" in piece:
                acked.set()

    with receiving(serve, ["/queue/a", "/queue/b"]) as receiver:
        receiver.wait_received(1)
        receiver.acknowledge(1)
        assert acked.wait(PATIENCE)
        assert not receiver.status().subscribed


@pytest.mark.rule("4.8")
def test_a_connection_that_ends_between_two_subscriptions_is_tried_again() -> None:
    """Artemis is asked for one subscription after the other."""

    def asked(number: int, frame: bytes) -> bytes:
        if number == 1 and frame.startswith(b"SUBSCRIBE"):
            return receipt_for(frame) + CLOSE
        return b""

    broker = ScriptedBroker(b"ActiveMQ-Artemis/2", asked)
    with read_late(), receiving(broker.serve, QUEUES[:2], reconnectDelay="10ms") as receiver:
        wait_until(
            lambda: receiver.status().subscribed or receiver.status().failure, what="the subscriptions"
        )
        assert receiver.status().failure is None
    assert broker.connections == 2


def test_a_connection_that_ends_with_its_last_receipt_fails_nothing_at_the_end() -> None:
    """Artemis is asked to take back what was not ACKed, before DISCONNECT."""

    def asked(number: int, frame: bytes) -> bytes:
        if frame.startswith(b"ACK"):
            return receipt_for(frame) + CLOSE
        return message(0) if frame.startswith(b"SUBSCRIBE") else b""

    with receiving(ScriptedBroker(b"ActiveMQ-Artemis/2", asked).serve) as receiver:
        receiver.wait_received(1)
        with read_late():
            # As if stop() and a commit came together.
            receiver._state.stopping.deadline = Deadline.after(4)
            receiver.acknowledge(1)
            wait_until(lambda: not receiver._worker.is_alive, what="the end")
    assert receiver.status().failure is None


@pytest.mark.rule("4.5")
def test_a_committed_message_that_comes_with_the_subscription_is_acked_at_once() -> None:
    """And not after a poll that waits a second for more messages."""
    subscribed, acked = dict[int, float](), dict[int, float]()

    def asked(number: int, frame: bytes) -> bytes:
        if frame.startswith(b"SUBSCRIBE"):
            subscribed[number] = time.monotonic()
            return message(0)
        if frame.startswith(b"ACK"):
            acked[number] = time.monotonic()
            return CLOSE if number == 1 else b""
        return b""

    with receiving(ScriptedBroker(b"ActiveMQ/6", asked).serve, reconnectDelay="10ms") as receiver:
        receiver.wait_received(1)
        receiver.acknowledge(1)
        wait_until(lambda: 2 in acked, what="the second ACK")
    assert acked[2] - subscribed[2] < 0.8
