"""From an option's URL to a connected STOMP session: sockets, TLS, and the pump between bytes and events."""

from spark_stomp.transport.connection import Connection
from spark_stomp.transport.open import open_connection

__all__ = ["Connection", "open_connection"]
