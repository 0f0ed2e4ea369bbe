"""Which address the exchange binds and tells the tasks."""

from __future__ import annotations

import os
import socket

__all__ = ["exchange_host"]


def exchange_host(option: str | None) -> str:
    """The ``exchangeHost`` option, else ``SPARK_LOCAL_IP``, else the machine's own address, else loopback.

    This follows what Spark does for its own services: the tasks that reach the driver's block manager reach
    the exchange as well.
    """
    chosen = option or os.environ.get("SPARK_LOCAL_IP")
    if chosen:
        return chosen
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
