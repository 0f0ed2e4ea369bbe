"""The exchange: raw frames from the receivers to the tasks, over Arrow Flight, behind a per-query token."""

from spark_stomp.exchange.client import fetch
from spark_stomp.exchange.server import ExchangeServer, exchange_host
from spark_stomp.exchange.wire import ExchangeAddress, RangeTicket, new_token

__all__ = ["ExchangeAddress", "ExchangeServer", "RangeTicket", "exchange_host", "fetch", "new_token"]
