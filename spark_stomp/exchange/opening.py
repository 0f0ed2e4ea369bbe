"""Opens the exchange of a run as its options say: where it listens, and with TLS or without."""

from __future__ import annotations

import errno

import pyarrow as pa

from spark_stomp.errors import OptionError
from spark_stomp.exchange.host import await_free, exchange_host, is_loopback
from spark_stomp.exchange.pair import Pair, new_pair
from spark_stomp.exchange.server import ExchangeServer, ReadRange, Status
from spark_stomp.exchange.wire import ExchangeAddress, new_token
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions

log = get_log(__name__)

# Seconds. A query that starts again may find its last run still about to close.
_LAST_RUN = 10.0


def open_exchange(options: SourceOptions, read_range: ReadRange, status: Status) -> ExchangeServer:
    """The exchange of one run, with a token of its own. Raises OptionError if it cannot listen."""
    host, port = exchange_host(options.exchange_host), options.exchange_port or 0
    address = ExchangeAddress(host, port, new_token(), _pair(options, host))
    try:
        await_free(host, port, _LAST_RUN)
        return ExchangeServer(address, read_range, status)
    except (OSError, pa.ArrowException) as error:
        raise OptionError(_problem(host, port, error)) from error


def _pair(options: SourceOptions, host: str) -> Pair | None:
    if options.exchange_tls == "true" or (options.exchange_tls == "auto" and not is_loopback(host)):
        return new_pair()
    if not is_loopback(host):
        log.warning("exchangeTls = false: messages pass the network from %s to the tasks in plain text", host)
    return None


def _problem(host: str, port: int, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"exchangePort = {port} is in use on {host}, by another program or another stream; each stream "
            "that is read at the same time needs a port of its own; without exchangePort it takes a free one"
        )
    return (
        f"the exchange cannot listen on {host}, {f'port {port}' if port else 'any port'}: {error}; set "
        "exchangeHost to an address of the driver's machine that the executors can reach"
    )
