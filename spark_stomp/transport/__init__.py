"""From the option ``url`` to a connected STOMP session: sockets, TLS, WebSocket, reading and writing.

connect.py opens a connection, connection.py is one. What all connections of a process share is in connect.py
and addresses.py: which addresses failed, which logins were refused, how a broker wants a login to be written.
"""

from spark_stomp.transport.connect import open_connection
from spark_stomp.transport.connection import Connection
