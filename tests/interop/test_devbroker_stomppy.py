"""stomp.py, an independent client, against the dev broker."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import stomp
from stomp.utils import Frame
from support.waiting import PATIENCE, wait_until

from spark_stomp.devbroker import DevBroker

CONNECTIONS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}
NEW = ["1.1", "1.2"]


class Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Puts what arrives into one queue per kind."""

    def __init__(self) -> None:
        self.arrived: dict[str, queue.Queue[Frame]] = {
            kind: queue.Queue() for kind in ("message", "receipt", "error", "disconnected", "lost")
        }

    def on_message(self, frame: Frame) -> None:
        self.arrived["message"].put(frame)

    def on_receipt(self, frame: Frame) -> None:
        self.arrived["receipt"].put(frame)

    def on_error(self, frame: Frame) -> None:
        self.arrived["error"].put(frame)

    def on_disconnected(self) -> None:
        self.arrived["disconnected"].put(Frame("DISCONNECTED"))

    def on_heartbeat_timeout(self) -> None:
        self.arrived["lost"].put(Frame("HEARTBEAT"))

    def take(self, kind: str) -> Frame:
        return self.arrived[kind].get(timeout=PATIENCE)

    def none(self, kind: str) -> bool:
        return self.arrived[kind].empty()


class Client:
    """A stomp.py connection and what it heard."""

    def __init__(
        self, broker: DevBroker, version: str, login: tuple[str, str] | None, **settings: Any
    ) -> None:
        self.connection = CONNECTIONS[version]([("127.0.0.1", broker.port)], **settings)
        self.heard = Listener()
        self.connection.set_listener("test", self.heard)
        username, passcode = login or (None, None)
        self.connection.connect(username, passcode, wait=login is None)

    def ack_id(self, message: Frame) -> str:
        value: str = message.headers.get("ack") or message.headers["message-id"]
        return value

    def ack(self, message: Frame, **settings: Any) -> None:
        self._settle(self.connection.ack, message, **settings)

    def nack(self, message: Frame, **settings: Any) -> None:
        self._settle(self.connection.nack, message, **settings)

    def _settle(self, act: Callable[..., None], message: Frame, **settings: Any) -> None:
        if isinstance(self.connection, stomp.Connection11) and not isinstance(
            self.connection, stomp.Connection12
        ):
            act(message.headers["message-id"], message.headers["subscription"], **settings)
        else:
            act(self.ack_id(message), **settings)


Connect = Callable[..., Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    clients: list[Client] = []

    def connected(
        broker: DevBroker, version: str = "1.2", login: tuple[str, str] | None = None, **settings: Any
    ) -> Client:
        clients.append(Client(broker, version, login, **settings))
        return clients[-1]

    yield connected
    for client in clients:
        # It counts as connected until the broker's end of the connection is noticed.
        with suppress(OSError, stomp.exception.NotConnectedException):
            client.connection.disconnect()


@pytest.mark.parametrize("version", CONNECTIONS)
def test_send_subscribe_ack_and_receipts(devbroker: DevBroker, connect: Connect, version: str) -> None:
    producer, consumer = connect(devbroker, version), connect(devbroker, version)
    ack = "client" if version == "1.0" else "client-individual"
    consumer.connection.subscribe("/queue/a", id="1", ack=ack, headers={"receipt": "subscribed"})
    assert consumer.heard.take("receipt").headers["receipt-id"] == "subscribed"
    producer.connection.send("/queue/a", "größe: 1\n", headers={"kind": "a test", "receipt": "sent"})
    assert producer.heard.take("receipt").headers["receipt-id"] == "sent"
    message = consumer.heard.take("message")
    assert message.body == "größe: 1\n"
    assert message.headers["kind"] == "a test"
    assert message.headers["subscription"] == "1"
    assert message.headers["destination"] == "/queue/a"
    assert message.headers["redelivered"] == "false"
    consumer.ack(message, receipt="acked")
    assert consumer.heard.take("receipt").headers["receipt-id"] == "acked"
    assert devbroker.queue("/queue/a").acked == 1


@pytest.mark.parametrize("version", NEW)
def test_nack_brings_it_back(devbroker: DevBroker, connect: Connect, version: str) -> None:
    client = connect(devbroker, version)
    client.connection.subscribe("/queue/a", id="1", ack="client-individual")
    devbroker.publish("/queue/a", b"1")
    message = client.heard.take("message")
    client.nack(message)
    again = client.heard.take("message")
    assert again.headers["redelivered"] == "true"
    assert again.headers["message-id"] == message.headers["message-id"]
    client.ack(again)
    wait_until(lambda: devbroker.queue("/queue/a").depth == 0)


@pytest.mark.parametrize("version", CONNECTIONS)
def test_transactions(devbroker: DevBroker, connect: Connect, version: str) -> None:
    client = connect(devbroker, version)
    for end, standing in ((client.connection.abort, []), (client.connection.commit, [b"1"])):
        transaction = client.connection.begin()
        client.connection.send("/queue/a", "1", transaction=transaction)
        end(transaction, headers={"receipt": "over"})
        assert client.heard.take("receipt").headers["receipt-id"] == "over"
        assert devbroker.bodies("/queue/a") == standing


def test_topics(devbroker: DevBroker, connect: Connect) -> None:
    clients = [connect(devbroker) for _ in range(2)]
    for client in clients:
        client.connection.subscribe("/topic/t", id="1", headers={"receipt": "subscribed"})
        client.heard.take("receipt")
    clients[0].connection.send("/topic/t", "news")
    assert [client.heard.take("message").body for client in clients] == ["news", "news"]


def test_heartbeats_keep_both_sides_content(connect: Connect) -> None:
    with DevBroker(heartbeat=(1000, 1000)) as broker:
        client = connect(broker, heartbeats=(1000, 1000), heart_beat_receive_scale=2.5)
        with pytest.raises(AssertionError, match="did not hold"):
            # Several intervals, and nothing but beats in them.
            wait_until(lambda: not client.heard.none("lost") or broker.connections == 0, 4)
        assert client.connection.is_connected()
        client.connection.disconnect()


@pytest.mark.parametrize("version", CONNECTIONS)
def test_a_wrong_password_is_an_error(connect: Connect, version: str) -> None:
    with DevBroker(users={"me": "right"}) as broker:
        refused = connect(broker, version, ("me", "wrong"))
        assert refused.heard.take("error").headers["message"] == "Access refused"
        refused.heard.take("disconnected")
        assert broker.connects == 0
        welcome = connect(broker, version, ("me", "right"))
        wait_until(lambda: broker.connections == 1)
        assert welcome.heard.none("error")
        welcome.connection.disconnect()


def test_un_acked_messages_go_to_the_next_after_a_cut(devbroker: DevBroker, connect: Connect) -> None:
    first = connect(devbroker)
    devbroker.publish_many("/queue/a", [b"1", b"2", b"3"])
    first.connection.subscribe("/queue/a", id="1", ack="client-individual")
    messages = [first.heard.take("message") for _ in range(3)]
    first.ack(messages[1])
    wait_until(lambda: devbroker.queue("/queue/a").acked == 1)
    devbroker.drop_connections()
    first.heard.take("disconnected")
    second = connect(devbroker)
    second.connection.subscribe("/queue/a", id="1", ack="client-individual")
    again = [second.heard.take("message") for _ in range(2)]
    assert [message.body for message in again] == ["1", "3"]
    assert {message.headers["redelivered"] for message in again} == {"true"}
