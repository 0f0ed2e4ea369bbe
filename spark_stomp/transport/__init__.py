"""From the option ``url`` to a connected STOMP session: sockets, TLS, WebSocket, reading and writing."""

from spark_stomp.transport.connect import open_connection
from spark_stomp.transport.connection import Connection
