from __future__ import annotations

import gc
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest
from support.session import subscribe
from support.waiting import PATIENCE

from spark_stomp.devbroker import DevBroker
from spark_stomp.devbroker.peer import HIGH_WATER
from spark_stomp.protocol import (
    NEED_DATA,
    ClientConfig,
    ClientConnection,
    Connected,
    Disconnected,
    ErrorReceived,
    Event,
    Frame,
    HeartbeatReceived,
)


class Client:
    """A blocking client on a socket."""

    def __init__(self, broker: DevBroker, config: ClientConfig | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE)
        self.session = ClientConnection(config or ClientConfig())
        self._events: list[Event] = []
        self.session.connect(0.0)
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.session.data_to_send())

    def next(self) -> Event:
        """The next event but heart-beats; the end of the connection is an event too."""
        while True:
            event = self.session.next_event()
            if event is NEED_DATA:
                self.read()
            elif not isinstance(event, HeartbeatReceived):
                return event

    def read(self) -> None:
        data = self.socket.recv(1 << 16)
        if data:
            self.session.receive_data(data, 0.0)
        else:
            self.session.receive_eof(0.0)

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def broker() -> Iterator[DevBroker]:
    with DevBroker() as broker:
        yield broker


@pytest.fixture
def connect(broker: DevBroker) -> Iterator[Callable[..., Client]]:
    clients: list[Client] = []

    def connected(config: ClientConfig | None = None) -> Client:
        client = Client(broker, config)
        clients.append(client)
        assert isinstance(client.next(), Connected)
        return client

    yield connected
    for client in clients:
        client.close()


Connect = Callable[..., Client]


class TestLife:
    def test_starts_once_and_stops_any_number_of_times(self) -> None:
        broker = DevBroker()
        broker.stop()
        broker.start()
        with pytest.raises(RuntimeError, match="started before"):
            broker.start()
        broker.stop()
        broker.stop()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", broker.port), timeout=1.0)

    def test_a_port_that_is_taken_is_an_error(self, broker: DevBroker) -> None:
        with pytest.raises(OSError):
            DevBroker(port=broker.port).start()

    def test_stopping_closes_connections_and_ends_the_thread(
        self, broker: DevBroker, connect: Connect
    ) -> None:
        client = connect()
        broker.stop()
        assert client.next() == Disconnected(confirmed=False)
        assert f"devbroker-{broker.port}" not in {thread.name for thread in threading.enumerate()}

    def test_stopping_closes_connections_that_it_was_about_to_accept(self) -> None:
        """Without a link for them asyncio warns of transports that nobody closed."""
        for _ in range(50):
            broker = DevBroker().start()
            clients = [
                socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE) for _ in range(3)
            ]
            broker.stop()
            for client in clients:
                client.close()
        gc.collect()

    def test_what_is_published_after_the_end_disturbs_nobody(self) -> None:
        with DevBroker() as broker:
            pass
        broker.publish("/queue/a", b"1")
        assert broker.bodies("/queue/a") == [b"1"]


class TestSessions:
    def test_are_counted(self, broker: DevBroker, connect: Connect) -> None:
        orderly, rude = connect(), connect()
        assert (broker.connections, broker.connects, broker.disconnects) == (2, 2, 0)
        orderly.session.request("DISCONNECT", receipt="bye")
        orderly.flush()
        assert orderly.next() == Disconnected(confirmed=True)
        rude.close()
        broker.wait_until(lambda: broker.connections == 0, PATIENCE)
        assert (broker.connects, broker.disconnects) == (2, 1)

    def test_what_a_client_still_sends_does_not_cost_it_the_error(
        self, broker: DevBroker, connect: Connect
    ) -> None:
        """And if it does not close the connection, the broker does."""
        client = connect()
        client.socket.sendall(b"RUBBISH\n\n\0" + b"x" * 1_000_000)
        assert isinstance(client.next(), ErrorReceived)
        broker.wait_until(lambda: not broker._links, PATIENCE, "the broker to lose patience")


def test_a_simulation_may_have_its_own_time() -> None:
    with DevBroker(clock=lambda: 1000.0) as broker:
        client = Client(broker)
        assert isinstance(client.next(), Connected)
        subscribe(client.session, "0", "/queue/a")
        client.flush()
        for expires in ("1000000", "1000001"):
            broker.publish("/queue/a", b"", [("expires", expires)])
        event = client.next()
        assert isinstance(event, Frame)
        assert (event.get("timestamp"), event.get("expires")) == ("1000000", "1000001")
        assert broker.queue("/queue/a").expired == 1
        client.close()


def test_waiting_says_what_it_waited_for(broker: DevBroker) -> None:
    with pytest.raises(TimeoutError, match=r"waited 0\.1 s in vain for a miracle"):
        broker.wait_until(lambda: False, 0.1, "a miracle")


class TestBytes:
    def test_a_reset_is_the_end(self, broker: DevBroker, connect: Connect) -> None:
        client = connect()
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        broker.wait_until(lambda: not broker._links, PATIENCE, "the end")
        assert broker.connections == 0

    def test_little_waits_for_a_client_that_reads_nothing_and_nothing_is_lost(
        self, broker: DevBroker, connect: Connect
    ) -> None:
        client = connect()
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
        bodies = [bytes([number]) * 500_000 for number in range(60)]
        broker.publish_many("/queue/a", bodies)
        subscribe(client.session, "0", "/queue/a", ack="client-individual")
        client.flush()
        broker.wait_until(lambda: broker.queue("/queue/a").unacked > 0, PATIENCE)
        (link,) = broker._links
        # Other clients are served meanwhile.
        connect()
        assert link.transport.get_write_buffer_size() <= HIGH_WATER + len(bodies[0]) + 1000
        assert broker.queue("/queue/a").unacked < len(bodies)
        received = [client.next() for _ in bodies]
        assert [event.body for event in received if isinstance(event, Frame)] == bodies
        broker.wait_until(lambda: link.peer.room > 0, PATIENCE)

    def test_a_dropped_client_gets_nothing_more(self, broker: DevBroker, connect: Connect) -> None:
        client = connect()
        broker.faults.drop_after_frames = 1
        client.session.request("SEND", [("destination", "/queue/a")], receipt="r")
        client.flush()
        assert client.next() == Disconnected(confirmed=False)
