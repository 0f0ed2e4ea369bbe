"""From an option's URL to a connected STOMP session: sockets, TLS, and the pump between bytes and events."""

from spark_stomp.transport.connect import open_connection
from spark_stomp.transport.connection import Connection

__all__ = ["Connection", "open_connection"]
