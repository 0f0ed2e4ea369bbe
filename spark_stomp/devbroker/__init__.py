"""An in-memory STOMP broker for development and tests. It is not for production: nothing survives its end.

``server``    DevBroker: sockets and the thread          ``link``  one client's socket
``peer``      one client: its session, its faults        ``core``  queues, topics, transactions; no sockets
``queues``    messages, prefetch, round robin, redelivery
``pytest_plugin``  the fixture ``stomp_devbroker``
"""

from spark_stomp.devbroker.peer import Faults
from spark_stomp.devbroker.queues import QueueView
from spark_stomp.devbroker.server import DevBroker

__all__ = ["DevBroker", "Faults", "QueueView"]
