"""An in-memory STOMP broker for development and tests. It is not for production: nothing survives its end.

``server``    DevBroker: sockets and the thread      ``peer``    one client: its session, what it asks for
``link``      one client's socket                    ``core``    queues, topics, transactions; no sockets
``queues``    windows, round robin, redelivery       ``messages``  one message, kept and encoded
``faults``    misbehaving on purpose                 ``cli``     ``spark-stomp devbroker``
"""

from spark_stomp.devbroker.faults import Faults
from spark_stomp.devbroker.queues import QueueView
from spark_stomp.devbroker.server import DevBroker

__all__ = ["DevBroker", "Faults", "QueueView"]
