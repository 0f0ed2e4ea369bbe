"""Servers in Java that speak STOMP and are no brokers of their own: Spring's and Vert.x', as their guides set
them up. Java compiles and runs the program beside this file; the list beside it has its libraries."""

from __future__ import annotations

from pathlib import Path

from support.brokers.activemq import JAVA_OPTIONS
from support.brokers.base import HOST, Broker, free_ports, is_listening
from support.brokers.cache import java, libraries
from support.brokers.process import Process

_HERE = Path(__file__).parent


class JavaServer(Process):
    """A running program of this folder. It listens on ``ports``, which are its first arguments."""

    def __init__(self, program: str, folder: Path, *, ports: int = 1, further: tuple[str, ...] = ()) -> None:
        classpath = libraries(program.lower(), _HERE / f"{program.lower()}.pom.xml")
        self.ports = free_ports(ports)
        options = (*JAVA_OPTIONS, "-classpath", classpath, _HERE / f"{program}.java")
        arguments = (*map(str, self.ports), *further)
        super().__init__((java(), *options, *arguments), folder / f"{program}.log", {})
        self.wait_ready(lambda: all(map(is_listening, self.ports)))


def spring(folder: Path, relay_to: Broker | None = None) -> JavaServer:
    """Spring with its simple broker, or as a relay to another one. Its URL is :func:`websocket_url`."""
    further = () if relay_to is None else (str(relay_to.port), str(relay_to.login), str(relay_to.password))
    return JavaServer("Spring", folder, further=further)


def vertx(folder: Path) -> JavaServer:
    """Vert.x' server: TCP on the first port, WebSocket on the second."""
    return JavaServer("Vertx", folder, ports=2)


def websocket_url(server: JavaServer) -> str:
    """Where the server speaks STOMP over WebSocket."""
    return f"ws://{HOST}:{server.ports[-1]}/stomp"
