"""The dev broker as one broker among the others."""

from __future__ import annotations

from spark_stomp.devbroker import DevBroker
from support.brokers.base import HOST, Broker, Standing

__all__ = ["DevelopmentBroker"]


class DevelopmentBroker(Broker):
    """Keeps everything in memory: what it held is gone after :meth:`kill`."""

    name = "devbroker"

    _broker: DevBroker | None = None

    def start(self) -> None:
        self._broker = DevBroker(host=HOST, port=self.port)
        self._broker.start()
        self.port = self._broker.port

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def kill(self) -> None:
        self.stop()

    def drop_connections(self) -> None:
        """Close every connection without a word."""
        assert self._broker is not None
        self._broker.drop_connections()

    def standing(self, destination: str) -> Standing:
        assert self._broker is not None
        view = self._broker.queue(destination)
        return Standing(view.depth - view.unacked, view.unacked)
