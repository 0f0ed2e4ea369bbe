"""The dev broker: an in-memory STOMP broker for development and tests.

It is **not for production**: it has one thread and no TLS, and writes nothing to disk, so that everything is
lost when it stops. With it, demos and tests need no installed broker, and tests can make a broker fail.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType

from spark_stomp import __version__
from spark_stomp.devbroker.core import Broker
from spark_stomp.devbroker.link import Link
from spark_stomp.devbroker.peer import Counters, Faults, Peer
from spark_stomp.devbroker.queues import QueueView
from spark_stomp.logs import get_log
from spark_stomp.protocol import Limits, ServerConfig
from spark_stomp.quoting import host_port

log = get_log(__name__)

_VERSIONS = ("1.2", "1.1", "1.0", "lenient")
# Messages that publish_many adds before clients are served again. A judgement, not measured.
_PUBLISH_CHUNK = 500
# Seconds between two checks of wait_until if nothing happens at the broker. A judgement, not measured.
_POLL_SECONDS = 0.05


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
        self._counters = Counters()
        self._changed = threading.Condition(threading.RLock())
        self._sessions = 0
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._links: dict[socket.socket, Link] = {}

    # --- life

    def start(self) -> DevBroker:
        """Listen and serve. Raises OSError if the address is in use or not of this machine."""
        if self._thread is not None:
            raise RuntimeError("this broker was started before")
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        self._listener = socket.create_server((self._host, self._port), family=family, backlog=128)
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        self._waker, self._wakened = socket.socketpair()
        self._waker.setblocking(False)
        self._wakened.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wakened, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name=f"devbroker-{self._port}", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close all connections; all messages are lost. Stopping twice is fine."""
        if self._thread is None or self._stopping:
            return
        self._stopping = True
        self._wake()
        self._thread.join()
        self._waker.close()

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
            return sum(link.peer.connected for link in self._links.values())

    @property
    def connects(self) -> int:
        """How many sessions there have been in all."""
        return self._counters.connects

    @property
    def disconnects(self) -> int:
        """How many sessions have ended with DISCONNECT."""
        return self._counters.disconnects

    def drop_connections(self) -> None:
        """Close every connection without an ERROR. Un-acked messages go back to their queues."""
        with self._changing():
            for link in self._links.values():
                link.peer.drop()

    def wait_until(self, predicate: Callable[[], bool], timeout: float = 10.0, what: str = "it") -> None:
        """Wait until ``predicate()`` is true.

        ``predicate`` is called whenever something has happened at the broker, and at least every 50 ms. No
        lock is held meanwhile, so that it may call the broker.

        Raises:
            TimeoutError: ``predicate`` was not true within ``timeout`` seconds. The text names ``what``.
        """
        deadline = time.monotonic() + timeout
        while not predicate():
            if time.monotonic() >= deadline:
                raise TimeoutError(f"waited {timeout:g} s in vain for {what}")
            with self._changed:
                self._changed.wait(_POLL_SECONDS)

    # --- the thread

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock to change something from another thread, then wake the broker's thread."""
        with self._changed:
            yield
        if self._thread is not None:
            self._wake()

    def _wake(self) -> None:
        try:
            self._waker.send(b"\0")
        except OSError:
            # If the pipe is full, the thread wakes up anyway. If it is closed, the broker was stopped.
            return

    def _serve(self) -> None:
        try:
            timeout: float | None = 0.0
            while not self._stopping:
                ready = self._selector.select(timeout)
                with self._changed:
                    timeout = self._round(ready, time.monotonic())
                    self._changed.notify_all()
        finally:
            self._close_all()

    def _round(self, ready: list[tuple[selectors.SelectorKey, int]], now: float) -> float | None:
        """Read, obey, deliver and write; returns the seconds until the next round, None if nothing is due."""
        for key, events in ready:
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._wakened:
                self._wakened.recv(4096)
            elif events & selectors.EVENT_READ:
                key.data.read(now)
        self._broker.dispatch()
        for link in list(self._links.values()):
            link.tick(now)
            link.write(now)
            if link.closed:
                del self._links[link.socket]
        if self._broker.pending:
            return 0.0
        deadlines = (link.deadline(now) for link in self._links.values())
        soonest = min((deadline for deadline in deadlines if deadline is not None), default=None)
        return None if soonest is None else max(0.0, soonest - now)

    def _accept(self) -> None:
        try:
            accepted, address = self._listener.accept()
            self._sessions += 1
            name = f"session-{self._sessions}"
            log.info("%s: a connection from %s", name, host_port(*address[:2]))
            peer = Peer(self._broker, self._config, self._users, self.faults, self._counters, name)
            self._links[accepted] = Link(accepted, peer, self._selector)
        except OSError:
            # The client has gone already, or there is no file descriptor left.
            return

    def _close_all(self) -> None:
        with self._changed:
            for link in self._links.values():
                link.peer.drop()
                link.close()
            self._links.clear()
            self._listener.close()
            self._wakened.close()
            self._selector.close()
            self._changed.notify_all()
