from __future__ import annotations

from functools import partial

import pytest
from support.codec import decode

from spark_stomp.devbroker.core import Broker, Member, Refused
from spark_stomp.devbroker.queues import Message, QueueView, delivered
from spark_stomp.errors import FrameEncodeError
from spark_stomp.protocol import NEED_DATA, Frame, FrameDecoder


class Client:
    """A member whose outlet keeps what it is given."""

    def __init__(self, broker: Broker, version: str = "1.2", room: int = 1 << 30) -> None:
        self.broker = broker
        self.version = version
        self.room = room
        self.member = Member(self)
        self._decoder = FrameDecoder(version)

    def can_take(self, message: Message) -> bool:
        return True

    def deliver(self, data: bytes) -> None:
        self.room -= len(data)
        self._decoder.receive_data(data)

    def frames(self) -> list[Frame]:
        """What was delivered since the last time."""
        self.broker.dispatch()
        found = []
        while (event := self._decoder.next_event()) is not NEED_DATA:
            assert isinstance(event, Frame)
            found.append(event)
        return found

    def bodies(self) -> list[bytes]:
        return [frame.body for frame in self.frames()]

    def subscribe(self, name: str = "0", destination: str = "/queue/a", **settings: object) -> None:
        settings.setdefault("ack", "client-individual")
        self.broker.subscribe(self.member, name, destination, **settings)  # type: ignore[arg-type]

    def ack(self, handle: str | None, transaction: str | None = None) -> None:
        assert handle is not None
        self.member.do(partial(self.broker.acknowledge, self.member.holding(handle), handle), transaction)


@pytest.fixture
def broker() -> Broker:
    return Broker(clock=lambda: 1234.5)


def fill(broker: Broker, *bodies: bytes, destination: str = "/queue/a") -> None:
    for body in bodies:
        broker.publish(destination, body)


class TestDelivery:
    def test_a_message_has_its_headers(self, broker: Broker) -> None:
        client = Client(broker)
        client.subscribe("my:sub")
        broker.publish("/queue/a", b"hi", (("k", "v"), ("receipt", "r")))
        (frame,) = client.frames()
        assert (frame.command, frame.body) == ("MESSAGE", b"hi")
        headers = dict(frame.headers)
        assert headers.pop("message-id").startswith("ID:") and headers.pop("ack")
        own = {"subscription": "my:sub", "destination": "/queue/a", "k": "v", "content-length": "2"}
        assert headers == own | {"redelivered": "false", "timestamp": "1234500"}

    def test_the_producers_timestamp_is_kept(self, broker: Broker) -> None:
        client = Client(broker)
        client.subscribe()
        broker.publish("/queue/a", b"", (("timestamp", "7"),))
        (frame,) = client.frames()
        assert [value for name, value in frame.headers if name == "timestamp"] == ["7"]

    def test_auto_needs_no_ack(self, broker: Broker) -> None:
        client = Client(broker)
        client.subscribe(ack="auto")
        fill(broker, b"1")
        (frame,) = client.frames()
        assert frame.get("ack") is None
        assert broker.view("/queue/a") == QueueView(0, 0, 1, 1, 0, 1)

    def test_a_message_needs_a_destination(self, broker: Broker) -> None:
        with pytest.raises(Refused, match="destination"):
            broker.publish("", b"")


def test_what_was_not_acked_comes_back_first_and_in_order(broker: Broker) -> None:
    client = Client(broker)
    client.subscribe(window=3)
    fill(broker, b"1", b"2", b"3", b"4")
    frames = client.frames()
    ids = [frame.get("message-id") for frame in frames]
    client.ack(frames[1].get("ack"))
    client.frames()
    broker.leave(client.member)
    again = Client(broker)
    again.subscribe()
    frames = again.frames()
    assert [frame.body for frame in frames] == [b"1", b"3", b"4"]
    assert [frame.get("message-id") for frame in frames[:2]] == [ids[0], ids[2]]
    assert [frame.get("redelivered") for frame in frames] == ["true", "true", "true"]
    assert frames[0].get("delivery-count") == "2"
    assert broker.view("/queue/a").redelivered == 3


class TestExpiry:
    """The header ``expires``, as ActiveMQ has it: milliseconds since the epoch."""

    class Clock:
        now = 1000.0

        def __call__(self) -> float:
            return self.now

    @pytest.mark.parametrize("durable", [None, "s"])
    def test_what_expired_while_nobody_was_there_is_dropped(self, durable: str | None) -> None:
        broker = Broker(clock := self.Clock())
        destination = "/topic/a" if durable else "/queue/a"
        first = Client(broker)
        first.subscribe(destination=destination, durable=durable)
        broker.leave(first.member)
        for number, expires in enumerate(("1001000", "1002001", "0", "soon", "1002000")):
            broker.publish(destination, b"%d" % number, (("expires", expires),))
        clock.now = 1002.0
        second = Client(broker)
        second.subscribe(destination=destination, durable=durable)
        assert second.bodies() == [b"1", b"2", b"3"]
        (view,) = broker.durable_views(destination).values() or [broker.view(destination)]
        assert (view.expired, view.depth, view.delivered) == (2, 3, 3)

    def test_what_comes_back_may_have_expired(self) -> None:
        broker = Broker(clock := self.Clock())
        first, second = Client(broker), Client(broker)
        first.subscribe(window=1)
        for number, expires in enumerate(("1001000", "1003000")):
            broker.publish("/queue/a", b"%d" % number, (("expires", expires),))
        (frame,) = first.frames()
        assert (frame.body, frame.get("expires")) == (b"0", "1001000")
        clock.now = 1001.0
        broker.leave(first.member)
        second.subscribe()
        assert second.bodies() == [b"1"]
        assert broker.view("/queue/a").expired == 1

    def test_is_not_shown_to_who_browses(self) -> None:
        broker = Broker(self.Clock())
        broker.publish("/queue/a", b"0", (("expires", "1"),))
        broker.publish("/queue/a", b"1")
        client = Client(broker)
        client.subscribe(browse=True)
        assert client.bodies() == [b"1", b""]
        assert broker.view("/queue/a").expired == 0


def test_a_topic_cannot_be_browsed(broker: Broker) -> None:
    client = Client(broker)
    with pytest.raises(Refused, match="only a queue can be browsed"):
        client.subscribe(destination="/topic/t", browse=True)
    broker.leave(client.member)
    assert broker.view("/topic/t").enqueued == 0


class TestTransactions:
    """STOMP 1.2, "BEGIN", "COMMIT", "ABORT"."""

    def test_nothing_happens_before_the_commit(self, broker: Broker) -> None:
        client = Client(broker)
        client.subscribe(window=1)
        fill(broker, b"1", b"2")
        (frame,) = client.frames()
        client.member.begin("t")
        client.member.do(partial(broker.publish, "/queue/b", b"x", (("k", "v"),)), "t")
        client.ack(frame.get("ack"), "t")
        assert client.frames() == []
        assert broker.view("/queue/b").enqueued == 0
        client.member.commit("t")
        assert broker.bodies("/queue/b") == [b"x"]
        assert client.bodies() == [b"2"]

    def test_an_abort_forgets_it_all(self, broker: Broker) -> None:
        client = Client(broker)
        client.subscribe()
        fill(broker, b"1")
        (frame,) = client.frames()
        client.member.begin("t")
        client.member.do(partial(broker.publish, "/queue/b", b"x"), "t")
        handle = frame.get("ack") or ""
        client.member.do(partial(broker.reject, client.member.holding(handle), handle), "t")
        client.member.abort("t")
        assert broker.view("/queue/b").enqueued == 0
        assert broker.view("/queue/a").unacked == 1
        client.ack(frame.get("ack"))
        assert broker.view("/queue/a").acked == 1


class TestDurableSubscriptions:
    TOPIC = "/topic/a"

    def subscriber(self, broker: Broker, name: str = "s", destination: str = TOPIC) -> Client:
        client = Client(broker)
        client.subscribe(destination=destination, durable=name)
        return client

    def test_are_not_forgotten_under_another_name_or_while_others_are_there(self, broker: Broker) -> None:
        clients = [self.subscriber(broker) for _ in range(2)]
        with pytest.raises(Refused, match="others are subscribed"):
            broker.unsubscribe(clients[0].member, "0", durable="s")
        with pytest.raises(Refused, match="is not the durable subscription 'x'"):
            broker.unsubscribe(clients[0].member, "0", durable="x")

    def test_are_for_topics_and_not_for_browsing(self, broker: Broker) -> None:
        with pytest.raises(Refused, match="only a topic"):
            self.subscriber(broker, destination="/queue/a")
        with pytest.raises(Refused, match="cannot be browsed"):
            Client(broker).subscribe(destination=self.TOPIC, durable="s", browse=True)


@pytest.mark.parametrize(("version", "value"), [("1.0", "a\nb"), ("1.1", "a\rb"), ("lenient", "a\nb")])
def test_a_header_that_a_version_cannot_carry_is_left_out(version: str, value: str) -> None:
    message = Message(1, "m", "/q", (("bad", value), ("good", "1")), b"x")
    (frame,) = decode(version, [delivered(message, b"", version)]).frames
    assert [name for name, _ in frame.headers] == ["message-id", "destination", "good", "content-length"]
    assert decode("1.2", [delivered(message, b"", "1.2")]).frames[0].get("bad") == value


def test_a_header_that_no_new_version_can_carry_is_refused() -> None:
    with pytest.raises(FrameEncodeError):
        Message(1, "m", "/q", (("", "nameless"),), b"")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_raw_lines_go_out_as_they_are(version: str) -> None:
    message = Message(1, "m", "/q", (("x", "a\\b"),), b"body", b"bad:\0\n")
    for one in (message, message.copy()):
        assert delivered(one, b"first:1\n", version).startswith(
            b"MESSAGE\nfirst:1\nmessage-id:m\nbad:\0\ndestination:/q\n"
        )
