"""The exchange: raw frames from the receivers to the tasks, over Arrow Flight, behind a token of its run.

Off the loopback interface it speaks TLS, and both sides prove that they have the run's key.
"""

from spark_stomp.frameserver.client import fetch
from spark_stomp.frameserver.server import ExchangeServer, open_exchange
from spark_stomp.frameserver.wire import ExchangeAddress, RangeTicket

__all__ = ["ExchangeAddress", "ExchangeServer", "RangeTicket", "fetch", "open_exchange"]
