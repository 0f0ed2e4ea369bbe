from __future__ import annotations

from collections.abc import Callable

import pytest
from support.session import send, subscribe

from spark_stomp.devbroker.core import Broker
from spark_stomp.devbroker.peer import Faults, Peer
from spark_stomp.errors import ClientIdInUse
from spark_stomp.protocol import (
    NEED_DATA,
    ClientConfig,
    ClientConnection,
    Connected,
    ErrorReceived,
    Event,
    Frame,
    HeartbeatReceived,
    ServerConfig,
)
from spark_stomp.transport.broker_errors import connect_refused

Headers = tuple[tuple[str, str], ...]
ALL = ("1.2", "1.1", "1.0", "lenient")


class Pair:
    """A peer of the broker and the client session at its other end, joined without sockets."""

    def __init__(
        self,
        *,
        users: dict[str, str] | None = None,
        faults: Faults | None = None,
        heartbeat: tuple[int, int] = (0, 0),
        config: ClientConfig | None = None,
    ) -> None:
        self.broker = Broker()
        server = ServerConfig(ALL, heartbeat=heartbeat)
        self.peer = Peer(self.broker, server, users, faults or Faults(), "session-1")
        self.client = ClientConnection(config or ClientConfig())
        self.client.connect(0.0)
        self.first = self.exchange()

    def exchange(self, now: float = 0.0) -> list[Event]:
        """Move all bytes both ways; the events that the client gets."""
        found: list[Event] = []
        while True:
            data = self.client.data_to_send()
            if data:
                self.peer.receive(data, now)
            self.broker.dispatch()
            answer = self.peer.connection.data_to_send()
            if not answer:
                return found
            self.client.receive_data(answer, now)
            while (event := self.client.next_event()) is not NEED_DATA:
                found.append(event)

    def messages(self) -> list[bytes]:
        return [event.body for event in self.exchange() if isinstance(event, Frame)]

    def refusal(self) -> ErrorReceived:
        (event,) = self.exchange()
        assert isinstance(event, ErrorReceived)
        assert self.peer.finished
        return event


class TestLogin:
    def test_everyone_is_let_in_where_there_are_no_users(self) -> None:
        pair = Pair(config=ClientConfig(login="x", passcode="y"))
        # The end of line after each frame is a heart-beat to a client.
        assert pair.first == [Connected(), HeartbeatReceived()]
        assert pair.peer.connected
        assert (pair.broker.connects, pair.broker.disconnects) == (1, 0)

    @pytest.mark.parametrize(
        ("login", "passcode"), [("me", "wrong"), ("you", "secret"), (None, None), ("me", None), ("you", None)]
    )
    def test_anybody_else_is_refused_without_telling_the_passcode(
        self, login: str | None, passcode: str | None
    ) -> None:
        pair = Pair(users={"me": "secret"}, config=ClientConfig(login=login, passcode=passcode))
        (error,) = pair.first
        assert isinstance(error, ErrorReceived) and error.message == "Access refused"
        assert "secret" not in error.detail and "wrong" not in error.detail
        assert pair.peer.finished and not pair.peer.connected
        assert pair.broker.connects == 0


class TestClientIdInUse:
    CONFIG = ClientConfig(connect_headers=(("client-id", "ada"),))

    def test_is_refused_as_long_as_the_fault_lasts(self) -> None:
        faults = Faults(client_ids_in_use={"ada"})
        (error,) = Pair(faults=faults, config=self.CONFIG).first
        assert isinstance(error, ErrorReceived)
        # The connector knows by its words that it may try again.
        assert isinstance(connect_refused(error, "the broker", "ada", "/"), ClientIdInUse)
        faults.client_ids_in_use = ()
        assert Pair(faults=faults, config=self.CONFIG).peer.connected

    @pytest.mark.parametrize("headers", [(), (("client-id", "bob"),)])
    def test_others_are_let_in(self, headers: Headers) -> None:
        faults = Faults(client_ids_in_use={"ada"})
        assert Pair(faults=faults, config=ClientConfig(connect_headers=headers)).peer.connected


class TestFrames:
    @pytest.mark.parametrize("header", ["prefetch-count", "activemq.prefetchSize"])
    def test_prefetch(self, header: str) -> None:
        pair = Pair()
        for number in range(3):
            pair.broker.publish("/queue/a", b"%d" % number)
        subscribe(pair.client, "0", "/queue/a", headers=[(header, "2")])
        assert pair.messages() == [b"0", b"1"]

    @pytest.mark.parametrize("named", [b"", b"id:0\n"])
    def test_1_0_may_unsubscribe_by_destination(self, named: bytes) -> None:
        pair = Pair(config=ClientConfig(accept_versions=("1.0",)))
        pair.peer.receive(b"SUBSCRIBE\ndestination:/queue/a\n" + named + b"\n\0", 0.0)
        pair.broker.publish("/queue/a", b"1")
        assert pair.messages() == [b"1"]
        pair.peer.receive(b"UNSUBSCRIBE\n" + (named or b"destination:/queue/a\n") + b"\n\0", 0.0)
        pair.broker.publish("/queue/a", b"2")
        assert pair.messages() == []

    @pytest.mark.parametrize(("client_id", "kept"), [((), "s"), ((("client-id", "me"),), "me.s")])
    def test_a_durable_subscription_belongs_to_its_client(self, client_id: Headers, kept: str) -> None:
        name = [("durable-subscription-name", "s")]
        pair = Pair(config=ClientConfig(connect_headers=client_id))
        subscribe(pair.client, "0", "/topic/a", headers=name)
        pair.exchange()
        assert list(pair.broker.durable_views("/topic/a")) == [kept]
        pair.client.request("UNSUBSCRIBE", [("id", "0"), *name])
        pair.exchange()
        assert pair.broker.durable_views("/topic/a") == {}


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda c: subscribe(c, "0", "/queue/a", headers=[("selector", "a = 1")]), "'selector'"),
        (lambda c: subscribe(c, "0", "/topic/a", headers=[("durable", "true")]), "'durable'"),
        (lambda c: subscribe(c, "0", "/q", headers=[("durable-subscription-name", "s")]), "only a topic has"),
        (lambda c: subscribe(c, "0", "/queue/a", headers=[("prefetch-count", "0")]), "the prefetch '0'"),
        (lambda c: subscribe(c, "0", "/queue/a", headers=[("prefetch-count", "-1")]), "the prefetch '-1'"),
        (lambda c: send(c, "/queue/refused", b""), "access to '/queue/refused' refused"),
        (lambda c: subscribe(c, "0", "/queue/refused"), "access to '/queue/refused' refused"),
    ],
)
def test_what_is_refused_with_an_error_and_the_receipt(
    act: Callable[[ClientConnection], None], why: str
) -> None:
    pair = Pair(faults=Faults(refuse={"/queue/refused"}))
    act(pair.client)
    assert why in pair.refusal().message


@pytest.mark.parametrize(
    ("version", "frame", "why"),
    [
        ("1.2", b"ACK\nid:9\n", "the handle '9'"),
        ("1.1", b"ACK\nsubscription:s\nmessage-id:9\n", "no subscription 's'"),
        ("1.1", b"NACK\nsubscription:0\nmessage-id:9\n", "'0' has no un-acked message '9'"),
        ("1.0", b"ACK\nmessage-id:9\n", "the handle '9'"),
        ("1.0", b"UNSUBSCRIBE\n", "needs an id or a destination"),
        ("1.0", b"SUBSCRIBE\ndestination:/q\nack:client-individual\n", "ack:client-individual is not one of"),
        ("1.2", b"COMMIT\ntransaction:t\n", "no open transaction 't'"),
        ("1.2", b"ABORT\ntransaction:t\n", "no open transaction 't'"),
        ("1.2", b"SEND\ndestination:/queue/b\ntransaction:t\n", "no open transaction 't'"),
        ("1.2", b"BEGIN\ntransaction:t\n\n\0BEGIN\ntransaction:t\n", "open already"),
        ("1.2", b"SUBSCRIBE\nid:0\ndestination:/queue/b\n", "'0' exists already"),
        ("1.2", b"SEND\n", "lacks the header 'destination'"),
        ("1.0", b"SEND\ndestination:/queue/b\n:nameless\n", "cannot be kept"),
        ("1.2", b"RUBBISH\n", ""),
    ],
)
def test_frames_that_no_decent_client_sends(version: str, frame: bytes, why: str) -> None:
    pair = Pair(config=ClientConfig(accept_versions=(version,)))
    subscribe(pair.client, "0", "/queue/a", ack="client")
    pair.exchange()
    pair.peer.receive(frame + b"receipt:7\n\n\0", 0.0)
    error = pair.refusal()
    assert why in error.message
    assert error.receipt_id == ("7" if why else None)
    pair.broker.publish("/queue/a", b"1")
    assert pair.exchange() == []


def test_a_client_that_goes_silent_is_dropped() -> None:
    pair = Pair(heartbeat=(0, 1000), config=ClientConfig(heartbeat=(1000, 0)))
    pair.peer.tick(1.9)
    assert not pair.peer.dropped
    pair.peer.tick(2.0)
    assert pair.peer.dropped and not pair.peer.connected
