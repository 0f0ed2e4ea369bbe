"""The dev broker as one broker among the others."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from spark_stomp.devbroker import DevBroker
from spark_stomp.protocol import Limits
from support.brokers.base import HOST, Broker, Standing
from support.fronts import tls_front, websocket_front


class DevelopmentBroker(Broker):
    """Keeps everything in memory: what it held is gone after :meth:`kill`.

    Fronts give it TLS and WebSocket.
    """

    name = "devbroker"
    transports = ("tcp", "tls", "ws")
    largest_body = 8 << 20

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._broker: DevBroker | None = None
        self._fronts = ExitStack()
        self._websocket_port = 0

    @property
    def tls_url(self) -> str:
        if not self.tls_port:
            context = self.identity.server_context()
            self.tls_port = self._fronts.enter_context(tls_front(self.port, context))
        return super().tls_url

    @property
    def websocket_url(self) -> str:
        if not self._websocket_port:
            self._websocket_port = self._fronts.enter_context(websocket_front(self.port))
        return f"ws://{HOST}:{self._websocket_port}"

    def launch(self) -> None:
        self._broker = DevBroker(host=HOST, port=self.port, limits=Limits(max_body=self.largest_body))
        self._broker.start()
        self.port = self._broker.port

    def stop(self) -> None:
        self._fronts.close()
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def kill(self) -> None:
        self.stop()

    def drop_connections(self) -> None:
        """Close every connection without a word."""
        assert self._broker is not None
        self._broker.drop_connections()

    @property
    def connections(self) -> int:
        assert self._broker is not None
        return self._broker.connections

    def standing(self, destination: str) -> Standing:
        assert self._broker is not None
        of_topic = self._broker.durable(destination).values()
        views = of_topic if destination.startswith("/topic/") else [self._broker.queue(destination)]
        unacked = sum(view.unacked for view in views)
        return Standing(sum(view.depth for view in views) - unacked, unacked)
