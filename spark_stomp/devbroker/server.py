"""The dev broker: an in-memory STOMP broker for development and tests.

It is **not for production**: it has one thread and no TLS, and writes nothing to disk, so that everything is
lost when it stops. With it, demos and tests need no installed broker, and tests can make a broker fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from types import TracebackType
from typing import cast

from spark_stomp import __version__
from spark_stomp.deadline import Deadline
from spark_stomp.devbroker.core import Broker
from spark_stomp.devbroker.peer import HIGH_WATER, Faults, Peer
from spark_stomp.devbroker.queues import QueueView
from spark_stomp.logs import get_log
from spark_stomp.protocol import Limits, ServerConfig
from spark_stomp.quoting import host_port
from spark_stomp.threads import Worker

log = get_log(__name__)

_VERSIONS = ("1.2", "1.1", "1.0", "lenient")
# Messages that publish_many adds before clients are served again.
_PUBLISH_CHUNK = 500
# Seconds between two checks of wait_until if nothing happens at the broker.
_POLL_SECONDS = 0.05
# Seconds for a client to read its ERROR or last RECEIPT, and to close.
_LINGER = 2.0
# Seconds for which stop() waits for the thread, which ends at once.
_END_WITHIN = 60.0


class DevBroker:
    """An in-memory broker with its own thread; a context manager.

    Thread-safe: every public method may be called from any thread.

    Args:
        host: address to listen on; the default accepts connections from this machine only.
        port: port to listen on; 0 takes a free one (see :attr:`port` after :meth:`start`).
        users: the passcode of each login; None accepts everyone.
        limits: largest sizes of frames after CONNECT.
        heartbeat: heart-beats that it offers and asks for, in ms; 0 for none.
        refuse: destinations whose SUBSCRIBE and SEND are answered by an ERROR.
        versions: STOMP versions to speak.
        clock: returns seconds since the epoch, for the ``timestamp`` header and to see what has expired. A
            simulation may have a time of its own.

    Example::

        with DevBroker() as broker:
            broker.publish("/queue/orders", b'{"id": 1}')
            orders = spark.readStream.format("stomp").option("url", broker.url).load("/queue/orders")
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        users: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        heartbeat: tuple[int, int] = (0, 0),
        refuse: Container[str] = (),
        versions: tuple[str, ...] = _VERSIONS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.faults = Faults(refuse=refuse)
        self._config = ServerConfig(
            versions, f"spark-stomp-devbroker/{__version__}", heartbeat, limits or Limits()
        )
        self._host = host
        self._port = port
        self._users = users
        self._broker = Broker(clock)
        self._changed = threading.Condition(threading.RLock())
        self._sessions = 0
        self._worker: Worker | None = None
        self._stopping = False
        self._stopped = asyncio.Event()
        self._links: set[_Link] = set()
        self._round_due = False
        self._timer: asyncio.TimerHandle | None = None

    # --- life

    def start(self) -> DevBroker:
        """Listen and serve. Raises OSError if the address is in use or not of this machine."""
        if self._worker is not None:
            raise RuntimeError("this broker was started before")
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family, backlog=128)
        self._port = listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._worker = Worker(f"devbroker-{self._port}", partial(self._serve, listener))
        self._worker.start()
        return self

    def stop(self) -> None:
        """Close all connections; all messages are lost. Stopping twice is fine."""
        if self._worker is None or self._stopping:
            return
        with self._changed:
            self._stopping = True
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._worker.stop(_END_WITHIN)

    def __enter__(self) -> DevBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The port that it listens on, once it is started."""
        return self._port

    @property
    def url(self) -> str:
        """``stomp://host:port``, the value for the option ``url``."""
        return f"stomp://{host_port(self._host, self._port)}"

    # --- messages and figures

    def publish(
        self, destination: str, body: bytes, headers: Iterable[tuple[str, str]] = (), *, raw: bytes = b""
    ) -> None:
        """Put one message into a queue or topic, as a client's SEND would.

        ``raw`` are whole header lines that are delivered unchanged, so that a test can send malformed
        messages.
        """
        with self._changing():
            self._broker.publish(destination, body, tuple(headers), raw)

    def publish_many(
        self, destination: str, bodies: Iterable[bytes], headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Put many messages with the same headers into a queue or topic. Clients are served meanwhile."""
        shared, rest = tuple(headers), iter(bodies)
        while chunk := list(islice(rest, _PUBLISH_CHUNK)):
            with self._changing():
                for body in chunk:
                    self._broker.publish(destination, body, shared)

    def queue(self, destination: str) -> QueueView:
        """The figures of a queue now."""
        with self._changed:
            return self._broker.view(destination)

    def queues(self) -> dict[str, QueueView]:
        """A mapping from the name of each queue used so far to its figures. Topics are not included."""
        with self._changed:
            return self._broker.views()

    def durable(self, topic: str) -> dict[str, QueueView]:
        """A mapping from the name of each durable subscription of a topic to its figures now.

        If the client gave a ``client-id``, the subscription's name begins with it and a dot.
        """
        with self._changed:
            return self._broker.durable_views(topic)

    def bodies(self, destination: str) -> list[bytes]:
        """The bodies in a queue now, in order. Messages that are delivered and un-acked are included."""
        with self._changed:
            return self._broker.bodies(destination)

    @property
    def connections(self) -> int:
        """How many sessions are open now."""
        with self._changed:
            return sum(link.peer.connected for link in self._links)

    @property
    def connects(self) -> int:
        """How many sessions there have been in all."""
        return self._broker.connects

    @property
    def disconnects(self) -> int:
        """How many sessions have ended with DISCONNECT."""
        return self._broker.disconnects

    def drop_connections(self) -> None:
        """Close every connection without an ERROR. Un-acked messages go back to their queues."""
        with self._changing():
            for link in self._links:
                link.peer.drop()

    def wait_until(self, predicate: Callable[[], bool], timeout: float = 10.0, what: str = "it") -> None:
        """Wait until ``predicate()`` is true.

        ``predicate`` is called whenever something has happened at the broker, and at least every 50 ms. No
        lock is held meanwhile, so that it may call the broker.

        Raises:
            TimeoutError: ``predicate`` was not true within ``timeout`` seconds. The text names ``what``.
        """
        deadline = Deadline.after(timeout)
        while not predicate():
            if deadline.passed:
                raise TimeoutError(f"waited {timeout:g} s in vain for {what}")
            with self._changed:
                self._changed.wait(_POLL_SECONDS)

    # --- the thread

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock to change something; then the broker's thread delivers and writes."""
        with self._changed:
            yield
            self._wake()

    def _wake(self) -> None:
        if not self._round_due and self._worker is not None and not self._stopping:
            self._round_due = True
            ours = self._worker.is_current
            (self._loop.call_soon if ours else self._loop.call_soon_threadsafe)(self._round)

    def _serve(self, listener: socket.socket) -> None:
        with contextlib.closing(self._loop) as loop:
            loop.run_until_complete(self._serve_until_stopped(listener))

    async def _serve_until_stopped(self, listener: socket.socket) -> None:
        server = await self._loop.create_server(self._accept, sock=listener)
        await self._stopped.wait()
        # If the server is closed first, asyncio leaves open what it is about to accept.
        while accepting := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(accepting)
        server.close()
        with self._changed:
            for link in self._links:
                link.peer.drop()
                link.transport.abort()
        # The sockets close in the next round of the loop.
        await asyncio.sleep(0)

    def _accept(self) -> _Link:
        self._sessions += 1
        name = f"session-{self._sessions}"
        peer = Peer(self._broker, self._config, self._users, self.faults, name)
        return _Link(self, peer)

    def _round(self) -> None:
        """Deliver and write; heart-beats are due again at the soonest deadline."""
        with self._changed:
            self._round_due = False
            now = self._loop.time()
            self._broker.dispatch()
            for link in self._links:
                link.write(now)
            if self._broker.pending:
                self._wake()
            if self._timer is not None:
                self._timer.cancel()
            deadlines = [link.deadline(now) for link in self._links]
            soonest = min((deadline for deadline in deadlines if deadline is not None), default=None)
            self._timer = None if soonest is None else self._loop.call_at(soonest, self._round)
            self._changed.notify_all()


class _Link(asyncio.Protocol):
    """Moves bytes between the socket of one client and its peer, in the broker's thread.

    At the end of a session the socket stays open until the client has closed its side, or for 2 seconds. If
    it were closed with unread input, the connection would be reset, and the client would lose its ERROR
    frame.
    """

    transport: asyncio.Transport

    def __init__(self, broker: DevBroker, peer: Peer) -> None:
        self.peer = peer
        self._broker = broker
        self._ending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(0)
        address = transport.get_extra_info("peername")
        log.info("%s: a connection from %s", self.peer.session, host_port(*address[:2]))
        with self._broker._changing():
            self._broker._links.add(self)

    def data_received(self, data: bytes) -> None:
        with self._broker._changing():
            self.peer.receive(data, self._broker._loop.time())

    def eof_received(self) -> None:
        """The transport sends what is left, and closes."""
        with self._broker._changing():
            self.peer.receive_eof(self._broker._loop.time())

    def resume_writing(self) -> None:
        """All bytes are sent."""
        with self._broker._changing():
            pass

    def connection_lost(self, error: Exception | None) -> None:
        with self._broker._changing():
            self.peer.drop()
            self._broker._links.discard(self)

    def write(self, now: float) -> None:
        """Pass on what the peer has to send, and heart-beats. End the connection if the session is over."""
        peer, transport = self.peer, self.transport
        if not peer.finished:
            peer.tick(now)
        if peer.dropped:
            peer.drop()
            transport.abort()
            return
        if not peer.faults.answer_nothing and (data := peer.connection.data_to_send()):
            transport.write(data)
        waiting = transport.get_write_buffer_size()
        if peer.room > 0 or not waiting:
            full, peer.room = peer.room <= 0, HIGH_WATER - waiting
            if full:
                peer.has_room()
        if peer.finished and not waiting and not self._ending:
            self._ending = True
            transport.write_eof()
            self._broker._loop.call_later(_LINGER, transport.abort)

    def deadline(self, now: float) -> float | None:
        """When a heart-beat is due or missing, in seconds of the loop's clock; None for never."""
        peer = self.peer
        return None if peer.finished or peer.faults.answer_nothing else peer.connection.deadline(now)
