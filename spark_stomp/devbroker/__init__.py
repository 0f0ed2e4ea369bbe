"""An in-memory STOMP broker for development and tests. When it ends, all its messages are lost.

``server``  DevBroker: its thread and its sockets     ``peer``    one client: its session, its faults
``core``    queues, topics, transactions; no sockets  ``queues``  messages, prefetch, round robin, redelivery
``pytest_plugin``  the fixture ``stomp_devbroker``
"""

from spark_stomp.devbroker.peer import Faults
from spark_stomp.devbroker.queues import QueueView
from spark_stomp.devbroker.server import DevBroker

__all__ = ["DevBroker", "Faults", "QueueView"]
