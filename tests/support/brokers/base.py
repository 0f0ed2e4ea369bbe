"""What tests know of a broker, whichever it is."""

from __future__ import annotations

import os
import random
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from support.brokers.process import Process, Unavailable
from support.certificates import Authority, Identity
from support.waiting import PATIENCE, wait_until

# The configurations to which docs/brokers.md links.
CONF = Path(__file__).resolve().parents[3] / "conf" / "brokers"
HOST = "127.0.0.1"
# Below those that the system takes for outgoing connections, so that a restarted broker finds its port free.
# Each of up to eight processes of pytest-xdist has its own: a broker takes its ports seconds after they were
# found free.
_PORTS = range(20_000 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8, 32_000, 8)
_given: set[int] = set()
# Seconds until messages of a lost connection that no consumer has count as stuck.
_RETURNED_WITHIN = 20.0


class Standing(NamedTuple):
    """What the broker's own management says: messages to deliver, and delivered but un-acked."""

    ready: int
    unacked: int


_Broker = TypeVar("_Broker", bound="Broker")


class Broker(ABC):
    """A broker on loopback. ``start`` and ``stop`` as often as wanted: ports and persistent messages stay.

    ``folder`` is the broker's own, for its data and logs.
    """

    name: ClassVar[str]
    # The ways in which it can be reached: see :meth:`over`.
    transports: ClassVar[tuple[str, ...]] = ("tcp", "tls")
    # Octets; set low, so that it can be reached in no time. None where the broker has no limit.
    largest_body: ClassVar[int | None] = None
    # Whether it replaces the ``timestamp`` header by the time at which it took the message.
    stamps_messages: ClassVar[bool] = False
    login: str | None = None
    password: str | None = None
    # Seconds that an orderly end may take.
    _ends_within: ClassVar[float] = 20.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = self.tls_port = 0
        # The ports for other protocols. See :meth:`listen`.
        self.listeners: dict[str, int] = {}
        self._server: Process | None = None

    @property
    def dialect(self) -> str:
        """The name of its dialect."""
        return self.name

    @property
    def url(self) -> str:
        """The value of the ``url`` option."""
        return f"stomp://{HOST}:{self.port}"

    @property
    def tls_url(self) -> str:
        """The ``url`` of the listener with TLS; its certificate is for localhost, signed by :attr:`ca`."""
        return f"stomp+ssl://localhost:{self.tls_port}"

    @property
    def websocket_url(self) -> str | None:
        """The ``url`` of the listener for STOMP over WebSocket; None where there is none."""
        return None

    @property
    def ca(self) -> Path:
        """The certificate of the authority that signed the broker's."""
        return self.authority.ca_file

    @cached_property
    def authority(self) -> Authority:
        """Made when first asked for, as the certificate is."""
        folder = self.folder / "tls"
        folder.mkdir()
        return Authority(folder, "ca")

    @cached_property
    def identity(self) -> Identity:
        """The broker's certificate and key."""
        return self.authority.issue("localhost")

    @property
    def credentials(self) -> dict[str, str]:
        """The options that let the connector in."""
        if self.login is None or self.password is None:
            return {}
        return {"login": self.login, "password": self.password}

    def start(self) -> None:
        """Return once the broker takes connections; Unavailable if it is not available here."""
        self.launch()
        self.await_started()

    @abstractmethod
    def launch(self) -> None:
        """The first half of :meth:`start`, which waits for nothing."""

    def await_started(self) -> None:
        """The second half: return once it takes connections, or :attr:`waits`."""
        if self._server is not None:
            self._server.wait_ready(lambda: self.waits or all(map(is_listening, self.ports)))

    def _run(self, *command: str | Path, **variables: str) -> None:
        """Start the server with these environment variables."""
        self._server = Process(command, self.folder / "server.log", variables)

    @property
    def ports(self) -> tuple[int, ...]:
        """Those that it listens on once it has started."""
        return (self.port, self.tls_port, *self.listeners.values())

    @property
    def nodes(self) -> tuple[Broker, ...]:
        """The brokers that it consists of."""
        return (self,)

    @property
    def runs(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._server is not None

    @property
    def hangs(self) -> bool:
        """Whether it was suspended, and not resumed since."""
        return self._server is not None and self._server.hangs

    @property
    def waits(self) -> bool:
        """Whether it stands by, and takes connections only once another broker has ended."""
        return False

    def listen(self, protocol: str) -> None:
        """Open this one of :attr:`listeners`, if it is not open yet."""
        assert protocol in self.listeners

    def become(self, release: type[_Broker]) -> _Broker:
        """This broker with another release of it, which is not started: same data, ports and logins."""
        self.stop()
        successor = release(self.folder)
        vars(successor).update(vars(self))
        return successor

    def stop(self) -> None:
        """End in an orderly way; also if it was never started or has died."""
        if self._server is not None:
            self._server.stop(self._ends_within)
            self._server = None

    def kill(self) -> None:
        """End at once, as in a power cut."""
        if self._server is not None:
            self._server.kill()
            self._server = None

    def suspend(self) -> None:
        """Hang: connections stay open, and nobody answers."""
        assert self._server is not None
        self._server.suspend()

    def resume(self) -> None:
        """Go on after :meth:`suspend`."""
        assert self._server is not None
        self._server.resume()

    @abstractmethod
    def standing(self, destination: str) -> Standing:
        """What the broker's management says of ``destination``; (0, 0) if there is no queue.

        Of a topic: what its subscriptions hold, all together.
        """

    def standing_of_all(self, destinations: Sequence[str]) -> Standing:
        """The sum of what the broker's management says of each destination."""
        said = [self.standing(destination) for destination in destinations]
        return Standing(sum(one.ready for one in said), sum(one.unacked for one in said))

    @property
    @abstractmethod
    def connections(self) -> int:
        """How many connections the broker's management counts."""

    @property
    def crash_safe(self) -> dict[str, str]:
        """SEND and SUBSCRIBE headers by which a queue keeps what was confirmed when the broker is killed."""
        return {}

    def crash(self) -> None:
        """Die and come back with what was persistent; see :attr:`crash_safe`."""
        self.kill()
        self.start()

    def restart(self) -> None:
        """Stop and come back; in order if an ordinary queue would not survive a crash."""
        self.crash()

    def depth(self, destination: str) -> int:
        """Messages in ``destination``, delivered ones that nobody ACKed included."""
        return sum(self.standing(destination))

    def unacked(self, destination: str) -> int:
        """Messages of ``destination`` that were delivered and not ACKed."""
        return self.standing(destination).unacked

    def wait_for(self, destination: str, ready: int, unacked: int = 0, timeout: float = PATIENCE) -> None:
        """Wait until the broker's management says this of ``destination``; fails with what it said last."""
        self.wait_for_all([destination], ready, unacked, timeout)

    def wait_for_all(
        self, destinations: Sequence[str], ready: int, unacked: int = 0, timeout: float = PATIENCE
    ) -> None:
        """Wait until the broker's management says this of all of them together, as :meth:`wait_for` does."""
        wanted, said = Standing(ready, unacked), Standing(-1, -1)

        def holds() -> bool:
            nonlocal said
            said = self.standing_of_all(destinations)
            return said == wanted

        try:
            wait_until(holds, timeout)
        except AssertionError:
            what = ", ".join(destinations)
            raise AssertionError(f"{self.name} says of {what}: {said}, not {wanted}") from None

    def stuck(self, destinations: Sequence[str]) -> int:
        """Messages of these that count as delivered although no consumer has them; a restart frees them."""
        return 0

    def wait_returned(self, destination: str, ready: int) -> None:
        """Wait until ``ready`` messages of ``destination`` are to be delivered, as after a lost connection.

        A broker that does not give all of them back is restarted, and then asked again.
        """
        try:
            self.wait_for(destination, ready, timeout=_RETURNED_WITHIN)
        except AssertionError:
            if not self.stuck([destination]):
                raise
            self.restart()
            self.wait_for(destination, ready)

    def new_queue(self) -> str:
        """A queue that nobody used before."""
        return f"/queue/t{secrets.token_hex(6)}"

    def new_topic(self) -> str:
        """A topic that nobody used before."""
        return f"/topic/t{secrets.token_hex(6)}"

    def new_refused(self) -> str:
        """A destination to which the broker lets nobody subscribe, of which nobody has heard before."""
        return self.new_queue().replace("/queue/", "/queue/denied.")

    def options(self, **options: Any) -> dict[str, str]:
        """Options for the connector: the URL, the credentials, and these."""
        return {"url": self.url, **self.credentials, **{key: str(value) for key, value in options.items()}}

    def over(self, transport: str, **options: Any) -> dict[str, str]:
        """Options for the connector as :meth:`options` has them, but over ``tcp``, ``tls`` or ``ws``."""
        urls = {"tcp": self.url, "tls": self.tls_url, "ws": self.websocket_url}
        options = {"url": urls[transport], **options}
        if not options["url"].startswith(("stomp://", "ws://")):
            options["tlsCaFile"] = self.ca
        return self.options(**options)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on. None is given twice, since a broker takes its own later."""
    remaining = [port for port in _PORTS if port not in _given]
    random.shuffle(remaining)
    with ExitStack() as held:
        found: list[int] = []
        for port in remaining:
            try:
                held.enter_context(socket.create_server((HOST, port)))
            except OSError:
                continue
            found.append(port)
            _given.add(port)
            if len(found) == count:
                return found
    raise Unavailable(f"no {count} free ports on {HOST}")


def is_listening(port: int) -> bool:
    """Whether somebody takes connections on this port of loopback."""
    try:
        socket.create_connection((HOST, port), timeout=1.0).close()
    except OSError:
        return False
    return True
